"""Measures the library and PyTorch turn by turn and prints one table: what bench/run.sh calls when all is built.

usage: python compare.py --bench FOLDER --work FOLDER [--only ROW].. [--quick] [--small] [--turns N] [--repetitions N]

FOLDER of --bench holds step_bench and cpu_bench; --work keeps exported weights and measured rows. In the first turn every way
that PyTorch
offers is timed, in the others the fastest of them. --small takes sizes that try this script in a minute or two, and tell
nothing of speed. Exit code 1 where a measurement failed; a goal that is not met is no failure.
"""
import argparse
import json
import os
import subprocess
import sys

import table
from measurements import HERE, PRECISIONS, Failed, Measurements, flops, gemm, seconds, tokens_per_second, way_of
from table import mib, row

DTYPES = ("f32", "bf16")
STEP_GOALS = {(32768, "f32"): 2.0, (32768, "bf16"): 1.25, (151936, "f32"): 2.0, (151936, "bf16"): 1.6}
MEMORY_GOALS = {"f32": 1024, "bf16": 640}  # MiB


def step_rows(m, vocabulary, dtype):
    ours, peer = m.both(vocabulary, dtype)
    ratio, goal = tokens_per_second(ours) / tokens_per_second(peer), STEP_GOALS[vocabulary, dtype]
    met, of_ours = ratio >= goal, gemm(peer) / gemm(ours)
    if not met and dtype == "f32" and of_ours >= 0.8:
        met = f"does not bind: PyTorch's GEMM is at {of_ours:.2f} of ours"
    error = max(peer["errors"]["kd"], peer["errors"]["ce"])
    peer_rate = ours["operations"] / seconds(peer)
    return [row(f"step, vocabulary {vocabulary:,}, {dtype}",
                f"{tokens_per_second(ours):,.0f} tokens/s, {flops(ours) / 1e9:.0f} GFLOP/s",
                f"{tokens_per_second(peer):,.0f} tokens/s, {peer_rate / 1e9:.0f} of its GEMM's {gemm(peer) / 1e9:.0f} GFLOP/s "
                f"({way_of(peer)}); losses equal to {error:.0e}", ratio, f"{goal:g} or more", met)]


def gemm_rows(m):
    rows = []
    for provider in ("onednn", "eigen"):
        for dtype in DTYPES:
            ours, = m.by_turns(lambda again: m.ours(32768, dtype, provider, again=again))
            ratio = flops(ours) / gemm(ours)
            rows.append(row(f"step over the provider's own GEMM, {provider}, {dtype}",
                            f"{flops(ours) / 1e9:.0f} of {gemm(ours) / 1e9:.0f} GFLOP/s", "",
                            ratio, "0.75 or more", ratio >= 0.75))
    return rows


def memory_rows(m):
    rows = []
    for vocabulary, dtype in STEP_GOALS:
        ours, peer = m.both(vocabulary, dtype)
        ways = [m.peer(vocabulary, dtype, way) for way in m.ways(vocabulary, dtype)]
        least = min(ways, key=lambda w: w["above_state_bytes"])
        used, goal = ours["above_state_bytes"], MEMORY_GOALS[dtype]
        planned = ours["activation_bytes"] + ours["logits_bytes"] + ours["teacher_bytes"]
        rows.append(row(f"memory above weights, their copies, gradients and moments, {vocabulary:,}, {dtype}",
                        f"{mib(used)}, {mib(planned)} of it planned",
                        f"{mib(peer['above_state_bytes'])} ({way_of(peer)}); least {mib(least['above_state_bytes'])} "
                        f"({way_of(least)}, {tokens_per_second(least):,.0f} tokens/s)",
                        used / peer["above_state_bytes"], f"{goal} MiB or less", used <= goal * 2**20))
    for dtype in DTYPES:
        all_kept, ours = m.ours(32768, dtype), m.ours(32768, dtype, recompute="mlp")
        ratio = ours["activation_bytes"] / all_kept["activation_bytes"]
        rows.append(row(f"activations with the MLP made again, 32,768, {dtype}",
                        f"{mib(ours['activation_bytes'])} of {mib(all_kept['activation_bytes'])}, "
                        f"{tokens_per_second(ours):,.0f} of {tokens_per_second(all_kept):,.0f} tokens/s", "",
                        ratio, "0.55 or less", ratio <= 0.55))
    return rows


