#!/usr/bin/env bash
# Ten schedules do not compile the model ten times: the functions of its layers, stack and head are counted in the
# object files of a program with one schedule and of one with ten.
# usage: check.sh COMPILER FOLDER FLAGS...
set -euo pipefail
compiler=$1 folder=$2
source=$(dirname "$0")/schedules.cpp
shift 2
mkdir -p "$folder"
functions() { # functions SCHEDULES PATTERN: the defined functions whose name has the pattern
  nm -C --defined-only "$folder/schedules_$1.o" | grep -E '^[0-9a-f]+ [tTwW] ' | cut -d' ' -f3- | grep -cE -- "$2" || true
}
for n in 1 10; do "$compiler" "$@" -O0 -DSCHEDULES=$n -c "$source" -o "$folder/schedules_$n.o"; done

faults=0
fault() {
  echo "instantiations: $1" >&2
  faults=1
}
# The count has something to count.
students=$(functions 10 '^accrete::v0::student<.*>::student\(')
[ "$students" -ge 10 ] || fault "got $students constructors of students, expected 10 or more"
forwards=$(functions 10 '^accrete::v0::model::block_stack<accrete::v0::placement::post.*>::forward\(')
[ "$forwards" -eq 1 ] || fault "got $forwards forward passes of a post-norm stack, expected 1"
for what in 'model::block_stack<' 'model::grown_model<' 'model::layer_kernels<' 'model::decoder_layer<' \
  'wiring::execution<' 'distillation::vocabulary_head<' '(attention|mlp)_(forward|backward_pass)<'; do
  with_one=$(functions 1 "$what") with_ten=$(functions 10 "$what")
  [ "$with_one" -gt 0 ] || fault "got no function of $what, expected some"
  [ "$with_one" -eq "$with_ten" ] ||
    fault "got $with_ten functions of $what with ten schedules, expected the $with_one of one schedule"
  echo "$what: $with_one with one schedule, $with_ten with ten"
done
exit $faults
