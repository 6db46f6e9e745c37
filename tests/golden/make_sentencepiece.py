#!/usr/bin/env python3
"""What SentencePiece and `MarianTokenizer` make of odd texts: writes the folder sentencepiece/ beside this file.

    make_sentencepiece.py        (sentencepiece 0.2.3, transformers 5.24)

The models are learnt from assets/toy and from TEXT, which was written for this file. Character maps of nmt_nfkc fill 240 KB, so most
models have the few rules of RULES instead, and all are stored with gzip. Made twice, the bytes are equal.
"""
import gzip, io, json, os, random, tempfile

import sentencepiece
from transformers import MarianTokenizer

here = os.path.dirname(os.path.abspath(__file__))
out = os.path.join(here, "sentencepiece")
os.makedirs(out, exist_ok=True)

TEXT = """Der Fuß des Bären ist größer als der Hut; wer weiß das schon?
Le garçon a mangé une pomme « verte », puis il est parti à la forêt.
Příliš žluťoučký kůň úpěl ďábelské ódy.
강아지가 작은 집을 봅니다. 집은 오래되었습니다. 고양이도 집을 봅니다.
犬が小さい家を見ます。家は古いです。猫も家を見ます。
图书馆今天开门，明天不开门。今天是星期二。
يرى الكلب البيت الصغير. البيت قديم.
הכלב רואה את הבית הקטן. הבית ישן.
Собака видит маленький дом. Дом старый.
สุนัขเห็นบ้านหลังเล็ก
Ｆｕｌｌ　ｗｉｄｔｈ １２３ ｶﾞｷﾞ ﬁne ﬂow ™ ① ½
I am here 😀 and you are there 👩‍👩‍👧.""".split("\n")

# From and to, in hexadecimal: longest rule, nested rules, several characters, to nothing, to blanks.
RULES = """41\t61
66 66\t66
66 66 69\tFB03
FB01\t66 69
2122\t54 4D
AD\t
3000\t20
9\t20
61 308\tE4
2026\t2E 20 2E
"""

ODD = [
    "", " ", "   ", "a", " a ", "a  b", "\t", "\u3000\u3000x\u3000", "\u00a0no-break\u202fspaces\u00a0", "▁", "▁▁ a▁b ▁",
    "The dog sees the small house.", "THE DOG", "Tom is here. Tom  is Tom.", "off office oﬃce ﬁ™ a\u0308 soft\u00adhyphen …end…",
    "</s> <s> <unk> <pad> <2de> <0x41> <sep>x<sep>", "Größe ß ẞ İ ı Σς", "e\u0301 é 가\u1100\u1161각 か\u3099が",
    "한국어 문장입니다. 日本語の文です。中文句子。", "الكلب، ١٢٣؟", "שָׁלוֹם", "ЖЖЖ ёж", "x\u0000y\u0001z\u007f", "a\u2028b\u2029c\u0085d\u000be",
    "👩‍👩‍👧🏳️‍🌈😀😀", "\ufffd\ufeff\u200b\u200d\U0010ffff", "q" * 300, "ab " * 60, "\u0301" * 20, "1 234,5 % — „so“ ‘x’",
]


def learn(lines, **settings):
    model = io.BytesIO()
    settings = {"model_type": "unigram", "vocab_size": 360, "character_coverage": 0.98, "num_threads": 1, "minloglevel": 2,
                "hard_vocab_limit": False, "normalization_rule_tsv": rules, **settings}
    if settings.get("normalization_rule_name"):
        del settings["normalization_rule_tsv"]
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, **settings)
    return model.getvalue()


def unused(model):
    """Every third normal piece of a model, marked as not to be used (type 5), by the wire format of its pieces."""
    result, at, n = b"", 0, 0
    while model[at] == 0x0A:
        size, header = model[at + 1], 2
        if size >= 0x80:
            size, header = size & 0x7F | model[at + 2] << 7, 3
        piece = model[at + header:at + header + size]
        at += header + size
        if b"\x18" not in piece[-2:-1]:
            n += 1
            piece += b"\x18\x05" if n % 3 == 0 else b""
        assert len(piece) < 0x80
        result += b"\x0a" + bytes([len(piece)]) + piece
    return result + model[at:]


def store(name, data):
    with open(os.path.join(out, name), "wb") as file:
        file.write(data)


