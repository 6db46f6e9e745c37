//! Fidelity of text: the laws that hold for any text, and the inputs that other tools stumbled over.

use super::*;
use proptest::prelude::*;
use std::sync::LazyLock;
use unicode_normalization::{UnicodeNormalization, char::canonical_combining_class};

/// A few sentences in several scripts; each is repeated so that words become pieces.
const SENTENCES: [&str; 12] = [
    "The dog sees the small house, and the house is old.",
    "Der Hund sieht das kleine Haus, und das Haus ist alt.",
    "Le chien voit la petite maison ; l'été est déjà là.",
    "강아지가 작은 집을 봅니다. 집은 오래되었습니다.",
    "犬が小さい家を見ます。家は古いです。",
    "图书馆今天开门。",
    "يرى الكلب البيت الصغير.",
    "הכלב רואה את הבית הקטן.",
    "Příliš žluťoučký kůň úpěl ďábelské ódy.",
    "Press <b>OK</b>, then wait 10 seconds (or 20).",
    "Ja! Nein? Vielleicht...",
    "I am here 😀 and you are there.",
];

fn corpus() -> Vec<&'static str> {
    SENTENCES.iter().copied().cycle().take(48).collect()
}

fn train(kind: Kind, vocab_size: usize) -> Tokenizer {
    Tokenizer::train(kind, &corpus(), vocab_size, false).unwrap()
}

static BPE: LazyLock<Tokenizer> = LazyLock::new(|| train(Kind::Bpe, 600));
static WORD: LazyLock<Tokenizer> = LazyLock::new(|| train(Kind::Word, 600));
static CHAR: LazyLock<Tokenizer> = LazyLock::new(|| train(Kind::Char, 600));
static UNIGRAM: LazyLock<Tokenizer> = LazyLock::new(|| train(Kind::Unigram, 600));
static WORDPIECE: LazyLock<Tokenizer> = LazyLock::new(|| train(Kind::WordPiece, 600));

