//! Text to ids and back: one [`Tokenizer`], whether a `tokenizer.json` (read by the `tokenizers` crate) or a
//! SentencePiece model (`spm`, over `sentencepiece`) is behind it.
//!
//! The text rules (`rules`) live inside the file's normalizer, so every program that opens it agrees.
//! A tokenizer is learnt in `train`, with byte pair encoding in `bpe`, unigram models in `unigram`.
//! Paper section 5.1: one vocabulary shared by source and target.
//!
//! Departs from the crate's defaults: special tokens typed in a text are plain text, and exactly one end
//! mark is added here instead of by the post-processor, so no tokenizer can add none or two.

mod bpe;
pub mod files;
mod guarded;
mod rules;
mod sample;
mod sentencepiece;
mod spm;
mod train;
mod unigram;

use crate::config::SpecialIds;
use crate::{Error, Result};
use guarded::{check_growth, guarded};
use rayon::prelude::*;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use spm::{Fault, Spm};
use std::path::Path;
use std::sync::Arc;

pub use rules::{clean, is_blank};
pub use sample::Sampler;
pub use train::Kind;

/// The special tokens in the order of their ids in a tokenizer that [`Tokenizer::train`] made.
pub const SPECIAL_TOKENS: [&str; 4] = ["<pad>", "<unk>", "<s>", "</s>"];

/// A trained tokenizer: a vocabulary of pieces and the rules that split a text into them.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    engine: Engine,
    /// The file it was opened from.
    file: Vec<u8>,
    /// The `vocab.json` beside a SentencePiece model.
    vocab: Option<Vec<u8>>,
    pieces: Vec<String>,
    special: SpecialIds,
    /// That of the target language, if it has its own.
    tgt: Option<Box<Tokenizer>>,
}

/// The part of a `tokenizer.json` that changes texts.
#[derive(Debug, Deserialize)]
struct Rules {
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    decoder: Value,
}

/// What cuts a text.
#[derive(Debug, Clone)]
enum Engine {
    Json(Arc<tokenizers::Tokenizer>),
    SentencePiece(Arc<Spm>),
}

