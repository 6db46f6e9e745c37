//! The unigram language model (Kudo 2018, "Subword Regularization", section 3.2): of all ways to cut a text into pieces,
//! the one whose sum of log-probabilities is largest, by Viterbi's algorithm (`unigram_model.cc` of SentencePiece 0.2.3).
//!
//! Not the `Unigram` of the `tokenizers` crate: it adds in f64 where SentencePiece adds in f32, so that sums which are
//! equal there differ here; it finds control symbols and bytes in a text; and it knows neither user-defined nor unused
//! pieces.

use super::dictionary::Dictionary;
use super::wire::PieceKind;
use super::{Entry, Span};

/// An unknown character is this much worse than the worst piece.
const UNKNOWN_PENALTY: f32 = 10.0;

/// Beyond this the sums start again from zero, so that those of long texts stay exact.
const RESET: f32 = 100_000.0;

/// The best way to spell a beginning of the text.
#[derive(Debug, Clone, Copy, Default)]
struct Best {
    score: f32,
    /// Where its last piece starts, and which it is.
    last: Option<(usize, Option<u32>)>,
}

/// The score of an unknown character.
pub(super) fn unknown_score(entries: &[Entry]) -> f32 {
    let normal = entries.iter().filter(|entry| entry.kind == PieceKind::Normal);
    normal.map(|entry| entry.score).fold(f32::MAX, f32::min) - UNKNOWN_PENALTY
}

/// Cuts `text`; `unknown` is the score of an unknown character.
pub(super) fn cut(text: &str, dictionary: &Dictionary, entries: &[Entry], unknown: f32) -> Vec<Span> {
    let mut best = vec![Best::default(); text.len() + 1];
    // The furthest place that was reached.
    let mut front = 0;
    for (start, c) in text.char_indices() {
        let (Some(rest), Some(so_far)) = (text.get(start..), start_again(&mut best, start, front)) else {
            break;
        };
        let mut is_known = false;
        for (length, id) in dictionary.prefixes(rest) {
            let Some(entry) = entries.get(id as usize).filter(|entry| entry.kind != PieceKind::Unused) else {
                continue;
            };
            let score = match entry.kind {
                PieceKind::UserDefined => (0.1 * (length as f64 - 1.0)) as f32,
                _ => entry.score,
            };
            offer(&mut best, start + length, score + so_far, (start, Some(id)));
            front = front.max(start + length);
            is_known |= length == c.len_utf8();
        }
        if !is_known {
            front = front.max(start + c.len_utf8());
            offer(&mut best, start + c.len_utf8(), unknown + so_far, (start, None));
        }
    }
    trace_back(&best)
}

/// The score of the best way to `start`, after starting again from zero if it has grown too large.
fn start_again(best: &mut [Best], start: usize, front: usize) -> Option<f32> {
    let so_far = best.get(start)?.score;
    if so_far.abs() <= RESET {
        return Some(so_far);
    }
    let open = best.get_mut(start..=front)?.iter_mut().enumerate();
    open.filter(|(at, b)| *at == 0 || b.last.is_some()).for_each(|(_, b)| b.score -= so_far);
    Some(0.0)
}

/// Takes a way to `end` if it is the first or better than the one there.
fn offer(best: &mut [Best], end: usize, score: f32, last: (usize, Option<u32>)) {
    if let Some(there) = best.get_mut(end)
        && (there.last.is_none() || score > there.score)
    {
        *there = Best { score, last: Some(last) };
    }
}

fn trace_back(best: &[Best]) -> Vec<Span> {
    let mut spans = vec![];
    let mut end = best.len() - 1;
    while let Some((start, id)) = best.get(end).and_then(|b| b.last) {
        spans.push(Span { length: end - start, id });
        end = start;
    }
    spans.reverse();
    spans
}