/// The text rules, written a second time without the crate.
fn normalized(text: &str) -> String {
    let seen = text.chars().filter(|c| !['\u{AD}', '\u{200B}', '\u{2060}', '\u{FEFF}'].contains(c));
    let nfc: String = seen.nfc().collect();
    let white = |c: char| c.is_whitespace() || ('\u{1C}'..='\u{1F}').contains(&c) || c == '\u{2581}';
    nfc.split(white).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Characters that Unicode composes since versions 13 and 16. The tokenizer's tables are older than the test's and leave them apart.
const COMPOSED_LATER: [char; 21] = [
    '\u{105C9}',
    '\u{105E4}',
    '\u{11383}',
    '\u{11385}',
    '\u{1138E}',
    '\u{11391}',
    '\u{113C5}',
    '\u{113C7}',
    '\u{113C8}',
    '\u{11938}',
    '\u{16121}',
    '\u{16122}',
    '\u{16123}',
    '\u{16124}',
    '\u{16125}',
    '\u{16126}',
    '\u{16127}',
    '\u{16128}',
    '\u{16D68}',
    '\u{16D69}',
    '\u{16D6A}',
];

/// A text without what differs by the age of the tables: those characters taken apart, and the marks of each character in one order,
/// since marks that are not known stay where they are.
fn by_any_tables(text: &str) -> String {
    let apart = |c: char| if COMPOSED_LATER.contains(&c) { c.nfd().collect() } else { c.to_string() };
    let mut chars: Vec<char> = text.chars().map(apart).collect::<String>().chars().collect();
    for marks in
        chars.chunk_by_mut(|&a, &b| canonical_combining_class(a) != 0 && canonical_combining_class(b) != 0)
    {
        marks.sort_unstable();
    }
    chars.into_iter().collect()
}

fn pieces(tokenizer: &Tokenizer, text: &str) -> Vec<String> {
    tokenizer.encode(text).unwrap().into_iter().map(|id| tokenizer.piece(id).to_string()).collect()
}

fn round_trip(tokenizer: &Tokenizer, text: &str) -> String {
    tokenizer.decode(&tokenizer.encode(text).unwrap()).unwrap()
}

proptest! {
    /// Any text comes back, up to the text rules, with one end mark, and nothing is unknown.
    #[test]
    fn kinds_with_bytes_lose_nothing(text in any::<String>()) {
        for tokenizer in [&*BPE, &*UNIGRAM] {
            let ids = tokenizer.encode(&text).unwrap();
            prop_assert_eq!(by_any_tables(&tokenizer.decode(&ids).unwrap()), by_any_tables(&normalized(&text)));
            prop_assert_eq!(ids.last(), Some(&3));
            prop_assert!(ids[..ids.len() - 1].iter().all(|&id| id > 3));
            prop_assert_eq!(is_blank(&text), ids.len() == 1);
        }
    }

    /// The same for texts made of what tends to break things.
    #[test]
    fn kinds_with_bytes_lose_nothing_of_markup(text in "(</?s>|<pad>|<unk>|<0x[0-9A-F]{2}>|[<>/ s▁\u{200B}\u{AD}\u{301}\u{1E}e😀한])*") {
        for tokenizer in [&*BPE, &*UNIGRAM] {
            let ids = tokenizer.encode(&text).unwrap();
            prop_assert_eq!(tokenizer.decode(&ids).unwrap(), normalized(&text));
            prop_assert!(ids[..ids.len() - 1].iter().all(|&id| id > 3));
        }
    }

    /// Whatever ids a model produces, the output is one line without special tokens or marks.
    #[test]
    fn decoding_gives_one_clean_line(ids in prop::collection::vec(0u32..600, 0..30)) {
        let text = BPE.decode(&ids).unwrap();
        prop_assert!(!text.contains(|c: char| c == '▁' || (c != ' ' && c.is_whitespace())), "{:?}", text);
    }

    /// Text that is normalized already is not changed by normalizing.
    #[test]
    fn encoding_is_stable(text in any::<String>()) {
        let tokenizer = &*LOWER;
        let once = round_trip(tokenizer, &text);
        prop_assert_eq!(round_trip(tokenizer, &once), once);
    }
}

static LOWER: LazyLock<Tokenizer> =
    LazyLock::new(|| Tokenizer::train(Kind::Bpe, &corpus(), 500, true).unwrap());

/// Every character that Unicode composes is composed, but for those that the tables do not know, which stay as they were.
#[test]
fn characters_are_composed() {
    for c in '\u{80}'..=char::MAX {
        let apart: String = c.nfd().collect();
        if apart.chars().eq([c]) || !apart.nfc().eq([c]) {
            continue;
        }
        let expected = if COMPOSED_LATER.contains(&c) { apart.clone() } else { c.to_string() };
        assert_eq!(round_trip(&BPE, &apart), expected, "U+{:X}", c as u32);
    }
}

#[test]
fn every_sentence_comes_back_from_every_kind() {
    for tokenizer in [&*BPE, &*UNIGRAM, &*WORDPIECE, &*WORD, &*CHAR] {
        for sentence in SENTENCES {
            assert_eq!(round_trip(tokenizer, sentence), sentence);
        }
    }
}

#[test]
fn pieces_of_each_kind() {
    assert_eq!(pieces(&BPE, "The house Ж"), ["▁The", "▁house", "▁", "<0xD0>", "<0x96>", "</s>"]);
    assert_eq!(
        pieces(&WORD, "The house, (or 20)."),
        ["▁The", "▁house", ",", "▁(", "or", "▁20", ")", ".", "</s>"]
    );
    assert_eq!(pieces(&WORD, "The zebra"), ["▁The", "<unk>", "</s>"]);
    assert_eq!(pieces(&WORDPIECE, "The houses, Ж"), ["▁The", "▁house", "s", ",", "<unk>", "</s>"]);
    assert_eq!(pieces(&UNIGRAM, "<s>"), ["▁", "<", "s", ">", "</s>"]);
    assert_eq!(pieces(&CHAR, "Ja Ж"), ["▁", "J", "a", "▁", "<unk>", "</s>"]);
    assert_eq!(CHAR.count_unknown(&CHAR.encode("Ж, Ж").unwrap()), 2);
}

#[test]
fn vocabulary_is_laid_out_as_documented() {
    let ids = BPE.special_ids();
    assert_eq!((ids.pad, ids.unk, ids.bos, ids.eos), (0, 1, 2, 3));
    assert_eq!(
        (BPE.piece(0), BPE.piece(3), BPE.piece(4), BPE.piece(259)),
        ("<pad>", "</s>", "<0x00>", "<0xFF>")
    );
    assert_eq!(BPE.piece(260), "▁");
    assert_eq!(BPE.vocab_size(), 600);
}

/// A typed `</s>` is text, even where the corpus is full of it.
#[test]
fn typed_special_tokens_are_text() {
    let html = ["<s>old</s> and <s>new</s>", "</s> <s> <pad> <unk>", "a</s>b<0x41>c <0x0A>"];
    let lines: Vec<&str> = html.iter().copied().cycle().take(300).collect();
    for kind in [Kind::Bpe, Kind::Word, Kind::Char] {
        let tokenizer = Tokenizer::train(kind, &lines, 400, false).unwrap();
        for text in html {
            let ids = tokenizer.encode(text).unwrap();
            assert!(ids[..ids.len() - 1].iter().all(|&id| id > 3), "{kind:?} {text}: {ids:?}");
            assert_eq!(ids.last(), Some(&3));
            assert_eq!(tokenizer.decode(&ids).unwrap(), text);
        }
    }
}

/// A tokenizer made elsewhere, where `</s>` is an ordinary piece as well.
#[test]
fn an_end_mark_read_from_text_never_ends_the_sentence() {
    let json = String::from_utf8(WORD.files()[0].1.to_vec()).unwrap();
    let mut file: serde_json::Value = serde_json::from_str(&json).unwrap();
    file["pre_tokenizer"] = serde_json::json!({"type": "WhitespaceSplit"});
    let foreign = Tokenizer::from_bytes(file.to_string().as_bytes(), "foreign.json").unwrap();
    let comma = foreign.encode(",").unwrap()[0];
    assert_eq!(foreign.encode(", </s> <pad> ,").unwrap(), [comma, 1, 1, comma, 3]);
}

/// One rule for white space of any kind.
#[test]
fn white_space_is_one_blank() {
    let plain = BPE.encode("The small house").unwrap();
    for text in [
        "  The small house ",
        "The\tsmall \t house",
        "The\u{A0}small\u{3000}house",
        "The\u{2028}small\u{1E}house\u{85}",
    ] {
        assert_eq!(BPE.encode(text).unwrap(), plain, "{text:?}");
    }
    assert_eq!(BPE.encode("").unwrap(), [3]);
    assert_eq!(BPE.encode(" \u{200B}\t").unwrap(), [3]);
}

/// What surrounds an emoji stays, invisible characters go, accents in one form or two are one.
#[test]
fn odd_characters_do_not_change_the_rest() {
    assert_eq!(round_trip(&BPE, "The dog. 🦕👩‍👩‍👧 The house."), "The dog. 🦕👩‍👩‍👧 The house.");
    let plain = BPE.encode("The house is old.").unwrap();
    for invisible in ['\u{200B}', '\u{2060}', '\u{AD}', '\u{FEFF}'] {
        assert_eq!(BPE.encode(&format!("The ho{invisible}use is old.{invisible}")).unwrap(), plain);
    }
    let (nfc, nfd) = ("žluťoučký kůň, été, 한국", "žluťoučký kůň, été, 한국".nfd().collect::<String>());
    for tokenizer in [&*BPE, &*WORD, &*CHAR] {
        assert_eq!(tokenizer.encode(nfc).unwrap(), tokenizer.encode(&nfd).unwrap());
    }
    assert_eq!(BPE.encode("e\u{200B}\u{301}te").unwrap(), BPE.encode("éte").unwrap());
}

/// No blanks between CJK letters, no marks, right-to-left text in the order it is stored.
#[test]
fn scripts_come_back_as_stored() {
    for text in [
        "駅の前に古い橋があります。",
        "החנות נפתחת ב-9:30, נכון?",
        "يصل القطار في الساعة 14:05؟\u{200F}",
        "한국어 문장입니다.",
    ] {
        assert_eq!(round_trip(&BPE, text), text);
    }
}

/// One end mark, whatever the post-processor of the file does.
#[test]
fn exactly_one_end_mark() {
    let mut file: serde_json::Value = serde_json::from_slice(BPE.files()[0].1).unwrap();
    assert_eq!(file["post_processor"]["single"][1]["SpecialToken"]["id"], "</s>");
    let plain = BPE.encode("The dog").unwrap();
    assert_eq!(plain.iter().filter(|&&id| id == 3).count(), 1);
    file["post_processor"] = serde_json::Value::Null;
    file["truncation"] =
        serde_json::json!({"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0});
    file["padding"] = serde_json::json!({"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "<pad>"});
    let foreign = Tokenizer::from_bytes(file.to_string().as_bytes(), "foreign.json").unwrap();
    assert_eq!(foreign.encode("The dog").unwrap(), plain);
}

/// Same text, same bytes, also from another order of the lines.
#[test]
fn training_is_deterministic() {
    let lines = corpus();
    let mut shuffled = lines.clone();
    crate::rng::Rng::new(1, "order").shuffle(&mut shuffled);
    for kind in [Kind::Bpe, Kind::Unigram, Kind::WordPiece, Kind::Word, Kind::Char] {
        let first = Tokenizer::train(kind, &lines, 500, false).unwrap();
        assert_eq!(first.files(), Tokenizer::train(kind, &lines, 500, false).unwrap().files());
        assert_eq!(first.files(), Tokenizer::train(kind, &shuffled, 500, false).unwrap().files());
    }
}

/// A tiny corpus gives a smaller vocabulary, a tiny vocabulary a message with the least size.
#[test]
fn vocabulary_size_fits_the_corpus_or_says_why_not() {
    let tiny = Tokenizer::train(Kind::Bpe, &["ab ab ab", "c"], 32_000, false).unwrap();
    // 4 special, 256 bytes, ▁ a b c, and the merges ▁a, ▁ab.
    assert_eq!(tiny.vocab_size(), 4 + 256 + 4 + 2);
    assert_eq!(Tokenizer::train(Kind::Word, &["ab ab, ab"], 32_000, false).unwrap().vocab_size(), 4 + 2);
    assert_eq!(Tokenizer::train(Kind::Char, &["ab ab ab"], 6, false).unwrap().vocab_size(), 6);
    let message = Tokenizer::train(Kind::Bpe, &["ab"], 260, false).unwrap_err().to_string();
    assert!(message.contains("260 is too small") && message.contains("need 261"), "{message}");
    assert_eq!(Tokenizer::train(Kind::Bpe, &["ab ab"], 261, false).unwrap().piece(260), "▁");
    for lines in [&[][..], &[" ", "\u{200B}"]] {
        assert!(Tokenizer::train(Kind::Word, lines, 100, false).unwrap_err().to_string().contains("no text"));
    }
}

/// What the trainer of the crate takes for its own unknown piece, a zero, an endless word, a corpus of one character.
#[test]
fn a_unigram_model_is_learnt_from_anything() {
    let endless = "犬が小さい家を見ます".repeat(300);
    for lines in [&["<UNK> <UNK> <UNK>a"][..], &["a\0b a\0b", "\0"], &[&endless, "x"], &["a"], &["aaaa aaaa"]]
    {
        let tokenizer = Tokenizer::train(Kind::Unigram, lines, 400, false).unwrap();
        for line in lines {
            assert_eq!(round_trip(&tokenizer, line), *line);
        }
    }
    for kind in Kind::NAMES {
        assert!(kind.parse::<Kind>().is_ok(), "{kind}");
    }
}

/// Rare characters are left to bytes, so that frequent ones and merges have room.
#[test]
fn the_alphabet_is_capped() {
    let mut lines = vec!["가나 가나 가나"; 2000];
    lines.push("닭");
    let tokenizer = Tokenizer::train(Kind::Bpe, &lines, 400, false).unwrap();
    assert_eq!(pieces(&tokenizer, "닭"), ["▁", "<0xEB>", "<0x8B>", "<0xAD>", "</s>"]);
    assert_eq!(pieces(&tokenizer, "가나"), ["▁가나", "</s>"]);
    // Half of the 6 pieces that are free may be characters: ▁ and the two most frequent.
    let kanji = Tokenizer::train(Kind::Bpe, &["一一一二二三 一一一二二三"], 266, false).unwrap();
    assert_eq!((kanji.piece(260), kanji.piece(261), kanji.piece(262)), ("▁", "一", "二"));
    assert_eq!(round_trip(&kanji, "三二一"), "三二一");
}

#[test]
fn lowercase_is_a_rule_of_the_file() {
    assert_eq!(round_trip(&LOWER, "THE HOUSE, ÉTÉ İ"), "the house, été i\u{307}");
    assert_eq!(round_trip(&BPE, "THE House"), "THE House");
}

#[test]
fn batches_keep_the_order() {
    let lines: Vec<String> = (0..500).map(|i| format!("house {i}")).collect();
    let batch = BPE.encode_batch(&lines).unwrap();
    assert_eq!(batch.len(), 500);
    assert!(lines.iter().zip(batch).all(|(line, ids)| ids == BPE.encode(line).unwrap()));
}

#[test]
fn a_saved_file_is_the_same_tokenizer() {
    let path = tempfile::tempdir().unwrap().keep().join("tokenizer.json");
    std::fs::write(&path, BPE.files()[0].1).unwrap();
    let opened = Tokenizer::open(&path).unwrap();
    assert_eq!((opened.hash(), opened.files()), (BPE.hash(), BPE.files()));
    assert_eq!(BPE.hash().len(), 64);
    assert_ne!(BPE.hash(), LOWER.hash());
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
}

/// As in the tokenizer.json of OPUS-MT models, which have no start mark.
#[test]
fn a_missing_start_or_padding_mark_is_the_other() {
    let json = String::from_utf8(WORD.files()[0].1.to_vec()).unwrap();
    let special = |json: &str| Tokenizer::from_bytes(json.as_bytes(), "").unwrap().special_ids();
    let all = WORD.special_ids();
    let (no_bos, no_pad) = (special(&json.replace("<s>", "[BOS]")), special(&json.replace("<pad>", "[PAD]")));
    assert_eq!((no_bos.pad, no_bos.bos, no_bos.eos), (all.pad, all.pad, all.eos));
    assert_eq!((no_pad.pad, no_pad.bos, no_pad.unk), (all.bos, all.bos, all.unk));
}

#[test]
fn a_bad_file_is_refused_with_its_name_and_fault() {
    let message =
        |json: &str| Tokenizer::from_bytes(json.as_bytes(), "some/tokenizer.json").unwrap_err().to_string();
    let json = String::from_utf8(WORD.files()[0].1.to_vec()).unwrap();
    let cut = message(&json[..json.len() / 2]);
    assert!(cut.contains("some/tokenizer.json") && cut.contains("column") && cut.contains("fetch"), "{cut}");
    assert!(message("{}").contains("not a tokenizer"), "{}", message("{}"));
    let lacks = message(&json.replace("</s>", "[EOS]"));
    assert!(lacks.contains("lacks <unk> or </s>;"), "{lacks}");
    let mut file: serde_json::Value = serde_json::from_str(&json).unwrap();
    file["model"]["vocab"]["▁The"] = 4000.into();
    let gap = message(&file.to_string());
    assert!(gap.contains("is used not at all"), "{gap}");
    file["model"]["vocab"]["▁The"] = 4.into();
    let twice = message(&file.to_string());
    assert!(twice.contains("4 is used twice"), "{twice}");
    let missing = Tokenizer::open("no/such/tokenizer.json").unwrap_err().to_string();
    assert!(missing.contains("no/such/tokenizer.json"), "{missing}");
}
