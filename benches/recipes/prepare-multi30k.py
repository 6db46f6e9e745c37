#!/usr/bin/env python3
"""Multi30k as the published results have it: lower-cased, punctuation normalised, tokenized as Moses does (pip install sacremoses).

    prepare-multi30k.py RAW PREPARED

RAW is data/task1/raw of github.com/multi30k/dataset. The lines are those of its data/task1/tok.
"""
import gzip
import sys
from pathlib import Path

from sacremoses import MosesPunctNormalizer, MosesTokenizer

NAMES = {
    "train": "train",
    "val": "dev",
    "test_2016_flickr": "test",
    "test_2017_flickr": "flickr-2017",
    "test_2017_mscoco": "mscoco-2017",
}

raw, prepared = map(Path, sys.argv[1:])
prepared.mkdir(parents=True, exist_ok=True)
for lang in ["en", "de"]:
    normalizer, tokenizer = MosesPunctNormalizer(lang), MosesTokenizer(lang)
    for old, new in NAMES.items():
        with (
            gzip.open(raw / f"{old}.{lang}.gz", "rt", encoding="utf-8", newline="\n") as src,
            open(prepared / f"{new}.{lang}", "w", encoding="utf-8", newline="\n") as out,
        ):
            for line in src:
                line = normalizer.normalize(line.rstrip("\n").lower())
                out.write(tokenizer.tokenize(line, return_str=True) + "\n")
