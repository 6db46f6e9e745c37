//! Whose rules a search follows: where it ends, what it is divided by unless told otherwise, how long it may become.
//!
//! | | length penalty | steps at most, the end mark's included | ends | end mark |
//! |---|---|---|---|---|
//! | [`Like::Tx`] | `gnmt:0.6` | source with its end mark + 50 | no live hypothesis can still enter the n best | at any rank below the beam size |
//! | [`Like::Ct2`] | `pow:1.0` | 256 | `beam_size` have finished | not as the first token |
//! | [`Like::Hf`] | `pow:1.0` | the model's positions - 1 | none of `beam_size` finished ones is worse than the best live one as it is | at any rank below the beam size |
//! | [`Like::Fairseq`] | `pow:1.0` | 201 | `beam_size` have finished | not as the first token; forced at the limit |
//! | [`Like::Marian`] | `none` | 3 times the source with its end mark | `beam_size` have finished | takes its place in the beam away |
//!
//! All of them count the end mark in the length that a score is divided by.

use crate::search::LengthPenalty;
use serde::Serialize;

/// Whose rules a search follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Like {
    /// Ends when no live hypothesis can still enter the n best.
    #[default]
    Tx,
    /// As CTranslate2 does (compared with 4.8.5): ends at `beam_size` finished hypotheses, or without a length penalty
    /// once the best extension was an end mark and `n_best` have finished; at the step limit the `beam_size`
    /// best extensions are closed, end mark or not; the first token cannot be an end mark, whose probability
    /// goes to the others. CTranslate2 bans nothing else by itself.
    Ct2,
    /// As `transformers` does (compared with 5.24, `early_stopping=False`): ends when `beam_size` have finished of which none is worse
    /// than the best live one would be if it ended as long as it is; at the step limit the `beam_size` best extensions are closed,
    /// end mark or not.
    Hf,
    /// As fairseq's `SequenceGenerator` does: ends at `beam_size` finished hypotheses, the end mark is neither first nor left
    /// out at the limit.
    Fairseq,
    /// As Marian's `BeamSearch` does: every hypothesis that finishes makes the beam narrower by one; at the step limit all
    /// that live are closed.
    Marian,
}

impl Like {
    /// What a log_prob is divided by unless told otherwise.
    pub fn length_penalty(self) -> LengthPenalty {
        match self {
            Like::Tx => LengthPenalty::Gnmt(0.6),
            Like::Ct2 | Like::Hf | Like::Fairseq => LengthPenalty::Pow(1.0),
            Like::Marian => LengthPenalty::None,
        }
    }

    /// The most decoding steps of a sentence, the one that gives EOS included: what was `asked` for, or else what the rules say of
    /// a source of `src_len` tokens (with EOS), with room for `least` tokens; never more than `positions`, which is what the
    /// model has.
    pub fn max_length(self, src_len: usize, asked: Option<usize>, least: usize, positions: usize) -> usize {
        let usual = match self {
            Like::Tx => return asked.unwrap_or(src_len.max(least).saturating_add(50)).min(positions),
            Like::Ct2 => 256,
            Like::Hf => positions.saturating_sub(1),
            Like::Fairseq => 201,
            Like::Marian => src_len.saturating_mul(3),
        };
        asked.unwrap_or(usual.max(least.saturating_add(1))).min(positions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::toy::{
        A, B, C, EOS, Toy, VOCAB_SIZE, distribution, ids, options, search, table, traced,
    };
    use crate::search::trace::Stop;
    use crate::search::{Finish, Options};

    #[test]
    fn limits_are_those_of_the_tools() {
        let limits = |asked, least, positions| {
            [Like::Tx, Like::Ct2, Like::Hf, Like::Fairseq, Like::Marian]
                .map(|like| like.max_length(10, asked, least, positions))
        };
        assert_eq!(limits(None, 0, 512), [60, 256, 511, 201, 30]);
        assert_eq!(limits(None, 300, 512), [350, 301, 511, 301, 301]);
        assert_eq!(limits(Some(7), 0, 512), [7; 5]);
        assert_eq!(limits(None, 0, 20), [20, 20, 19, 20, 20]);
    }

    /// a EOS 0.3, b EOS 0.16, c c EOS 0.2 · 0.5 and c EOS 0.2 · 0.5.
    fn three_words() -> Toy<impl Fn(&[u32], &[u32]) -> Vec<f32>> {
        table(&[
            (&[], &[(A, 0.3), (EOS, 0.25), (C, 0.2), (B, 0.16), (4, 0.09)]),
            (&[A], &[(EOS, 1.0)]),
            (&[B], &[(EOS, 1.0)]),
            (&[C], &[(C, 0.5), (EOS, 0.5)]),
        ])
    }

    fn found(like: Like, limit: usize) -> Vec<Vec<u32>> {
        let list = search(&three_words(), limit, &Options { like, ..options(3, 3) });
        list.into_iter().map(|one| one.ids).collect()
    }

    /// Marian's beam of 3 has a, the empty hypothesis and c; the empty one has finished, so two places are left: a EOS and one of
    /// the two after c, of which the lower id wins; b was never in it. fairseq lets none be empty and has a, c and b.
    #[test]
    fn beams_by_hand() {
        let marian: [&[u32]; 3] = [&[A, EOS], &[EOS], &[C, EOS]];
        assert_eq!(found(Like::Marian, 9), marian);
        let fairseq: [&[u32]; 3] = [&[A, EOS], &[B, EOS], &[C, EOS]];
        assert_eq!(found(Like::Fairseq, 9), fairseq);
        let trace = traced(&three_words(), 9, &Options { like: Like::Marian, ..options(3, 3) });
        assert_eq!((trace.steps.len(), trace.stop), (2, Some(Stop::NoCandidates)));
    }

    /// A model that never ends: Marian closes what lives, fairseq puts the end mark there.
    #[test]
    fn limits_by_hand() {
        let endless = || {
            Toy::new(VOCAB_SIZE, |_, _| {
                let mut log_probs = distribution(&[(A, 0.6), (B, 0.4)]);
                log_probs[EOS as usize] = -30.0;
                log_probs
            })
        };
        let list = |like| search(&endless(), 3, &Options { like, ..options(2, 2) });
        let marian = list(Like::Marian);
        assert_eq!(ids(&marian), [[A, A, A], [A, A, B]]);
        assert!(marian.iter().all(|one| one.finish == Finish::Cut));
        assert_eq!(ids(&list(Like::Fairseq)), [[A, A, EOS], [A, B, EOS]]);
    }
}
