#!/usr/bin/env bash
# Translates and scores test sets with a model, and keeps all that is small of its run in benches/results/NAME.
#   benches/recipes/results.sh NAME MODEL LOG [SET SRC REF]... [-- FLAG...]
# LOG is what `tx train` printed; FLAGs are those of `tx evaluate`. SET.txt holds the scores, SET.hyp the translations.
set -euo pipefail
root="$(cd "$(dirname "$0")/../.." && pwd)"
tx=$root/target/release/tx
out=$root/benches/results/$1 model=$2 log=$3
shift 3
sets=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  sets+=("$1" "$2" "$3")
  shift 3
done
flags=("${@:2}")
mkdir -p "$out"
# Without the sentences that a validation shows: the text is not ours.
grep -v '^  \(src\|ref\|hyp\) ' "$log" > "$out/train.log"
sed 's/,"samples":.*/}/' "$model/validations.jsonl" > "$out/validations.jsonl"
cp "$model/config.json" "$out"
for ((i = 0; i < ${#sets[@]}; i += 3)); do
  name=${sets[i]}
  "$tx" evaluate "${sets[@]:i+1:2}" --model "$model" --output "$out/$name.hyp" --worst 0 "${flags[@]}" > "$out/$name.txt"
  printf '%s\n' "$name:"
  cat "$out/$name.txt"
done
