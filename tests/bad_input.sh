#!/usr/bin/env bash
# The programs from outside, with the real teacher: what they print when all is well, and that whatever is wrong with
# their input ends in one line, a documented exit code and no half-written file. usage: bad_input.sh PROGRAMS_FOLDER
set -u
programs=$(cd "$1" && pwd) || exit 1
cache=${ACCRETE_CACHE:-$HOME/.cache/accrete}
teacher=$cache/SmolLM2-135M-Instruct.Q4_1.gguf
export OMP_WAIT_POLICY=passive
if [ ! -f "$teacher" ]; then
  echo "bad_input: got no file at $teacher, expected the teacher (run examples/fetch.sh teacher, or set ACCRETE_CACHE)" >&2
  exit 1
fi
work=$(mktemp -d) || exit 1
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cd "$work" || exit 1
export ACCRETE_CACHE=$work/cache  # what the programs keep between runs goes here
faults=0 checks=0 group=$SECONDS

# --- Telling ---------------------------------------------------------------------------------------------------
fault() {  # fault WHAT: with what the last program said
  faults=$((faults + 1))
  printf 'FAILED: %s\n  exit code %s\n' "$1" "$code"
  printf '%s\n' "$said" | head -n 20 | sed 's/^/  stderr: /'
  printf '%s\n' "$printed" | head -n 5 | sed 's/^/  stdout: /'
}
expect() {  # expect WHAT COMMAND...: the command must succeed
  local what=$1
  shift
  checks=$((checks + 1))
  "$@" || fault "$what"
}
done_with() { printf '%s: %d s\n' "$1" $((SECONDS - group)) && group=$SECONDS; }

# --- Running ---------------------------------------------------------------------------------------------------
# run PROGRAM ARGUMENTS...: sets code, printed (stdout) and said (stderr).
run() {
  local program=$1
  shift
  printed=$("$programs/$program" "$@" 2>"$work/.said")
  code=$?
  said=$(tr '\r' '\n' <"$work/.said")
}
# Lines of stderr that are no progress.
complaints() { printf '%s\n' "$said" | grep -avE '^([0-9.]+% |teacher[: ] |text: |teacher.s states: |[0-9]+/[0-9]+ |post, grow )'; }
half_written() { find "$work" \( -name '*.tmp*' -o -name '.probe' \) | grep .; }

# refused PATTERN PROGRAM ARGUMENTS...: exit code 1, one line that matches, nothing printed, nothing half-written.
refused() {
  local pattern=$1
  shift
  run "$@"
  judge "$pattern" "$*"
}
judge() {
  local pattern=$1 what=$2 lines
  lines=$(complaints)
  expect "$what: exit code 1" [ "$code" = 1 ]
  expect "$what: one line" [ "$(grep -ac . <<<"$lines")" = 1 ]
  expect "$what: it says /$pattern/" grep -aqE -- "$pattern" <<<"$lines"
  expect "$what: it says what came and what should have" grep -aqE ': got .+, expected .+' <<<"$lines"
  expect "$what: nothing on stdout" [ -z "$printed" ]
  expect "$what: nothing half-written" [ -z "$(half_written)" ]
}
# misused PATTERN PROGRAM ARGUMENTS...: CLI11's words and codes.
misused() {
  local pattern=$1
  shift
  run "$@"
  expect "$*: CLI11's exit code" [ "$code" -ge 100 ] && expect "$*: no signal" [ "$code" -lt 128 ]
  expect "$*: it says /$pattern/" grep -aqE -- "$pattern" <<<"$said"
  expect "$*: at most two lines" [ "$(grep -c . <<<"$said")" -le 2 ]
}
# written PATH TEXT: makes a file, folders included.
written() {
  mkdir -p "$(dirname "$1")"
  printf '%b' "$2" >"$1"
}

