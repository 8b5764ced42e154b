#!/usr/bin/env bash
# Everything that needs Python's peers, in one list: `bash tests/run.sh --reference` builds what this asks for and calls it.
# usage: run.sh --programs | BUILD WORK
# BUILD is a build folder with the programs that --programs lists, WORK one for the environment and outputs.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/cmake/common.sh"
here=$root/tests/reference
fixture_tests=()
for source in "$here"/../unit/*_fixture_*test.cpp; do fixture_tests+=("$(basename "$source" .cpp)"); done
export_tests=(model_save_pretrained_test data_save_tokenizer_test)
if [ "${1:-}" = --programs ]; then
  printf '%s\n' "${fixture_tests[@]}" "${export_tests[@]}" tokenizer_bench
  exit
fi
[ $# = 2 ] || fail "usage: run.sh --programs | BUILD WORK"
build=$1 work=$2
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} HF_HUB_OFFLINE=1 TQDM_DISABLE=1 PYTHONDONTWRITEBYTECODE=1

# The environment, anew where the requirements changed.
python=$work/venv/bin/python
if ! cmp -s "$here/requirements.txt" "$work/venv/requirements.txt"; then
  say "reference: installing requirements.txt into ${work##*/}/venv (6 GB; torch is nearly all of it)"
  mkdir -p "$work"
  python3 -m venv "$work/venv"
  "$python" -m pip install --quiet --disable-pip-version-check --requirement "$here/requirements.txt"
  cp "$here/requirements.txt" "$work/venv/requirements.txt"
fi

faults=0
# check WHAT COMMAND...: goes on after a fault, and remembers it.
check() {
  say "reference: $1"
  if ! "${@:2}"; then
    faults=$((faults + 1))
    say "reference: FAILED: $1"
  fi
}

rm -rf "$work/fixtures"
check "fixtures afresh" "$python" "$here/make_fixtures.py" "$work/fixtures"
check "fresh fixtures beside the committed ones" "$python" "$here/compare_fixtures.py" "$here/fixtures" "$work/fixtures"
for test in "${fixture_tests[@]}"; do
  check "$test on the fresh ones" env ACCRETE_FIXTURES="$work/fixtures" "$build/tests/$test"
done

rm -rf "$work/export"
mkdir -p "$work/export"
for test in "${export_tests[@]}"; do
  check "$test writes models and tokenizers" env ACCRETE_EXPORT_FOLDER="$work/export" "$build/tests/$test"
done
check "transformers opens what was written" "$python" "$here/check_export.py" "$work/export"

check "quantized blocks of gguf" "$python" "$here/gguf_quants.py" "$work/gguf_quants.safetensors"
check "the same bytes as the committed ones" cmp "$here/gguf_quants.safetensors" "$work/gguf_quants.safetensors"

cache=${ACCRETE_CACHE:-$HOME/.cache/accrete}
check "tokens of tokenizers" "$python" "$here/tokenizer_equal.py" "$build/bench/tokenizer_bench" \
  "$cache/SmolLM2-135M-Instruct.Q4_1.gguf" "$here"/tokenizers/tokenizer_{qwen3,llama3,odd}.json \
  --text "$cache/text/perl-doc" --text "$cache/text/python3.11-doc"

[ "$faults" = 0 ] || fail "reference: $faults of the checks above failed"
say "reference: all checks passed"
