"""The study of examples/study.cpp in plain PyTorch: pre and post, joint and grow, from the weights and on the batches that
study_export wrote. Prints one line of JSON: seconds of the whole, and each cell's losses on the held-out documents.

usage: python peer_study.py --export DIR [--how eager|compiled] [--precision full|autocast|pure] [--teacher live|cached]
                            [--threads N]

The clock runs from the first file read to the last evaluation, without the first call of each graph, which compiles it.
A cached teacher is asked once for every document, inside of the measured time; all cells read its answers from memory.
"""
import argparse
import json
import math
import os
import time

import safetensors.torch
import torch
import torch.nn.functional as F

import peer

BLOCKS, LAYERS = 3, 3
PEAK, LEAST = 2e-4, 1e-6  # learning rates
CLIP = 0.5


class PostNorm(peer.Decoder):
    """The sum is normalized; one norm on the embedding, none before the head."""

    layer_norms = ("attn_norm_0", "mlp_norm_0")
    end_norm_name = "model.entry_norm"

    def forward(self, tokens):
        x = self.norm(F.embedding(tokens, self.embedding), self.end_norm)
        for i in range(self.active):
            x = self.norm(x + self.attention(i, x), self.attention_norm[i])
            x = self.norm(x + self.mlp(i, x), self.mlp_norm[i])
        return x


PLACEMENTS = {"pre": peer.Decoder, "post": PostNorm}
SCHEDULES = {"joint": [BLOCKS * LAYERS], "grow": [LAYERS * (block + 1) for block in range(BLOCKS)]}  # active layers by phase


def learning_rate(update, steps):
    """Linear warmup over a tenth, then half a cosine; updates count from 1."""
    warmup = max(1, round(0.1 * steps))
    if update <= warmup:
        return PEAK * update / warmup
    progress = (update - warmup - 1) / max(1, steps - warmup - 1)
    return LEAST + 0.5 * (PEAK - LEAST) * (1 + math.cos(math.pi * min(1.0, progress)))


class Study:
    def __init__(self, a):
        self.a = a
        batches = safetensors.torch.load_file(os.path.join(a.export, "batches.safetensors"))
        self.documents, self.validation = batches["documents"].long(), batches["validation"].long()  # [D, T], [V, T]
        self.order = batches["order"]  # [updates, B]
        self.steps = len(self.order) // BLOCKS
        self.teacher = peer.Decoder(os.path.join(a.export, "teacher"), self.documents.shape[1])
        self.not_counted = 0.0
        self.states = {}

    def first_call(self, work):
        """Of a graph, which compiles it: outside of the measured time."""
        start = time.perf_counter()
        work()
        self.not_counted += time.perf_counter() - start

    def student(self, placement):
        """Drawn as the library draws it."""
        model = PLACEMENTS[placement](os.path.join(self.a.export, placement), self.documents.shape[1])
        return peer.Training(self.teacher, model, self.a)

    def ask(self, training):
        """The teacher, about every document, a batch of documents at a time."""
        size = self.order.shape[1]
        for name, documents in (("training", self.documents), ("validation", self.validation)):
            rows = [training.answers(documents[i:i + size]) for i in range(0, len(documents), size)]
            width = rows[0].shape[-1]
            self.states[name] = torch.cat([r.view(-1, documents.shape[1] - 1, width) for r in rows])  # [D, T - 1, width]

    def answers(self, name, rows):
        return self.states[name][rows].flatten(0, 1) if self.states else None

    def evaluate(self, training):
        size = self.order.shape[1]
        kd = ce = 0.0
        with torch.no_grad(), training.precision():
            for i in range(0, len(self.validation), size):
                tokens = self.validation[i:i + size]
                rows = torch.arange(i, i + len(tokens))
                targets = tokens[:, 1:].flatten()
                parts = training.whole(tokens, targets, self.answers("validation", rows), targets.numel())
                kd, ce = kd + parts[0].item() * len(tokens), ce + parts[1].item() * len(tokens)
        return kd / len(self.validation), ce / len(self.validation)

    def cell(self, training, schedule):
        updates = 0
        for layers in SCHEDULES[schedule]:
            training.student.active = layers
            training.start(PEAK, CLIP)
            for step in range(1, self.steps + 1):
                training.optimizer.param_groups[0]["lr"] = learning_rate(step, self.steps)
                rows = self.order[updates]
                training.gradients(self.documents[rows], self.answers("training", rows))
                training.update()
                updates += 1
            kd, ce = self.evaluate(training)
        return {"updates": updates, "kd": kd, "ce": ce}

    def run(self):
        cells = {}
        for placement in PLACEMENTS:
            for schedule in SCHEDULES:
                training = self.student(placement)  # anew
                if self.a.teacher == "cached" and not self.states:
                    self.first_call(lambda: training.answers(self.documents[:self.order.shape[1]]))
                    self.ask(training)
                for layers in SCHEDULES[schedule]:
                    training.student.active = layers
                    training.start(PEAK, CLIP)
                    rows = self.order[0]
                    self.first_call(lambda: training.gradients(self.documents[rows], self.answers("training", rows)))
                    self.first_call(lambda: self.evaluate(training))
                cells[f"{placement}, {schedule}"] = self.cell(training, schedule)
        return cells


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--export", required=True)
    parser.add_argument("--how", choices=("eager", "compiled"), default="eager")
    parser.add_argument("--precision", choices=("full", "autocast", "pure"), default="full")
    parser.add_argument("--teacher", choices=("live", "cached"), default="cached")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    a = parser.parse_args()
    a.dtype, a.loss = "f32" if a.precision == "full" else "bf16", "whole"
    torch.set_num_threads(a.threads)
    torch._dynamo.config.recompile_limit = 64  # one graph for each depth, placement and use
    peer.warm_up(a)
    start = time.perf_counter()
    study = Study(a)
    cells = study.run()
    seconds = time.perf_counter() - start - study.not_counted
    print(json.dumps({"what": "study", "by": "pytorch", "torch": torch.__version__, "threads": a.threads, "how": a.how,
                      "precision": a.precision, "dtype": a.dtype, "loss": a.loss, "teacher": a.teacher,
                      "tokens": sum(c["updates"] for c in cells.values()) * study.documents.shape[1] * study.order.shape[1],
                      "seconds": [seconds], "compiling": study.not_counted, "cells": cells}))


if __name__ == "__main__":
    main()
