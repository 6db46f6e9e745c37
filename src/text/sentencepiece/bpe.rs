//! Byte pair encoding as SentencePiece applies it (`bpe_model.cc` of 0.2.3): of all neighbours that make a piece, those
//! whose piece has the largest score are merged first, the leftmost first among equals.
//!
//! Not the `BPE` of the `tokenizers` crate: that one merges listed pairs by rank. Here any two neighbours that spell a
//! piece may merge, pieces may share a score, user-defined pieces never merge, and a piece that is not to be used is
//! taken apart again.

use super::dictionary::Dictionary;
use super::normalizer::longest_whole;
use super::wire::PieceKind;
use super::{Entry, Span};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// How often an unused piece is taken apart; beyond that it stays.
const MAX_DEPTH: usize = 100;

/// A piece in the making. One that was merged into its left neighbour is empty.
#[derive(Debug, Clone, Copy)]
struct Symbol {
    start: usize,
    length: usize,
    previous: Option<usize>,
    next: Option<usize>,
    /// A user-defined piece.
    is_whole: bool,
}

/// Neighbours that may merge, the best last in the order of this type.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    /// The bits of the score, in the order of `f32::total_cmp`.
    score: i32,
    left: Reverse<usize>,
    right: usize,
    /// Length of both when the pair was found: another now means that one of them has merged since.
    length: usize,
}

struct Merging<'a> {
    text: &'a str,
    dictionary: &'a Dictionary,
    entries: &'a [Entry],
    symbols: Vec<Symbol>,
    pairs: BinaryHeap<Pair>,
    /// What unused pieces were merged from: the length of the left part.
    parts: HashMap<&'a str, usize>,
}

/// Cuts `text`; texts of `whole` are left as they are.
pub(super) fn cut(text: &str, dictionary: &Dictionary, whole: &Dictionary, entries: &[Entry]) -> Vec<Span> {
    let mut merging = Merging {
        text,
        dictionary,
        entries,
        symbols: symbols(text, whole),
        pairs: BinaryHeap::new(),
        parts: HashMap::new(),
    };
    for right in 1..merging.symbols.len() {
        merging.find_pair(Some(right - 1), Some(right));
    }
    while let Some(pair) = merging.pairs.pop() {
        merging.merge(&pair);
    }
    let mut spans = vec![];
    for symbol in merging.symbols.iter().filter(|symbol| symbol.length > 0) {
        if let Some(piece) = text.get(symbol.start..symbol.start + symbol.length) {
            merging.take_apart(piece, 0, &mut spans);
        }
    }
    spans
}

/// `text` as user-defined pieces and single characters.
fn symbols(text: &str, whole: &Dictionary) -> Vec<Symbol> {
    let mut symbols: Vec<Symbol> = vec![];
    let (mut start, mut rest) = (0, text);
    while let Some(c) = rest.chars().next() {
        let found = longest_whole(whole, rest);
        let length = found.unwrap_or(c.len_utf8());
        let index = symbols.len();
        if let Some(before) = symbols.last_mut() {
            before.next = Some(index);
        }
        symbols.push(Symbol {
            start,
            length,
            previous: index.checked_sub(1),
            next: None,
            is_whole: found.is_some(),
        });
        start += length;
        rest = rest.get(length..).unwrap_or_default();
    }
    symbols
}

impl Merging<'_> {
    /// Notes that `left` and `right` may merge, if they spell a piece.
    fn find_pair(&mut self, left: Option<usize>, right: Option<usize>) {
        let (Some(left), Some(right)) = (left, right) else { return };
        let (Some(a), Some(b)) = (self.symbols.get(left), self.symbols.get(right)) else { return };
        if a.is_whole || b.is_whole {
            return;
        }
        let (length, parted) = (a.length + b.length, a.length);
        let Some(piece) = self.text.get(a.start..a.start + length) else { return };
        let Some(entry) = self.dictionary.find(piece).and_then(|id| self.entries.get(id as usize)) else {
            return;
        };
        self.pairs.push(Pair { score: ordered(entry.score), left: Reverse(left), right, length });
        if entry.kind == PieceKind::Unused {
            self.parts.insert(piece, parted);
        }
    }

    fn merge(&mut self, pair: &Pair) {
        let (left, right) = (pair.left.0, pair.right);
        let (Some(&a), Some(&b)) = (self.symbols.get(left), self.symbols.get(right)) else { return };
        if a.length == 0 || b.length == 0 || a.length + b.length != pair.length {
            return;
        }
        if let Some(symbol) = self.symbols.get_mut(left) {
            *symbol = Symbol { length: pair.length, next: b.next, ..a };
        }
        if let Some(symbol) = self.symbols.get_mut(right) {
            symbol.length = 0;
        }
        if let Some(symbol) = b.next.and_then(|next| self.symbols.get_mut(next)) {
            symbol.previous = Some(left);
        }
        self.find_pair(a.previous, Some(left));
        self.find_pair(Some(left), b.next);
    }

    /// Adds `piece` to `spans`, or what it was merged from if it is not to be used.
    fn take_apart(&self, piece: &str, depth: usize, spans: &mut Vec<Span>) {
        let id = self.dictionary.find(piece);
        let is_unused = id
            .and_then(|id| self.entries.get(id as usize))
            .is_some_and(|entry| entry.kind == PieceKind::Unused);
        if !is_unused || depth > MAX_DEPTH {
            spans.push(Span { length: piece.len(), id });
            return;
        }
        match self.parts.get(piece).and_then(|&at| piece.split_at_checked(at)) {
            Some((left, right)) => {
                self.take_apart(left, depth + 1, spans);
                self.take_apart(right, depth + 1, spans);
            }
            None => spans.push(Span { length: piece.len(), id: None }),
        }
    }
}

/// An integer in the order of `f32::total_cmp`.
fn ordered(score: f32) -> i32 {
    let bits = score.to_bits() as i32;
    bits ^ (((bits >> 31) as u32) >> 1) as i32
}
