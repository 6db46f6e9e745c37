#!/usr/bin/env python3
"""Makes every other file of this directory but the README: numbers of PyTorch and `transformers` that `tx` is tested against.

    python make_golden.py [OUT_DIR]        # default: the directory of this file

Computed in float64 from float32 weights, stored as float32 (in JSON: 9 digits): what differs is the rounding of `tx`.
`transformers` (eager attention) gives the numbers of the tiny model; `transformer` below, the paper written out, those of
the variants.  The two are asserted to agree on all of them.
"""
import copy, json, math, os, random, sys

import tokenizers, torch, transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoTokenizer, MarianConfig, MarianMTModel

PAD, UNK, BOS, EOS = range(4)
OUT = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
TINY = os.path.join(OUT, "tiny-marian")
MADE_BY = dict(made_by="make_golden.py", **{m.__name__: str(m.__version__) for m in (torch, transformers, tokenizers)})
SMOOTHING, WARMUP, CLIP = 0.1, 4, 1.0
TEXTS = ["a cat sat.", "we see the sea", "hello, world!", "ja", "über alles, straße?", "u\u0308ben macht spaß", "zoo 7", "x-ray"]
SRC = [[31, 9, 22, 5, 17, 4, 12, 38, EOS], [EOS], [7, 7, 29, EOS], [14, 36, 5, 20, 11, EOS]]
TGT = [[BOS, 12, 30, 4, 25, 8, 19, EOS], [BOS, 21, 6, EOS], [BOS, 33, 5, 5, 17, 28, 9, 39, 10, 13, EOS], [BOS, EOS]]
OPTIONS = dict(layers=2, heads=2, activation="relu", positions="halves", norm="post")

# ---- the paper written out; w: tensors under Hugging Face names, c: the OPTIONS of a variant
def positions(n, d, layout):
    """Section 3.5, [n, d]: sin and cos in turn (`interleaved`), or the same columns as two blocks (`halves`)."""
    angle = torch.arange(n)[:, None] / 10000 ** (torch.arange(0, d, 2, dtype=torch.float64) / d)
    return torch.stack([angle.sin(), angle.cos()], 1 if layout == "halves" else 2).flatten(1)

def linear(w, name, x):
    return x @ w[name + ".weight"].T + w[name + ".bias"]

