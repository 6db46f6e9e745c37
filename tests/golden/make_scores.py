"""Writes scores.json: texts, settings, and what sacreBLEU 2.6.0 and rouge-score 0.1.2 say about them.

    pip install sacrebleu==2.6.0 rouge-score==0.1.2 && python make_scores.py > scores.json

The texts are this project's own. The reference lines are numbered by hand with a second wording; the hypotheses are
made from them below.
"""

import json
import os
import random
import sys

from rouge_score import rouge_scorer
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.bleu import _get_tokenizer
from sacrebleu.significance import PairedTest

NBSP, NNBSP = "\u00a0", "\u202f"

# (first reference, second reference with other words)
LINES = [
    ("The ferry leaves at 6.45 a.m. and carries 1,200 passengers.", "At 6.45 a.m. the ferry departs with 1,200 people on board."),
    ("\"Don't touch that,\" she said; he touched it anyway!", "She said \"don't touch it\", but he touched it anyway!"),
    ("A well-known 3-inch bolt costs $4.99 (plus 19% tax).", "The 3-inch bolt everyone knows is $4.99, plus tax (19%)."),
    ("Fish &amp; chips cost &lt;10 pounds, he said &quot;twice&quot;.", "Fish & chips were under 10 pounds, he said \"twice\"."),
    ("The report was finished in 1999.", "In 1999 the report was done."),
    ("Yes.", "Yes, indeed."),
    ("Stop!", "Halt!"),
    ("", "Nothing at all."),
    ("", ""),
    ("HE WROTE EVERYTHING IN CAPITAL LETTERS, EVEN THE ADDRESS.", "He wrote everything in capitals, even the address."),
    ("no no no no no no no no no no no no", "no no no, no no no"),
    ("the cat sat on the mat and the dog sat on the cat and the mat sat still", "on the mat sat the cat, on the cat sat the dog, and still sat the mat"),
    ("Write to info@example.org or call +49-30-1234567 before 31.12.2024.", "Before 31.12.2024 call +49-30-1234567 or mail info@example.org."),
    ("Trains to the north were late again, because snow had blocked the points near the old station and nobody had "
     "thought of sending the heavy plough from the depot before the morning rush began.",
     "Again the northern trains were late: near the old station snow had blocked the points, and before the morning "
     "rush nobody had thought of sending out the heavy plough that stood in the depot."),
    ("Der Zug nach Köln fährt um 8:15 Uhr von Gleis 3-4 ab.", "Um 8:15 Uhr fährt der Zug nach Köln ab, Gleis 3-4."),
    ("„Das ist ja großartig“, rief die Bürgermeisterin.", "Die Bürgermeisterin rief: „Das ist großartig!“"),
    ("Straßenbahnhaltestellenschild", "Schild an der Straßenbahnhaltestelle"),
    ("Er hat 2.500,50 € bezahlt – viel zu viel …", "Bezahlt hat er 2.500,50 €, also viel zu viel…"),
    (f"Qui a dit{NBSP}: «{NBSP}L'été sera chaud{NBSP}»{NNBSP}?", f"«{NBSP}L'été sera chaud{NBSP}», qui l'a dit{NNBSP}?"),
    (f"Il n'y a plus de pain{NNBSP}; aujourd'hui c'est fermé{NNBSP}!", f"Plus de pain aujourd'hui{NNBSP}: c'est fermé{NNBSP}!"),
    ("Les œufs coûtent 3,20 euros l'unité.", "Un œuf coûte 3,20 euros."),
    ("Příliš žluťoučký kůň úpěl ďábelské ódy.", "Žluťoučký kůň příliš úpěl své ďábelské ódy."),
    ("Vlak má zpoždění 25 minut, řekla průvodčí.", "Průvodčí řekla, že vlak má zpoždění 25 minut."),
    ("오늘은 비가 와서 우산을 가지고 나갔다.", "비가 오니까 오늘은 우산을 들고 나갔다."),
    ("그는 “괜찮아요!”라고 말하며 3,000원을 냈습니다.", "그가 \"괜찮아요\" 하고 3,000원을 냈다."),
    ("감사합니다", "고맙습니다"),
    ("猫はベッドの下で寝ています。", "ベッドの下で猫が寝ている。"),
    ("「明日、東京へ行きます」と彼女は言った。", "彼女は「明日東京に行く」と言いました。"),
    ("コーヒーを２杯ください!", "コーヒー、2杯お願いします。"),
    ("我们昨天在图书馆借了3本书。", "昨天我们从图书馆借了三本书。"),
    ("他说：“价格是2.5元（含税）。”", "他说价格是2.5元，含税。"),
    ("用iPhone拍的照片—很清楚", "这些照片是用iPhone拍的，很清楚。"),
    ("Happy birthday 🎂🎉 to you 👩‍👩‍👧!!!", "Happy birthday to you 🎉!"),
    ("ΟΔΟΣ ΣΟΦΟΣ and İstanbul", "οδός σοφός and istanbul"),
    ("x = (a[0] + b[1]) * 3.14 / {c} ~ 10^-6", "x = 3.14 * (a[0] + b[1]) / {c} ~ 10^-6"),
    ("It was 5.-6. May, ..., or so .", "It was the 5.-6. of May or so ."),
    ("The price rose 12½% to 7²=49 units, i.e. by №3.", "It rose 12½%, to 7² = 49 units (№3)."),
    ("one two three four five six seven eight nine ten", "six seven eight nine ten one two three four five"),
]

