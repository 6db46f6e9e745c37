#!/usr/bin/env python3
"""Makes families/, families.json and families.safetensors: tiny models of every family that `tx` opens, with numbers of
`transformers` for them.

    python make_families.py [OUT_DIR]      # default: the directory of this file

Random weights, fitted a little to random targets as in make_golden.py, from which the helpers come.  Computed in float64 from
the stored weights.  A `.npz` of Marian is made from a Hugging Face model by the reverse of what transformers 4's
`convert_marian_to_pytorch` did, with the position table of Marian's own code in place of Hugging Face's.
"""
import json, os, random, shutil, sys

import numpy as np, torch, transformers
import make_golden as golden
from make_golden import blank, fill, forward, make_tokenizer, train, trained, write_json, write_tensors
from transformers import (M2M100Config, M2M100ForConditionalGeneration, MarianConfig, MarianMTModel, PegasusConfig,
                          PegasusForConditionalGeneration)

OUT = golden.OUT
FAMILIES = os.path.join(OUT, "families")
SIZE = dict(d_model=16, encoder_ffn_dim=24, decoder_ffn_dim=20, encoder_layers=2, decoder_layers=1, encoder_attention_heads=2,
            decoder_attention_heads=4, max_position_embeddings=40, dropout=0.0, attention_dropout=0.0, scale_embedding=True,
            attn_implementation="eager")

