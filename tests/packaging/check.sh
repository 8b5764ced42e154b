#!/usr/bin/env bash
# The library as others use it. usage: check.sh find_package|add_subdirectory|compiled|bare COMPILER SCRATCH_FOLDER
set -euo pipefail
how=$1 compiler=$2 out=$3
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
rm -rf "$out" && mkdir -p "$out"

configure() { cmake -G Ninja "-DCMAKE_CXX_COMPILER=$compiler" -DCMAKE_CXX_FLAGS=-Werror "$@"; }
case $how in
  find_package)
    configure -S "$source" -B "$out/accrete" "-DCMAKE_INSTALL_PREFIX=$out/prefix" -DACCRETE_BUILD_TESTS=OFF \
      -DACCRETE_BUILD_EXAMPLES=OFF -DACCRETE_BUILD_BENCH=OFF
    cmake --install "$out/accrete"
    rm -r "$out/accrete"
    mv "$out/prefix" "$out/moved"  # an installed tree may be moved
    configure -S "$here/consumer" -B "$out/build" "-DCMAKE_PREFIX_PATH=$out/moved"
    ;;
  compiled)  # the library as well, installed and moved
    configure -S "$source" -B "$out/accrete" "-DCMAKE_INSTALL_PREFIX=$out/prefix" -DCMAKE_BUILD_TYPE=Debug \
      -DACCRETE_INSTALL_COMPILED=ON -DACCRETE_BUILD_TESTS=OFF -DACCRETE_BUILD_EXAMPLES=OFF -DACCRETE_BUILD_BENCH=OFF
    cmake --build "$out/accrete"
    cmake --install "$out/accrete"
    rm -r "$out/accrete"
    mv "$out/prefix" "$out/moved"
    configure -S "$here/consumer" -B "$out/build" "-DCMAKE_PREFIX_PATH=$out/moved" -DACCRETE_TARGET=compiled
    ;;
  add_subdirectory) configure -S "$here/consumer" -B "$out/build" "-DACCRETE_SOURCE=$source" ;;
  bare)
    eigen=$(pkg-config --cflags-only-I eigen3 | sed 's/-I/-isystem /g')
    # shellcheck disable=SC2086  # flags are words
    "$compiler" -std=c++20 -Wall -Wextra -Werror -fopenmp -I "$source/include" $eigen "$here/consumer/main.cpp" \
      -o "$out/consumer" -lpcre2-8 -lutf8proc -lz -lzstd -lfmt
    "$out/consumer"
    exit
    ;;
esac
if grep -nE -- '-march|-mtune|-ffast-math|-DEIGEN|-Wconversion' "$out/build/build.ninja"; then
  echo "packaging: flags of ours reach other people's programs (U70)" >&2
  exit 1
fi
cmake --build "$out/build"
"$out/build/consumer"
