#!/usr/bin/env bash
# Who may include whom, read from the files themselves. usage: layering.sh COMPILER
set -euo pipefail
compiler=$1
cd "$(dirname "$0")/.."
faults=0
# none WHAT: the lines on standard input are faults
none() {
  local lines
  lines=$(cat)
  [ -z "$lines" ] && return
  printf 'layering: %s:\n%s\n' "$1" "$lines" >&2
  faults=1
}
headers=$(find include/accrete -name '*.hpp' | sort)

grep -nE '#include *<(Eigen|unsupported)/' $headers | grep -vE '^include/accrete/(cpu/|tensor/eigen)' |
  none 'Eigen outside cpu/ and tensor/eigen.hpp'
grep -nE '#include *<xt(ensor|l)/' $headers | grep -v '^include/accrete/tensor/xtensor' |
  none 'xtensor outside tensor/xtensor.hpp'
grep -nE '#include *<(iostream|catch2/.*|CLI/.*|benchmark/.*)>' $headers |
  none 'a header that only programs need (streams: <iosfwd>, <ostream>)'
grep -L '^#pragma once' $headers | none 'no #pragma once'
grep -nE '^(static\b|(inline )?namespace \{|using namespace)' $headers |
  none 'an entity of its own in every translation unit (say inline)'
grep -nE '#include *"' $headers | grep -v '"accrete/' | none 'an include that does not begin with accrete/'
grep -nE '^ *# *(el)?if.*NDEBUG|^ *# *ifn?def +NDEBUG|\bassert\(' $headers | grep -v static_assert |
  none 'a body that changes with NDEBUG'
grep -nE '^ *# *define' $headers | grep -v '^include/accrete/core/config.hpp' | none 'a macro outside core/config.hpp'

# Rooms call one another in one direction only.
sed -nE 's,^([^:]*):#include "accrete/([a-z]+)/.*,\1 \2,p' <(grep -E '^#include "accrete/[a-z]+/' $headers /dev/null) |
  sed -nE 's,^include/accrete/([a-z]+)/[^ ]* ([a-z]+)$,\1 \2,p' | sort -u | awk '$1 != $2' |
  tsort 2>&1 >/dev/null | none 'rooms that include one another in a circle'

if [ -f include/accrete/fwd.hpp ]; then
  "$compiler" -std=c++20 -fopenmp -Iinclude -I/usr/include/eigen3 -M include/accrete/fwd.hpp |
    tr -s ' \\' '\n' | grep -E '/(Eigen|fmt|nlohmann|xtensor)/|/(iostream|regex|pcre2.h)$' | none 'fwd.hpp pulls'
fi

# Nothing may know the machine it was written on. (The brackets keep this line from finding itself.)
files=$(git ls-files 2>/dev/null || find . -type f -not -path './build*' -not -path './.git/*' -not -path './runs/*')
grep -nIE '(^|[^A-Za-z.$}])/(wor[k]|hom[e]|roo[t]|tm[p]/w)/' $files | none 'a path of one machine'

exit $faults