def four_ways(m, dtype, **other):
    """Ours and PyTorch's fastest, as they are and with something `other`. // ours, other, peer's, its other"""
    way = m.fastest(32768, dtype)
    return m.by_turns(lambda again: m.ours(32768, dtype, again=again),
                      lambda again: m.ours(32768, dtype, **other, again=again),
                      lambda again: m.peer(32768, dtype, way, again=again),
                      lambda again: m.peer(32768, dtype, way, **other, again=again))


def cached_rows(m):
    rows = []
    for dtype in DTYPES:
        live, cached, peer_live, peer = four_ways(m, dtype, cached=True)
        trunk = 1 - cached["operations"] / live["operations"]
        saved, peer_saved = 1 - seconds(cached) / seconds(live), 1 - seconds(peer) / seconds(peer_live)
        rows.append(row(f"teacher cached, vocabulary 32,768, {dtype}",
                        f"{tokens_per_second(cached):,.0f} tokens/s, a step {saved:.0%} shorter",
                        f"{tokens_per_second(peer):,.0f} tokens/s ({way_of(peer)}), {peer_saved:.0%} shorter",
                        tokens_per_second(cached) / tokens_per_second(peer),
                        f"shorter by 0.9 of the trunk's {trunk:.0%} of operations or more", saved >= 0.9 * trunk))
    return rows


def study_rows(m):
    """The whole of it: our process from its start to its tables, PyTorch without the compilation of its graphs."""
    m.our_study()
    ways = {precision: m.peer_study(precision) for precision in PRECISIONS["bf16"]}
    fastest = min(ways, key=lambda precision: seconds(ways[precision]))
    for _ in range(1, m.turns):
        m.our_study(again=True)
        m.peer_study(fastest, again=True)
    ours, peer = m.our_study(), m.peer_study(fastest)
    updates = sum(cell["updates"] for cell in ours["cells"].values())
    return [row(f"study of 2 x 2 cells, {updates} updates of 256 tokens, teacher cached, bf16",
                f"{seconds(ours):.0f} s from the program's start",
                f"{seconds(peer):.0f} s ({way_of(peer)}), and {peer['compiling']:.0f} s of compiling; final losses equal to "
                f"{peer['error']:.0e}", seconds(peer) / seconds(ours))]


def threads_rows(m):
    rows = []
    for dtype in DTYPES:
        two, one, peer_two, peer_one = four_ways(m, dtype, threads=1)
        gain = tokens_per_second(two) / tokens_per_second(one)
        peer_gain = tokens_per_second(peer_two) / tokens_per_second(peer_one)
        rows.append(row(f"step, 1 to 2 threads, {dtype}",
                        f"{tokens_per_second(one):,.0f} to {tokens_per_second(two):,.0f} tokens/s",
                        f"{peer_gain:.2f} ({way_of(peer_two)})", gain, "1.85 or more", gain >= 1.85))
    return rows


def attention_rows(m):
    rows = []
    for documents, title in (("long", "1 x 8192"), ("ragged", "64 documents of 16 to 2048")):
        for dtype in DTYPES:
            ours, peer = m.by_turns(lambda again: m.attention(documents, dtype, False, again),
                                    lambda again: m.attention(documents, dtype, True, again))
            ratio = seconds(peer) / seconds(ours)
            padded = ", padded" if documents == "ragged" else ""
            rows.append(row(f"attention, forward and backward, {title}, {dtype}",
                            f"{seconds(ours):.2f} s, {flops(ours) / 1e9:.0f} GFLOP/s, scratch {mib(ours['above_state_bytes'])}",
                            f"{seconds(peer):.2f} s ({peer['how']}{padded}), {mib(peer['above_state_bytes'])}",
                            ratio, "2 or more", ratio >= 2))
    return rows


# What streams: cpu_bench's names and the words for them. Each operand is counted once.
STREAMING = {"bm_add_rms_norm<float>": "add + rms_norm, f32", "bm_add_rms_norm<bfloat16>": "add + rms_norm, bf16",
             "bm_rms_norm_backward": "rms_norm backward",
             "bm_rotary<float>": "rotary, f32", "bm_rotary<bfloat16>": "rotary, bf16",
             "bm_swiglu<float>": "SwiGLU, f32", "bm_swiglu<bfloat16>": "SwiGLU, bf16",
             "bm_swiglu_backward<float>": "SwiGLU backward, f32", "bm_swiglu_backward<bfloat16>": "SwiGLU backward, bf16",
             "bm_distillation_loss<float>/rows:256/vocabulary:151936/tau_x10:10": "softmax, KD and CE, f32",
             "bm_distillation_loss<bfloat16>/rows:256/vocabulary:151936/tau_x10:10": "softmax, KD and CE, bf16",
             "bm_adamw<float>": "AdamW, f32", "bm_adamw<bfloat16>": "AdamW with bf16 copies", "bm_sum_of_squares": "norm for the clip"}


