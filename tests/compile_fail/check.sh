#!/usr/bin/env bash
# A program that must not compile, and must say why in our words.
# usage: check.sh FILE COMPILER FLAGS...      FILE begins with the line `// build error: REGEX`
set -euo pipefail
file=$1 compiler=$2
shift 2
regex=$(sed -n '1s,^// build error: ,,p' "$file")
if [ -z "$regex" ]; then
  echo "compile_fail: got '$(head -n 1 "$file")', expected a first line '// build error: REGEX' in $file" >&2
  exit 1
fi
if output=$(LC_ALL=C "$compiler" "$@" -fsyntax-only "$file" 2>&1); then
  echo "compile_fail: $file compiles, expected an error that matches '$regex'" >&2
  exit 1
fi
if ! grep -qE -- "$regex" <<<"$output"; then
  printf '%s\n' "$output" | head -n 40
  echo "compile_fail: $file fails without our words, expected an error that matches '$regex'" >&2
  exit 1
fi
grep -m 1 -E -- "$regex" <<<"$output"
