#!/usr/bin/env bash
# What single settings of `tx train` are worth: runs of equal time, each with one flag changed, and a table of their scores.
#   benches/settings.sh DATA MINUTES OUT [NAME...]
# DATA has a test set. A run that is done is not run again; of the runs below, only those of NAME if any are given.
set -euo pipefail
data=$1 minutes=$2 out=$3
shift 3
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
batch-2048    --batch-tokens 2048
warmup-500    --warmup 500
warmup-2000   --warmup 2000
ema           --ema 0.999'
printf '| run | steps | dev NLL | test BLEU | test chrF |\n|---|---|---|---|---|\n'
while read -r name flags; do
  if [ $# -gt 0 ] && [[ " $* " != *" $name "* ]]; then continue; fi
  log=$out/$name.log
  if ! grep -qs '^test.*chrF2' "$log"; then
    rm -rf "${out:?}/$name"
    # shellcheck disable=SC2086
    "$tx" train "$data" --out "$out/$name" --max-time "${minutes}m" --patience 0 --max-steps 1000000 $flags > "$log" 2>&1
  fi
  score() { grep -m1 "^test.*$1" "$log" | sed 's/^[^=]*= \([0-9.]*\).*/\1/'; }
  nll=$(grep -o '"nll": *[0-9.]*' "$out/$name/config.json" | head -1 | sed 's/.*: *//')
  steps=$(wc -l < "$out/$name/train.jsonl")
  printf '| %s | %s | %.3f | %s | %s |\n' "$name" "$steps" "$nll" "$(score BLEU)" "$(score chrF2)"
done <<< "$runs"