impl Tokenizer {
    /// Opens a SentencePiece model (`.model`, `.spm`), a folder with one of the [known forms](files), or a `tokenizer.json`
    /// of whatever name.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        if path.is_dir() {
            return Self::open_folder(path);
        }
        let bytes = std::fs::read(path).map_err(|e| Error::io(path, e))?;
        match path.extension().and_then(std::ffi::OsStr::to_str) {
            Some("model" | "spm") => Self::from_sentencepiece(&bytes, path, None),
            _ => Self::from_bytes(&bytes, path),
        }
    }

    /// Opens the content of a `tokenizer.json`; `name` is where it came from, for messages.
    pub fn from_bytes(json: &[u8], name: impl AsRef<Path>) -> Result<Self> {
        let name = name.as_ref();
        let bad = |what: String| Error::format(name, what);
        // The crate's own parser gives no position, so a damaged file is found out here.
        let text = std::str::from_utf8(json).map_err(|e| {
            bad(format!("not UTF-8 from byte {} on: damaged, fetch the file again", e.valid_up_to()))
        })?;
        let rules: Rules = serde_json::from_str(text).map_err(|e| {
            bad(format!("not JSON of a tokenizer, perhaps cut short or damaged ({e}); fetch the file again"))
        })?;
        check_growth(&rules.normalizer).and_then(|()| check_growth(&rules.decoder)).map_err(bad)?;
        let mut inner = guarded(|| tokenizers::Tokenizer::from_bytes(json))
            .map_err(|e| bad(format!("JSON, but not a tokenizer of the `tokenizers` library ({e})")))?;
        inner.with_padding(None);
        inner.with_truncation(None).map_err(|e| bad(e.to_string()))?;
        inner.set_encode_special_tokens(true);
        let pieces = by_id(inner.get_vocab(true).into_iter().collect()).map_err(bad)?;
        let special = special_ids(|token| inner.token_to_id(token)).map_err(bad)?;
        let engine = Engine::Json(Arc::new(inner));
        Ok(Tokenizer { engine, file: json.to_vec(), vocab: None, pieces, special, tgt: None })
    }

    /// Opens a SentencePiece model (`.model`, `.spm`). With a `vocab.json` the pieces have its ids, as in OPUS-MT models.
    pub fn sentencepiece(model: impl AsRef<Path>, vocab: Option<&Path>) -> Result<Self> {
        let model = model.as_ref();
        let read = |path: &Path| std::fs::read(path).map_err(|e| Error::io(path, e));
        let (bytes, ids) = (read(model)?, vocab.map(read).transpose()?);
        Self::from_sentencepiece(&bytes, model, ids.as_deref().zip(vocab))
    }

    /// Opens the content of a SentencePiece model, and of a `vocab.json` if it has one; the names are where they came
    /// from, for messages.
    pub fn from_sentencepiece(
        model: &[u8],
        name: impl AsRef<Path>,
        vocab: Option<(&[u8], &Path)>,
    ) -> Result<Self> {
        let name = name.as_ref();
        let (spm, pieces, special) =
            Spm::read(model, vocab.map(|(bytes, _)| bytes)).map_err(|fault| match fault {
                Fault::Model(what) => {
                    Error::format(name, format!("expected a SentencePiece model, but {what}"))
                }
                Fault::Vocab(what) => Error::format(vocab.map_or(name, |(_, name)| name), what),
            })?;
        Ok(Tokenizer {
            engine: Engine::SentencePiece(Arc::new(spm)),
            file: model.to_vec(),
            vocab: vocab.map(|(bytes, _)| bytes.to_vec()),
            pieces,
            special,
            tgt: None,
        })
    }

    /// Learns a tokenizer from `lines` (without their line feeds). The result has at most `vocab_size`
    /// pieces: a corpus that cannot fill it gives fewer, which [`Tokenizer::vocab_size`] tells.
    /// Same lines in any order, same bytes.
    pub fn train<S: AsRef<str> + Sync>(
        kind: Kind,
        lines: &[S],
        vocab_size: usize,
        lowercase: bool,
    ) -> Result<Self> {
        let json = train::tokenizer_json(kind, lines, vocab_size, lowercase)?;
        Self::from_bytes(json.as_bytes(), "tokenizer.json")
    }

    /// This one for the source and `tgt` for the target language.
    pub fn with_target(self, tgt: Tokenizer) -> Self {
        Tokenizer { tgt: Some(Box::new(tgt)), ..self }
    }

    /// That of the target language: the same, unless it has its own.
    pub fn tgt(&self) -> &Tokenizer {
        self.tgt.as_deref().unwrap_or(self)
    }

    /// Whether both languages have the same pieces and ids.
    pub fn is_joint(&self) -> bool {
        self.tgt().pieces == self.pieces
    }

    /// SHA-256 of its files' bytes, one after the other, in hexadecimal: models name their tokenizer by it.
    pub fn hash(&self) -> String {
        let digest = self.files().iter().fold(Sha256::new(), |digest, (_, bytes)| digest.chain_update(bytes));
        format!("{:x}", digest.finalize())
    }

    /// The ids of the pieces of `text`, then one end mark; no start mark.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let ids = match &self.engine {
            Engine::SentencePiece(spm) => spm.encode(text),
            Engine::Json(inner) => {
                let encoding = guarded(|| inner.encode_fast(text, false));
                encoding.map_err(|e| Error::Tokenizer(format!("{text:?}: {e}")))?.get_ids().to_vec()
            }
        };
        // A file made elsewhere can hold `</s>` as an ordinary piece too. Read from a text it must not end
        // the sentence, so it counts as unknown there; files made by `train` have no such piece.
        let plain = |&id: &u32| if self.special.contains(id) { self.special.unk } else { id };
        Ok(ids.iter().map(plain).chain([self.special.eos]).collect())
    }

    /// [`Tokenizer::encode`] of every line, in order, on all threads.
    pub fn encode_batch<S: AsRef<str> + Sync>(&self, lines: &[S]) -> Result<Vec<Vec<u32>>> {
        lines.par_iter().map(|line| self.encode(line.as_ref())).collect()
    }

    /// The text of `ids`, without special tokens, on one line: white space other than the blank, which
    /// only pieces of single bytes can spell, becomes a blank. Of a SentencePiece model only control characters and
    /// line separators do; it may know a no-break space.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        let ids: Vec<u32> = ids.iter().copied().filter(|&id| !self.special.contains(id)).collect();
        let blanked =
            |text: String, f: fn(char) -> bool| text.chars().map(|c| if f(c) { ' ' } else { c }).collect();
        match &self.engine {
            Engine::SentencePiece(spm) => Ok(blanked(spm.decode(&ids, &self.pieces), rules::breaks_a_line)),
            Engine::Json(inner) => {
                let text = guarded(|| inner.decode(&ids, true));
                let text = text.map_err(|e| Error::Tokenizer(format!("ids {ids:?}: {e}")))?;
                Ok(blanked(text, rules::is_white_space))
            }
        }
    }

    /// All pieces by id.
    pub fn pieces(&self) -> &[String] {
        &self.pieces
    }

    /// The piece of `id` as the vocabulary stores it (`▁dog`); an id outside the vocabulary gives the
    /// unknown piece.
    pub fn piece(&self, id: u32) -> &str {
        self.pieces.get(id as usize).map_or(SPECIAL_TOKENS[1], String::as_str)
    }

    /// The id of a piece as the vocabulary stores it; special tokens are no pieces of a text.
    pub fn id(&self, piece: &str) -> Option<u32> {
        let id = match &self.engine {
            Engine::SentencePiece(spm) => spm.id(piece),
            Engine::Json(inner) => inner.token_to_id(piece),
        };
        id.filter(|&id| !self.special.contains(id))
    }

    /// The pieces that name a target language at the start of a text: `>>de<<`.
    pub fn language_codes(&self) -> Vec<&str> {
        self.pieces.iter().map(String::as_str).filter(|piece| spm::is_code(piece)).collect()
    }

    /// The number of the word that each of the pieces `ids` belongs to, from 0: a piece with a blank (`▁`) at its beginning starts one,
    /// but a blank before another, or at the end, which starts none.
    pub fn words(&self, ids: &[u32]) -> Vec<usize> {
        let starts = |place: usize| ids.get(place).is_none_or(|&id| self.piece(id).starts_with('▁'));
        let (mut word, mut is_begun) = (0, false);
        let number = |(place, &id): (usize, &u32)| {
            let is_empty = self.piece(id) == "▁" && starts(place + 1);
            word += usize::from(is_begun && !is_empty && starts(place));
            is_begun |= !is_empty;
            word
        };
        ids.iter().enumerate().map(number).collect()
    }

    /// What of `text` each of the pieces that [`Tokenizer::encode`] makes of it stands for, with the blank before it if it has one;
    /// of a SentencePiece model what its rules make of the text.
    pub fn surfaces(&self, text: &str) -> Result<Vec<String>> {
        match &self.engine {
            Engine::SentencePiece(spm) => Ok(spm.surfaces(text)),
            Engine::Json(inner) => {
                let encoding = guarded(|| inner.encode(text, false))
                    .map_err(|e| Error::Tokenizer(format!("{text:?}: {e}")))?;
                let part = |&(from, to): &(usize, usize)| text.get(from..to).unwrap_or_default().to_string();
                Ok(encoding.get_offsets().iter().map(part).collect())
            }
        }
    }

    /// Number of pieces; ids are `0..vocab_size`.
    pub fn vocab_size(&self) -> usize {
        self.pieces.len()
    }

    /// Number of pieces of the source and of the target language.
    pub fn vocab_sizes(&self) -> [usize; 2] {
        [self.vocab_size(), self.tgt().vocab_size()]
    }

    /// Ids of the special tokens.
    pub fn special_ids(&self) -> SpecialIds {
        self.special
    }

    /// How many of `ids` are the unknown piece.
    pub fn count_unknown(&self, ids: &[u32]) -> usize {
        ids.iter().filter(|&&id| id == self.special.unk).count()
    }
}

