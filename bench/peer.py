"""The training step of step_bench in plain PyTorch, as its documentation would have it written: what speed and memory are
held against. It shares nothing with the library but files of weights and tokens. Prints one line of JSON.

usage: python peer.py step --export DIR [--dtype f32|bf16] [--how eager|compiled] [--precision full|autocast|pure]
                           [--loss whole|chunked] [--teacher live|cached] [--expect JSON] [--threads N] [--repetitions N]
       python peer.py attention [--documents long|ragged] [--dtype f32|bf16] [--threads N] [--repetitions N]

The step: teacher forward without gradients, student forward, 0.7 KL(teacher || student) + 0.3 CE at temperature 1, means
over target tokens, backward, clip of the global norm to 1, fused AdamW. DIR is what `step_bench step --export DIR` wrote.

f32 is `full` precision; in bf16, `autocast` computes products in bfloat16 from f32 weights, and `pure` trains a bfloat16
model with f32 masters beside it.
`whole` makes all logits at once; `chunked` goes through them 256 tokens at a time, each piece back to the hidden states.
--expect holds kd, ce and gradient_norm of the same weights as somebody else computed them; where losses differ by more
than 1e-4 (f32) or 1e-2 (bf16), nothing is timed and the exit code is 1.
"""
import argparse
import contextlib
import json
import os
import statistics
import sys
import time

import safetensors.torch
import torch
import torch.nn.functional as F

CHUNK = 256  # tokens whose logits exist at once, of a chunked loss


def process_bytes(line):
    with open("/proc/self/status") as status:
        return next(int(row.split()[1]) * 1024 for row in status if row.startswith(line + ":"))


def peak_bytes():
    """The largest amount of memory at one time that is not pages of files, such as code."""
    return process_bytes("VmHWM") - process_bytes("RssFile")


def forget_peak():
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")


