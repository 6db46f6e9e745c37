#!/usr/bin/env bash
# Fuzzes one reader: run.sh TARGET SECONDS. The targets are the files in fuzz_targets/, the seeds the goldens; what is found lies in
# artifacts/TARGET, and `run.sh TARGET FILE` tries one input again. It needs a C++ compiler, but neither cargo-fuzz nor a nightly Rust.
set -euo pipefail
target=${1:?usage: run.sh TARGET SECONDS, or run.sh TARGET FILE}
what=${2:?usage: run.sh TARGET SECONDS, or run.sh TARGET FILE}
if [ -f "$what" ]; then what=$(realpath "$what"); fi
cd "$(dirname "$0")"

RUSTC_WRAPPER=$PWD/rustc.sh cargo build --release --bin "$target"
run=target/release/$target

# One thread; small files that are written for each input stay in memory where there is such a place.
export RAYON_NUM_THREADS=1
if [ -d /dev/shm ]; then export TMPDIR=/dev/shm; fi
TMPDIR=$(mktemp -d) && export TMPDIR && trap 'rm -r "$TMPDIR"' EXIT
if [ -f "$what" ]; then
  "$run" "$what"
  exit
fi

golden=../golden corpus=corpus/$target
mkdir -p "$corpus" "artifacts/$target"
seed() { for file in "$@"; do cp "$file" "$corpus/$(echo "${file#"$golden"/}" | tr / -)"; done; }
case $target in
  safetensors) seed "$golden"/*/model.safetensors "$golden"/*/*/model.safetensors ;;
  pickle) seed "$golden"/families/*/pytorch_model.bin ;;
  npz) seed "$golden"/families/*/model.npz ;;
  tokenizer) seed "$golden"/*/tokenizer.json "$golden"/families/*/tokenizer.json ;;
  sentencepiece)
    seed "$golden"/multilingual/*/{*.spm,*.model,vocab.json} "$golden"/sentencepiece/*.vocab.json
    for file in "$golden"/sentencepiece/*.gz; do gunzip -c "$file" > "$corpus/$(basename "$file" .gz)"; done ;;
  config)
    for folder in "$golden"/{families,multilingual}/*/; do
      if [ -f "$folder/config.json" ]; then
        { cat "$folder/config.json"; printf '\0'; cat "$folder/generation_config.json"; } > "$corpus/$(basename "$folder")"
      fi
    done ;;
esac
# The targets have a limit of memory of their own. Time is that of the clock: on a busy machine try again what was slow.
"$run" "$corpus" -artifact_prefix="artifacts/$target/" -max_total_time="$what" -timeout=60 -report_slow_units=5 \
  -rss_limit_mb=0 -dict="dictionary.txt" -print_final_stats=1
