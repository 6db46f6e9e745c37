#!/usr/bin/env python3
"""Makes inspection.json and inspection.safetensors: the attention that `transformers` gives for translations of tiny-marian.

    python make_inspection.py [OUT_DIR]        # default: the directory of this file

Computed in float64 from float32 weights, stored as float32; see make_golden.py.
"""
import json, os, sys

import torch, transformers
from safetensors.torch import save_file
from transformers import AutoTokenizer, MarianMTModel

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = sys.argv[1] if len(sys.argv) > 1 else HERE
TINY, BOS = os.path.join(HERE, "tiny-marian"), 2
MADE_BY = dict(made_by="make_inspection.py", torch=str(torch.__version__), transformers=str(transformers.__version__))
# Flags of `tx inspect-attention`, the source, and what says which translation is looked at.
CASES = [
    (["--beam", "1", "--max-length", "20"], "we see the sea", dict(num_beams=1)),
    (["--like", "hf", "--beam", "3", "--max-length", "20"], "hello, world!", dict(num_beams=3)),
    (["--beam", "1", "--max-length", "20", "--prefix", "we"], "a cat sat.", dict(num_beams=1, prefix="we")),
    (["--target", "a cat sat."], "über alles, straße?", dict(target="a cat sat.")),
    (["--target", "ja"], "ja", dict(target="ja")),
]

torch.set_num_threads(1)
transformers.logging.set_verbosity_error(), transformers.logging.disable_progress_bar()
model = MarianMTModel.from_pretrained(TINY, attn_implementation="eager").eval().double()
tok = AutoTokenizer.from_pretrained(TINY)
rows, tensors = [], {}
with torch.no_grad():
    for at, (flags, text, how) in enumerate(CASES):
        src = torch.tensor([tok(text).input_ids])
        if "target" in how:
            ids = tok(how["target"]).input_ids
        else:
            start = torch.tensor([[BOS] + tok(how["prefix"]).input_ids[:-1] if "prefix" in how else [BOS]])
            ids = model.generate(src, decoder_input_ids=start, num_beams=how["num_beams"], max_length=21)[0, 1:].tolist()
        out = model(input_ids=src, decoder_input_ids=torch.tensor([[BOS] + ids[:-1]]), output_attentions=True)
        pieces = lambda ids: tok.convert_ids_to_tokens(ids)
        rows.append(dict(flags=flags, text=text, src_tokens=pieces(src[0].tolist()), tgt_in=pieces([BOS] + ids[:-1]), tgt_out=pieces(ids)))
        for name in ("encoder", "decoder", "cross"):
            kind = name if name == "cross" else name + "_self"
            tensors[f"{at}.{kind}"] = torch.cat(list(out[name + "_attentions"])).float().contiguous()
save_file(tensors, os.path.join(OUT, "inspection.safetensors"), metadata={"made_by": json.dumps(MADE_BY)})
body = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in rows)
open(os.path.join(OUT, "inspection.json"), "w", encoding="utf-8").write(f'{{\n "metadata": {json.dumps(MADE_BY)},\n "cases": [\n  {body}\n ]\n}}\n')