# --- Inputs ----------------------------------------------------------------------------------------------------
printf '%s' "The history of the steam engine begins in the seventeenth century, when Thomas Savery patented a pump for \
draining mines. Thomas Newcomen improved the design in 1712, and James Watt added a separate condenser in 1765." >sentence.txt
mkdir text
awk 'BEGIN {
  n = split("the a river engine slowly carries turns old water under bridge and of in stone mill every morning", w, " ")
  for (f = 1; f <= 4; ++f) for (s = 0; s < 60; ++s) {
    line = ""
    for (i = 0; i < 9; ++i) { r = (r * 1103515245 + 12345) % 2147483648; line = line (i ? " " : "") w[1 + r % n] }
    print line "." > ("text/" f ".txt")
  }
}'
small=(--steps 2 --batch-tokens 128 --validation-documents 4 --length 64)

# --- All is well -----------------------------------------------------------------------------------------------
run evaluate --model "$teacher" --text sentence.txt
expect 'evaluate: exit code 0' [ "$code" = 0 ]
expect 'evaluate: one line of JSON' grep -qxE '\{"tokens": 51, "targets": 50, "ce": [0-9.]+, "perplexity": [0-9.]+\}' <<<"$printed"
expect 'evaluate: ce 2.57719' awk -F'[:,}]' '{d = $6 - 2.57719; p = $8 - exp($6); exit !(d * d < 1e-8 && p * p < 1e-6)}' <<<"$printed"
expect 'evaluate: nothing on stderr' [ -z "$said" ]
written ids.txt '504 1463 282 260 9403\n\n2327 5634 281 260 26161 2070 28\n'
run evaluate --model "$teacher" --ids ids.txt
expect 'evaluate --ids' grep -qE '^\{"tokens": 12, "targets": 10, ' <<<"$printed"
done_with evaluate

prompt='The capital of France is'
run generate --model "$teacher" --prompt "$prompt" --tokens 6
greedy=$printed
expect 'generate: exit code 0' [ "$code" = 0 ]
expect 'generate: begins with its prompt' [ "${greedy:0:${#prompt}}" = "$prompt" ]
expect 'generate: knows the capital of France' grep -q 'Paris' <<<"$greedy"
run generate --model "$teacher" --prompt "$prompt" --tokens 6
expect 'generate: the same text again' [ "$printed" = "$greedy" ]
sampled=(generate --model "$teacher" --prompt "$prompt" --tokens 4 --temperature 1.5)
run "${sampled[@]}" --seed 1
first=$printed
run "${sampled[@]}" --seed 1
expect 'generate: a seed gives one text' [ "$printed" = "$first" ]
run "${sampled[@]}" --seed 2
expect 'generate: another seed gives another' [ "$printed" != "$first" ]
done_with generate

run study --teacher "$teacher" --text text "${small[@]}" --out runs/whole
tables=$printed
expect 'study: exit code 0' [ "$code" = 0 ]
for table in T1 F3b T2 T3; do expect "study: table $table" grep -q "^$table  " <<<"$tables"; done
expect 'study: the interaction' grep -qE 'interaction \(post - pre, grow - joint\): [-+]?[0-9.]+' <<<"$tables"
expect 'study: it calls itself a demonstration' grep -q '^A demonstration: 2 updates in a phase' <<<"$tables"
expect 'study: no line is wider than a terminal' [ "$(awk 'length > 100' <<<"$tables" | grep -c .)" = 0 ]
expect 'study: its files' [ "$(find runs/whole -type f | sed 's,.*/,,; s,[0-9a-f]\{16\},N,' | sort | xargs)" = \
  'N.json N.json N.json N.json log.jsonl report.md table.csv' ]
run study --teacher "$teacher" --text text "${small[@]}" --out runs/whole
expect 'study again: the same tables' [ "$printed" = "$tables" ]
expect 'study again: all cells were kept' [ "$(grep -c 'finished before, kept' <<<"$said")" = 4 ]
expect 'study again: no update' [ -z "$(grep 'step 1/' <<<"$said")" ]
done_with study