/// The pieces by id, after checking that the ids are 0, 1, 2... without a gap: they index an embedding.
pub(crate) fn by_id(vocab: Vec<(String, u32)>) -> Result<Vec<String>, String> {
    let mut by_id: Vec<(u32, String)> = vocab.into_iter().map(|(piece, id)| (id, piece)).collect();
    by_id.sort();
    for (expected, (id, piece)) in (0u32..).zip(&by_id) {
        if *id != expected {
            let fault = if *id < expected { "twice" } else { "not at all" };
            return Err(format!(
                "{} pieces need the ids 0 to {}, but {} is used {fault} (next is {piece:?} with {id}); \
                 an id must be a row of the embedding",
                by_id.len(),
                by_id.len() - 1,
                expected.min(*id),
            ));
        }
    }
    Ok(by_id.into_iter().map(|(_, piece)| piece).collect())
}

/// The special tokens by their text. A missing start or padding mark is the other of the two, else the unknown piece: all that a
/// search never gives.
fn special_ids(id: impl Fn(&str) -> Option<u32>) -> Result<SpecialIds, String> {
    let [pad, unk, bos, eos] = SPECIAL_TOKENS.map(id);
    let (Some(unk), Some(eos)) = (unk, eos) else {
        return Err(format!(
            "the vocabulary lacks {} or {}; a translation model needs both",
            SPECIAL_TOKENS[1], SPECIAL_TOKENS[3]
        ));
    };
    Ok(SpecialIds { pad: pad.or(bos).unwrap_or(unk), unk, bos: bos.or(pad).unwrap_or(unk), eos })
}

#[cfg(test)]
mod spm_tests;
#[cfg(test)]
mod tests;