# (hypothesis, reference): what tokenizers and counting stumble over
ODD = [
    ("", "Not empty"), ("Not empty", ""), ("", ""), ("   ", " \t "), (".", "."), ("a", "a"), ("a b", "a b c d e f g h"),
    ("...,,,...", ". . . , , ,"), ("1,2,3,4 5.6.7", "1, 2, 3, 4 5.6 .7"), ("1-2-3 a-1 1-a", "1 - 2 - 3 a-1 1 -a"),
    ("&amp;lt; &quot;x&quot; &apos;", "< \" x \" &apos;"), ("<skipped>word<skipped>", "word"),
    (f"a{NBSP}b\u2003c\u3000d\u2028e", "a b c d e"), ("a\x1cb\x1dc\x1fd\x85e", "a b c d e"),
    ("don't can't 'quoted' it's", "don 't can 't ' quoted ' it 's"), ("A.B.C. U.S.A., e.g., 3.a", "A . B . C . U.S.A. , e.g. , 3 .a"),
    ("tick`tick~tilde{brace}|bar|", "tick ` tick ~ tilde { brace } | bar |"), ("e\u0301te\u0301 vs été", "été vs e\u0301te\u0301"),
    ("\ufeffBOM and \u200bzero\u200bwidth", "BOM and zerowidth"), ("the " * 30 + "end.", "the end."),
    ("한국어,한국어.한국어", "한국어 , 한국어 . 한국어"), ("中文,中文。“中文”—2.5", "中文 , 中文。“中文”—2.5"), ("😀.😀,1😀-1", "😀 . 😀 , 1 😀 - 1"),
]

METRICS = (
    [dict(metric="bleu", tokenizer=tok, lowercase=lc) for tok in ("13a", "intl", "char", "zh", "none") for lc in (False, True)]
    + [dict(metric=name, lowercase=lc) for name in ("chrf", "chrf++") for lc in (False, True)]
    + [dict(metric="ter", case_sensitive=cs) for cs in (False, True)]
)
ROUGE = ("rouge1", "rouge2", "rougeL")


def shuffled(lines, rng):
    return [" ".join(rng.sample(line.split(" "), len(line.split(" ")))) for line in lines]


