#!/usr/bin/env bash
# What single settings of `tx train` are worth: runs of equal time, each with one flag changed, and tables of their scores.
#   benches/settings.sh DATA MINUTES OUT [NAME...]
# DATA has a dev and a test set. A run that is done is not run again; of the runs below, only those of NAME if any are given.
set -euo pipefail
data=$1 minutes=$2 out=$3
shift 3
names=("$@")
tx="$(cd "$(dirname "$0")/.." && pwd)/target/release/tx"
mkdir -p "$out"

# name, flags
runs='default
dropout-0     --dropout 0
dropout-0.2   --dropout 0.2
dropout-0.3   --dropout 0.3
vocab-4000    --vocab-size 4000
vocab-16000   --vocab-size 16000
bpe-dropout   --sample-tokens 0.1
batch-1024    --batch-tokens 1024
batch-2048    --batch-tokens 2048
warmup-500    --warmup 500
warmup-2000   --warmup 2000
smoothing-0   --label-smoothing 0
ema           --ema 0.999
small         --preset small
tiny          --preset tiny'

# wanted NAME, of those that were given
wanted() { [ ${#names[@]} -eq 0 ] || [[ " ${names[*]} " == *" $1 "* ]]; }
# score METRIC, of the first signature of it on stdin
score() { grep -m1 "$1|" | sed 's/^[^=]*= \([0-9.]*\).*/\1/'; }
# field RUN NAME: the first of that name, which for numbers of dev is that of the model
field() { grep -m1 -o "\"$2\": *[^,]*" "$out/$1/config.json" | sed 's/.*: *//; s/"//g'; }
# dev LANGUAGE
dev() { find "$data" -maxdepth 1 \( -name "dev*.$1*" -o -name "val*.$1*" \) | sort | head -n 1; }

printf '| run | steps | weights | dev NLL | test BLEU | test chrF |\n|---|---|---|---|---|---|\n'
while read -r name flags; do
  wanted "$name" || continue
  log=$out/$name.log
  if ! grep -qs '^test.*chrF2' "$log"; then
    rm -rf "${out:?}/$name"
    # shellcheck disable=SC2086
    "$tx" train "$data" --out "$out/$name" --max-time "${minutes}m" --patience 0 --max-steps 1000000 $flags > "$log" 2>&1
  fi
  tests=$(grep '^test: ' "$log")
  printf '| %s | %s | %s | %.3f | %s | %s |\n' "$name" "$(wc -l < "$out/$name/train.jsonl")" \
    "$(field "$name" weights)" "$(field "$name" nll)" "$(score BLEU <<< "$tests")" "$(score chrF2 <<< "$tests")"
done <<< "$runs"

# What the search makes of the model of the first run.
wanted default || exit 0
src=$(dev "$(field default src_lang)") tgt=$(dev "$(field default tgt_lang)")
printf '\n| beam | penalty | dev BLEU | dev chrF |\n|---|---|---|---|\n'
for search in 1:gnmt:0.6 4:none 4:gnmt:0.3 4:gnmt:0.6 4:gnmt:1.0 4:pow:0.6 4:pow:1.0 8:gnmt:0.6; do
  beam=${search%%:*} penalty=${search#*:}
  scores=$("$tx" evaluate "$src" "$tgt" --model "$out/default" --beam "$beam" --length-penalty "$penalty" --worst 0 2> /dev/null)
  printf '| %s | %s | %s | %s |\n' "$beam" "$penalty" "$(score BLEU <<< "$scores")" "$(score chrF2 <<< "$scores")"
done