# --- Stopped ---------------------------------------------------------------------------------------------------
# stop_at LINE PROGRAM ARGUMENTS...: Ctrl-C once stderr has the line.
stop_at() {
  local line=$1 program=$2 process waited=0
  shift 2
  "$programs/$program" "$@" >"$work/.printed" 2>"$work/.said" &
  process=$!
  until grep -q -- "$line" "$work/.said" || [ $waited = 1200 ]; do sleep 0.1 && waited=$((waited + 1)); done
  kill -INT $process
  wait $process
  code=$?
  said=$(<"$work/.said") printed=$(<"$work/.printed")
}
stop_at '2/4 pre, grow *step 1/' study --teacher "$teacher" --text text "${small[@]}" --out runs/stopped
expect 'Ctrl-C: exit code 130' [ "$code" = 130 ]
expect 'Ctrl-C: it says how to go on' grep -q '^stopped\. .*the same command goes on' <<<"$said"
expect 'Ctrl-C: no table' [ -z "$printed" ]
expect 'Ctrl-C: nothing half-written' [ -z "$(half_written)" ]
expect 'Ctrl-C: one cell is kept' [ "$(find runs/stopped/cells -type f | wc -l)" = 1 ]
expect 'Ctrl-C: whole lines in the log' [ "$(grep -cv '^{.*}$' runs/stopped/log.jsonl)" = 0 ]
run study --teacher "$teacher" --text text "${small[@]}" --out runs/stopped
expect 'after Ctrl-C: exit code 0' [ "$code" = 0 ]
expect 'after Ctrl-C: it went on' [ "$(grep -c 'finished before, kept' <<<"$said")" = 1 ]
expect 'after Ctrl-C: the same tables' [ "$printed" = "$tables" ]
stop_at 'step 1/' distill --teacher "$teacher" --text text "${small[@]}" --out runs/distilled
expect 'Ctrl-C in distill: exit code 130' [ "$code" = 130 ]
expect 'Ctrl-C in distill: its log is whole' [ "$(grep -cv '^{.*}$' runs/distilled/*.jsonl)" = 0 ]
expect 'Ctrl-C in distill: nothing half-written' [ -z "$(half_written)" ]
done_with 'Ctrl-C'

# --- Models ----------------------------------------------------------------------------------------------------
refused 'no-such.gguf' evaluate --model no-such.gguf --text sentence.txt
refused 'no-such.gguf' generate --model no-such.gguf
refused 'no-such.gguf' study --teacher no-such.gguf --text text --out runs/none
refused 'no-such.gguf' distill --teacher no-such.gguf --text text --out runs/none
expect 'no model: nothing below --out' [ -z "$(find runs/none -type f)" ]
refused "'text/config.json'" evaluate --model text --text sentence.txt
refused 'sentence.txt' evaluate --model sentence.txt --text sentence.txt
for size in 0 3 24 100000 3000000 98362431; do
  head -c $size "$teacher" >cut.gguf
  refused 'cut.gguf' evaluate --model cut.gguf --text sentence.txt
done
refused 'cut.gguf' study --teacher cut.gguf --text text --out runs/none
rm cut.gguf