def streaming_rows(m):
    rates = m.bandwidths(["bm_roof_copy", *STREAMING])
    copy = rates["bm_roof_copy"]
    return [row(f"operation over a copy's bandwidth: {words}", f"{rates[name] / 1e9:.1f} GB/s", f"{copy / 1e9:.1f} GB/s (copy)",
                rates[name] / copy, "0.7 or more", rates[name] >= 0.7 * copy) for name, words in STREAMING.items()]


# One size at a time away from the base: 9 layers under a teacher of 12, width 768, vocabulary 32,768, 8 x 256 tokens.
SCALED = [dict(layers=3), dict(layers=24), dict(width=256), dict(width=1536), dict(width=2048), dict(vocabulary=8192),
          dict(vocabulary=151936), dict(documents=16, length=128), dict(documents=1, length=2048), dict(documents=1, length=8192),
          dict(documents=2), dict(documents=32)]


def scaling_rows(m):
    """Each case over the mean of the base case right before and right after it."""
    bases = [flops(m.scaled("bf16"))]
    rows = []
    for sizes in SCALED:
        rate = flops(m.scaled("bf16", **sizes))
        bases.append(flops(m.scaled("bf16", turn=len(bases))))
        base = (bases[-2] + bases[-1]) / 2
        words = " x ".join(f"{size:,} {name}" for name, size in sizes.items())
        rows.append(row(f"scaling, bf16: {words}", f"{rate / 1e9:.0f} GFLOP/s", f"{base / 1e9:.0f} GFLOP/s (base case)",
                        rate / base, "0.85 to 1.15", "faster" if rate > 1.15 * base else rate >= 0.85 * base))
    return rows


def compile_rows(m):
    command = ["bash", os.path.join(HERE, "compile_time.sh"), str(2 * m.turns - 1)]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode != 0:
        raise Failed(f"{' '.join(command)}\n{ended.stderr[-2000:]}")
    rows = []
    for c in map(json.loads, ended.stdout.splitlines()):
        ratio = c["seconds"] / c["base_seconds"]
        rows.append(row(f"compile time, {c['what']}", f"{c['seconds']:.2f} s",
                        f"{c['base_seconds']:.2f} s (#include <Eigen/Core>)",
                        ratio, f"{c['goal']:g} or less", ratio <= c["goal"]))
    return rows


GROUPS = {f"step-{v}-{d}": lambda m, v=v, d=d: step_rows(m, v, d) for v, d in STEP_GOALS}
GROUPS.update({"gemm": gemm_rows, "memory": memory_rows, "cached": cached_rows, "study": study_rows, "threads": threads_rows,
               "attention": attention_rows, "operations": streaming_rows, "scaling": scaling_rows,
               "compile-time": compile_rows})


def main():
    root = os.path.dirname(HERE)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--only", action="append", choices=GROUPS)
    parser.add_argument("--quick", action="store_true", help="one turn of one repetition; RESULTS.md is left alone")
    parser.add_argument("--small", action="store_true", help="as --quick, at sizes that tell nothing")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--repetitions", type=int, default=3)
    a = parser.parse_args()
    tried = a.quick or a.small
    m = Measurements(a.bench, a.work, 1 if tried else a.turns, 1 if tried else a.repetitions, a.small)
    kept = table.KeptRows(a.work, table.commit(root))
    shown, failed = [], False
    for group in a.only or GROUPS:
        try:
            rows = GROUPS[group](m)
            if not tried:
                kept.put(group, rows, m.torch, m.load)
        except Failed as e:
            print(f"{group}: {e}", file=sys.stderr)
            rows, failed = [row(group, "failed: its words stand above")], True
        shown += rows
    print(table.markdown(shown), end="")
    print(f"\nLoad average up to {m.load:.1f}, our own threads included.")
    if not tried:
        table.write_results(os.path.join(HERE, "RESULTS.md"), kept, GROUPS)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
