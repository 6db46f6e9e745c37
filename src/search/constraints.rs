//! Lexical constraints: phrases that every hypothesis of a sentence says, in any order.
//!
//! A hypothesis is as far as the sum of what it has of each: all tokens of a phrase that it says, else those that its end has of
//! it. Beam search keeps a beam for each such sum (grid beam search, Hokamp and Liu 2017), so that hypotheses which
//! have said a phrase compete with their like and not with those that have not. The end mark waits for the last phrase, and
//! what could no longer be said within the limit is said in time: a token is possible only if the steps after it are
//! enough for the rest.

use super::phrase::{Phrase, Seen};

/// Phrases that a hypothesis must say.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Constraints(Vec<Phrase>);

/// How far a hypothesis is: what it has of each phrase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Progress(Vec<Seen>);

impl Constraints {
    /// All of `phrases`, each of which some tokens spell; the same twice is once.
    pub fn new(phrases: Vec<Phrase>) -> Self {
        let mut all: Vec<Phrase> = Vec::new();
        for phrase in phrases {
            if !phrase.is_empty() && !all.contains(&phrase) {
                all.push(phrase);
            }
        }
        Constraints(all)
    }

    /// Whether anything is possible.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The tokens of all phrases together.
    pub fn len(&self) -> usize {
        self.tokens().count()
    }

    /// The tokens, phrase by phrase.
    pub(super) fn tokens(&self) -> impl Iterator<Item = u32> {
        self.0.iter().flat_map(Phrase::tokens).copied()
    }

    /// Whether a hypothesis says all of them.
    pub fn are_met(&self, hypothesis: &[u32]) -> bool {
        self.missing(&self.progress(hypothesis)) == 0
    }

    /// How far a hypothesis is.
    pub(super) fn progress(&self, hypothesis: &[u32]) -> Progress {
        let start = Progress(vec![Phrase::START; self.0.len()]);
        hypothesis.iter().fold(start, |progress, &token| self.after(&progress, token))
    }

    /// How far it is with `token` added.
    pub(super) fn after(&self, progress: &Progress, token: u32) -> Progress {
        let each = self.0.iter().zip(&progress.0);
        Progress(each.map(|(phrase, &seen)| phrase.after(seen, token)).collect())
    }

    /// The beam that a hypothesis competes in: the tokens that it has.
    pub(super) fn bank(&self, progress: &Progress) -> usize {
        self.0.iter().zip(&progress.0).map(|(phrase, &seen)| phrase.tokens_seen(seen)).sum()
    }

    /// The tokens that would bring it further, some of them perhaps twice.
    pub(super) fn further(&self, progress: &Progress) -> Vec<u32> {
        let open = self.0.iter().zip(&progress.0).filter(|(phrase, seen)| !phrase.is_said(**seen));
        open.flat_map(|(phrase, &seen)| phrase.next(seen).further.clone()).collect()
    }

    /// Steps in which the rest can certainly be said: the phrase that is furthest goes on, the others start anew.
    fn missing(&self, progress: &Progress) -> usize {
        let open = || {
            let each = self.0.iter().zip(&progress.0).filter(|(phrase, seen)| !phrase.is_said(**seen));
            each.map(|(phrase, &seen)| (phrase.tokens().len(), phrase.missing(seen)))
        };
        open().map(|(all, _)| all).sum::<usize>()
            - open().map(|(all, missing)| all - missing).max().unwrap_or(0)
    }

