# shellcheck shell=bash disable=SC2034,SC2154  # names set here are used there, and the other way round
# What the scripts of this project share. Sourced by tests/run.sh, examples/run.sh and .ci/run with `root` set to
# the project's folder.

say() { printf '[%4d s] %s\n' "$SECONDS" "$*"; }
fail() {
  printf '%s\n' "$*" >&2
  exit 1
}

# as_root COMMAND...: directly, or through sudo.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    fail "install: got user $(id -un) without sudo, expected root (run this as root: $*)"
  fi
}

# refresh_lists: apt's package lists, at most once per script.
lists_fresh=
refresh_lists() {
  [ -z "$lists_fresh" ] || return 0
  say "reading Debian's package lists"
  as_root apt-get -qq update
  lists_fresh=yes
}

# install_packages NAME...: those that are missing, and nothing where none is.
install_packages() {
  local name missing=()
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    say "not a Debian: expecting the counterparts of $*"
    return 0
  fi
  for name in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || missing+=("$name")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  refresh_lists
  say "installing ${missing[*]}"
  local log
  log=$(mktemp)
  if ! as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends \
    -o Dpkg::Use-Pty=0 install "${missing[@]}" >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    fail "install: apt-get could not install ${missing[*]} (its last lines stand above)"
  fi
  rm -f "$log"
}

build_packages=(g++ cmake ninja-build pkg-config libeigen3-dev nlohmann-json3-dev libfmt-dev libpcre2-dev libutf8proc-dev
  zlib1g-dev libzstd-dev libcli11-dev libdnnl-dev)
test_packages=(catch2 libxtensor-dev libbenchmark-dev)
fetch_packages=(python3 python3-pip ca-certificates)
clang_packages=(clang libomp-dev libclang-rt-dev)

# jobs: one per processor, fewer where memory is short (a compiler takes up to 2 GiB here).
jobs() {
  local n kib
  n=$(nproc 2>/dev/null || echo 2)
  kib=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo 2>/dev/null || true)
  if [ -r /sys/fs/cgroup/memory.max ] && [ "$(cat /sys/fs/cgroup/memory.max)" != max ]; then
    local limit=$(($(cat /sys/fs/cgroup/memory.max) / 1024))
    if [ "$limit" -lt "${kib:-$limit}" ]; then kib=$limit; fi
  fi
  if [ -n "$kib" ] && [ $((kib / 2097152)) -lt "$n" ]; then n=$((kib / 2097152)); fi
  echo $((n > 0 ? n : 1))
}

# configure PRESET FOLDER ARGUMENTS...: quiet unless it fails. A folder left by another generator or another
# checkout is configured anew.
configure() {
  local preset=$1 folder=$2 cache=$2/CMakeCache.txt log
  shift 2
  if [ -f "$cache" ] && ! { grep -qx 'CMAKE_GENERATOR:INTERNAL=Ninja' "$cache" &&
    grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$cache"; }; then
    rm -rf "$cache" "$folder/CMakeFiles"
  fi
  log=$(mktemp)
  if ! (cd "$root" && cmake --preset "$preset" "$@") >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    fail "configure: cmake --preset $preset failed (its output stands above)"
  fi
  rm -f "$log"
}

# ccache, where somebody has it, with what it needs to know of time stamps.
launcher() {
  if command -v ccache >/dev/null; then echo -DCMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
}
