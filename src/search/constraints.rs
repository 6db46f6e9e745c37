//! Lexical constraints: sequences of tokens that every hypothesis of a sentence contains, in any order.
//!
//! A hypothesis is as far as the sum of what it has of each: all of a sequence that it contains, else the longest beginning
//! that it ends with. Beam search keeps a beam for each such sum (grid beam search, Hokamp and Liu 2017), so that
//! hypotheses which have said a constraint compete with their like and not with those that have not. The end mark waits for
//! the last constraint, and what could no longer be said within the limit is said in time: a token is possible only if
//! the steps after it are enough for the rest.

/// Sequences that a hypothesis must contain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Constraints(Vec<Sequence>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Sequence {
    tokens: Vec<u32>,
    /// Of every beginning, the longest shorter beginning that it ends with (Knuth, Morris and Pratt 1977).
    fallback: Vec<usize>,
}

impl Sequence {
    fn new(tokens: Vec<u32>) -> Self {
        let mut sequence = Sequence { fallback: vec![0; tokens.len()], tokens };
        for length in 2..=sequence.tokens.len() {
            let token = sequence.tokens[length - 1];
            sequence.fallback[length - 1] = sequence.after(sequence.fallback[length - 2], token);
        }
        sequence
    }

    /// How much there is of it after `token`, when there were `met` tokens.
    fn after(&self, mut met: usize, token: u32) -> usize {
        if met == self.tokens.len() {
            return met;
        }
        while met > 0 && self.tokens[met] != token {
            met = self.fallback[met - 1];
        }
        met + usize::from(self.tokens[met] == token)
    }
}

/// How far a hypothesis is: of each sequence, the tokens that it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Progress(Vec<usize>);

impl Constraints {
    /// All of `sequences`; an empty one is none, and the same twice is once.
    pub fn new(mut sequences: Vec<Vec<u32>>) -> Self {
        sequences.retain(|tokens| !tokens.is_empty());
        sequences.sort_unstable();
        sequences.dedup();
        Constraints(sequences.into_iter().map(Sequence::new).collect())
    }

    /// Whether anything is possible.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The tokens of all sequences together.
    pub fn len(&self) -> usize {
        self.tokens().count()
    }

    /// The tokens, sequence by sequence.
    pub(super) fn tokens(&self) -> impl Iterator<Item = u32> {
        self.0.iter().flat_map(|sequence| &sequence.tokens).copied()
    }

    /// Whether a hypothesis has all of them.
    pub fn are_met(&self, hypothesis: &[u32]) -> bool {
        self.missing(&self.progress(hypothesis)) == 0
    }

    /// How far a hypothesis is.
    pub(super) fn progress(&self, hypothesis: &[u32]) -> Progress {
        let start = Progress(vec![0; self.0.len()]);
        hypothesis.iter().fold(start, |progress, &token| self.after(&progress, token))
    }

    /// How far it is with `token` added.
    pub(super) fn after(&self, progress: &Progress, token: u32) -> Progress {
        let each = self.0.iter().zip(&progress.0);
        Progress(each.map(|(sequence, &met)| sequence.after(met, token)).collect())
    }

    /// The tokens that would bring it further.
    pub(super) fn next(&self, progress: &Progress) -> impl Iterator<Item = u32> {
        self.0.iter().zip(&progress.0).filter_map(|(sequence, &met)| sequence.tokens.get(met).copied())
    }

    /// Steps in which the rest can certainly be said: the sequence that is furthest goes on, the others start anew.
    fn missing(&self, progress: &Progress) -> usize {
        let open = || {
            let each = self.0.iter().map(|sequence| sequence.tokens.len()).zip(progress.0.iter().copied());
            each.filter(|(all, met)| met < all)
        };
        open().map(|(all, _)| all).sum::<usize>() - open().map(|(_, met)| met).max().unwrap_or(0)
    }

    /// Makes impossible, in the distribution `row` of the token after `hypothesis` and with `left` steps to come after it, the end
    /// mark as long as something is missing, and what would leave too few steps for the rest and the end mark.
    pub(super) fn restrict(&self, row: &mut [f32], hypothesis: &[u32], left: usize, eos: u32) {
        let progress = self.progress(hypothesis);
        let in_time = |progress: &Progress| match self.missing(progress) {
            0 => true,
            missing => missing < left,
        };
        if self.missing(&progress) == 0 {
            return;
        }
        row[eos as usize] = f32::NEG_INFINITY;
        // EOS is part of no sequence: what comes after any other such token.
        if in_time(&self.after(&progress, eos)) {
            return;
        }
        let kept: Vec<(u32, f32)> = self
            .tokens()
            .filter(|&token| in_time(&self.after(&progress, token)))
            .map(|token| (token, row[token as usize]))
            .collect();
        row.fill(f32::NEG_INFINITY);
        for (token, logit) in kept {
            row[token as usize] = logit;
        }
    }
}

impl Progress {
    /// The beam that a hypothesis competes in: the sum of what it has.
    pub fn bank(&self) -> usize {
        self.0.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::toy::{A, B, BOS, C, EOS, Toy, VOCAB_SIZE, banned, distribution, options, random};
    use crate::search::{Hypothesis, Like, Options, Sampling, Sentence, decode};
    use proptest::prelude::*;

    fn progress(sequence: &[u32], hypothesis: &[u32]) -> usize {
        Constraints::new(vec![sequence.to_vec()]).progress(hypothesis).bank()
    }

    /// After a a b the beginning a of a b c is not there, after a b a a it is; what was said stays said.
    #[test]
    fn progress_by_hand() {
        assert_eq!(progress(&[A, B, C], &[A, A, B]), 2);
        assert_eq!(progress(&[A, B, C], &[A, B, A, A]), 1);
        assert_eq!(progress(&[A, B, C], &[A, B, B]), 0);
        assert_eq!(progress(&[A, B, C], &[A, B, C, B]), 3);
        assert_eq!(progress(&[A, B, A, C], &[A, B, A, B, A]), 3);
        let two = Constraints::new(vec![vec![A, B], vec![B, C], vec![A, B], vec![]]);
        assert_eq!((two.len(), two.are_met(&[A, B, C]), two.are_met(&[A, B, A])), (4, true, false));
    }

    /// a is always likelier than the end, this than b, b than c.
    fn chatterbox() -> Toy<impl Fn(&[u32], &[u32]) -> Vec<f32>> {
        Toy::new(VOCAB_SIZE, |_, _| distribution(&[(A, 0.4), (EOS, 0.3), (B, 0.2), (C, 0.1)]))
    }

    fn search(must: &[&[u32]], limit: usize, options: &Options) -> Vec<Hypothesis> {
        let constraints = Constraints::new(must.iter().map(|tokens| tokens.to_vec()).collect());
        let sentence = Sentence { constraints, ..Sentence::new(vec![], limit) };
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
            let constraints = Constraints::new(must);
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
