#!/usr/bin/env bash
# Draws every operation of the CPU backend under this machine's two roofs, streaming copies and multiply-adds.
# usage: roofline.sh CPU_BENCH OUT.svg
# Operations that count no arithmetic of their own (norms, losses, the optimizer) are bars: their share of the copy's rate.
set -euo pipefail
[ $# = 2 ] || { echo "usage: roofline.sh CPU_BENCH OUT.svg" >&2; exit 1; }
bench=$1 out=$2
command -v gnuplot >/dev/null || { echo "roofline: got no gnuplot, expected one (apt-get install gnuplot-nox)" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$bench" --benchmark_format=json --benchmark_out="$work/bench.json" --benchmark_out_format=json >/dev/null
python3 - "$work" <<'PY'
import json
import re
import sys

work = sys.argv[1]
rows = json.load(open(work + "/bench.json"))["benchmarks"]
rate = lambda name, key: next(r[key] for r in rows if r["name"].startswith(name))
copy, fma = rate("bm_roof_copy", "bytes"), rate("bm_roof_fma", "flops")


def label(r):
    name = r["name"].removeprefix("bm_").replace("/real_time", "").replace("<bfloat16>", " bf16").replace("<float>", "")
    name = re.sub(r"/rows:\d+/vocabulary:(\d+)/tau_x10:(\d)\d", r" \1, tau \2", name)
    return re.sub(r"/\d+/(\d+)", r" \1", name)


with open(work + "/points", "w") as points, open(work + "/bars", "w") as bars:
    for r in rows:
        if "roof" in r["name"]:
            continue
        if "flops_per_byte" in r:
            bf16 = "bfloat16" in r["name"]
            points.write(f'{r["flops_per_byte"]} {r["flops"] / 1e9} {int(bf16)} "{label(r)}"\n')
        elif "bytes" in r:
            bars.write(f'"{label(r)}" {r["bytes"] / copy}\n')
with open(work + "/roofs", "w") as f:
    f.write(f"copy = {copy / 1e9}\nfma = {fma / 1e9}\n")
    f.write(f"bf16 = {rate('bm_gemm<bfloat16>', 'flops') / 1e9}\n")
PY
gnuplot <<GNUPLOT
load "$work/roofs"
set terminal svg size 900,980 font "sans,11"
set output "$out"
set multiplot layout 2,1
set title sprintf("Operations under the roofs of this machine: copies %.1f GB/s, f32 multiply-adds %.0f GFLOP/s", copy, fma)
set logscale xy
set xlabel "operations a byte"
set ylabel "GFLOP/s"
set xrange [1:2000]
set yrange [10:4000]
set key left top
plot (copy * x < fma ? copy * x : fma) with lines lw 2 lc "black" title "roof, f32", \
     bf16 with lines lw 1 dt 2 lc "#d62728" title "the provider's own bf16 product", \
     "$work/points" using (\$3 == 0 ? \$1 : 1/0):2 with points pt 7 ps 0.7 lc "#1f77b4" title "f32", \
     "$work/points" using (\$3 == 1 ? \$1 : 1/0):2 with points pt 9 ps 0.8 lc "#d62728" title "bf16"
unset logscale
set title "What streams: bytes a second, as a share of the copy's"
set xlabel ""
set ylabel ""
set yrange [0:*]
set xrange [*:*]
set style fill solid 0.7
set boxwidth 0.7
set xtics rotate by -40 noenhanced
unset key
plot "$work/bars" using 0:2:xtic(1) with boxes lc "#1f77b4", 0.7 with lines dt 2 lc "black"
unset multiplot
GNUPLOT
echo "written: $out"
