#!/usr/bin/env bash
# What reading the headers costs a compiler, beside `#include <Eigen/Core>` alone in the same run: processor time, medians.
# Prints a line of JSON for each of: fwd.hpp, accrete.hpp, a program of one configuration at -O2, each further configuration;
# with the headers alone, and as a program that links the compiled part. The goals are for the second.
# usage: compile_time.sh [ROUNDS]      3 rounds by default; CXX chooses the compiler, CXXFLAGS adds to its flags
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/cmake/common.sh"
rounds=${1:-3}
compiler=${CXX:-g++}
eigen=$(pkg-config --cflags-only-I eigen3 | sed 's/-I//;s/ *$//')
onednn=()
if [ -e /usr/include/dnnl.h ]; then onednn=(-DACCRETE_WITH_ONEDNN); fi
# shellcheck disable=SC2206  # several flags
flags=(-std=c++20 -O2 -DNDEBUG -march=native -fopenmp "${onednn[@]}" "-I$root/include" -isystem "$eigen" ${CXXFLAGS:-})
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for header in Eigen/Core accrete/fwd.hpp accrete/accrete.hpp; do
  echo "#include <$header>" >"$work/$(basename "$header" .hpp).cpp"
done
for placements in pre pre,post,peri; do
  names=${placements//,/, ac::placement::}
  cat >"$work/program-$placements.cpp" <<TEXT
#include <accrete/accrete.hpp>
namespace ac = accrete;
int main() {
  using backend = ac::cpu::backend<float>;
  auto teacher = ac::load_teacher<backend>("teacher.gguf");
  auto corpus = ac::data::open("docs/", teacher.tokenizer());
  ac::for_each_configuration<ac::types<ac::placement::$names>, ac::types<ac::growth::joint<3, 3>>>(
      [&]<class Placement, class Schedule>() {
        ac::student<Placement, Schedule, backend> student(teacher, ac::seed{42});
        ac::distill(student, teacher, corpus, ac::recipe{}).write("runs/");
      });
}
TEXT
done

# seconds NAME [FLAGS..]: processor time of one compilation, with the flags or without
seconds() {
  local TIMEFORMAT='%U %S' spent name=$1
  shift
  spent=$({ time "$compiler" "${flags[@]}" "$@" -c "$work/$name.cpp" -o "$work/out.o" 2>"$work/log"; } 2>&1) ||
    fail "compile_time: $name $* does not compile: $(cat "$work/log")"
  awk '{print $1 + $2}' <<<"$spent" >>"$work/$name$*.seconds"
}
median() { sort -g "$work/$1.seconds" | awk '{s[NR] = $1} END {print (s[int((NR + 1) / 2)] + s[int(NR / 2) + 1]) / 2}'; }

compiled=-DACCRETE_COMPILED
for ((round = 0; round < rounds; round++)); do
  for name in Core fwd accrete program-pre program-pre,post,peri; do seconds "$name"; done
  for name in accrete program-pre program-pre,post,peri; do seconds "$name" "$compiled"; done
done
base=$(median Core)
# line WHAT SECONDS GOAL
line() { printf '{"what": "%s", "seconds": %s, "base_seconds": %s, "goal": %s}\n' "$1" "$2" "$base" "$3"; }
# lines HOW FLAG GOALS..
lines() {
  line "#include <accrete/accrete.hpp>, $1" "$(median "accrete$2")" "$3"
  line "a program of one configuration, -O2, $1" "$(median "program-pre$2")" "$4"
  line "each further configuration, $1" \
    "$(awk -v one="$(median "program-pre$2")" -v three="$(median "program-pre,post,peri$2")" 'BEGIN {print (three - one) / 2}')" "$5"
}
line "#include <accrete/fwd.hpp>" "$(median fwd)" 0.2
lines "with the compiled part" "$compiled" 2 8 1.5
lines "headers alone" "" 2 8 1.5
