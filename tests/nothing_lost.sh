#!/usr/bin/env bash
# A run of `distill` with the real teacher that is killed, stopped, disturbed and short of disk, against one that is left
# alone: the records must be the same, number by number. usage: nothing_lost.sh PROGRAMS_FOLDER
set -u
programs=$(cd "$1" && pwd) || exit 1
cache=${ACCRETE_CACHE:-$HOME/.cache/accrete}
teacher=$cache/SmolLM2-135M-Instruct.Q4_1.gguf
export OMP_WAIT_POLICY=passive
if [ ! -f "$teacher" ]; then
  echo "nothing_lost: got no file at $teacher, expected the teacher (run examples/fetch.sh teacher, or set ACCRETE_CACHE)" >&2
  exit 1
fi
work=$(mktemp -d) || exit 1
mounted=
trap '[ -z "$mounted" ] || umount "$work/disk"; rm -rf "$work"' EXIT
cd "$work" || exit 1
faults=0 checks=0
expect() {  # expect WHAT COMMAND...: the command must succeed
  local what=$1
  shift
  checks=$((checks + 1))
  "$@" && return
  faults=$((faults + 1))
  printf 'FAILED: %s\n' "$what"
  tr '\r' '\n' <said | tail -n 5 | sed 's/^/  said: /'
}

mkdir text
awk 'BEGIN {
  n = split("the a river engine slowly carries turns old water under bridge and of in stone mill every morning", w, " ")
  for (f = 1; f <= 4; ++f) for (s = 0; s < 60; ++s) {
    line = ""
    for (i = 0; i < 9; ++i) { r = (r * 1103515245 + 12345) % 2147483648; line = line (i ? " " : "") w[1 + r % n] }
    print line "." > ("text/" f ".txt")
  }
}'
run=(--teacher "$teacher" --text text --steps 4 --batch-tokens 96 --validation-documents 4 --length 48
  --evaluate-every 3 --threads 2 --cache states --checkpoint-minutes 0)
start() {  # start OUT ARGUMENTS...: in the background, as `process`
  local out=$1
  shift
  "$programs/distill" "${run[@]}" --out "$out" "$@" >/dev/null 2>said &
  process=$!
}
ended() { wait "$process" 2>/dev/null; code=$?; }
steps() { grep -c '"kind":"step"' "$1/log.jsonl" 2>/dev/null; }
until_steps() {  # until_steps OUT COUNT: its log has so many updates, or it has ended
  while [ "$(steps "$1" || true)" -lt "$2" ] 2>/dev/null || [ ! -f "$1/log.jsonl" ]; do
    kill -0 "$process" 2>/dev/null || return
    sleep 0.05
  done
}
records() { sed 's/,"seconds":[^,]*//' "$1"/*_seed42.jsonl; }

start whole
ended
expect 'a run that is left alone: exit code 0' [ "$code" = 0 ]
expect 'a run that is left alone: its records' [ "$(records whole | wc -l)" = 18 ]

# --- Killed -----------------------------------------------------------------------------------------------------
seen=0
for kill in 1 2 3 4; do
  start run --checkpoint-every 2
  until_steps run $((seen + 1 + kill % 2))
  sleep "0.$((RANDOM % 900 + 100))"
  kill -9 "$process"
  ended
  seen=$(steps run)
  expect "kill $kill: no checkpoint but whole ones" [ "$(find run -name '*.damaged' | wc -l)" = 0 ]
done

# --- Disturbed, then stopped --------------------------------------------------------------------------------------
start run --checkpoint-every 2
until_steps run $((seen + 1))
first=$process
"$programs/distill" "${run[@]}" --out run >/dev/null 2>second
expect 'a second process: exit code 1' [ $? = 1 ]
expect 'a second process: one line' [ "$(wc -l <second)" = 1 ]
expect 'a second process: it is told who has the folder' grep -q "^folder 'run': got 'process $first on " second
begun=$(date +%s)
kill -TERM "$process"
ended
if [ "$code" != 0 ]; then  # it may have been through by then
  expect 'SIGTERM: exit code 143' [ "$code" = 143 ]
  expect 'SIGTERM: it says how to go on' grep -q 'stopped after step [0-9]*: the same command goes on from there' said
fi
expect 'SIGTERM: in time' [ $(($(date +%s) - begun)) -lt 30 ]

# --- Gone on ------------------------------------------------------------------------------------------------------
start run --resume must
ended
expect 'going on: exit code 0' [ "$code" = 0 ]
expect 'going on: it says from where' grep -qa 'going on after step' said
expect 'going on: the records of the run that was left alone' [ "$(records run)" = "$(records whole)" ]
expect 'going on: whole lines in the log' [ "$(grep -cv '^{.*}$' run/log.jsonl)" = 0 ]
expect 'going on: six attempts' [ "$(grep -c '"kind":"begin"' run/log.jsonl)" = 6 ]
expect 'going on: nothing half-written' [ -z "$(find run -name '*.tmp*' -o -name .probe -o -name .lock)" ]
expect 'going on: the last two and the best' [ "$(find run/checkpoints -type f | wc -l)" -le 3 ]

# --- Changed, missing, damaged ------------------------------------------------------------------------------------
start run --lr 1e-3
ended
expect 'another learning rate: exit code 1' [ "$code" = 1 ]
expect 'another learning rate: named' grep -qa "got peak_learning_rate '0.001', expected '0.0002' as it began" said
start none --resume must
ended
expect 'nothing to go on with: exit code 1' [ "$code" = 1 ]
expect 'nothing to go on with: said' grep -qa 'got none, expected one to go on from' said
last=$(find run/checkpoints -name 'step-*' | sort | tail -n 1)
truncate -s 1000 "$last"
start run
ended
expect 'a damaged checkpoint: exit code 0' [ "$code" = 0 ]
expect 'a damaged checkpoint: named' grep -qa "'$last'.*looking for an older one" said
expect 'a damaged checkpoint: the same records' [ "$(records run)" = "$(records whole)" ]

# --- No room ------------------------------------------------------------------------------------------------------
mkdir disk
if mount -t tmpfs -o size=400m tmpfs disk 2>/dev/null; then
  mounted=yes
  start disk/run
  ended
  expect 'a disk too small: exit code 1' [ "$code" = 1 ]
  expect 'a disk too small: said before the first update' grep -qa 'bytes free, expected [0-9]* bytes for a checkpoint' said
  expect 'a disk too small: no update' [ "$(steps disk/run)" = 0 ]
else
  echo 'no tmpfs may be mounted here: the unit tests try a full disk in another way'
fi

if [ $faults = 0 ]; then echo "$checks checks passed"; else echo "$faults of $checks checks failed" >&2; fi
exit $((faults > 0))
