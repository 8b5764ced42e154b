#!/usr/bin/env bash
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/cmake/common.sh"

usage() {
  cat <<'TEXT'
usage: bash examples/run.sh [OPTIONS]

Installs what is missing (Debian packages), builds the program `study` in build/, fetches a real teacher
(SmolLM2-135M-Instruct, 94 MiB) and real text (the documentation of Perl and Python) into $ACCRETE_CACHE, by default
~/.cache/accrete, runs the study and prints its tables. Nothing is fetched twice; finished parts of a study are not
run again. With --teacher FILE or --text PATH... of your own, that part is not fetched.

All options are the program's own:

TEXT
}

asks_help='' own_teacher='' own_text=''
for argument in "$@"; do
  case $argument in
    -h | --help) asks_help=yes ;;
    --teacher | --teacher=*) own_teacher=yes ;;
    --text | --text=*) own_text=yes ;;
  esac
done
[ -z "$asks_help" ] || usage

# The help's own stages are nobody's interest, its failures are.
stage() { [ -n "$asks_help" ] || say "$@"; }
needed=("${build_packages[@]}")
if [ -z "$own_teacher" ]; then needed+=("${fetch_packages[@]}"); fi
install_packages "${needed[@]}"

cache=${ACCRETE_CACHE:-$HOME/.cache/accrete}
from_cache=() fetched=()
if [ -z "$own_teacher" ]; then
  fetched+=(teacher)
  from_cache+=(--teacher "$cache/SmolLM2-135M-Instruct.Q4_1.gguf")
fi
if [ -z "$own_text" ]; then
  fetched+=(text)
  from_cache+=(--text "$cache/text/perl-doc" "$cache/text/python3.11-doc")
fi

# Fetching waits for the network and building for the processor, so they go side by side.
build_log=$(mktemp) fetch_log=$(mktemp) fetching=
trap 'rm -f "$build_log" "$fetch_log"' EXIT
if [ -z "$asks_help" ] && [ ${#fetched[@]} -gt 0 ]; then
  stage "looking for ${fetched[*]} in $cache"
  SECONDS=$SECONDS bash "$root/examples/fetch.sh" "${fetched[@]}" >"$fetch_log" 2>&1 &
  fetching=$!
fi

stage "building build/examples/study"
# A folder that tests/run.sh configured before stays as it is.
parts=(-DACCRETE_BUILD_EXAMPLES=ON)
if [ ! -f "$root/build/CMakeCache.txt" ]; then parts+=(-DACCRETE_BUILD_TESTS=OFF -DACCRETE_BUILD_BENCH=OFF); fi
# shellcheck disable=SC2046  # one word or none
configure release "$root/build" "${parts[@]}" $(launcher)
if ! cmake --build "$root/build" --target study -j "$(jobs)" >"$build_log" 2>&1; then
  cat "$build_log" >&2
  fail "build: the program study does not compile (the compiler's words stand above)"
fi
study=$root/build/examples/study
if [ -n "$asks_help" ]; then
  rm -f "$build_log" "$fetch_log"
  exec "$study" --help
fi
if [ -n "$fetching" ]; then
  status=0
  wait "$fetching" || status=$?
  if [ "$status" != 0 ]; then cat "$fetch_log" >&2; else cat "$fetch_log"; fi
  [ "$status" = 0 ] || exit "$status"
fi
rm -f "$build_log" "$fetch_log"

stage "running study${*:+ $*}"
exec "$study" "${from_cache[@]}" "$@"
