#!/usr/bin/env bash
# The README's program is a program: its code block must compile as it stands.
# usage: readme.sh COMPILER [FLAGS..]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
awk '/^```cpp$/ {inside = 1; next} /^```$/ {inside = 0} inside' "$root/README.md" >"$work/program.cpp"
grep -q 'int main' "$work/program.cpp" || { echo "readme: got no program in README.md, expected a cpp block with main"; exit 1; }
"$@" -std=c++20 -fopenmp -fsyntax-only -Wall -Wextra -I "$root/include" "$work/program.cpp"
echo "readme: the program compiles"
