#!/usr/bin/env python3
"""What `transformers` generates under the rules of decoding: writes decoding.json beside this file.

    make_decoding.py        (transformers 5.24, torch 2.15)

The model is tiny-marian, whose weights are random. `early_stopping="never"` is the stop rule of tx, False that of `--like hf`, and `suppress_tokens` bans
<pad>, <unk> and <s> as tx does.
"""
import json, os, random

import torch
from transformers import MarianMTModel

here = os.path.dirname(os.path.abspath(__file__))
model = MarianMTModel.from_pretrained(os.path.join(here, "tiny-marian")).eval()
vocab = model.config.vocab_size
random.seed(4)
sources = [[random.randrange(4, vocab) for _ in range(n)] + [3] for n in (1, 3, 6, 9, 14)]
rules = [
    dict(beam=1, no_repeat_ngram=2),
    dict(beam=1, no_repeat_ngram=1, min_length=9),
    dict(beam=4, alpha=1.0, repetition_penalty=1.5),
    dict(beam=4, alpha=1.0, repetition_penalty=0.8, no_repeat_ngram=3),
    dict(beam=3, alpha=0.6, repetition_penalty=1.2, no_repeat_ngram=2, min_length=6),
    dict(beam=4, alpha=0.0, prefix=[5, 9, 7]),
    dict(beam=1, prefix=[8, 8], no_repeat_ngram=2),
    dict(beam=4, alpha=1.0, like="hf"),
    dict(beam=3, alpha=0.6, like="hf"),
    dict(beam=5, alpha=1.0, like="hf", no_repeat_ngram=2),
]
cases = []
with torch.no_grad():
    for rule in rules:
        for src in sources:
            start = [2] + rule.get("prefix", [])
            more = dict(early_stopping=rule.get("like") != "hf" and "never", length_penalty=rule["alpha"]) if rule["beam"] > 1 else {}
            out = model.generate(
                input_ids=torch.tensor([src]), attention_mask=torch.ones(1, len(src), dtype=torch.long),
                decoder_input_ids=torch.tensor([start]), num_beams=rule["beam"], do_sample=False, max_length=21,
                min_new_tokens=max(rule.get("min_length", 1) - 1, 0) or None,
                no_repeat_ngram_size=rule.get("no_repeat_ngram", 0) or None,
                repetition_penalty=rule.get("repetition_penalty", 1.0), suppress_tokens=[0, 1, 2],
                forced_eos_token_id=None, **more)
            ids = out[0, 1:].tolist()
            ids = ids[: ids.index(3) + 1] if 3 in ids else ids
            cases.append(dict(src=src, ids=ids, **rule))
with open(os.path.join(here, "decoding.json"), "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
