#!/usr/bin/env bash
# Stands before rustc, for the crates that read what others wrote: the flags that cargo-fuzz passes, without a sanitizer.
set -euo pipefail
flags=(-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
  -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing)
case " $* " in
  *" --crate-name tx "* | *" --crate-name tokenizers "* | *" --crate-name safetensors "* | *" --crate-name serde_json "* | *" --crate-name saphyr_parser "*)
    exec "$@" "${flags[@]}" ;;
  *) exec "$@" ;;
esac
