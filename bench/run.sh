#!/usr/bin/env bash
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/cmake/common.sh"

usage() {
  cat <<'TEXT'
usage: bash bench/run.sh [--only ROW].. [--quick | --small] [--turns N] [--repetitions N]

Installs what is missing (Debian packages), builds what it measures, fetches the study's teacher and text, makes an
environment with PyTorch (build-bench/venv, 5 GB), measures both turn by turn, prints one table and writes it into
bench/RESULTS.md. The whole takes about two hours on two cores, which should have nothing else to do.
  --only ROW        only this; may be given several times. Rows: step-32768-f32, step-32768-bf16, step-151936-f32,
                    step-151936-bf16, gemm, memory, cached, study, threads, attention, operations, scaling,
                    compile-time. In RESULTS.md, rows that were measured before at the same commit stay.
  --quick           one turn of one repetition; leaves RESULTS.md alone
  --small           the same at sizes that try the script and tell nothing of speed
  --turns N         ours and PyTorch's fastest in turn so many times (2)
  --repetitions N   steps in each turn (3)
ACCRETE_PEER_VENV names another environment that has what bench/requirements.txt lists.
TEXT
}

arguments=() only=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage && exit ;;
    --quick | --small) arguments+=("$1") ;;
    --only | --turns | --repetitions)
      [ $# -ge 2 ] || fail "run.sh $1: got nothing, expected a value"
      arguments+=("$1" "$2")
      if [ "$1" = --only ]; then only+=("$2"); fi
      shift
      ;;
    *) fail "run.sh: got '$1', expected an option of: $(usage | head -n 1)" ;;
  esac
  shift
done

work=$root/build-bench
needed=("${build_packages[@]}" libbenchmark-dev)
if [ -z "${ACCRETE_PEER_VENV:-}" ]; then needed+=("${fetch_packages[@]}" python3-venv); fi
install_packages "${needed[@]}"

# The environment, anew where the requirements changed.
venv=${ACCRETE_PEER_VENV:-$work/venv}
requirements=$root/bench/requirements.txt
if [ -z "${ACCRETE_PEER_VENV:-}" ] && ! cmp -s "$requirements" "$venv/requirements.txt"; then
  say "installing bench/requirements.txt into build-bench/venv (5 GB; torch is nearly all of it)"
  mkdir -p "$work"
  python3 -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$requirements"
  cp "$requirements" "$venv/requirements.txt"
fi
"$venv/bin/python" -c 'import torch, safetensors.torch' ||
  fail "run.sh: got $venv, expected an environment with torch and safetensors"

if [ "${only[*]}" != compile-time ]; then
  say "building bench/step_bench, bench/cpu_bench, and study with its bench/study_export"
  # shellcheck disable=SC2046  # one word or none
  configure bench "$work/build" $(launcher)
  build_log=$(mktemp)
  if ! cmake --build "$work/build" --target step_bench cpu_bench study study_export -j "$(jobs)" >"$build_log" 2>&1; then
    cat "$build_log" >&2
    fail "build: a program of bench/, or study, does not compile (the compiler's words stand above)"
  fi
  rm -f "$build_log"
fi

# The study's teacher and text, where they are wanted.
if [ ${#only[@]} = 0 ] || [[ " ${only[*]} " == *" study "* ]]; then bash "$root/examples/fetch.sh" teacher text; fi

say "measuring (load average $(cut -d' ' -f1 /proc/loadavg))"
exec "$venv/bin/python" "$root/bench/compare.py" --bench "$work/build/bench" --work "$work" "${arguments[@]}"
