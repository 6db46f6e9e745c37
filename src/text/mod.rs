//! Text to ids and back: one [`Tokenizer`] over the `tokenizers` crate, whatever made its `tokenizer.json`.
//!
//! The text rules (`rules`) live inside the file's normalizer, so every program that opens it agrees.
//! A tokenizer is learnt in `train`, with byte pair encoding in `bpe`.
//! Paper section 5.1: one vocabulary shared by source and target.
//!
//! Departs from the crate's defaults: special tokens typed in a text are plain text, and exactly one end
//! mark is added here instead of by the post-processor, so no tokenizer can add none or two.

mod bpe;
mod rules;
mod sample;
mod train;

use crate::config::SpecialIds;
use crate::{Error, Result};
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use std::path::Path;

pub use rules::{clean, is_blank};
pub use sample::Sampler;
pub use train::Kind;

/// The special tokens in the order of their ids in a tokenizer that [`Tokenizer::train`] made.
pub const SPECIAL_TOKENS: [&str; 4] = ["<pad>", "<unk>", "<s>", "</s>"];

/// A trained tokenizer: a vocabulary of pieces and the rules that split a text into them.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    json: Vec<u8>,
    pieces: Vec<String>,
    special: SpecialIds,
}

impl Tokenizer {
    /// Opens a `tokenizer.json`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let json = std::fs::read(path).map_err(|e| Error::io(path, e))?;
        Self::from_bytes(&json, path)
    }

    /// Opens the content of a `tokenizer.json`; `name` is where it came from, for messages.
    pub fn from_bytes(json: &[u8], name: impl AsRef<Path>) -> Result<Self> {
        let name = name.as_ref();
        let bad = |what: String| Error::format(name, what);
        // The crate's own parser gives no position, so a damaged file is found out here.
        serde_json::from_slice::<serde::de::IgnoredAny>(json).map_err(|e| {
            bad(format!("not JSON, perhaps cut short or damaged ({e}); fetch the file again"))
        })?;
        let mut inner = tokenizers::Tokenizer::from_bytes(json)
            .map_err(|e| bad(format!("JSON, but not a tokenizer of the `tokenizers` library ({e})")))?;
        inner.with_padding(None);
        inner.with_truncation(None).map_err(|e| bad(e.to_string()))?;
        inner.set_encode_special_tokens(true);
        let pieces = pieces(&inner).map_err(bad)?;
        let special = special_ids(&inner).map_err(bad)?;
        Ok(Tokenizer { inner, json: json.to_vec(), pieces, special })
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

    /// The bytes of the `tokenizer.json`.
    pub fn to_json(&self) -> &[u8] {
        &self.json
    }

    /// SHA-256 of the file's bytes, in hexadecimal: models name their tokenizer by it.
    pub fn hash(&self) -> String {
        format!("{:x}", Sha256::digest(&self.json))
    }

    /// The ids of the pieces of `text`, then one end mark; no start mark.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let encoding =
            self.inner.encode_fast(text, false).map_err(|e| Error::Tokenizer(format!("{text:?}: {e}")))?;
        // A file made elsewhere can hold `</s>` as an ordinary piece too. Read from a text it must not end
        // the sentence, so it counts as unknown there; files made by `train` have no such piece.
        let plain = |&id: &u32| if self.special.contains(id) { self.special.unk } else { id };
        Ok(encoding.get_ids().iter().map(plain).chain([self.special.eos]).collect())
    }

    /// [`Tokenizer::encode`] of every line, in order, on all threads.
    pub fn encode_batch<S: AsRef<str> + Sync>(&self, lines: &[S]) -> Result<Vec<Vec<u32>>> {
        lines.par_iter().map(|line| self.encode(line.as_ref())).collect()
    }

    /// The text of `ids`, without special tokens, on one line: white space other than the blank, which
    /// only pieces of single bytes can spell, becomes a blank.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        let ids: Vec<u32> = ids.iter().copied().filter(|&id| !self.special.contains(id)).collect();
        let text =
            self.inner.decode(&ids, true).map_err(|e| Error::Tokenizer(format!("ids {ids:?}: {e}")))?;
        Ok(text.chars().map(|c| if rules::is_white_space(c) { ' ' } else { c }).collect())
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
        self.inner.token_to_id(piece).filter(|&id| !self.special.contains(id))
    }

    /// The number of the word that each of the pieces `ids` belongs to, from 0: a piece with a blank (`▁`) at its beginning starts one.
    pub fn words(&self, ids: &[u32]) -> Vec<usize> {
        let mut word = 0;
        let number = |(place, &id): (usize, &u32)| {
            word += usize::from(place > 0 && self.piece(id).starts_with('▁'));
            word
        };
        ids.iter().enumerate().map(number).collect()
    }

    /// What of `text` each of the pieces that [`Tokenizer::encode`] makes of it stands for, with the blank before it if it has one.
    pub fn surfaces(&self, text: &str) -> Result<Vec<String>> {
        let encoding =
            self.inner.encode(text, false).map_err(|e| Error::Tokenizer(format!("{text:?}: {e}")))?;
        let part = |&(from, to): &(usize, usize)| text.get(from..to).unwrap_or_default().to_string();
        Ok(encoding.get_offsets().iter().map(part).collect())
    }

    /// Number of pieces; ids are `0..vocab_size`.
    pub fn vocab_size(&self) -> usize {
        self.pieces.len()
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
fn pieces(inner: &tokenizers::Tokenizer) -> Result<Vec<String>, String> {
    let mut by_id: Vec<(u32, String)> = inner.get_vocab(true).into_iter().map(|(p, id)| (id, p)).collect();
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

/// Finds the special tokens by their text.
fn special_ids(inner: &tokenizers::Tokenizer) -> Result<SpecialIds, String> {
    let ids = SPECIAL_TOKENS.map(|token| inner.token_to_id(token));
    if let [Some(pad), Some(unk), Some(bos), Some(eos)] = ids {
        return Ok(SpecialIds { pad, unk, bos, eos });
    }
    let missing: Vec<&str> =
        SPECIAL_TOKENS.iter().zip(ids).filter(|(_, id)| id.is_none()).map(|(token, _)| *token).collect();
    Err(format!(
        "the vocabulary lacks {}; a translation model needs {}",
        missing.join(" "),
        SPECIAL_TOKENS.join(" ")
    ))
}

#[cfg(test)]
mod tests;
