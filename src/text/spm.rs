//! A SentencePiece model as a tokenizer: with the ids of its file, or as OPUS-MT models have it, with those of a
//! `vocab.json` in which the pieces are looked up (`MarianTokenizer` of transformers).
//!
//! Departs from `MarianTokenizer`: `>>xx<<` at the start of a text is one piece only if the vocabulary has it, and plain
//! text otherwise, where `MarianTokenizer` gives an unknown piece; special tokens in a text are plain text, as
//! with its `split_special_tokens=True`.

use super::sentencepiece::{SentencePiece, Token};
use super::{by_id, special_ids};
use crate::config::SpecialIds;
use std::collections::HashMap;

/// Says what is wrong with which of the two files.
#[derive(Debug)]
pub(super) enum Fault {
    Model(String),
    Vocab(String),
}

/// A SentencePiece model and whose ids its pieces have.
#[derive(Debug, Clone)]
pub(super) struct Spm {
    model: SentencePiece,
    vocab: Option<Vocab>,
}

/// A `vocab.json`, and how its ids and those of the model belong together.
#[derive(Debug, Clone)]
struct Vocab {
    ids: HashMap<String, u32>,
    /// For each piece of the model, its id here.
    of_model: Vec<u32>,
    /// For each id here, the piece of the model.
    in_model: Vec<Option<u32>>,
    unk: u32,
    has_codes: bool,
}

impl Spm {
    /// Reads a model, and the vocabulary if there is one. Gives the pieces by id and the special ids too.
    pub fn read(model: &[u8], vocab: Option<&[u8]>) -> Result<(Self, Vec<String>, SpecialIds), Fault> {
        let model = SentencePiece::read(model).map_err(Fault::Model)?;
        let Some(bytes) = vocab else {
            let special = special_of_model(&model).map_err(Fault::Model)?;
            let pieces = model.pieces().map(String::from).collect();
            return Ok((Spm { model, vocab: None }, pieces, special));
        };
        let read = || {
            let ids = serde_json::from_slice::<HashMap<String, u32>>(bytes).map_err(|e| {
                format!("expected an object of pieces and their ids, found {e}; fetch the file again")
            })?;
            let pieces = by_id(ids.clone().into_iter().collect())?;
            let special = special_ids(|token| ids.get(token).copied())?;
            Ok((Vocab::new(&model, ids, &pieces, special.unk), pieces, special))
        };
        let (vocab, pieces, special) = read().map_err(Fault::Vocab)?;
        Ok((Spm { model, vocab: Some(vocab) }, pieces, special))
    }

    /// The ids of the pieces of `text`.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let Some(vocab) = &self.vocab else {
            let unk = self.model.specials().unk;
            let id = |token| if let Token::Piece(id) = token { id } else { unk };
            return self.model.cut(&self.model.normalize(text)).into_iter().map(id).collect();
        };
        let (code, text) = vocab.split_code(text);
        let tokens = self.model.normalize(text);
        code.into_iter().chain(self.model.cut(&tokens).into_iter().map(|token| vocab.id(token))).collect()
    }

    /// What each of the pieces that [`Spm::encode`] gives stands for.
    pub fn surfaces(&self, text: &str) -> Vec<String> {
        let (code, text) = self.vocab.as_ref().map_or((None, text), |vocab| vocab.split_code(text));
        let normalized = self.model.normalize(text);
        let surface = |token| match token {
            Token::Piece(id) => self.model.piece(id).replace('▁', " "),
            Token::Unknown(text) => text.replace('▁', " "),
        };
        code.iter()
            .map(|_| String::new())
            .chain(self.model.cut(&normalized).into_iter().map(surface))
            .collect()
    }

    /// The text of `ids`, among which there shall be no special ones.
    pub fn decode(&self, ids: &[u32], pieces: &[String]) -> String {
        let Some(vocab) = &self.vocab else {
            return self.model.put_together(ids.iter().map(|&id| Token::Piece(id)));
        };
        let token = |&id: &u32| match vocab.in_model.get(id as usize) {
            Some(Some(id)) => Token::Piece(*id),
            _ => Token::Unknown(pieces.get(id as usize).map_or("", String::as_str)),
        };
        // A piece that only the other language's model has still holds its mark.
        self.model.put_together(ids.iter().map(token)).replace('▁', " ").trim().to_string()
    }

    /// The id of a piece.
    pub fn id(&self, piece: &str) -> Option<u32> {
        match &self.vocab {
            Some(vocab) => vocab.ids.get(piece).copied(),
            None => self.model.id(piece),
        }
    }
}

impl Vocab {
    fn new(model: &SentencePiece, ids: HashMap<String, u32>, pieces: &[String], unk: u32) -> Self {
        let in_model: HashMap<&str, u32> = model.pieces().zip(0..).collect();
        Vocab {
            of_model: model.pieces().map(|piece| ids.get(piece).copied().unwrap_or(unk)).collect(),
            in_model: pieces.iter().map(|piece| in_model.get(piece.as_str()).copied()).collect(),
            unk,
            has_codes: pieces.iter().any(|piece| is_code(piece)),
            ids,
        }
    }

    /// Unknown to the model of one language may be a piece of the other's.
    fn id(&self, token: Token) -> u32 {
        let id = match token {
            Token::Piece(id) => self.of_model.get(id as usize),
            Token::Unknown(text) => self.ids.get(text),
        };
        id.copied().unwrap_or(self.unk)
    }

    /// The target language that `text` names at its start, `>>de<<`, and the rest.
    fn split_code<'a>(&self, text: &'a str) -> (Option<u32>, &'a str) {
        let end = text.find("<<").filter(|_| self.has_codes).map_or(0, |at| at + 2);
        match text.split_at_checked(end) {
            Some((code, rest)) if is_code(code) && self.ids.contains_key(code) => {
                (self.ids.get(code).copied(), rest)
            }
            _ => (None, text),
        }
    }
}

/// Whether a piece names a target language.
pub(super) fn is_code(piece: &str) -> bool {
    piece.len() > 4 && piece.starts_with(">>") && piece.ends_with("<<")
}

/// What is missing is replaced as by [`special_ids`].
fn special_of_model(model: &SentencePiece) -> Result<SpecialIds, String> {
    let found = model.specials();
    let eos =
        found.eos.ok_or("it has no end mark (a control piece, usually </s>): train it with --eos_id")?;
    let unk = found.unk;
    Ok(SpecialIds {
        pad: found.pad.or(found.bos).unwrap_or(unk),
        unk,
        bos: found.bos.or(found.pad).unwrap_or(unk),
        eos,
    })
}