def seconds_of(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def gemm_rate(dtype):
    """Operations a second of PyTorch's own product at 2048 x 768 x 2048."""
    a, b, c = (torch.full(size, 0.5, dtype=dtype) for size in ((2048, 768), (768, 2048), (2048, 2048)))
    torch.mm(a, b, out=c)
    return 2 * 2048 * 768 * 2048 / statistics.median(seconds_of(lambda: torch.mm(a, b, out=c)) for _ in range(9))


class Decoder(torch.nn.Module):
    """A Llama-type stack from a directory of Hugging Face's kind: tokens [B, T] -> what the head reads [B, T, D]. Products
    that read the same input are one product. The first `active` layers run."""

    layer_norms = ("input_layernorm", "post_attention_layernorm")
    end_norm_name = "model.norm"

    def __init__(self, folder, positions):
        super().__init__()
        with open(os.path.join(folder, "config.json")) as f:
            c = json.load(f)
        weights = safetensors.torch.load_file(os.path.join(folder, "model.safetensors"))
        self.heads, self.kv_heads, self.head_dim = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        self.eps, self.layers = c["rms_norm_eps"], c["num_hidden_layers"]
        self.active = self.layers
        self.embedding = weights.pop("model.embed_tokens.weight")  # frozen

        def parameters(*names):
            joined = [[weights.pop(f"model.layers.{i}.{name}.weight") for name in names] for i in range(self.layers)]
            return torch.nn.ParameterList([torch.cat(part) if len(part) > 1 else part[0] for part in joined])

        self.attention_norm, self.mlp_norm = map(parameters, self.layer_norms)
        self.qkv = parameters("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
        self.out = parameters("self_attn.o_proj")
        self.gate_up = parameters("mlp.gate_proj", "mlp.up_proj")
        self.down = parameters("mlp.down_proj")
        self.end_norm = torch.nn.Parameter(weights.pop(f"{self.end_norm_name}.weight"))
        self.head = torch.nn.Parameter(weights.pop("lm_head.weight", self.embedding))
        assert not weights, sorted(weights)
        base = c["rope_theta"] if "rope_theta" in c else c["rotary"]["rope_theta"]
        frequencies = base ** (-torch.arange(0, self.head_dim, 2) / self.head_dim)
        angles = torch.outer(torch.arange(positions), frequencies)  # [T, head_dim / 2]
        self.cosines, self.sines = angles.cos(), angles.sin()

    def active_parameters(self):
        """Of the layers that run, the end's norm and the head."""
        lists = (self.attention_norm, self.qkv, self.out, self.mlp_norm, self.gate_up, self.down)
        return [p for some in lists for p in some[:self.active]] + [self.end_norm, self.head]

    def rotated(self, x):  # [B, H, T, head_dim], halves of a head turned against each other
        first, second = x.chunk(2, -1)
        cosines, sines = self.cosines.to(x.dtype), self.sines.to(x.dtype)
        return torch.cat((first * cosines - second * sines, second * cosines + first * sines), -1)

    def norm(self, x, gain):
        return F.rms_norm(x, gain.shape, gain, self.eps)

    def attention(self, i, x):
        b, t, _ = x.shape
        qkv = F.linear(x, self.qkv[i]).view(b, t, self.heads + 2 * self.kv_heads, self.head_dim).transpose(1, 2)
        q, k, v = qkv.split((self.heads, self.kv_heads, self.kv_heads), 1)
        mixed = F.scaled_dot_product_attention(self.rotated(q), self.rotated(k), v, is_causal=True, enable_gqa=True)
        return F.linear(mixed.transpose(1, 2).reshape(b, t, -1), self.out[i])

    def mlp(self, i, x):
        gate, up = F.linear(x, self.gate_up[i]).chunk(2, -1)
        return F.linear(F.silu(gate) * up, self.down[i])

    def forward(self, tokens):
        x = F.embedding(tokens, self.embedding)
        for i in range(self.active):
            x = x + self.attention(i, self.norm(x, self.attention_norm[i]))
            x = x + self.mlp(i, self.norm(x, self.mlp_norm[i]))
        return self.norm(x, self.end_norm)


def losses(hidden, head, teacher_hidden, teacher_head, targets, count):
    """Sums over rows [N, D] divided by `count`: KL(teacher || student) and CE."""
    student = F.log_softmax(F.linear(hidden, head).float(), -1)
    with torch.no_grad():
        teacher = F.log_softmax(F.linear(teacher_hidden, teacher_head).float(), -1)
    kd = F.kl_div(student, teacher, reduction="sum", log_target=True) / count
    return kd, F.nll_loss(student, targets, reduction="sum") / count


class Training:
    """A student that learns from a teacher, in a precision and by a way of running; weights are theirs as they come."""

    def __init__(self, teacher, student, a):
        self.teacher, self.student = teacher.requires_grad_(False), student
        student.embedding = teacher.embedding
        narrow = a.dtype == "bf16"
        self.pure = narrow and a.precision == "pure"
        self.autocast = narrow and not self.pure
        if narrow:
            for p in teacher.parameters():
                if self.pure or p.dim() > 1:  # the fused norm wants a gain in the dtype of what it scales
                    p.data = p.data.to(torch.bfloat16)
        if self.pure:
            teacher.embedding = student.embedding = teacher.embedding.to(torch.bfloat16)
            masters = [p.detach().clone().requires_grad_() for p in student.parameters()]
            student.to(torch.bfloat16)
            self.masters = dict(zip(student.parameters(), masters))
        self.chunked = a.loss == "chunked"
        compiled = torch.compile if a.how == "compiled" else lambda f, **_: f
        self.whole = compiled(self.whole_losses, dynamic=False)
        self.piece = compiled(losses, dynamic=False)
        self.student_rows = compiled(lambda tokens: self.rows(self.student, tokens), dynamic=False)
        self.teacher_rows = compiled(lambda tokens: self.rows(self.teacher, tokens), dynamic=False)

    def start(self, learning_rate, clip):
        """Moments from zero, of what is active."""
        self.clip = clip
        self.active = self.student.active_parameters()
        self.trained = [self.masters[p] for p in self.active] if self.pure else self.active
        self.optimizer = torch.optim.AdamW(self.trained, lr=learning_rate, betas=(0.9, 0.95), eps=1e-8, weight_decay=0,
                                           fused=True)

    def precision(self):
        return torch.autocast("cpu", torch.bfloat16) if self.autocast else contextlib.nullcontext()

    def rows(self, model, tokens):
        """What the head reads at every token that has a next one. // [N, D]"""
        return model(tokens)[:, :-1].flatten(0, 1)

    def answers(self, tokens):
        """The teacher's rows, for a step that does not run it."""
        with torch.no_grad(), self.precision():
            return self.teacher_rows(tokens)

    def whole_losses(self, tokens, targets, asked, count):
        with torch.no_grad():
            asked = self.rows(self.teacher, tokens) if asked is None else asked
        return losses(self.rows(self.student, tokens), self.student.head, asked, self.teacher.head, targets, count)

    def chunked_losses(self, tokens, targets, asked, count):
        with torch.no_grad():
            asked = self.teacher_rows(tokens) if asked is None else asked
        hidden = self.student_rows(tokens)
        leaf = hidden.detach().requires_grad_()
        kd = ce = 0.0
        for first in range(0, count, CHUNK):
            some = slice(first, first + CHUNK)
            parts = self.piece(leaf[some], self.student.head, asked[some], self.teacher.head, targets[some], count)
            (0.7 * parts[0] + 0.3 * parts[1]).backward()
            kd, ce = kd + parts[0].item(), ce + parts[1].item()
        return hidden, leaf.grad, kd, ce

    def gradients(self, tokens, asked=None):
        """Of a batch [B, T], into the trained parameters. `asked`: the teacher's rows; none: it runs. // kd, ce"""
        targets = tokens[:, 1:].flatten()
        self.student.zero_grad(set_to_none=True)
        with self.precision():
            if self.chunked:
                hidden, gradient, kd, ce = self.chunked_losses(tokens, targets, asked, targets.numel())
            else:
                kd, ce = self.whole(tokens, targets, asked, targets.numel())
        if self.chunked:
            hidden.backward(gradient)
        else:
            (0.7 * kd + 0.3 * ce).backward()
            kd, ce = kd.item(), ce.item()
        if self.pure:
            for master, p in zip(self.trained, self.active):
                if master.grad is None:
                    master.grad = torch.empty_like(master)
                master.grad.copy_(p.grad)
        return kd, ce

    def update(self):
        norm = torch.nn.utils.clip_grad_norm_(self.trained, self.clip)
        self.optimizer.step()
        if self.pure:
            with torch.no_grad():
                for master, p in zip(self.trained, self.active):
                    p.copy_(master)
        return norm.item()

    def state_bytes(self):
        """Weights, their working copies (autocast's too), gradients and moments."""
        def size(p):
            return p.numel() * p.element_size()

        bytes_held = size(self.teacher.embedding) + sum(size(p) for p in self.teacher.parameters())
        bytes_held += sum(4 * size(p) for p in self.trained)
        if self.pure:
            bytes_held += sum(2 * size(p) for p in self.active)
        if self.autocast:
            bytes_held += sum(p.numel() * 2 for p in self.trained if p.dim() > 1)
        return bytes_held


def warm_up(a):
    """What PyTorch loads of itself at the first use."""
    small = torch.compile(F.silu) if a.how == "compiled" else F.silu
    small(torch.ones(8, requires_grad=True)).sum().backward()


def time_step(a):
    warm_up(a)
    before = process_bytes("RssAnon")
    shard = safetensors.torch.load_file(os.path.join(a.export, "tokens.safetensors"))
    tokens = shard["tokens"].long().view(shard["offsets"].numel() - 1, -1)  # [B, T], all of one length
    step = Training(*(Decoder(os.path.join(a.export, name), tokens.shape[1]) for name in ("teacher", "student")), a)
    step.start(1e-4, 1.0)
    asked = step.answers(tokens) if a.teacher == "cached" else None

    def work():
        return step.gradients(tokens, asked), step.update()

    (kd, ce), norm = work()
    result = {"vocabulary": step.teacher.head.shape[0], "tokens": tokens.numel(), "how": a.how,
              "precision": a.precision, "loss": a.loss, "teacher": a.teacher, "kd": kd,
              "ce": ce, "gradient_norm": norm}
    if a.expect:
        expected = json.loads(a.expect)
        errors = {name: abs(result[name] / expected[name] - 1) for name in ("kd", "ce", "gradient_norm")}
        result["errors"] = errors
        limit = 1e-4 if a.dtype == "f32" else 1e-2
        if not max(errors["kd"], errors["ce"]) <= limit:
            sys.exit(f"peer.py: got losses {result} that differ by {errors}, expected {expected} within {limit}")
    work()  # once more: now the gradients' memory is there
    dtype = torch.float32 if a.dtype == "f32" else torch.bfloat16
    gemm_before = gemm_rate(dtype)
    forget_peak()
    seconds = [seconds_of(work) for _ in range(a.repetitions)]
    peak, state = peak_bytes(), step.state_bytes()
    gemm_after = gemm_rate(dtype)
    result.update(seconds=seconds, tokens_per_second=tokens.numel() / statistics.median(seconds), gemm_before=gemm_before,
                  gemm_after=gemm_after, state_bytes=state, peak_bytes=peak, above_state_bytes=peak - before - state)
    return result


def time_attention(a):
    lengths = [8192] if a.documents == "long" else [16 + (d * 37 % 64) * (2048 - 16) // 63 for d in range(64)]
    dtype = torch.float32 if a.dtype == "f32" else torch.bfloat16
    b, t = len(lengths), max(lengths)  # shorter ones are padded on the right, where the causal mask keeps padding unseen
    q = torch.randn(b, 12, t, 64, dtype=dtype, requires_grad=True)
    k, v = (torch.randn(b, 4, t, 64, dtype=dtype, requires_grad=True) for _ in range(2))
    dout = torch.randn(b, 12, t, 64, dtype=dtype)
    for x in (q, k, v):
        x.grad = torch.zeros_like(x)
    state = process_bytes("RssAnon")

    def grouped():
        F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).backward(dout)

    def repeated():
        wide = (x.repeat_interleave(3, dim=1) for x in (k, v))
        F.scaled_dot_product_attention(q, *wide, is_causal=True).backward(dout)

    best = None
    for name, work in (("enable_gqa", grouped), ("repeat_interleave", repeated)):
        forget_peak()
        work()
        seconds = [seconds_of(work) for _ in range(a.repetitions)]
        if best is None or statistics.median(seconds) < statistics.median(best["seconds"]):
            best = {"how": name, "seconds": seconds, "above_state_bytes": peak_bytes() - state}
    return {"documents": a.documents, "tokens": sum(lengths), "padded_tokens": b * t, **best}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("step", "attention"))
    parser.add_argument("--export")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--how", choices=("eager", "compiled"), default="eager")
    parser.add_argument("--precision", choices=("full", "autocast", "pure"), default="full")
    parser.add_argument("--loss", choices=("whole", "chunked"), default="whole")
    parser.add_argument("--teacher", choices=("live", "cached"), default="live")
    parser.add_argument("--documents", choices=("long", "ragged"), default="long")
    parser.add_argument("--expect")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repetitions", type=int, default=5)
    a = parser.parse_args()
    if (a.dtype == "f32") != (a.precision == "full") and a.what == "step":
        parser.error(f"--precision: got {a.precision} with {a.dtype}, expected full with f32, autocast or pure with bf16")
    if a.what == "step" and not a.export:
        parser.error("step: got no --export, expected the folder that step_bench wrote")
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    result = {"what": a.what, "by": "pytorch", "torch": torch.__version__, "dtype": a.dtype, "threads": a.threads}
    result.update((time_step if a.what == "step" else time_attention)(a))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
