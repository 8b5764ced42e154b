#!/usr/bin/env bash
# The same program on the headers alone and with the compiled part: the same results, to the last bit.
# usage: check.sh HEADERS_PROGRAM COMPILED_PROGRAM TEACHER SCRATCH_FOLDER
set -euo pipefail
headers=$1 compiled=$2 teacher=$3 out=$4
for how in headers compiled; do
  rm -rf "${out:?}/$how" && mkdir -p "$out/$how"
  "${!how}" "$teacher" "$out/$how" >"$out/$how.txt"
done
[ -s "$out/headers.txt" ]
diff "$out/headers.txt" "$out/compiled.txt"