    /// Makes impossible, in the distribution `row` of the token after `hypothesis` and with `left` steps to come after it, the end
    /// mark as long as something is missing, and what would leave too few steps for the rest and the end mark.
    pub(super) fn restrict(&self, row: &mut [f32], hypothesis: &[u32], left: usize, eos: u32) {
        let progress = self.progress(hypothesis);
        if self.missing(&progress) == 0 {
            return;
        }
        row[eos as usize] = f32::NEG_INFINITY;
        // At worst every phrase that is open starts anew after the token.
        let open = self.0.iter().zip(&progress.0).filter(|(phrase, seen)| !phrase.is_said(**seen));
        if open.map(|(phrase, _)| phrase.tokens().len()).sum::<usize>() < left {
            return;
        }
        let in_time = |token: u32| match self.missing(&self.after(&progress, token)) {
            0 => true,
            missing => missing < left,
        };
        let further = self.further(&progress).into_iter().filter(|&token| in_time(token));
        let kept: Vec<(u32, f32)> = further.map(|token| (token, row[token as usize])).collect();
        row.fill(f32::NEG_INFINITY);
        for (token, logit) in kept {
            row[token as usize] = logit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::toy::{
        A, B, BOS, C, EOS, Toy, VOCAB_SIZE, banned, distribution, options, phrase, random,
    };
    use crate::search::{Hypothesis, Like, Options, Sampling, Sentence, decode};
    use proptest::prelude::*;

    fn constraints(must: &[&[u32]]) -> Constraints {
        Constraints::new(must.iter().map(|tokens| phrase(tokens)).collect())
    }

    fn bank(must: &[u32], hypothesis: &[u32]) -> usize {
        let constraints = constraints(&[must]);
        constraints.bank(&constraints.progress(hypothesis))
    }

    /// After a a b the beginning a of a b c is not there, after a b a a it is; what was said stays said.
    #[test]
    fn progress_by_hand() {
        assert_eq!(bank(&[A, B, C], &[A, A, B]), 2);
        assert_eq!(bank(&[A, B, C], &[A, B, A, A]), 1);
        assert_eq!(bank(&[A, B, C], &[A, B, B]), 0);
        assert_eq!(bank(&[A, B, C], &[A, B, C, B]), 3);
        assert_eq!(bank(&[A, B, A, C], &[A, B, A, B, A]), 3);
        let two = constraints(&[&[A, B], &[B, C], &[A, B], &[]]);
        assert_eq!((two.len(), two.are_met(&[A, B, C]), two.are_met(&[A, B, A])), (4, true, false));
    }

    /// a is always likelier than the end, this than b, b than c.
    fn chatterbox() -> Toy<impl Fn(&[u32], &[u32]) -> Vec<f32>> {
        Toy::new(VOCAB_SIZE, |_, _| distribution(&[(A, 0.4), (EOS, 0.3), (B, 0.2), (C, 0.1)]))
    }

    fn search(must: &[&[u32]], limit: usize, options: &Options) -> Vec<Hypothesis> {
        let sentence = Sentence { constraints: constraints(must), ..Sentence::new(vec![], limit) };
        decode(&chatterbox(), &[sentence], options, None).unwrap().remove(0).unwrap()
    }

    /// The best sentence with c in it is c alone, 0.1 · 0.3; with the limit as long as what must be said, only that is said.
    #[test]
    fn the_best_that_contains_them() {
        assert_eq!(search(&[&[C]], 6, &options(4, 1))[0].ids, [C, EOS]);
        assert_eq!(search(&[&[C, B], &[B, B]], 5, &options(4, 1))[0].ids, [C, B, B, EOS]);
        for beam in [1, 4] {
            assert_eq!(search(&[&[C, B]], 3, &options(beam, 1))[0].ids[..2], [C, B], "beam {beam}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// Whatever the model, the beam, the rules and the limit: all hypotheses have all constraints, and end.
        #[test]
        fn they_hold_in_every_hypothesis(
            seed in any::<u64>(),
            must in prop::collection::vec(prop::collection::vec(1..4u32, 1..4), 1..4),
            spare in 1..9usize,
            beam in 1..6usize,
            like in prop_oneof![Just(Like::Tx), Just(Like::Ct2), Just(Like::Hf), Just(Like::Fairseq), Just(Like::Marian)],
            sampled in any::<bool>(),
        ) {
            let constraints = constraints(&must.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let limit = constraints.len() + spare;
            let toy = random(seed, VOCAB_SIZE, 40);
            let sampling = sampled.then(Sampling::default);
            let options = Options { like, sampling, rules: banned(vec![BOS]), ..options(beam, beam) };
            let sentence = Sentence { constraints: constraints.clone(), ..Sentence::new(vec![7], limit) };
            let free = Sentence::new(vec![8], limit);
            let found = decode(&toy, &[free.clone(), sentence], &options, None).unwrap();
            let [unconstrained, found] = <[_; 2]>::try_from(found).unwrap();
            let alone = decode(&toy, &[free], &options, None).unwrap().remove(0).unwrap();
            prop_assert_eq!(unconstrained.unwrap(), alone);
            for hypothesis in found.unwrap() {
                prop_assert!(constraints.are_met(&hypothesis.ids), "{:?}", hypothesis.ids);
            }
        }
    }
}
