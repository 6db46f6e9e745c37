//! Learning a tokenizer from text: which pieces the vocabulary holds.
//!
//! Paper section 5.1 (byte pair encoding, one vocabulary for both languages). The crate's trainers are not
//! used, because their results depend on hash order; everything here is sorted by count, then by text.

use super::{SPECIAL_TOKENS, bpe, rules, unigram};
use crate::{Error, Result};
use rayon::prelude::*;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use tokenizers::{
    NormalizedString, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer,
};

/// Lines used at most; of a larger corpus every k-th line is taken. More would not change the pieces.
const MAX_LINES: usize = 4_000_000;

/// Share of all characters that get a piece of their own in byte pair encoding; the rare rest is spelt in
/// bytes, so that Hangul and Kanji do not fill the vocabulary with characters seen once.
const COVERAGE: f64 = 0.9995;

/// Longer words are unknown to a wordpiece tokenizer, because it tries all their parts.
const MAX_WORD: usize = 200;

/// What a piece is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Byte pair encoding: frequent words whole, rare ones in parts, anything else in bytes.
    Bpe,
    /// A unigram language model: the most probable way to cut a text into pieces, anything else in bytes.
    Unigram,
    /// Words cut into the longest pieces from the left; a word with a character that was not seen is unknown.
    WordPiece,
    /// Whole words and punctuation marks; a rare word is unknown.
    Word,
    /// Single characters; one not seen in training is unknown.
    Char,
}

impl Kind {
    /// Their names, as [`Kind::from_str`](std::str::FromStr) reads them.
    pub const NAMES: [&str; 5] = ["bpe", "unigram", "wordpiece", "word", "char"];

    /// Whether characters without a piece are spelt in bytes.
    pub(super) fn has_bytes(self) -> bool {
        matches!(self, Kind::Bpe | Kind::Unigram)
    }
}

impl std::str::FromStr for Kind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "bpe" => Ok(Kind::Bpe),
            "unigram" => Ok(Kind::Unigram),
            "wordpiece" => Ok(Kind::WordPiece),
            "word" => Ok(Kind::Word),
            "char" => Ok(Kind::Char),
            _ => Err(Error::Config(format!("tokenizer kind {name:?} is none of {}", Kind::NAMES.join(", ")))),
        }
    }
}

/// A `tokenizer.json` of at most `vocab_size` pieces learnt from `lines`.
pub(super) fn tokenizer_json<S: AsRef<str> + Sync>(
    kind: Kind,
    lines: &[S],
    vocab_size: usize,
    lowercase: bool,
) -> Result<String> {
    let mut pieces: Vec<String> = SPECIAL_TOKENS.map(String::from).to_vec();
    if kind.has_bytes() {
        pieces.extend((0..=255u8).map(|byte| format!("<0x{byte:02X}>")));
    }
    if vocab_size <= pieces.len() {
        let bytes = if kind.has_bytes() { ", 256 bytes" } else { "" };
        return Err(Error::Config(format!(
            "a vocabulary of {vocab_size} is too small: 4 special tokens{bytes} and at least one piece of \
             text need {}",
            pieces.len() + 1
        )));
    }
    let words = count_words(kind, lines, lowercase)?;
    if words.is_empty() {
        let what = if lines.is_empty() { "there are no lines" } else { "every line is blank" };
        return Err(Error::Tokenizer(format!("no text to learn from: {what}")));
    }
    let model = learn(kind, words, vocab_size - pieces.len(), &mut pieces);
    Ok(rules::tokenizer(kind, lowercase, model.json(kind, pieces)).to_string())
}

/// Adds at most `room` pieces to `pieces`, and gives what else their model is made of.
fn learn(kind: Kind, words: Vec<(String, u64)>, room: usize, pieces: &mut Vec<String>) -> Model {
    let few = (room / 2).max(1);
    match kind {
        Kind::Word => {
            pieces.extend(by_count(words).into_iter().map(|(word, _)| word).take(room));
            Model::Word
        }
        Kind::Char => {
            pieces.extend(alphabet(&words, 1.0, room));
            Model::Pairs(vec![])
        }
        Kind::Bpe => {
            let learnt = bpe::learn(&words, alphabet(&words, COVERAGE, few), room);
            pieces.extend(learnt.pieces);
            Model::Pairs(learnt.merges)
        }
        Kind::WordPiece => {
            pieces.extend(bpe::learn(&words, alphabet(&words, 1.0, few), room).pieces);
            Model::Longest
        }
        Kind::Unigram => {
            let learnt = unigram::learn(&words, &alphabet(&words, COVERAGE, few), room);
            let (learnt, scores) = learnt.into_iter().unzip::<_, _, Vec<_>, Vec<_>>();
            // No text holds special tokens and bytes: it is cut before each `<`.
            let scores = pieces.iter().map(|_| 0.0).chain(scores).collect();
            pieces.extend(learnt);
            Model::Scores(scores)
        }
    }
}

