"""Runs step_bench, cpu_bench and peer.py, each measurement as a process of its own: peaks of memory are its own, too."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.environ.get("ACCRETE_CACHE") or os.path.expanduser("~/.cache/accrete")
TEACHER = os.path.join(CACHE, "SmolLM2-135M-Instruct.Q4_1.gguf")
PRECISIONS = {"f32": ["full"], "bf16": ["autocast", "pure"]}
SMALL = ["--vocabulary", "1000", "--width", "192", "--teacher-layers", "3", "--documents", "4", "--length", "64"]


class Failed(Exception):
    """A program ended with an error; its last words."""


def seconds(m):
    return statistics.median(m["seconds"])


def tokens_per_second(m):
    return m["tokens"] / seconds(m)


def flops(m):
    return m["operations"] / seconds(m)


def gemm(m):
    """The provider's own rate, before and after the steps of all turns."""
    return statistics.median(m["gemm"])


def way_of(m):
    """How PyTorch did it, in words."""
    precision = [m["precision"]] if m["dtype"] == "bf16" else []
    return " ".join([m["how"], *precision, *(["chunked"] if m["loss"] == "chunked" else [])])


class Measurements:
    """Everything measured in a run, once for all rows that ask. Where it is measured `again`, in a later turn, seconds and
    rates are added to those that are there, and peaks are the largest."""

    def __init__(self, bench, work, turns, repetitions, small):
        self.bench, self.work, self.turns, self.repetitions, self.small = bench, work, turns, repetitions, small
        self.done, self.fastest_ways = {}, {}
        self.load, self.torch = 0.0, ""
        self.start = time.monotonic()

    def say(self, text):
        print(f"[{time.monotonic() - self.start:4.0f} s] {text}", file=sys.stderr, flush=True)

    def run(self, command, threads):
        """A program's line of JSON."""
        self.load = max(self.load, os.getloadavg()[0])
        inductor = os.path.join(self.work, "inductor")
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), TORCHINDUCTOR_CACHE_DIR=inductor,
                           PYTHONDONTWRITEBYTECODE="1")
        ended = subprocess.run(command, env=environment, capture_output=True, text=True)
        if ended.returncode != 0:
            raise Failed(f"{' '.join(command)}\n{(ended.stderr or ended.stdout)[-2000:]}")
        m = json.loads(ended.stdout.splitlines()[-1])
        m["gemm"] = [m[k] for k in ("gemm_before", "gemm_after") if k in m]
        self.torch = m.get("torch", self.torch)
        return m

    def measure(self, key, command, threads, again):
        if key in self.done and not again:
            return self.done[key]
        m = self.run([*command, "--threads", str(threads), "--repetitions", str(self.repetitions)], threads)
        self.say(f"{' '.join(map(str, key))}: {seconds(m):.3f} s, {tokens_per_second(m):,.0f} tokens/s")
        if key not in self.done:
            self.done[key] = m
            return m
        old = self.done[key]
        for many in ("seconds", "gemm"):
            old[many] += m[many]
        old["above_state_bytes"] = max(old["above_state_bytes"], m["above_state_bytes"])
        return old

    def step_program(self, vocabulary):
        sizes = SMALL if self.small else ["--vocabulary", str(vocabulary)]
        return [os.path.join(self.bench, "step_bench"), "step", *sizes]

    def ours(self, vocabulary, dtype, provider="onednn", threads=2, cached=False, recompute="none", again=False):
        teacher = "cached" if cached else "live"
        key = ("ours", vocabulary, dtype, provider, f"threads={threads}", teacher, f"recompute={recompute}")
        command = [*self.step_program(vocabulary), "--dtype", dtype, "--provider", provider, "--recompute", recompute]
        if cached:
            command += ["--teacher-cache", os.path.join(self.work, "teacher-states")]
        return self.measure(key, command, threads, again)

    def scaled(self, dtype, turn=0, **sizes):
        """A step of other sizes: step_bench's options by name; of none, the base case, once for each turn."""
        kept = {name: size for name, size in sizes.items() if not self.small or name == "layers"}
        options = [part for name, size in kept.items() for part in (f"--{name.replace('_', '-')}", str(size))]
        key = ("ours", dtype, *(f"{name}={size}" for name, size in sizes.items()), f"turn {turn}")
        program = self.step_program(32768) if self.small else self.step_program(32768)[:2]  # 32,768 is its default
        command = [*program, "--dtype", dtype, "--provider", "onednn", *options]
        return self.measure(key, command, 2, False)

    def bandwidths(self, names):
        """Bytes a second that cpu_bench measures of its operations of these names, medians of all turns' repetitions."""
        out = os.path.join(self.work, "operations.json")
        command = [os.path.join(self.bench, "cpu_bench"), f"--benchmark_filter=^({'|'.join(names)})/real_time$",
                   f"--benchmark_out={out}", "--benchmark_out_format=json",
                   f"--benchmark_repetitions={self.turns * self.repetitions}",
                   f"--benchmark_min_time={0.01 if self.small else 0.3}", "--benchmark_enable_random_interleaving=true"]
        self.load = max(self.load, os.getloadavg()[0])
        ended = subprocess.run(command, env=dict(os.environ, OMP_NUM_THREADS="2"), capture_output=True, text=True)
        if ended.returncode != 0:
            raise Failed(f"{' '.join(command)}\n{ended.stderr[-2000:]}")
        with open(out) as f:
            text = f.read()
        runs = [run for run in (json.loads(text)["benchmarks"] if text else []) if run["run_type"] == "iteration"]
        rates = {name: [run["bytes"] for run in runs if run["name"] == f"{name}/real_time"] for name in names}
        missing = [name for name, several in rates.items() if not several]
        if missing:
            raise Failed(f"cpu_bench: got no {', '.join(missing)}, expected them among its benchmarks")
        return {name: statistics.median(several) for name, several in rates.items()}

    def exported(self, vocabulary):
        """The folder of the weights that both are measured on."""
        folder = os.path.join(self.work, f"export-{'small' if self.small else vocabulary}")
        mark = os.path.join(folder, "complete")
        if not os.path.exists(mark):
            self.say(f"writing the weights of vocabulary {vocabulary:,}")
            shutil.rmtree(folder, ignore_errors=True)
            self.run([*self.step_program(vocabulary), "--repetitions", "1", "--export", folder], 2)
            open(mark, "w").close()
        return folder

    def peer(self, vocabulary, dtype, way, threads=2, cached=False, again=False):
        """`way`: (how, precision, loss). Its losses are held against ours first."""
        teacher = "cached" if cached else "live"
        key = ("peer", vocabulary, dtype, *way, f"threads={threads}", teacher)
        if key in self.done and not again:
            return self.done[key]
        expected = self.ours(vocabulary, dtype)
        how, precision, loss = way
        command = [sys.executable, os.path.join(HERE, "peer.py"), "step", "--export", self.exported(vocabulary)]
        command += ["--dtype", dtype, "--how", how, "--precision", precision, "--loss", loss, "--teacher", teacher]
        command += ["--expect", json.dumps({name: expected[name] for name in ("kd", "ce", "gradient_norm")})]
        return self.measure(key, command, threads, again)

    def attention(self, documents, dtype, peers, again=False):
        ours = [os.path.join(self.bench, "step_bench"), "attention", "--provider", "onednn"]
        program = [sys.executable, os.path.join(HERE, "peer.py"), "attention"] if peers else ours
        key = ("peer" if peers else "ours", "attention", documents, dtype)
        return self.measure(key, [*program, "--documents", documents, "--dtype", dtype], 2, again)

    def study_inputs(self):
        """The folder of the study that both run: its teacher, students, batches and text."""
        steps = 8 if self.small else 32  # updates in a phase; of fewer, losses still leap
        folder = os.path.join(self.work, f"study-{steps}")
        mark = os.path.join(folder, "complete")
        if not os.path.exists(mark):
            self.say("writing the study's teacher, students and batches")
            shutil.rmtree(folder, ignore_errors=True)
            texts = [os.path.join(CACHE, "text", name) for name in ("perl-doc", "python3.11-doc")]
            command = [os.path.join(self.bench, "study_export"), "--teacher", TEACHER, "--text", *texts, "--out", folder]
            command += ["--steps", str(steps)]
            ended = subprocess.run(command, capture_output=True, text=True)
            if ended.returncode != 0:
                raise Failed(f"{' '.join(command)}\n{ended.stderr[-2000:]}")
            open(mark, "w").close()
        return folder, steps

    def our_study(self, again=False):
        """The program as anybody starts it, from nothing: the teacher's states are made anew."""
        key = ("ours", "study", "bf16")
        if key in self.done and not again:
            return self.done[key]
        inputs, steps = self.study_inputs()
        out = os.path.join(self.work, "study-run")
        shutil.rmtree(out, ignore_errors=True)
        command = [os.path.join(self.bench, "..", "examples", "study"), "--teacher", TEACHER, "--dtype", "bf16", "--threads", "2"]
        command += ["--text", os.path.join(inputs, "text"), "--steps", str(steps), "--out", out, "--cache", out]
        self.load = max(self.load, os.getloadavg()[0])
        start = time.perf_counter()
        ended = subprocess.run(command, env=dict(os.environ, OMP_NUM_THREADS="2"), capture_output=True, text=True)
        took = time.perf_counter() - start
        if ended.returncode != 0:
            raise Failed(f"{' '.join(command)}\n{ended.stderr[-2000:]}")
        cells = {}
        for name in os.listdir(os.path.join(out, "cells")):
            with open(os.path.join(out, "cells", name)) as f:
                cell = json.load(f)
            last = cell["evaluations"][-1]
            cells[f"{cell['placement']}, {cell['schedule']}"] = {"updates": last["step"], "kd": last["kd"], "ce": last["ce"]}
        self.say(f"{' '.join(key)}: {took:.1f} s")
        seconds_before = self.done[key]["seconds"] if key in self.done else []
        self.done[key] = {"seconds": [*seconds_before, took], "cells": cells}
        return self.done[key]

    def peer_study(self, precision, again=False):
        """Its cells must end where ours do: equal weights, batches and rates, in another order of rounding."""
        key = ("peer", "study", "bf16", precision)
        if key in self.done and not again:
            return self.done[key]
        ours = self.our_study()["cells"]
        command = [sys.executable, os.path.join(HERE, "peer_study.py"), "--export", self.study_inputs()[0], "--threads", "2"]
        m = self.run([*command, "--how", "eager" if self.small else "compiled", "--precision", precision], 2)
        m["error"] = max(abs(m["cells"][name]["ce"] / ours[name]["ce"] - 1) for name in ours)
        if m["cells"].keys() != ours.keys() or m["error"] > 0.02:
            raise Failed(f"peer_study.py: got {m['cells']}, expected losses within 2% of {ours}")
        self.say(f"{' '.join(key)}: {seconds(m):.1f} s, and {m['compiling']:.0f} s of first calls")
        if key in self.done:
            m["seconds"] += self.done[key]["seconds"]
        self.done[key] = m
        return m

    def ways(self, vocabulary, dtype):
        """All that PyTorch offers, fastest first: eager and compiled, in each precision, and a chunked loss in the best."""
        def by_speed(ways):
            return sorted(ways, key=lambda way: -tokens_per_second(self.peer(vocabulary, dtype, way)))

        hows = ("eager",) if self.small else ("eager", "compiled")
        whole = by_speed([(how, precision, "whole") for how in hows for precision in PRECISIONS[dtype]])
        return by_speed([*whole, (hows[-1], whole[0][1], "chunked")])

    def fastest(self, vocabulary, dtype):
        """Its fastest way in the first turn; the other turns are ours and that one's. // (how, precision, loss)"""
        if (vocabulary, dtype) not in self.fastest_ways:
            self.ours(vocabulary, dtype)
            way = self.ways(vocabulary, dtype)[0]
            for _ in range(1, self.turns):
                self.ours(vocabulary, dtype, again=True)
                self.peer(vocabulary, dtype, way, again=True)
            self.fastest_ways[vocabulary, dtype] = way
        return self.fastest_ways[vocabulary, dtype]

    def both(self, vocabulary, dtype):
        """Ours and its fastest."""
        way = self.fastest(vocabulary, dtype)
        return self.ours(vocabulary, dtype), self.peer(vocabulary, dtype, way)

    def by_turns(self, *calls):
        """Each call(again) once a turn; what they gave in the last one, which holds all turns."""
        for turn in range(self.turns):
            given = [call(turn > 0) for call in calls]
        return given