def layer_norm(w, name, x):
    x = x - x.mean(-1, keepdim=True)
    return x / (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * w[name + ".weight"] + w[name + ".bias"]

def attention(w, c, name, x, memory, mask):
    """Section 3.2, x [b, t, d], memory [b, s, d], mask true where to look."""
    heads = lambda y: y.unflatten(-1, (c["heads"], -1)).transpose(1, 2)
    q, k, v = (heads(linear(w, f"{name}.{p}_proj", y)) for p, y in (("q", x), ("k", memory), ("v", memory)))
    scores = (q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])).masked_fill(~mask, -math.inf)
    return linear(w, name + ".out_proj", (scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

def feed_forward(w, c, name, x):
    """Section 3.3 with relu, gelu (the exact form, with erf) or swish."""
    act = dict(relu=lambda y: y.clamp(min=0), gelu=lambda y: y * 0.5 * (1 + torch.erf(y / math.sqrt(2))),
               swish=lambda y: y / (1 + torch.exp(-y)))[c["activation"]]
    return linear(w, name + ".fc2", act(linear(w, name + ".fc1", x)))

def sublayer(w, name, x, f):
    """Section 3.1: LayerNorm(x + f(x))."""
    return layer_norm(w, name, x + f(x))

def stack(w, c, side, ids, self_mask, memory=None, memory_mask=None):
    """The encoder, or with a memory the decoder, ids [b, t] -> [b, t, d]."""
    table = w.get(f"model.{side}.embed_tokens.weight", w.get("model.shared.weight"))
    x = table[ids] * math.sqrt(table.shape[1]) + positions(ids.shape[1], table.shape[1], c["positions"])
    for i in range(c["layers"]):
        at = f"model.{side}.layers.{i}"
        x = sublayer(w, at + ".self_attn_layer_norm", x, lambda y: attention(w, c, at + ".self_attn", y, y, self_mask))
        if memory is not None:
            x = sublayer(w, at + ".encoder_attn_layer_norm", x,
                         lambda y: attention(w, c, at + ".encoder_attn", y, memory, memory_mask))
        x = sublayer(w, at + ".final_layer_norm", x, lambda y: feed_forward(w, c, at, y))
    return x

def transformer(w, c, src, tgt_in):
    """Figure 1, src [b, s], tgt_in [b, t] -> memory [b, s, d], logits [b, t, v]."""
    real, causal = (src != PAD)[:, None, None, :], torch.ones(2 * tgt_in.shape[1:]).tril().bool()
    memory = stack(w, c, "encoder", src, real)
    output = next(w[n + ".weight"] for n in ("lm_head", "model.decoder.embed_tokens", "model.shared") if n + ".weight" in w)
    return memory, stack(w, c, "decoder", tgt_in, causal, memory, real) @ output.T + w["final_logits_bias"]

def smoothed(logits, tgt_out):
    """Section 5.4 per position: loss against 1-eps on the target, eps/(v-1) on each other class; and the plain NLL."""
    log_p = logits.log_softmax(-1)
    target = log_p.gather(-1, tgt_out[..., None])[..., 0]
    return -(1 - SMOOTHING) * target - SMOOTHING * (log_p.sum(-1) - target) / (logits.shape[-1] - 1), -target

# ---- making, training, running Hugging Face models; writing files
def fill(rows):
    return pad_sequence([torch.tensor(r) for r in rows], batch_first=True, padding_value=PAD)

def blank(x, ids):
    """Zeros where `ids` is padding: what a model computes there is nobody's business."""
    return x.detach() * (ids != PAD)[..., None]

def random_marian(seed, vocab, d, ff, layers, activation, **options):
    """A Marian model in which no tensor is zero, one or otherwise trivial, so that any mistake shows."""
    model = MarianMTModel(MarianConfig(**dict(
        vocab_size=vocab, decoder_vocab_size=vocab, share_encoder_decoder_embeddings=True, tie_word_embeddings=True, d_model=d,
        encoder_ffn_dim=ff, decoder_ffn_dim=ff, encoder_layers=layers, decoder_layers=layers, encoder_attention_heads=2,
        decoder_attention_heads=2, activation_function=activation, scale_embedding=True, pad_token_id=PAD, bos_token_id=BOS,
        eos_token_id=EOS, decoder_start_token_id=BOS, forced_eos_token_id=None, max_position_embeddings=64, dropout=0.0,
        attn_implementation="eager") | options)).eval()
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in [*sorted(trained(model).items()), ("", model.final_logits_bias)]:
            scale = 1.3 * p.shape[-1] ** -0.5 if p.dim() > 1 else 0.3
            p.copy_(torch.randn(p.shape, generator=rng) * scale + name.endswith("norm.weight"))
    return model.double()

def trained(model):
    """Name -> parameter; a tied tensor appears once.  Loading a model unfreezes its position tables: left out by name."""
    return {n: p for n, p in model.named_parameters() if "embed_positions" not in n}

def state(model):
    return {**{n: p.detach() for n, p in trained(model).items()}, "final_logits_bias": model.final_logits_bias}

def forward(model, src, tgt_in, **kw):
    return model(input_ids=src, attention_mask=(src != PAD).long(), decoder_input_ids=tgt_in, **kw)

def loss_of(model, pairs):
    """Smoothed loss and NLL per real target token, and the NLL of each, for pairs of (source, <s> target </s>)."""
    src, tgt_in, tgt_out = (fill(rows) for rows in zip(*((s, t[:-1], t[1:]) for s, t in pairs)))
    loss, nll = smoothed(forward(model, src, tgt_in).logits, tgt_out)
    real = tgt_out != PAD
    return loss[real].mean(), nll[real].mean(), [n[r].tolist() for n, r in zip(nll, real)]

def train(model, batches, steps, factor):
    """Section 5.3, with clipping by the global norm; one row of numbers per step, taken before its update."""
    params, rows = list(trained(model).values()), []
    opt = torch.optim.Adam(params, betas=(0.9, 0.98), eps=1e-9)
    for step in range(1, steps + 1):
        opt.param_groups[0]["lr"] = lr = factor * model.config.d_model ** -0.5 * min(step ** -0.5, step * WARMUP ** -1.5)
        loss, nll, _ = loss_of(model, batches[(step - 1) % len(batches)])
        opt.zero_grad(), loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(params, CLIP)
        opt.step()
        rows.append(dict(step=step, lr=lr, loss=loss.item(), nll=nll.item(), grad_norm=norm.item()))
    return rows

def write_json(name, **fields):
    """One row per line, floats with 9 digits."""
    tidy = lambda v: float(f"{v:.9g}") if isinstance(v, float) else [tidy(x) for x in v] if isinstance(v, list) else (
        {k: tidy(x) for k, x in v.items()} if isinstance(v, dict) else v)
    text = lambda v: json.dumps(tidy(v))
    item = lambda v: "[\n  " + ",\n  ".join(map(text, v)) + "\n ]" if isinstance(v, list) else text(v)
    rows = ",\n".join(f' "{k}": {item(v)}' for k, v in dict(metadata=MADE_BY, **fields).items())
    open(os.path.join(OUT, name), "w", encoding="utf-8").write("{\n" + rows + "\n}\n")

def write_tensors(name, tensors):
    """One metadata entry, because safetensors writes several in any order."""
    tensors = {k: v.detach().float().contiguous() for k, v in tensors.items()}
    save_file(tensors, os.path.join(OUT, name), metadata={"made_by": json.dumps(MADE_BY)})

def make_tokenizer():
    """Characters as pieces: 4 specials, the space mark and 35 letters and signs."""
    pieces = ["<pad>", "<unk>", "<s>", "</s>", "▁", *"abcdefghijklmnopqrstuvwxyzäöüß.,?!-"]
    tok = Tokenizer(models.BPE({p: i for i, p in enumerate(pieces)}, [], unk_token="<unk>"))
    tok.normalizer, tok.pre_tokenizer, tok.decoder = normalizers.NFC(), pre_tokenizers.Metaspace(), decoders.Metaspace()
    tok.post_processor = processors.TemplateProcessing("$A </s>", "$A </s> $B:1 </s>:1", [("</s>", EOS)])
    tok.add_special_tokens(pieces[:4])
    return tok

# ---- the files
def make_tiny():
    """tiny-marian/: random, then fitted a little to random targets for TEXTS, so that what it decodes varies and ends."""
    tok, rng = make_tokenizer(), random.Random(2)
    model, lengths = random_marian(1, 40, 16, 32, 2, "relu"), [9, 6, 14, 3, 30, 11, 1, 5]
    pairs = [(tok.encode(x).ids, [BOS] + [rng.randrange(4, 40) for _ in range(n)] + [EOS]) for x, n in zip(TEXTS, lengths)]
    train(model, [pairs], 70, 0.2)
    model.float().save_pretrained(TINY)
    tok.save(os.path.join(TINY, "tokenizer.json"), pretty=False)
    dump = lambda name, **v: json.dump(v, open(os.path.join(TINY, name), "w"), indent=1)
    dump("generation_config.json", bos_token_id=BOS, decoder_start_token_id=BOS, eos_token_id=EOS, pad_token_id=PAD,
         max_length=60, num_beams=4, length_penalty=1.0, early_stopping=False)
    dump("tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast", eos_token="</s>", pad_token="<pad>",
         unk_token="<unk>", bos_token="<s>", model_max_length=64, split_special_tokens=True)
    model, report = MarianMTModel.from_pretrained(TINY, attn_implementation="eager", output_loading_info=True)
    assert not any(report.values()) and state(model).keys() == load_file(os.path.join(TINY, "model.safetensors")).keys(), report
    return model.eval().double()

def make_model(model):
    """model.json and model.safetensors: encoder output, logits, attention, greedy and forced scores."""
    src, tgt_in = ids = fill(SRC), fill([t[:-1] for t in TGT])
    out, (memory, logits) = forward(model, *ids), transformer(state(model), OPTIONS, *ids)
    errors = blank(memory - out.encoder_last_hidden_state, src), blank(logits - out.logits, tgt_in)
    assert all(e.abs().max() < 1e-6 for e in errors), errors
    one = forward(model, src[:1], torch.tensor(TGT[:1])[:, :-1], output_attentions=True)
    write_tensors("model.safetensors", dict(
        memory=blank(out.encoder_last_hidden_state, src), logits=blank(out.logits, tgt_in),
        **{k: torch.cat(list(one[k])) for k in ("encoder_attentions", "decoder_attentions", "cross_attentions")}))
    def forced(src_ids, ids, **more):
        log_p = forward(model, torch.tensor([src_ids]), torch.tensor([[BOS] + ids[:-1]])).logits[0].log_softmax(-1)
        scores = log_p.gather(-1, torch.tensor(ids)[:, None])[:, 0].tolist()
        return log_p, dict(**more, src=src_ids, ids=ids, token_log_probs=scores, log_prob=sum(scores))
    tok, greedy = AutoTokenizer.from_pretrained(TINY), []
    for text, src_ids in zip(TEXTS, tok(TEXTS).input_ids):
        ids = model.generate(torch.tensor([src_ids]), num_beams=1, max_new_tokens=20)[0, 1:].tolist()
        log_p, row = forced(src_ids, ids, text=text, output=tok.decode(ids, skip_special_tokens=True),
                            finish="eos" if ids[-1] == EOS else "cut")
        best = log_p.topk(2).values  # a clear winner at each step, and none that `tx` bans
        assert (best[:, 0] - best[:, 1]).min() > 1e-2 and not {PAD, UNK, BOS} & set(ids), row
        greedy.append(row)
    assert {g["finish"] for g in greedy} == {"eos", "cut"} and len({str(g["ids"]) for g in greedy}) == len(greedy)
    given = [forced(s, t[1:])[1] for s, t in [*zip(SRC, TGT), (SRC[2], [BOS, 24, 24, 24])]]
    # each text with the next one for its translation
    pairs = [forced(tok(a).input_ids, tok(b).input_ids, text=a, target=b)[1] for a, b in zip(TEXTS, TEXTS[1:] + TEXTS[:1])]
    write_json("model.json", src=SRC, tgt_in=[t[:-1] for t in TGT], tgt_out=[t[1:] for t in TGT], greedy=greedy, forced=given,
               pairs=pairs)

def make_gradients(model):
    """gradients.safetensors and gradients.json: the loss of the same batch and its gradient in every parameter."""
    loss, nll, token_nll = loss_of(model, list(zip(SRC, TGT)))
    grads = dict(zip(trained(model), torch.autograd.grad(loss, list(trained(model).values()))))
    assert all(g.abs().max() > 1e-5 for n, g in grads.items() if "k_proj.bias" not in n)
    norm = math.sqrt(sum(g.pow(2).sum().item() for g in grads.values()))
    fields = dict(label_smoothing=SMOOTHING, loss=loss.item(), nll=nll.item(), grad_norm=norm)
    write_tensors("gradients.safetensors", grads), write_json("gradients.json", **fields, token_nll=token_nll)

def make_training(model):
    """training.json: ten steps on four batches in turn; the losses of the same in float32 show how far that drifts."""
    rng = random.Random(5)
    line = lambda shortest: [rng.randrange(4, 40) for _ in range(rng.randrange(shortest, 9))] + [EOS]
    batches = [[(line(1), [BOS] + line(0)) for _ in range(3)] for _ in range(4)]
    rows, single = (train(m, batches, 10, 1.0) for m in (copy.deepcopy(model), copy.deepcopy(model).float()))
    assert min(r["grad_norm"] for r in rows) < CLIP < rows[0]["grad_norm"], "both sides of clipping"
    write_json("training.json", label_smoothing=SMOOTHING, warmup_steps=WARMUP, factor=1.0, clip_norm=CLIP, beta1=0.9,
               beta2=0.98, eps=1e-9, steps=rows, losses_in_float32=[r["loss"] for r in single],
               batches=[[dict(src=s, tgt_in=t[:-1], tgt_out=t[1:]) for s, t in b] for b in batches])

def make_variants():
    """variants.json and variants.safetensors (tensors named VARIANT.NAME)."""
    src, tgt_in = [[7, 4, 11, 5, 9, EOS], [8, 10, EOS]], [[BOS, 6, 9, 9], [BOS, 4, 11, 5, 8, 7]]
    own = dict(share_encoder_decoder_embeddings=False, vocab_size=14)
    table = dict(gelu=(dict(activation="gelu"), {}), swish=(dict(activation="swish"), {}), decoder_only=({}, own),
                 untied=({}, dict(own, tie_word_embeddings=False)), interleaved=(dict(positions="interleaved"), {}))
    tensors, rows, ids = {}, [], (fill(src), fill(tgt_in))
    for seed, (name, (changed, embeddings)) in enumerate(table.items()):
        c = {**OPTIONS, "layers": 1, **changed}
        w = state(model := random_marian(seed, 12, 8, 12, 1, c["activation"], **embeddings))
        memory, logits = transformer(w, c, *ids)
        for side in (model.model.encoder, model.model.decoder):
            side.embed_positions.weight.data = positions(64, 8, c["positions"])
        assert blank(forward(model, *ids).logits - logits, ids[1]).abs().max() < 1e-9, name
        rows.append(dict(name=name, d_model=8, d_ff=12, src_vocab=model.config.vocab_size, tgt_vocab=12, **c))
        tensors |= {f"{name}.{k}": v for k, v in (w | dict(memory=blank(memory, ids[0]), logits=blank(logits, ids[1]))).items()}
    write_tensors("variants.safetensors", tensors), write_json("variants.json", src=src, tgt_in=tgt_in, variants=rows)

if __name__ == "__main__":
    torch.set_num_threads(1), os.makedirs(TINY, exist_ok=True)
    transformers.logging.set_verbosity_error(), transformers.logging.disable_progress_bar()
    make_model(tiny := make_tiny()), make_gradients(tiny), make_training(tiny), make_variants()
