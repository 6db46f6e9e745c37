//! SentencePiece models (Kudo and Richardson 2018): `.model` and `.spm` files of every type, cut and put together as
//! version 0.2.3 of the original does it, to the id.
//!
//! `wire` reads the file, `normalizer` prepares a text, `unigram` and `bpe` cut it; words and characters are cut here.
//! Departs from the original: unknown pieces and control symbols are not printed (the original prints ` ⁇ `), and a
//! model without an unknown piece is refused.

mod bpe;
mod dictionary;
mod normalizer;
mod unigram;
mod wire;

use dictionary::Dictionary;
use normalizer::{BLANK, Normalizer, longest_whole};
use std::collections::HashSet;
use wire::{ModelFile, ModelKind, Piece, PieceKind};

/// A piece as the original refuses it from this length.
const MAX_PIECE: usize = 8000;

/// A piece of the vocabulary.
#[derive(Debug, Clone)]
struct Entry {
    text: Box<str>,
    score: f32,
    kind: PieceKind,
}

/// A part of a text, and its piece if it is one.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Span {
    length: usize,
    id: Option<u32>,
}

/// A part of a text after cutting, or of one that is to be put together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Token<'a> {
    /// A piece, or one byte of a character that is none.
    Piece(u32),
    /// A run of characters that are no pieces.
    Unknown(&'a str),
}

/// The ids that a model gives its special pieces, where it has them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Specials {
    pub unk: u32,
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    pub pad: Option<u32>,
}

/// A SentencePiece model.
#[derive(Debug, Clone)]
pub(super) struct SentencePiece {
    model: ModelKind,
    entries: Vec<Entry>,
    /// What can be found in a text.
    dictionary: Dictionary,
    /// What is left as it is.
    whole: Dictionary,
    normalizer: Normalizer,
    denormalizer: Option<Normalizer>,
    /// The pieces of the 256 bytes, if unknown characters are spelt in them.
    bytes: Option<Vec<u32>>,
    unknown_score: f32,
    specials: Specials,
}