def dump(value):
    return (json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n").encode()


def case(name, model, lines):
    store(name + ".model.gz", gzip.compress(model, 9, mtime=0))
    sp = sentencepiece.SentencePieceProcessor(model_proto=model)
    dice = random.Random(name)
    pieces = [i for i in range(sp.get_piece_size()) if i != sp.unk_id()]
    texts = []
    for ids in (sp.encode(line) for line in lines):
        texts.append([ids, sp.decode([i for i in ids if i != sp.unk_id()])])
    drawn = [[dice.choice(pieces) for _ in range(dice.randrange(1, 12))] for _ in range(25)]
    special = {"unk": sp.unk_id(), "bos": sp.bos_id(), "eos": sp.eos_id(), "pad": sp.pad_id()}
    return {"name": name, "special": special, "texts": texts, "drawn": [[ids, sp.decode(ids)] for ids in drawn]}


def marian(name, source, target, codes, lines):
    """The form of OPUS-MT: pieces of both models in one vocab.json, the padding last."""
    models = [sentencepiece.SentencePieceProcessor(model_proto=model) for model in (source, target)]
    pieces = ["</s>", "<unk>"] + [f">>{code}<<" for code in codes]
    for model in models:
        # Not all: what a vocabulary lacks is unknown.
        pieces += [p for p in map(model.id_to_piece, range(model.get_piece_size())) if p not in pieces and p not in ("<s>", "▁the")]
    vocab = {piece: i for i, piece in enumerate(pieces + ["<pad>"])}
    store(name + ".vocab.json", dump(vocab))
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, file) for file in ("source.spm", "target.spm", "vocab.json")]
        for path, data in zip(paths, (source, target, dump(vocab))):
            with open(path, "wb") as file:
                file.write(data)
        tokenizer = MarianTokenizer(*paths, split_special_tokens=True)
        sources = [[line, tokenizer(line)["input_ids"]] for line in lines]
        targets = [[line, tokenizer(text_target=line)["input_ids"]] for line in lines]
        dice = random.Random(name)
        drawn = [[dice.choice([i for i in range(len(vocab)) if i != 1]) for _ in range(dice.randrange(1, 12))] for _ in range(25)]
        decode = dict(skip_special_tokens=True, clean_up_tokenization_spaces=False, use_source_tokenizer=False)
        decoded = [[ids, tokenizer.decode(ids, **decode)] for ids in drawn + [ids for _, ids in targets]]
    return {"name": name, "codes": [f">>{code}<<" for code in codes], "sources": sources, "targets": targets, "decoded": decoded}


with tempfile.TemporaryDirectory() as folder:
    # A model keeps the names of the files that it was made from.
    os.chdir(folder)
    rules, back = "rules.tsv", "back.tsv"
    for path, content in ((rules, RULES), (back, "2E\t3002\n61 62\t41 42\n")):
        with open(path, "w") as file:
            file.write(content)
    toy = {lang: open(os.path.join(here, "../../assets/toy/train." + lang), encoding="utf-8").read().split("\n")[:300] for lang in ("en", "de")}
    lines = toy["en"][:150] + toy["de"][:150] + TEXT * 8
    user = dict(user_defined_symbols=["<sep>", "Tom is", "Tom ", "ab", "の"], control_symbols=["<2de>"], pad_id=3)
    models = {
        "unigram-nmt-nfkc": learn(lines, normalization_rule_name="nmt_nfkc"),
        "unigram-bytes": learn(lines, byte_fallback=True, vocab_size=600),
        "unigram-user": learn(lines, **user),
        "unigram-spaces": learn(lines, remove_extra_whitespaces=False, add_dummy_prefix=False, split_by_whitespace=False),
        "unigram-back": learn(lines, denormalization_rule_tsv=back, normalization_rule_name="identity"),
        "bpe": learn(lines, model_type="bpe", vocab_size=500),
        "bpe-bytes-user": learn(lines, model_type="bpe", byte_fallback=True, vocab_size=700, **user),
        "bpe-suffix": learn(lines, model_type="bpe", treat_whitespace_as_suffix=True, normalization_rule_name="identity"),
        "char": learn(lines, model_type="char"),
        "char-bytes-user": learn(lines, model_type="char", byte_fallback=True, vocab_size=400, remove_extra_whitespaces=False, **user),
        "word": learn(lines, model_type="word", vocab_size=300),
    }
    models["bpe-unused"] = unused(models["bpe"])
    models["unigram-unused"] = unused(models["unigram-spaces"])
    odd = ODD + toy["en"][295:299] + toy["de"][295:299] + TEXT
    source, target = (learn(toy[lang] + TEXT[:3], vocab_size=260, normalization_rule_name="identity") for lang in ("en", "de"))
    store("source.spm.gz", gzip.compress(source, 9, mtime=0))
    store("target.spm.gz", gzip.compress(target, 9, mtime=0))
    # Codes that the vocabulary lacks are left out: MarianTokenizer makes them unknown, tx takes them for text.
    tagged = [">>de<< Tom is here.", ">>fr<<Tom", "say >>de<<", ">> de", ">>de< Tom"]
    golden = {
        "lines": odd,
        "models": [case(name, model, odd) for name, model in models.items()],
        "marian": [marian("one-language", source, target, [], odd), marian("languages", source, target, ["de", "fr"], odd[11:20] + tagged)],
    }
    store("sentencepiece.json", dump(golden))