def truncated(lines):
    return [line[: 2 * len(line) // 3] for line in lines]


def damaged(lines, rng):
    """Each line loses, doubles or swaps some of its characters and words."""
    out = []
    for line in lines:
        words = line.split(" ")
        for _ in range(1 + len(words) // 6):
            at = rng.randrange(len(words))
            words[at] = rng.choice(["", words[at] * 2, words[at].upper(), words[at][::-1], words[at] + " ,", words[at][1:]])
        out.append(" ".join(words))
    return out


def metric_of(setting, sentences=False):
    """sacreBLEU's metric for a setting."""
    if setting["metric"] == "bleu":
        return BLEU(tokenize=setting["tokenizer"], lowercase=setting["lowercase"], effective_order=sentences, force=True)
    if setting["metric"] == "ter":
        return TER(case_sensitive=setting["case_sensitive"])
    return CHRF(word_order=2 * (setting["metric"] == "chrf++"), lowercase=setting["lowercase"])


def scores(setting, hypotheses, references):
    """sacreBLEU's line and json text of the corpus, and the score of each sentence."""
    metric = metric_of(setting)
    score = metric.corpus_score(hypotheses, references)
    signature = metric.get_signature().format()
    by_line = metric_of(setting, sentences=True)
    sentences = [by_line.sentence_score(h, list(r)).format(2, score_only=True) for h, *r in zip(hypotheses, *references)]
    return dict(line=score.format(2, signature=signature), json=score.format(1, False, signature, True),
                score=score.score, sentences=" ".join(sentences))


def rouge(kind, hypotheses, references):
    """Mean precision, recall and F, and each sentence's F, of rouge-score; in percent."""
    scorer = rouge_scorer.RougeScorer([kind], use_stemmer=False)
    each = [scorer.score_multi(list(r), h)[kind] for h, *r in zip(hypotheses, *references)]
    mean = [100 * sum(values) / len(each) for values in zip(*each)]
    return dict(precision=mean[0], recall=mean[1], score=mean[2], sentences=" ".join(f"{100 * s.fmeasure:.2f}" for s in each))


def significance(kind, texts, trials):
    """p-value, mean and half interval of sacreBLEU, damaged against truncated output."""
    systems = [("a", texts["damaged"]), ("b", texts["truncated"])]
    metrics = {"BLEU": BLEU(references=[texts["first"]], force=True), "CHRF": CHRF(references=[texts["first"]])}
    os.environ["SACREBLEU_SEED"] = "1"
    signatures, found = PairedTest(systems, metrics, references=None, test_type=kind, n_samples=trials)()
    numbers = lambda result: {key: value if value is None else round(float(value), 6) for key, value in vars(result).items()}
    return {name: dict(signature=signatures[name].format(), baseline=numbers(found[name][0]), system=numbers(found[name][1]))
            for name in ("BLEU", "chrF2")}


def main():
    rng = random.Random(20170612)
    first, second = [list(column) for column in zip(*LINES)]
    texts = dict(first=first, second=second, shuffled=shuffled(first, rng), truncated=truncated(first), damaged=damaged(first, rng))
    cases = []
    for refs in (["first"], ["first", "second"]):
        for hyp in ("first", "second", "shuffled", "truncated", "damaged"):
            for setting in METRICS:
                found = scores(setting, texts[hyp], [texts[ref] for ref in refs])
                if hyp != "damaged":
                    del found["json"]
                if setting.get("lowercase") and len(refs) == 2:
                    del found["sentences"]
                cases.append(dict(hyp=hyp, refs=refs, **setting, **found))
            for kind in ROUGE:
                cases.append(dict(hyp=hyp, refs=refs, metric=kind, **rouge(kind, texts[hyp], [texts[ref] for ref in refs])))
    tokenizers = {name: _get_tokenizer(name)() for name in ("13a", "intl", "char", "zh", "none")}
    bleu = metric_of(METRICS[0], sentences=True)
    odd = [dict(hyp=hyp, ref=ref, line=bleu.sentence_score(hyp, [ref]).format(2, signature=bleu.get_signature().format()),
                tokens={name: " ".join(tok(hyp.rstrip()).split()) for name, tok in tokenizers.items()})
           for hyp, ref in ODD]
    tests = {kind: significance(kind, texts, 10_000) for kind in ("bs", "ar")}
    json.dump(dict(texts=texts, cases=cases, odd=odd, tests=tests), sys.stdout, ensure_ascii=False, indent=0)
    print()


if __name__ == "__main__":
    main()