def t2t_positions(n, d):
    """tensor2tensor and Marian: sin block, cos block, frequencies 10000^-(i/(d/2-1))."""
    angle = torch.arange(n)[:, None] / 10000 ** (torch.arange(d // 2, dtype=torch.float64) / (d // 2 - 1))
    return torch.cat([angle.sin(), angle.cos()], 1)

def tokenizer(vocab, ids):
    """The characters of make_golden.py with the special tokens at other ids, and names for what is left."""
    tok = json.loads(make_tokenizer().to_str())
    plain = [p for p, i in sorted(tok["model"]["vocab"].items(), key=lambda x: x[1]) if i > 3]
    plain += [f"<{i}>" for i in range(vocab - 4 - len(plain))]
    places = {i: p for p, i in ids.items()}
    pieces = [places.get(i) or plain.pop(0) for i in range(vocab)]
    tok["model"]["vocab"] = {p: i for i, p in enumerate(pieces)}
    for token in tok["added_tokens"]:
        token["id"] = ids[token["content"]]
    tok["added_tokens"].sort(key=lambda t: t["id"])
    tok["post_processor"]["special_tokens"]["</s>"]["ids"] = [ids["</s>"]]
    return tok

def random_model(seed, kind, config, zero=(), fit=60):
    """No tensor zero, one or otherwise trivial, but for the embeddings of `zero`; then fitted to random targets."""
    model, rng = kind(config).eval(), torch.Generator().manual_seed(seed)
    biased = hasattr(model, "final_logits_bias")
    with torch.no_grad():
        for name, p in [*sorted(trained(model).items()), *([("", model.final_logits_bias)] if biased else [])]:
            scale = 1.3 * p.shape[-1] ** -0.5 if p.dim() > 1 else 0.3
            p.copy_(torch.randn(p.shape, generator=rng) * scale + name.endswith("norm.weight"))
            if ("embed_tokens" in name or "shared" in name):
                p[list(zero)] = 0
    golden.PAD = config.pad_token_id
    return model.double()

def fitted(model, seed, vocab, steps):
    c, rng = model.config, random.Random(seed)
    words = [i for i in range(vocab) if i not in specials(c)]
    line = lambda n: [rng.choice(words) for _ in range(n)]
    pairs = [(line(n) + [c.eos_token_id], [c.decoder_start_token_id] + line(m) + [c.eos_token_id])
             for n, m in ((8, 9), (5, 3), (11, 6), (1, 1), (3, 12), (7, 5))]
    train(model, [pairs], steps, 0.2)
    return [s for s, _ in pairs]

def specials(c):
    return {c.pad_token_id, c.eos_token_id, c.decoder_start_token_id, *c.tx_never}

def numbers(model, sources, known):
    """Batch, greedy and forced scores; the logits of the first `known` pieces."""
    c = model.config
    pad, eos, start = c.pad_token_id, c.eos_token_id, c.decoder_start_token_id
    words = [i for i in range(known) if i not in specials(c)]
    src = [sources[0], [eos], sources[1]]
    tgt_in = [[start] + words[3:9], [start], [start, words[2], words[2], words[7]]]
    out = forward(model, fill(src), fill(tgt_in))
    # With the padding as start every row of the decoder begins with it; what follows the end of a row is zero.
    shown = lambda x, rows: torch.stack([torch.cat([x[i, :len(r)], 0 * x[i, len(r):]]) for i, r in enumerate(rows)]).detach()
    def forced(src_ids, ids, **more):
        log_p = forward(model, torch.tensor([src_ids]), torch.tensor([[start] + ids[:-1]])).logits[0].log_softmax(-1)
        scores = log_p.gather(-1, torch.tensor(ids)[:, None])[:, 0].tolist()
        return log_p, dict(**more, src=src_ids, ids=ids, token_log_probs=scores, log_prob=sum(scores))
    greedy = []
    for s in sources:
        ids = model.generate(torch.tensor([s]), num_beams=1, do_sample=False, max_new_tokens=16, forced_eos_token_id=None,
                             bad_words_ids=[[i] for i in sorted(specials(c) - {eos})])[0, 1:].tolist()
        log_p, row = forced(s, ids, finish="eos" if ids[-1] == eos else "cut")
        best = log_p.topk(2).values  # a clear winner at each step
        assert (best[:, 0] - best[:, 1]).min() > 3e-3 and not specials(c) - {eos} & set(ids), (c.model_type, row)
        greedy.append(row)
    assert len({str(g["ids"]) for g in greedy}) > 3 and any(g["finish"] == "eos" for g in greedy), greedy
    given = [forced(s, t[1:] + [eos])[1] for s, t in zip(src, tgt_in)]
    return (dict(src=src, tgt_in=tgt_in, greedy=greedy, forced=given),
            dict(memory=shown(out.encoder_last_hidden_state, src), logits=shown(out.logits[..., :known], tgt_in)))

def gradients(model, row):
    """Norm of the gradient of the smoothed loss of the batch in each parameter."""
    for module in model.modules():
        if isinstance(module, torch.nn.Embedding):
            module.padding_idx = None  # the decoder starts from the padding, which counts
    pairs = [(s, t + [model.config.eos_token_id]) for s, t in zip(row["src"], row["tgt_in"])]
    params = trained(model)
    found = torch.autograd.grad(golden.loss_of(model, pairs)[0], list(params.values()))
    return {n: g.norm().item() for n, g in sorted(zip(params, found), key=lambda x: x[0]) if "k_proj.bias" not in n}

def save(name, model, stored, pickled, tok):
    """A directory as `transformers` leaves it (`pickled`: as its version 4 did), all in `stored`."""
    folder = os.path.join(FAMILIES, name)
    tables = [side.embed_positions for side in (model.model.encoder, model.model.decoder) if hasattr(side.embed_positions, "weight")]
    exact = [t.weight.data for t in tables]
    model = model.to(stored)
    model.save_pretrained(folder)
    if pickled:
        os.remove(os.path.join(folder, "model.safetensors"))
        torch.save(model.state_dict(), os.path.join(folder, "pytorch_model.bin"))
    path = os.path.join(folder, "config.json")
    config = json.load(open(path))
    config.pop("tx_never")
    json.dump(config, open(path, "w"), indent=1)
    json.dump(tok, open(os.path.join(folder, "tokenizer.json"), "w"), ensure_ascii=False)
    model.double()
    for table, positions in zip(tables, exact):
        table.weight.data = positions
    return model

MARIAN_NAMES = {"self_W{}": "self_attn.{}_proj.weight", "self_b{}": "self_attn.{}_proj.bias",
                "context_W{}": "encoder_attn.{}_proj.weight", "context_b{}": "encoder_attn.{}_proj.bias"}

def marian_layer(prefix, side, w, suffix):
    """Tensors of one layer under Marian's names: matrices transposed, vectors as [1, n]."""
    names = {k.format(a): v.format(b) for k, v in MARIAN_NAMES.items() for a, b in zip("qkvo", ("q", "k", "v", "out"))}
    for i in "12":
        names |= {f"ffn_W{i}": f"fc{i}.weight", f"ffn_b{i}": f"fc{i}.bias"}
    for ours, theirs in (("self_Wo", "self_attn_layer_norm"), ("context_Wo", "encoder_attn_layer_norm"), ("ffn_ffn", "final_layer_norm")):
        names |= {f"{ours}_ln_scale{suffix}": theirs + ".weight", f"{ours}_ln_bias{suffix}": theirs + ".bias"}
    found = {f"{side}_{k}": w[f"{prefix}.{v}"] for k, v in names.items() if f"{prefix}.{v}" in w}
    return {k: v.T if v.dim() == 2 else v[None] for k, v in found.items()}

def save_npz(folder, model, known, **options):
    """Marian's own form; the padding, which Marian does not have, is left out."""
    os.makedirs(folder, exist_ok=True)
    c, w = model.config, {k: v.float() for k, v in model.state_dict().items()}
    tensors = {"Wemb": w["model.shared.weight"][:known], "decoder_ff_logit_out_b": w["final_logits_bias"][:, :known]}
    suffix = "_pre" if options else ""
    for side, n in (("encoder", c.encoder_layers), ("decoder", c.decoder_layers)):
        for i in range(n):
            tensors |= marian_layer(f"model.{side}.layers.{i}", f"{side}_l{i + 1}", w, suffix)
        if options:
            tensors[f"{side}_top_ln_scale"], tensors[f"{side}_top_ln_bias"] = (w[f"model.{side}.layer_norm.{x}"][None] for x in ("weight", "bias"))
    yml = {"bert-train-type-embeddings": "true", "dec-cell": "gru", "dec-depth": c.decoder_layers, "dim-emb": c.d_model,
           "dim-vocabs": [known, known], "enc-depth": c.encoder_layers, "lemma-dim-emb": 0, "max-length": 500, "skip": "false",
           "tied-embeddings": "false", "tied-embeddings-all": "true", "tied-embeddings-src": "false",
           "transformer-aan-depth": 2, "transformer-decoder-autoreg": "self-attention", "transformer-dim-ffn": c.encoder_ffn_dim,
           "transformer-ffn-activation": c.activation_function, "transformer-ffn-depth": 2, "transformer-guided-alignment-layer": "last",
           "transformer-heads": c.encoder_attention_heads, "transformer-no-projection": "false", "transformer-postprocess": "dan",
           "transformer-postprocess-emb": "d", "transformer-preprocess": '""', "transformer-tied-layers": [],
           "transformer-train-positions": "false", "type": "transformer", "ulr": "false", "version": "v1.9.0 2020-01-01",
           "vocabs": ["vocab.yml", "vocab.yml"]} | options
    text = "".join(f"{k}: {v}\n" if not isinstance(v, list) else f"{k}: []\n" if not v else
                   f"{k}:\n" + "".join(f"  - {x}\n" for x in v) for k, v in yml.items())
    arrays = {k: v.contiguous().numpy() for k, v in tensors.items()}
    np.savez(os.path.join(folder, "model.npz"), **{"special:model.yml": np.frombuffer(text.encode() + b"\0", dtype=np.int8)}, **arrays)
    open(os.path.join(folder, "decoder.yml"), "w").write(
        "relative-paths: true\nmodels:\n  - model.npz\nvocabs:\n  - vocab.yml\n  - vocab.yml\nbeam-size: 6\nnormalize: 1\nword-penalty: 0\n")

def main():
    shutil.rmtree(FAMILIES, ignore_errors=True)
    rows, tensors = [], {}
    def add(name, model, sources, known):
        row, found = numbers(model, sources, known)
        row |= dict(gradients=gradients(model, row)) if name == "pegasus" else {}
        rows.append(dict(name=name, **row))
        tensors.update({f"{name}.{k}": v for k, v in found.items()})
    opus = dict(SIZE, eos_token_id=0, activation_function="swish", bos_token_id=0, forced_eos_token_id=0)
    ids = lambda pad, unk, bos, eos: {"<pad>": pad, "<unk>": unk, "<s>": bos, "</s>": eos}
    last = lambda v: dict(pad_token_id=v - 1, decoder_start_token_id=v - 1, bad_words_ids=[[v - 1]], tx_never=[1, 2])

    # Helsinki-NLP/opus-mt-*: the decoder starts from the padding, whose embedding is zero, at the end of the vocabulary.
    config = MarianConfig(**opus, **last(46), vocab_size=46)
    model = random_model(1, MarianMTModel, config, zero=[45])
    sources = fitted(model, 1, 46, 60)
    add("marian", save("marian", model, torch.float32, True, tokenizer(46, ids(45, 1, 2, 0))), sources, 46)

    # opus-mt-tc-*: two vocabularies.
    config = MarianConfig(**opus, **last(46), vocab_size=50, decoder_vocab_size=46, share_encoder_decoder_embeddings=False)
    model = random_model(2, MarianMTModel, config, zero=[45])
    sources = fitted(model, 2, 46, 60)
    add("marian-two", save("marian-two", model, torch.float16, False, tokenizer(46, ids(45, 1, 2, 0))), sources, 46)

    config = PegasusConfig(**SIZE, vocab_size=46, activation_function="relu", pad_token_id=0, eos_token_id=1,
                           decoder_start_token_id=0, tx_never=[2, 3])
    model = random_model(3, PegasusForConditionalGeneration, config)
    sources = fitted(model, 3, 46, 60)
    add("pegasus", save("pegasus", model, torch.float32, False, tokenizer(46, ids(0, 2, 3, 1))), sources, 46)

    # M2M100 and NLLB: the decoder starts from the end mark.
    config = M2M100Config(**SIZE, vocab_size=46, activation_function="relu", tx_never=[0, 3], encoder_layerdrop=0.0, decoder_layerdrop=0.0)
    model = random_model(4, M2M100ForConditionalGeneration, config)
    sources = fitted(model, 4, 46, 60)
    add("m2m100", save("m2m100", model, torch.float32, True, tokenizer(46, ids(1, 3, 0, 2))), sources, 46)

    # Marian's own files, post-norm and pre-norm; `transformers` is given Marian's positions, and a padding that is impossible.
    same = dict(encoder_ffn_dim=24, decoder_ffn_dim=24, encoder_attention_heads=2, decoder_attention_heads=2)
    for seed, (name, kind, build, options) in enumerate((
            ("marian-npz", MarianMTModel, MarianConfig, {}),
            ("marian-npz-pre", PegasusForConditionalGeneration, PegasusConfig,
             {"transformer-preprocess": "n", "transformer-postprocess": "da", "transformer-postprocess-top": "n"})), 5):
        model = random_model(seed, kind, build(**(opus | same), **last(46), vocab_size=46), zero=[45])
        for side in (model.model.encoder, model.model.decoder):
            side.embed_positions.weight.data = t2t_positions(40, 16)
        with torch.no_grad():
            model.final_logits_bias[0, 45] = -1e4
        sources = fitted(model, seed, 45, 60)
        with torch.no_grad():
            model.float().double()
            model.model.shared.weight[45] = 0
        for side in (model.model.encoder, model.model.decoder):
            side.embed_positions.weight.data = t2t_positions(40, 16)
        save_npz(os.path.join(FAMILIES, name), model, 45, **options)
        json.dump(tokenizer(46, ids(45, 1, 2, 0)), open(os.path.join(FAMILIES, name, "tokenizer.json"), "w"), ensure_ascii=False)
        add(name, model, sources, 45)
    write_tensors("families.safetensors", tensors), write_json("families.json", families=rows)

if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error(), transformers.logging.disable_progress_bar()
    main()
