#!/usr/bin/env python3
"""What CTranslate2's own converter makes of tiny-marian: writes the folder ct2/ beside this file.

    make_ct2.py        (ctranslate2 4.8.5, transformers 5.24)
"""
import os

import torch, transformers
from ctranslate2.converters import transformers as converters
from tokenizers import Tokenizer

here = os.path.dirname(os.path.abspath(__file__))
source = os.path.join(here, "tiny-marian")
torch.set_grad_enabled(False)
model = transformers.MarianMTModel.from_pretrained(source).eval()
model.config.normalize_before = model.config.normalize_embedding = False
tokenizer = Tokenizer.from_file(os.path.join(source, "tokenizer.json"))
vocab = [tokenizer.id_to_token(i) for i in range(model.config.vocab_size)]


class Special:
    eos_token, unk_token = vocab[model.config.eos_token_id], "<unk>"
    bos_token = pad_token = vocab[model.config.decoder_start_token_id]


loader = converters.MarianMTLoader()
loader.get_vocabulary = lambda model, tokenizer: vocab
loader._remove_pad_weights = lambda spec: None  # it drops the last row, taking it for <pad>
spec = loader.get_model_spec(model)
# These models start from a piece with an embedding, not from zeros.
spec.decoder.start_from_zero_embedding = False
spec.register_source_vocabulary(vocab)
spec.register_target_vocabulary(vocab)
loader.set_config(spec.config, model, Special())
spec.config.decoder_start_token = Special.bos_token
spec.validate()
spec.optimize(quantization=None)
out = os.path.join(here, "ct2")
os.makedirs(out, exist_ok=True)
spec.save(out)