cp "$teacher" flipped.gguf
chmod u+w flipped.gguf
byte() { od -An -tu1 -j "$1" -N 1 flipped.gguf | tr -d ' '; }
put() { printf '%b' "\\x$(printf %02x "$2")" | dd of=flipped.gguf bs=1 seek="$1" conv=notrunc status=none; }
# damaged OFFSET VALUE PATTERN: refused with that byte, which is then put back.
damaged() {
  local before
  before=$(byte "$1")
  put "$1" "$2"
  refused "$3" evaluate --model flipped.gguf --text sentence.txt
  put "$1" "$before"
}
after() {  # after NAME: where its bytes end in the file
  local at
  at=$(grep -abom 1 -- "$1" flipped.gguf | head -n 1 | cut -d: -f1)
  echo $((at + ${#1}))
}
damaged 0 70 flipped.gguf    # magic
damaged 4 99 flipped.gguf    # version
damaged 8 15 flipped.gguf    # number of tensors: one less
damaged 8 17 flipped.gguf    # one more
damaged 15 64 flipped.gguf   # 2^62 more
damaged 16 1 flipped.gguf    # number of keys
damaged 23 127 flipped.gguf  # 2^62 more
damaged 31 1 flipped.gguf    # length of the first key
architecture=$(after 'general.architecture')
damaged $((architecture + 12)) 109 "mlama"  # of another architecture
type=$(($(after 'blk.0.attn_q.weight') + 4 + 16))
damaged "$type" 12 'blk\.0\.attn_q\.weight'   # of a type that is not read
damaged "$type" 250 'blk\.0\.attn_q\.weight'  # of none
damaged "$type" 8 'flipped.gguf'              # of one that takes more bytes
damaged $((type - 16)) 1 'blk\.0\.attn_q\.weight'  # of another width
damaged $(($(after 'blk.0.attn_q.weight') - 8)) 46 'attn_q'  # renamed
# Any bit of the header: refused or read, never a crash. Every other one of the places below lies before the tensors'
# names.
names=$(after 'token_embd.weight')
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
  at=$((i % 2 ? i * 7919 % 60000 : names + i * 811 % 15000))
  before=$(byte $at)
  put $at $((before ^ (1 << i % 8)))
  run evaluate --model flipped.gguf --text sentence.txt
  [ "$code" = 0 ] || judge 'flipped\.gguf|the file may be damaged' "bit $((i % 8)) of byte $at"
  put $at "$before"
done
expect 'the file is whole again' cmp -s "$teacher" flipped.gguf
rm flipped.gguf
done_with models

# --- Text ------------------------------------------------------------------------------------------------------
written bad/empty.txt ''
written bad/zero.txt 'ab\0cd'
written bad/latin.txt 'caf\xe9 noir'
written bad/cut.txt 'abc\xe2\x82'
written bad/lines.jsonl '{"text": "x y z"}\n{"text": \n'
written bad/fields.jsonl '{"words": "x y z"}\n'
written bad/picture.png 'x'
mkdir bad/nothing
refused 'empty' evaluate --model "$teacher" --text bad/empty.txt
refused 'a zero at byte 2' evaluate --model "$teacher" --text bad/zero.txt
refused 'invalid UTF-8 at byte 3' evaluate --model "$teacher" --text bad/latin.txt
refused 'invalid UTF-8 at byte 3' evaluate --model "$teacher" --text bad/cut.txt
refused "lines.jsonl':2" evaluate --model "$teacher" --text bad/lines.jsonl
refused "fields.jsonl':1: got no \"text\"" evaluate --model "$teacher" --text bad/fields.jsonl
refused 'bad/nothing' evaluate --model "$teacher" --text bad/nothing
refused 'no-such.txt' evaluate --model "$teacher" --text no-such.txt
written bad/high.ids '504 1463\n282 49152\n'
written bad/low.ids '504 -1\n'
written bad/word.ids '504 x\n'
written bad/huge.ids '504 99999999999999999999\n'
written bad/short.ids '504\n\n1463\n'
refused "high.ids':2: got '49152'.*0 <= id < 49152" evaluate --model "$teacher" --ids bad/high.ids
refused "low.ids':1: got '-1'" evaluate --model "$teacher" --ids bad/low.ids
refused "word.ids':1: got 'x'" evaluate --model "$teacher" --ids bad/word.ids
refused "huge.ids':1: got '9+'" evaluate --model "$teacher" --ids bad/huge.ids
refused 'short.ids' evaluate --model "$teacher" --ids bad/short.ids
refused '0 tokens of prompt' generate --model "$teacher" --prompt ''
refused 'invalid UTF-8 at byte 3' study --teacher "$teacher" --text text bad/latin.txt "${small[@]}" --out runs/none
for program in study distill; do  # both numbers: what there is and what it takes
  refused 'text for [0-9]+ steps .*, expected text for [0-9]+ steps' \
    $program --teacher "$teacher" --text text "${small[@]:2}" --steps 1000 --out runs/none
done
refused 'validation|held out' study --teacher "$teacher" --text text --validation-documents 100000 --out runs/none
done_with text

# --- Settings --------------------------------------------------------------------------------------------------
for program in study distill; do  # refused before the teacher is looked for
  refused 'steps: got 0' $program --teacher no-such.gguf --text text --steps 0
  refused 'learning_rate: got -1' $program --teacher no-such.gguf --text text --lr -1
  refused 'learning_rate: got nan' $program --teacher no-such.gguf --text text --lr nan
  refused 'batch_tokens: got 1,' $program --teacher no-such.gguf --text text --batch-tokens 1
  refused 'temperature: got 0' $program --teacher no-such.gguf --text text --temperature 0
  refused 'beta2: got 1' $program --teacher no-such.gguf --text text --beta2 1
  refused 'skip_nonfinite: got -1' $program --teacher no-such.gguf --text text --skip-nonfinite -1
  refused 'every_steps: got -1' $program --teacher no-such.gguf --text text --checkpoint-every -1
  refused 'every_minutes: got nan' $program --teacher no-such.gguf --text text --checkpoint-minutes nan
  refused 'keep_last: got 0' $program --teacher no-such.gguf --text text --keep 0
done
expect 'bad settings: no folder is made' [ ! -e runs/study ]
for program in study distill evaluate generate; do
  misused 'required' $program
  run $program --help
  expect "$program --help" [ "$code" = 0 ]
done
for program in study distill; do
  misused 'no-such-flag' $program --teacher "$teacher" --text text --no-such-flag
  misused 'threads' $program --teacher "$teacher" --text text --threads -1
done
misused 'no-such-flag' evaluate --model "$teacher" --text text --no-such-flag
misused 'no-such-flag' generate --model "$teacher" --no-such-flag
misused 'placements.*nrom' study --teacher "$teacher" --text text --placements nrom
misused 'steps' study --teacher "$teacher" --text text --steps many
misused 'length' study --teacher "$teacher" --text text --length 1
misused 'ids.*text|text.*ids' evaluate --model "$teacher"
refused 'a document|micro|batch' study --teacher "$teacher" --text text "${small[@]}" --micro-tokens 20 --out runs/none
# Losses that pass what float holds: the update is refused, and the parameter named.
refused '(gradient|weight) of .*(layers\.[0-9]|head|norm)' study --teacher "$teacher" --text text "${small[@]}" \
  --alpha 1e38 --out runs/none --no-cache
expect 'no number: no cell, no table' [ "$(find runs/none -type f | sed 's,.*/,,')" = log.jsonl ]
done_with settings

# --- Shards ----------------------------------------------------------------------------------------------------
mkdir lines && awk '{gsub(/"/, ""); print "{\"id\": " NR ", \"words\": \"" $0 "\"}"}' text/*.txt | gzip >lines/all.jsonl.gz
prepare=(prepare --tokenizer "$teacher" --length 64 --shard-tokens 700)
run "${prepare[@]}" --text text --out shards
expect 'prepare: exit code 0' [ "$code" = 0 ]
expect 'prepare: one line of JSON' grep -qxE '\{"texts": 4, "empty": 0, "dropped": 0, "documents": [0-9]+, "tokens": [0-9]+, "shards": [2-9]\}' <<<"$printed"
expect 'prepare: it says that it is done' grep -q '^100.0%' <<<"$said"
first=$printed
run "${prepare[@]}" --text text --out shards
expect 'prepare again: the same line' [ "$printed" = "$first" ]
expect 'prepare again: nothing to do' grep -q 'nothing to do' <<<"$said"
run "${prepare[@]}" --text text --out shards1 --threads 1
expect 'prepare: whatever the number of threads' diff -r shards shards1
rm shards1/tokens-00001.safetensors shards1/tokens-0000[2-9].safetensors 2>/dev/null
refused 'no last one' evaluate --model "$teacher" --text shards1 --length 64 --cut windows
run "${prepare[@]}" --text text --out shards1
expect 'prepare: it goes on' grep -q '1 shards were there' <<<"$said"
expect 'prepare: to the same bytes' diff -r shards shards1
run evaluate --model "$teacher" --text text --length 64 --cut windows
from_text=$printed
run evaluate --model "$teacher" --text shards --length 64 --cut windows
expect 'evaluate from shards: exit code 0' [ "$code" = 0 ]
expect 'evaluate from shards: what the text gives' [ "$printed" = "$from_text" ]
run distill --teacher "$teacher" --text shards "${small[@]}" --out runs/sharded
expect 'distill from shards: exit code 0' [ "$code" = 0 ]
run "${prepare[@]}" --text lines --field words --out lined
expect 'prepare from packed lines' grep -q '"texts": 240, ' <<<"$printed"
refused "all.jsonl.gz':1: got no \"text\"" "${prepare[@]}" --text lines --out none
refused 'cut as .windows. at 64' evaluate --model "$teacher" --text shards --length 32 --cut windows
refused 'length .64., expected .32.' prepare --tokenizer "$teacher" --text text --length 32 --shard-tokens 700 --out shards
refused 'field .text., expected .words.' "${prepare[@]}" --text text --field words --out shards
refused 'shards of other text .4 files' "${prepare[@]}" --text text/1.txt --out shards
refused 'no-such.txt' "${prepare[@]}" --text no-such.txt --out none
refused 'no-such.gguf' prepare --tokenizer no-such.gguf --text text --out none
refused "tokenizer.json'" prepare --tokenizer text --text text --out none
head -c 300 lines/all.jsonl.gz >lines/cut.jsonl.gz
refused "cut.jsonl.gz': got a packed file that is cut short" "${prepare[@]}" --text lines/cut.jsonl.gz --field words --out none
head -c 2000 shards/tokens-00000.safetensors >shards1/tokens-00000.safetensors
refused 'tokens-00000' evaluate --model "$teacher" --text shards1 --length 64 --cut windows
misused 'required' prepare
misused 'length' prepare --tokenizer "$teacher" --text text --length 1
done_with shards

# --- Places ----------------------------------------------------------------------------------------------------
written taken 'x'
refused "taken" study --teacher "$teacher" --text text --out taken
refused "taken" distill --teacher "$teacher" --text text --out taken
refused "taken/below" study --teacher "$teacher" --text text --out taken/below
refused "/proc/" study --teacher "$teacher" --text text --out /proc/accrete
refused "taken" study --teacher "$teacher" --text text "${small[@]}" --out runs/none --cache taken
refused "/proc/" distill --teacher "$teacher" --text text "${small[@]}" --out runs/none --cache /proc/accrete
expect 'a file in the place of a folder stays' [ "$(<taken)" = x ]
if [ "$(id -u)" != 0 ]; then
  mkdir locked && chmod a-w locked
  refused "locked" study --teacher "$teacher" --text text --out locked
fi

# A full disk: no file may grow past so many KiB. What is said comes through a pipe.
in_little_room() {
  local kib=$1 program=$2
  shift 2
  said=$( (trap '' XFSZ && ulimit -f "$kib" && exec "$programs/$program" "$@" 3>&1 >/dev/null 2>&3) | tr '\r' '\n'
    exit "${PIPESTATUS[0]}")
  code=$? printed=''
}
one=("${small[@]}" --placements pre --schedules joint)
in_little_room 0 study --teacher "$teacher" --text text "${one[@]}" --out runs/full
judge 'File too large' 'study on a full disk'
in_little_room 64 study --teacher "$teacher" --text text "${one[@]}" --out runs/full --cache fresh
judge 'File too large' 'the teacher cache on a full disk'
expect 'the teacher cache on a full disk: nothing stays' [ -z "$(find fresh -type f 2>/dev/null)" ]
in_little_room 1 study --teacher "$teacher" --text text "${one[@]}" --out runs/full
judge 'File too large' 'the log on a full disk'
expect 'the log on a full disk: whole lines' [ "$(grep -cv '^{.*}$' runs/full/log.jsonl)" = 0 ]
run study --teacher "$teacher" --text text "${one[@]}" --out runs/full
expect 'when there is room again: exit code 0' [ "$code" = 0 ]
printed='' said=$("$programs/evaluate" --model "$teacher" --text sentence.txt 2>&1 >/dev/full)
code=$?
judge 'No space left' 'evaluate into a full pipe'
done_with places

if [ $faults = 0 ]; then echo "$checks checks passed"; else echo "$faults of $checks checks failed" >&2; fi
exit $((faults > 0))