impl SentencePiece {
    /// Reads a model; an error says what is wrong with it, without the name of the file.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut file = ModelFile::read(bytes)?;
        if file.trainer.byte_fallback {
            // Other programs write a zero beside <0x00>, which no text can hold; the original does not use it either.
            let zeros = file.pieces.iter_mut().filter(|piece| piece.text == "\0");
            zeros.for_each(|piece| piece.kind = PieceKind::Unused);
        }
        check(&file)?;
        let of_kind = |kinds: &'static [PieceKind]| {
            let numbered = file.pieces.iter().zip(0u32..);
            numbered
                .filter(|(piece, _)| kinds.contains(&piece.kind) && piece.text != "\0")
                .map(|(piece, id)| (piece.text, id))
        };
        let twice =
            |text: &str| format!("its piece {text:?} is there twice: an id must be found by its piece");
        let dictionary =
            Dictionary::new(of_kind(&[PieceKind::Normal, PieceKind::UserDefined, PieceKind::Unused]));
        let dictionary = dictionary.map_err(twice)?;
        let whole = Dictionary::new(of_kind(&[PieceKind::UserDefined])).map_err(twice)?;
        let hidden = Dictionary::new(of_kind(&[PieceKind::Unknown, PieceKind::Control, PieceKind::Byte]))
            .map_err(twice)?;
        let denormalizer = match file.denormalizer.charsmap {
            [] => None,
            _ => Some(Normalizer::new(&file.denormalizer, false)?),
        };
        let entries: Vec<Entry> = file.pieces.iter().map(Entry::from).collect();
        Ok(SentencePiece {
            model: file.trainer.model,
            normalizer: Normalizer::new(&file.normalizer, file.trainer.whitespace_is_suffix)?,
            denormalizer,
            bytes: if file.trainer.byte_fallback { Some(byte_pieces(&hidden)?) } else { None },
            unknown_score: unigram::unknown_score(&entries),
            specials: specials(&file, &hidden)?,
            dictionary,
            whole,
            entries,
        })
    }

    /// The texts of all pieces, by id.
    pub fn pieces(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| &*entry.text)
    }

    /// The text of a piece.
    pub fn piece(&self, id: u32) -> &str {
        self.entries.get(id as usize).map_or("", |entry| &entry.text)
    }

    /// The id of a piece, of whatever kind.
    pub fn id(&self, piece: &str) -> Option<u32> {
        let hidden = || self.entries.iter().position(|entry| &*entry.text == piece).map(|at| at as u32);
        self.dictionary.find(piece).or_else(hidden)
    }

    /// The ids of the special pieces.
    pub fn specials(&self) -> Specials {
        self.specials
    }

    /// `text` as the pieces spell it.
    pub fn normalize(&self, text: &str) -> String {
        self.normalizer.apply(text, &self.whole)
    }

    /// Cuts a text that [`SentencePiece::normalize`] prepared.
    pub fn cut<'a>(&self, normalized: &'a str) -> Vec<Token<'a>> {
        let (mut tokens, mut start) = (vec![], 0);
        let mut unknown_from = None;
        for span in self.spans(normalized) {
            let end = start + span.length;
            if let Some(from) = unknown_from.filter(|_| span.id.is_some()) {
                tokens.push(Token::Unknown(normalized.get(from..start).unwrap_or_default()));
                unknown_from = None;
            }
            match (span.id, &self.bytes) {
                (Some(id), _) => tokens.push(Token::Piece(id)),
                (None, Some(bytes)) => {
                    let spelt = normalized.as_bytes().get(start..end).unwrap_or_default().iter();
                    tokens.extend(
                        spelt.filter_map(|&byte| bytes.get(usize::from(byte)).copied()).map(Token::Piece),
                    );
                }
                (None, None) => unknown_from = unknown_from.or(Some(start)),
            }
            start = end;
        }
        tokens.extend(unknown_from.and_then(|from| normalized.get(from..)).map(Token::Unknown));
        tokens
    }

    fn spans(&self, text: &str) -> Vec<Span> {
        match self.model {
            ModelKind::Unigram => unigram::cut(text, &self.dictionary, &self.entries, self.unknown_score),
            ModelKind::Bpe => bpe::cut(text, &self.dictionary, &self.whole, &self.entries),
            ModelKind::Word => self.look_up(text, |rest| {
                let next_word =
                    rest.char_indices().skip(1).find(|&(at, _)| rest.get(at..).is_some_and(is_blank));
                next_word.map_or(rest.len(), |(at, _)| at)
            }),
            ModelKind::Char => self.look_up(text, |rest| {
                longest_whole(&self.whole, rest)
                    .or(rest.chars().next().map(char::len_utf8))
                    .unwrap_or(rest.len())
            }),
        }
    }

    /// Cuts where `length` says that the first part ends.
    fn look_up(&self, text: &str, length: impl Fn(&str) -> usize) -> Vec<Span> {
        let (mut spans, mut rest) = (vec![], text);
        while !rest.is_empty() {
            let Some((part, after)) = rest.split_at_checked(length(rest)) else { break };
            let id = self.dictionary.find(part).filter(|&id| self.kind(id) != Some(PieceKind::Unused));
            spans.push(Span { length: part.len(), id });
            rest = after;
        }
        spans
    }

    fn kind(&self, id: u32) -> Option<PieceKind> {
        self.entries.get(id as usize).map(|entry| entry.kind)
    }

    /// The text of pieces. Of a text that is given as [`Token::Unknown`] nothing is changed.
    pub fn put_together<'a>(&self, tokens: impl Iterator<Item = Token<'a>>) -> String {
        let (mut text, mut bytes) = (String::new(), vec![]);
        let mut at_start = true;
        let (adds, removes) = self.normalizer.adds_or_removes_blanks();
        for token in tokens {
            let (mut piece, is_known) = match token {
                Token::Unknown(piece) => (piece, false),
                Token::Piece(id) => match self.entries.get(id as usize) {
                    Some(Entry { kind: PieceKind::Byte, text, .. }) => {
                        bytes.extend(byte_of(text));
                        continue;
                    }
                    Some(Entry {
                        kind: PieceKind::Normal | PieceKind::UserDefined | PieceKind::Unused,
                        text,
                        ..
                    }) => (&**text, true),
                    _ => ("", true),
                },
            };
            spell(&mut text, &mut bytes);
            at_start &= text.is_empty();
            if !is_known {
                text.push_str(piece);
                continue;
            }
            // The blank before the first word was added by the normalizer. One of several is a blank of the text,
            // unless such blanks are removed.
            if at_start
                && (adds || removes)
                && let Some(word) = piece.strip_prefix(BLANK)
            {
                (piece, at_start) = (word, removes);
            }
            text.push_str(&piece.replace(BLANK, " "));
        }
        spell(&mut text, &mut bytes);
        self.denormalizer
            .as_ref()
            .map_or_else(|| text.clone(), |rules| rules.apply(&text, &Dictionary::default()))
    }
}

