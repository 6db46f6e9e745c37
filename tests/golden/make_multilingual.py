#!/usr/bin/env python3
"""Writes the folder multilingual/ beside this file: a model of OPUS-MT's form, one as its original releases are (Marian's
own files), and one of M2M100's form, with random weights, each with SentencePiece models for its text, and what `transformers`
translates with them (multilingual.json).

    make_multilingual.py        (transformers 5.24, sentencepiece 0.2.3, PyYAML; after make_sentencepiece.py)
"""
import copy, gzip, json, os, shutil

import torch, yaml
from transformers import (M2M100Config, M2M100ForConditionalGeneration, M2M100Tokenizer, MarianConfig, MarianMTModel,
                          MarianTokenizer)
from make_families import save_npz, t2t_positions

here = os.path.dirname(os.path.abspath(__file__))
out = os.path.join(here, "multilingual")
shutil.rmtree(out, ignore_errors=True)
spm = lambda name: gzip.open(os.path.join(here, "sentencepiece", name + ".gz")).read()
SIZE = dict(d_model=16, encoder_ffn_dim=24, decoder_ffn_dim=24, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
            decoder_attention_heads=2, max_position_embeddings=64, scale_embedding=True)
LINES = ["The dog sees the small house.", "Tom is here. Tom  is Tom.", "A cat sees the old house, and the dog is here."]


def write(folder, name, content):
    os.makedirs(os.path.join(out, folder), exist_ok=True)
    mode = "wb" if isinstance(content, bytes) else "w"
    with open(os.path.join(out, folder, name), mode) as f:
        f.write(content)


def randomized(model, seed):
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            if "embed_positions" not in name:
                p.copy_(torch.randn(p.shape) * (0.9 if p.dim() > 1 else 0.2) + name.endswith("norm.weight"))
    return model.eval()


def translated(model, tokenizer, line, **more):
    batch = tokenizer([line], return_tensors="pt")
    found = model.generate(**batch, max_length=20, do_sample=False, early_stopping="never", length_penalty=1.0, num_beams=3,
                           forced_eos_token_id=None, **more)[0]
    ids = found[1:].tolist()
    ids = ids[: ids.index(model.config.eos_token_id) + 1] if model.config.eos_token_id in ids else ids
    return dict(line=line, src=batch["input_ids"][0].tolist(), ids=ids, text=tokenizer.decode(ids, skip_special_tokens=True))


cases = []
# OPUS-MT with several target languages.
for name in ("source.spm", "target.spm"):
    write("opus", name, spm(name))
vocab = open(os.path.join(here, "sentencepiece", "languages.vocab.json")).read()
write("opus", "vocab.json", vocab)
n = len(json.loads(vocab))
config = MarianConfig(vocab_size=n, decoder_vocab_size=n, pad_token_id=n - 1, eos_token_id=0, bos_token_id=0,
                      decoder_start_token_id=n - 1, forced_eos_token_id=0, activation_function="swish", **SIZE)
model = randomized(MarianMTModel(config), 5)
model.generation_config.bad_words_ids = [[n - 1]]
model.save_pretrained(os.path.join(out, "opus"))
released = copy.deepcopy(model)
folder = os.path.join(out, "opus")
tokenizer = MarianTokenizer(*[os.path.join(folder, f) for f in ("source.spm", "target.spm", "vocab.json")], split_special_tokens=True)
for to in ("de", "fr"):
    for line in LINES:
        case = translated(model, tokenizer, f">>{to}<< {line}", bad_words_ids=[[n - 1], [1]])
        cases.append(dict(case, model="opus", to=to, line=line))

# A release of OPUS-MT. Marian has no padding: its embedding is zero and it is never said.
folder = os.path.join(out, "opus-release")
with torch.no_grad():
    released.model.shared.weight[n - 1] = 0
    released.final_logits_bias[0, n - 1] = -1e4
for side in (released.model.encoder, released.model.decoder):
    side.embed_positions.weight.data = t2t_positions(SIZE["max_position_embeddings"], SIZE["d_model"]).float()
save_npz(folder, released, n - 1)
for name in ("source.spm", "target.spm"):
    write("opus-release", name, spm(name))
write("opus-release", "vocab.yml", yaml.dump({p: i for p, i in json.loads(vocab).items() if p != "<pad>"}, allow_unicode=True))
for line in LINES:
    case = translated(released, tokenizer, f">>fr<< {line}", bad_words_ids=[[n - 1], [1]])
    cases.append(dict(case, model="opus-release", to="fr", line=line))

# M2M100: the ids of the languages follow those of the pieces.
pieces = [p for p in json.loads(vocab) if p not in ("<s>", "<pad>", "</s>", "<unk>", ">>de<<", ">>fr<<")]
ids = {p: i for i, p in enumerate(["<s>", "<pad>", "</s>", "<unk>"] + pieces)}
write("m2m100", "vocab.json", json.dumps(ids, ensure_ascii=False))
write("m2m100", "sentencepiece.bpe.model", spm("source.spm"))
folder = os.path.join(out, "m2m100")
tokenizer = M2M100Tokenizer(os.path.join(folder, "vocab.json"), os.path.join(folder, "sentencepiece.bpe.model"))
listed = [f"__{code}__" for code in tokenizer.lang_code_to_token]
assert [tokenizer.convert_tokens_to_ids(t) for t in listed] == list(range(len(ids), len(ids) + len(listed)))
write("m2m100", "special_tokens_map.json", json.dumps(dict(additional_special_tokens=listed)))
config = M2M100Config(vocab_size=len(ids) + len(listed) + 8, encoder_layerdrop=0, decoder_layerdrop=0, **SIZE)
model = randomized(M2M100ForConditionalGeneration(config), 6)
model.save_pretrained(folder)
for source, to in (("en", "ko"), ("de", "fr")):
    for line in LINES:
        tokenizer.src_lang = source
        case = translated(model, tokenizer, line, forced_bos_token_id=tokenizer.get_lang_id(to), suppress_tokens=[1, 3])
        # `decode` of transformers shows the language, and marks of pieces that are the other side's.
        said = tokenizer.convert_ids_to_tokens([i for i in case["ids"] if 3 < i < len(ids)])
        cases.append(dict(case, text="".join(said).replace("▁", " ").strip(), model="m2m100", source=source, to=to))
with open(os.path.join(here, "multilingual.json"), "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases) + "\n]\n")