/// What a vocabulary needs besides its pieces.
enum Model {
    Word,
    Longest,
    /// The merges; without any there are only characters.
    Pairs(Vec<(String, String)>),
    /// The log-probabilities of all pieces.
    Scores(Vec<f64>),
}

impl Model {
    fn json(self, kind: Kind, pieces: Vec<String>) -> Value {
        let unk = SPECIAL_TOKENS[1];
        let vocab = |pieces: Vec<String>| -> Map<String, Value> {
            pieces.into_iter().enumerate().map(|(id, piece)| (piece, json!(id))).collect()
        };
        match self {
            Model::Word => json!({"type": "WordLevel", "vocab": vocab(pieces), "unk_token": unk}),
            Model::Longest => json!({
                "type": "WordPiece", "unk_token": unk, "continuing_subword_prefix": "",
                "max_input_chars_per_word": MAX_WORD, "vocab": vocab(pieces)
            }),
            Model::Pairs(merges) => json!({
                "type": "BPE", "dropout": null, "unk_token": unk, "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": kind.has_bytes(),
                "ignore_merges": false, "vocab": vocab(pieces), "merges": merges
            }),
            Model::Scores(scores) => {
                let vocab: Vec<(String, f64)> = pieces.into_iter().zip(scores).collect();
                json!({"type": "Unigram", "unk_id": 1, "vocab": vocab, "byte_fallback": true})
            }
        }
    }
}

/// The words of `lines`, as normalizer and pre-tokenizer of `kind` cut them, with their counts, sorted by
/// text.
fn count_words<S: AsRef<str> + Sync>(kind: Kind, lines: &[S], lowercase: bool) -> Result<Vec<(String, u64)>> {
    let failed = |e: tokenizers::Error| Error::Tokenizer(e.to_string());
    // The model itself is not used here.
    let no_model = Model::Word.json(kind, SPECIAL_TOKENS.map(String::from).to_vec());
    let json = rules::tokenizer(kind, lowercase, no_model);
    let rules = tokenizers::Tokenizer::from_bytes(json.to_string()).map_err(failed)?;
    let count = |mut counts: HashMap<String, u64>, line: &S| {
        let mut text = NormalizedString::from(line.as_ref());
        if let Some(normalizer) = rules.get_normalizer() {
            normalizer.normalize(&mut text)?;
        }
        let mut words = PreTokenizedString::from(text);
        if let Some(pre_tokenizer) = rules.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut words)?;
        }
        for (word, _, _) in words.get_splits(OffsetReferential::Normalized, OffsetType::None) {
            match counts.get_mut(word) {
                Some(n) => *n += 1,
                None if word.is_empty() => {}
                None => {
                    counts.insert(word.to_string(), 1);
                }
            }
        }
        Ok(counts)
    };
    let add = |mut a: HashMap<String, u64>, b: HashMap<String, u64>| {
        b.into_iter().for_each(|(word, n)| *a.entry(word).or_default() += n);
        Ok(a)
    };
    let stride = lines.len().div_ceil(MAX_LINES).max(1);
    let counts = lines
        .par_iter()
        .step_by(stride)
        .try_fold(HashMap::new, count)
        .try_reduce(HashMap::new, add)
        .map_err(failed)?;
    let mut words: Vec<_> = counts.into_iter().collect();
    words.sort_unstable();
    Ok(words)
}

/// The most frequent first; equal counts in the order of their text.
fn by_count<T: Ord>(mut counts: Vec<(T, u64)>) -> Vec<(T, u64)> {
    counts.sort_unstable_by(|(a, m), (b, n)| n.cmp(m).then(a.cmp(b)));
    counts
}

/// The most frequent characters, at most `limit`, until they make up `coverage` of the text. The blank
/// comes first: without it no word could be spelt.
fn alphabet(words: &[(String, u64)], coverage: f64, limit: usize) -> Vec<String> {
    let mut counts: HashMap<char, u64> = HashMap::new();
    for (word, n) in words {
        word.chars().for_each(|c| *counts.entry(c).or_default() += n);
    }
    let total: u64 = counts.values().sum();
    let mut chars = by_count(counts.into_iter().collect());
    chars.sort_by_key(|&(c, _)| c != '▁');
    let mut covered = 0;
    let enough = |&(_, n): &(char, u64)| {
        let more = (covered as f64) < coverage * total as f64;
        covered += n;
        more
    };
    chars.into_iter().take_while(enough).take(limit).map(|(c, _)| c.to_string()).collect()
}
