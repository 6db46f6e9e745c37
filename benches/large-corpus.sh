#!/usr/bin/env bash
# How much memory and time a corpus that is larger than memory takes: N pairs (default: ten million) of made-up
# sentences, a tiny model, a few steps. Needs GNU time; the corpus goes to a temporary folder and away again.
#   benches/large-corpus.sh [N] [flags of tx train]
set -euo pipefail
pairs=${1:-10000000}; shift || true
tx="$(cd "$(dirname "$0")/.." && pwd)/target/release/tx"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/data"
awk -v pairs="$pairs" -v dir="$folder/data" 'BEGIN {
  srand(1)
  for (i = 0; i < 50000; i++) { n = 2 + int(rand() * 7); w = ""; for (j = 0; j < n; j++) w = w sprintf("%c", 97 + int(26 * rand() * rand())); word[i] = w }
  for (split_ = 0; split_ < 2; split_++) {
    name = split_ ? "dev" : "train"; count = split_ ? 1000 : pairs
    for (i = 0; i < count; i++) {
      n = 3 + int(rand() * 8); s = t = ""
      for (j = 0; j < n; j++) { k = int(50000 * rand() * rand()); s = s (j ? " " : "") word[k]; t = word[(k * 7) % 50000] (j ? " " : "") t }
      print s > (dir "/" name ".en"); print t > (dir "/" name ".de")
    }
  }
}'
ls -l "$folder/data"
common=(--preset tiny --layers 1 --d-model 64 --heads 2 --ff 128 --batch-tokens 2048 --valid-every 1000000 --threads 2)
start=$(date +%s)
/usr/bin/time -f 'peak %M KiB, %e s' "$tx" train "$folder/data" --out "$folder/model" "${common[@]}" --max-steps 5 "$@"
echo "whole run: $(($(date +%s) - start)) s"
du -h "$folder"/model/train/cache/*
/usr/bin/time -f 'resumed: peak %M KiB, %e s' "$tx" train "$folder/data" --out "$folder/model" "${common[@]}" --max-steps 10 --resume "$@"