impl From<&Piece<'_>> for Entry {
    fn from(piece: &Piece) -> Self {
        Entry { text: piece.text.into(), score: piece.score, kind: piece.kind }
    }
}

fn is_blank(text: &str) -> bool {
    text.starts_with(BLANK)
}

/// Adds what `bytes` spell to `text`; each that belongs to no character becomes U+FFFD.
fn spell(text: &mut String, bytes: &mut Vec<u8>) {
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        chunk.invalid().iter().for_each(|_| text.push(char::REPLACEMENT_CHARACTER));
    }
    bytes.clear();
}

/// The byte that `<0x3A>` stands for, spelt exactly so.
fn byte_of(piece: &str) -> Option<u8> {
    let byte = u8::from_str_radix(piece.strip_prefix("<0x")?.strip_suffix('>')?, 16).ok()?;
    (format!("<0x{byte:02X}>") == piece).then_some(byte)
}

fn byte_pieces(hidden: &Dictionary) -> Result<Vec<u32>, String> {
    let find = |byte| {
        let piece = format!("<0x{byte:02X}>");
        let lacks = || format!("it spells unknown characters in bytes, but lacks the piece {piece}");
        hidden.find(&piece).ok_or_else(lacks)
    };
    (0..=255u8).map(find).collect()
}

/// What the original refuses, before anything is made of the file.
fn check(file: &ModelFile) -> Result<(), String> {
    if file.pieces.is_empty() {
        return Err("it has no pieces: empty, or not a SentencePiece model".into());
    }
    let mut seen = HashSet::new();
    for piece in &file.pieces {
        let Piece { text, score, kind } = *piece;
        let fault = if text.is_empty() {
            "is empty".to_string()
        } else if text.len() >= MAX_PIECE {
            format!("has {} bytes, allowed are {}", text.len(), MAX_PIECE - 1)
        } else if text.contains('\0') && (text, kind) != ("\0", PieceKind::Unused) {
            "holds a zero".into()
        } else if !score.is_finite() {
            format!("has the score {score}")
        } else if kind == PieceKind::Byte && (byte_of(text).is_none() || !file.trainer.byte_fallback) {
            "is a byte of a model without bytes, or none of <0x00> to <0xFF>".into()
        } else if kind == PieceKind::Unknown && !seen.insert(kind as u8) {
            "is a second unknown piece".into()
        } else {
            continue;
        };
        let start: String = text.chars().take(40).collect();
        return Err(format!("its piece {start:?} {fault}: damaged, fetch it again"));
    }
    Ok(())
}

fn specials(file: &ModelFile, hidden: &Dictionary) -> Result<Specials, String> {
    let of_kind = |id: &u32, kind| file.pieces.get(*id as usize).is_some_and(|piece| piece.kind == kind);
    let control = |name| hidden.find(name).filter(|id| of_kind(id, PieceKind::Control));
    let unk =
        (0u32..).zip(&file.pieces).find(|(_, piece)| piece.kind == PieceKind::Unknown).map(|(id, _)| id);
    let trainer = &file.trainer;
    Ok(Specials {
        unk: unk.ok_or("it has no unknown piece (type 2, usually <unk>)")?,
        bos: control(trainer.bos),
        eos: control(trainer.eos),
        pad: control(trainer.pad),
    })
}
