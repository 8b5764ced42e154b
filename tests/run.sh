#!/usr/bin/env bash
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/cmake/common.sh"

usage() {
  cat <<'TEXT'
usage: bash tests/run.sh [--clang | --asan | --tsan | --fuzz | --reference] [CTEST OPTIONS]

Installs what is missing (Debian packages), fetches the real teacher, builds everything and runs the tests.
  --clang    with clang++ and libomp, in build-clang/
  --asan     addresses and undefined behaviour checked at run time, in build-asan/ (clang++; by default the rooms where
             memory is handled by hand: -L fast for all quick ones)
  --tsan     data races checked at run time, in build-tsan/ (clang++; by default the tests labelled `threads`)
  --fuzz     the readers of files get damaged ones for ACCRETE_FUZZ_SECONDS (60) each, in build-fuzz/ (clang++)
  --reference
             makes the numbers of tests/reference afresh with PyTorch and transformers, in an environment of its own
             (build-reference/, 6 GB), compares them with the committed ones, runs the tests that read them, opens exported
             students with transformers, and compares tokens with tokenizers
Everything else goes to ctest: -L fast, -L house, -R cpu_, -j 1.
TEXT
}

flavour=release reference='' arguments=()
for argument in "$@"; do
  case $argument in
    --clang | --asan | --tsan | --fuzz) flavour=${argument#--} ;;
    --reference) reference=yes ;;
    -h | --help) usage && exit ;;
    *) arguments+=("$argument") ;;
  esac
done
folder=$root/build
targets=(all)  # under a checker only what is run
needed=("${build_packages[@]}" "${test_packages[@]}" "${fetch_packages[@]}")
case $flavour in
  release) needed+=("${clang_packages[0]}") ;;  # the sentences of errors are held on two compilers
  clang) folder+=-clang needed+=("${clang_packages[@]}") ;;
  asan) folder+=-asan needed+=("${clang_packages[@]}") ;;
  tsan) folder+=-tsan needed+=("${clang_packages[@]}") ;;
  fuzz) folder+=-fuzz needed=("${build_packages[@]}" "${clang_packages[@]}") ;;
esac
if [ -n "$reference" ]; then
  needed+=(python3-venv)
  mapfile -t targets < <(bash "$root/tests/reference/run.sh" --programs)
elif [ ${#arguments[@]} = 0 ]; then
  case $flavour in
    tsan) arguments=(-L threads) targets=(tests_threads) ;;
    asan)
      # Models and trainers touch memory through these rooms alone, and take four fifths of the compiling.
      rooms='core|tensor|backend|reference|cpu|io|data|distill'
      arguments=(-R "^($rooms)_.*_test\$")
      mapfile -t targets < <(cd "$root/tests/unit" && ls | sed -nE "s/^(($rooms)_.*_test)\\.cpp$/\\1/p")
      ;;
  esac
fi

install_packages "${needed[@]}"
if [ "$flavour" != fuzz ]; then SECONDS=$SECONDS bash "$root/examples/fetch.sh" teacher; fi

say "configuring ${folder##*/}"
parts=(-DACCRETE_BUILD_TESTS=ON)
case $flavour in
  release | clang) parts+=(-DACCRETE_BUILD_EXAMPLES=ON -DACCRETE_BUILD_BENCH=ON) ;;
  fuzz) parts=() ;;
esac
# shellcheck disable=SC2046  # one word or none
configure "$flavour" "$folder" "${parts[@]}" $(launcher)

say "building with $(jobs) jobs"
build_log=$(mktemp)
trap 'rm -f "$build_log"' EXIT
if ! cmake --build "$folder" -j "$(jobs)" --target "${targets[@]}" -- -k 0 >"$build_log" 2>&1; then
  grep -vE '^\[[0-9]+/[0-9]+\] (Building|Linking)' "$build_log" | head -n 200 >&2
  fail "build: failed (the compiler's words stand above)"
fi

if [ -n "$reference" ]; then
  SECONDS=$SECONDS bash "$root/tests/reference/run.sh" "$folder" "$root/build-reference"
  exit
fi

say "running the tests"
command=(ctest --test-dir "$folder" --output-on-failure --no-label-summary --no-tests=error -j "$(jobs)" "${arguments[@]}")
if [ "$flavour" = asan ]; then
  # clang 14's libomp never frees the tables of a team that grew past the number of processors. The price of looking away:
  # a leak from inside of a parallel region goes unseen too; what is allocated there (a thread's rooms and oneDNN's code
  # for it) is owned by objects.
  echo 'leak:libomp' >"$folder/leaks.txt"
  export UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=detect_stack_use_after_return=1
  export LSAN_OPTIONS=suppressions=$folder/leaks.txt:print_suppressions=0
fi
if [ "$flavour" = tsan ]; then
  # libomp's barriers become known to the checker through archer. Shadow memory wants an address space that is not
  # shuffled too far; where that may not be switched off, it is tried as it is.
  archer=$(find /usr/lib/llvm-*/lib -name libarcher.so 2>/dev/null | head -n 1)
  export OMP_TOOL_LIBRARIES=$archer TSAN_OPTIONS="ignore_noninstrumented_modules=1 halt_on_error=1"
  if setarch "$(uname -m)" -R true 2>/dev/null; then command=(setarch "$(uname -m)" -R "${command[@]}"); fi
fi
status=0
"${command[@]}" | tee "$folder/ctest.log" || status=$?
say "${folder##*/}: done"
grep -E '^[0-9]+% tests passed' "$folder/ctest.log" | tail -n 1
exit $status
