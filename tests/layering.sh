#!/usr/bin/env bash
# Who may include whom, read from the files themselves. usage: layering.sh COMPILER
set -u
compiler=$1
cd "$(dirname "$0")/.." || exit 1
faults=0
none() {  # none LINES WHAT: each line is a fault
  [ -z "$1" ] && return
  printf 'layering: %s:\n%s\n' "$2" "$1" >&2
  faults=1
}
in_headers() { find include/accrete -name '*.hpp' -print0 | sort -z | xargs -0 grep -nHE "$@"; }
[ -n "$(in_headers '^#pragma once')" ] || none 'include/accrete' 'no header at all'

none "$(in_headers '#include *<(Eigen|unsupported)/' | grep -vE '^include/accrete/(cpu/|tensor/eigen)')" \
  'Eigen outside cpu/ and tensor/eigen.hpp'
none "$(in_headers '#include *<xt(ensor|l)/' | grep -v '^include/accrete/tensor/xtensor')" \
  'xtensor outside tensor/xtensor.hpp'
none "$(in_headers '#include *<(oneapi|dnnl)' | grep -vE '^include/accrete/cpu/(gemm_onednn|onednn_product).hpp')" \
  'oneDNN outside cpu/gemm_onednn.hpp and cpu/onednn_product.hpp'
none "$(in_headers '#include *<fmt/' | grep -v '^include/accrete/core/format.hpp')" '{fmt} outside core/format.hpp'
none "$(in_headers '#include *<(iostream|catch2/.*|CLI/.*|benchmark/.*)>')" \
  'a header that only programs need (for streams: <iosfwd>, <ostream>)'
none "$(find include/accrete -name '*.hpp' -exec grep -L '^#pragma once' {} +)" 'no #pragma once'
none "$(in_headers '^(static\b|(inline )?namespace \{|using namespace)')" \
  'an entity of its own in every translation unit (say inline)'
none "$(in_headers '#include *"' | grep -v '"accrete/')" 'an include that does not begin with accrete/'
none "$(in_headers '^ *# *(if|ifdef|ifndef|elif)\b.*NDEBUG|\bassert\(')" 'a body that changes with NDEBUG'
none "$(in_headers '^ *# *define' | grep -vE '^include/accrete/core/config.hpp|PCRE2_CODE_UNIT_WIDTH 8')" 'a macro outside core/config.hpp'
none "$(find include/accrete -name '*_body.hpp' | sed 's/^include\///' | grep -vxFf <(sed -n 's/^#include "\(.*\)"$/\1/p' src/*.cpp))" \
  'a body that the compiled part has not'
none "$(find include/accrete -name '*.hpp' -exec grep -LE '^namespace accrete::inline v0\b' {} + |
  grep -vE '^include/accrete/(accrete|core/config|core/format|cpu/operations)\.hpp$')" 'no namespace accrete::inline v0'

# The README's picture, from the ground up: a room includes only rooms of earlier lines.
floors='core
tensor
backend
reference cpu
wiring io
placement growth data
model
distill
train
study'
none "$(in_headers '^#include "accrete/[a-z]+/' | awk -v floors="$floors" '
  BEGIN { n = split(floors, floor, "\n")
          for (i = 1; i <= n; ++i) { m = split(floor[i], room, " "); for (j = 1; j <= m; ++j) level[room[j]] = i } }
  { split($0, path, "/"); from = path[3]; to = $0; sub(/.*#include "accrete\//, "", to); sub(/\/.*/, "", to)
    if (from != to && !(level[to] && level[to] < level[from]) && from !~ /\.hpp/) print }')" \
  'an include that goes up, or of a room with no floor'
none "$(in_headers '^#include "accrete/[a-z]+/detail/' |
  sed -E '/^include\/accrete\/([a-z]+)\/.*"accrete\/\1\/detail/d')" "another room's detail"
none "$(in_headers '\b[a-z]+::detail::' | sed -E '/^include\/accrete\/([a-z]+)\/.*\b\1::detail::/d')" "another room's detail"

if [ -f include/accrete/fwd.hpp ]; then
  none "$("$compiler" -std=c++20 -fopenmp -Iinclude -isystem /usr/include/eigen3 -M include/accrete/fwd.hpp 2>&1 |
    tr -s ' \\' '\n' | grep -E 'error:|/(Eigen|fmt|nlohmann|xtensor)/|/(iostream|regex|pcre2.h)$')" 'fwd.hpp pulls'
fi

# With the compiled part, what programs read has neither Eigen nor JSON in it.
none "$("$compiler" -std=c++20 -fopenmp -DACCRETE_COMPILED -Iinclude -isystem /usr/include/eigen3 -M \
  include/accrete/accrete.hpp 2>&1 | tr -s ' \\' '\n' |
  grep -E 'error:|/(Eigen|fmt|nlohmann|xtensor)/|/(iostream|regex|dnnl.h|pcre2.h|z(lib|std).h)$')" \
  'accrete.hpp with the compiled part pulls'

# Nothing may know the machine it was written on. (The brackets keep this line from finding itself.)
files=$(git ls-files 2>/dev/null || find . -type f -not -path './build*' -not -path './.git/*' -not -path './runs/*')
none "$(xargs -d '\n' grep -nHIE '(^|[^A-Za-z0-9._$}/])/(wor[k]|hom[e]|roo[t]|tm[p]/w)/' <<<"$files")" \
  'a path of one machine'

exit $faults
