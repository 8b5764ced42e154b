#!/usr/bin/env bash
# Runs one fuzzer for ACCRETE_FUZZ_SECONDS (60) from its committed corpus. usage: run.sh PROGRAM NAME FOLDER
# What it finds goes on in FOLDER/grown/NAME; an input that fails lies in FOLDER/failed/NAME. With
# ACCRETE_FUZZ_KEEP=yes it looks for nothing, but chooses the corpus anew: what has a name stays, and of all that was found
# the 40 small inputs that reach furthest beyond it.
set -euo pipefail
program=$1 name=$2 folder=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
corpus=$here/corpus/$name grown=$folder/grown/$name failed=$folder/failed/$name
mkdir -p "$grown" "$failed"

# Inputs are files for an instant: in memory where that is possible, and gone whatever happens.
shared=/dev/shm
[ -d "$shared" ] && [ -w "$shared" ] || shared=${TMPDIR:-/tmp}
TMPDIR=$(mktemp -d "$shared/accrete-fuzz-XXXXXX")
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
export ASAN_OPTIONS=detect_stack_use_after_return=1

options=(-timeout=20 -rss_limit_mb=1024 -max_len=16384 "-artifact_prefix=$failed/")
if [ "${ACCRETE_FUZZ_KEEP:-}" = yes ]; then
  kept=$TMPDIR/kept rest=$TMPDIR/rest
  mkdir "$kept" "$rest"
  for found in "$grown" "$corpus"; do
    find "$found" -type f ! -name 'seed-*' ! -name 'regress-*' -exec cp -t "$rest" {} +
  done
  find "$corpus" -type f \( -name 'seed-*' -o -name 'regress-*' \) -exec cp -t "$kept" {} +
  "$program" -set_cover_merge=1 -use_counters=0 "${options[@]}" -max_len=3000 "$kept" "$rest"
  find "$corpus" -type f ! -name 'seed-*' ! -name 'regress-*' -delete
  # The furthest is written first.
  find "$kept" -type f ! -name 'seed-*' ! -name 'regress-*' -printf '%T@ %p\n' | sort -n | head -n 40 | cut -d' ' -f2 |
    xargs -r cp -t "$corpus"
  exit
fi
case $name in
  shards | checkpoint) words=$here/safetensors.dict ;;
  json_lines) words=$here/json.dict ;;
  index) words=$here/config.dict ;;
  *) words=$here/$name.dict ;;
esac
seconds=${ACCRETE_FUZZ_SECONDS:-60}
# One that does not end by itself is killed: a report may wait for itself.
timeout -s KILL "$((seconds + 120))" "$program" "${options[@]}" "-dict=$words" -print_final_stats=1 \
  -max_total_time="$seconds" "$grown" "$corpus"
