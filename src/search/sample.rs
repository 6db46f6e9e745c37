//! Sampling: tokens drawn from the model's distribution, as many hypotheses as are asked for, each on its own.
//!
//! The distribution is softmax(logits / temperature), cut to the `top_k` most probable tokens and then to the fewest of these
//! that have `top_p` of the probability (nucleus sampling, Holtzman et al. 2020). What is drawn depends on the seed of the
//! sentence, on the number of the hypothesis and on the distributions alone. `log_prob` is what the model gives the
//! tokens, without temperature and cuts.

use crate::error::{Error, Result};
use crate::ops::Norm;
use crate::rng::{Rng, hash};
use crate::search::batch::{self, Rows, Search};
use crate::search::top_k;
use crate::search::{Finish, Hypothesis, Options, Outcome, Scorer, Sentence, Trace};

/// How to draw.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// What logits are divided by: below 1 the probable becomes more so.
    pub temperature: f64,
    /// Only so many of the most probable tokens; 0 is all.
    pub top_k: usize,
    /// Only the most probable tokens that have this share of the probability; 1 is all.
    pub top_p: f64,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling { temperature: 1.0, top_k: 0, top_p: 1.0 }
    }
}

impl Sampling {
    /// Refuses what is no distribution.
    pub(super) fn check(self) -> Result<()> {
        let Sampling { temperature, top_p, .. } = self;
        if !(temperature > 0.0 && temperature.is_finite()) {
            return Err(Error::Config(format!("temperature {temperature}: expected a number above 0")));
        }
        if !(top_p > 0.0 && top_p <= 1.0) {
            return Err(Error::Config(format!(
                "top-p {top_p}: expected a share above 0, at most 1 (which is all)"
            )));
        }
        Ok(())
    }

    /// Draws a token with `random` in [0, 1); none if no token has a probability.
    fn draw(self, logits: &[f32], random: f64) -> Option<u32> {
        let mut tokens: Vec<(u32, f64)> = (0u32..)
            .zip(logits)
            .filter(|&(_, &logit)| logit > f32::NEG_INFINITY)
            .map(|(token, &logit)| (token, f64::from(logit)))
            .collect();
        if self.top_k > 0 || self.top_p < 1.0 {
            // Stable, so of equal ones the lower id comes first.
            tokens.sort_by(|a, b| b.1.total_cmp(&a.1));
            if self.top_k > 0 {
                tokens.truncate(self.top_k);
            }
        }
        let largest = tokens.iter().map(|&(_, logit)| logit).fold(f64::NEG_INFINITY, f64::max);
        tokens.iter_mut().for_each(|(_, x)| *x = ((*x - largest) / self.temperature).exp());
        if self.top_p < 1.0 {
            let enough = self.top_p * tokens.iter().map(|&(_, p)| p).sum::<f64>();
            let mut total = 0.0;
            let kept = tokens.iter().take_while(|&&(_, p)| {
                let before = total;
                total += p;
                before < enough
            });
            let kept = kept.count();
            tokens.truncate(kept);
        }
        let mut left = random * tokens.iter().map(|&(_, p)| p).sum::<f64>();
        for &(token, p) in &tokens {
            if left < p {
                return Some(token);
            }
            left -= p;
        }
        // What rounding left over.
        tokens.last().map(|&(token, _)| token)
    }
}

/// Draws `n_best` hypotheses for every sentence, with or without end mark, best score first; two of them may be the same. Arguments
/// and result are those of [`decode`](crate::search::decode); there is nothing to record.
pub fn sample<S: Scorer>(scorer: &S, sentences: &[Sentence], options: &Options) -> Result<Vec<Outcome>> {
    batch::check(scorer, sentences, options)?;
    let searches = sentences.iter().map(|sentence| Samples::new(options, sentence)).collect();
    batch::run(scorer, sentences, options, searches, None)
}

/// One hypothesis on its way.
#[derive(Debug)]
struct Sample {
    rng: Rng,
    ids: Vec<u32>,
    token_log_probs: Vec<f32>,
    log_prob: f64,
    /// The row of its distribution; none at the end.
    row: Option<usize>,
}

struct Samples<'a> {
    options: &'a Options,
    max_length: usize,
    samples: Vec<Sample>,
}

impl<'a> Samples<'a> {
    fn new(options: &'a Options, sentence: &Sentence) -> Self {
        let sample = |number| Sample {
            rng: Rng::new(hash(sentence.seed, number), "sample"),
            ids: Vec::new(),
            token_log_probs: Vec::new(),
            log_prob: 0.0,
            row: Some(0),
        };
        let samples = (0..options.n_best as u64).map(sample).collect();
        Samples { options, max_length: sentence.max_length, samples }
    }
}

impl Search for Samples<'_> {
    fn history(&self, row: usize) -> Vec<u32> {
        let own = self.samples.iter().find(|sample| sample.row == Some(row));
        own.map_or(Vec::new(), |sample| sample.ids.clone())
    }

    fn log_prob(&self, row: usize) -> f64 {
        self.samples.iter().find(|sample| sample.row == Some(row)).map_or(0.0, |sample| sample.log_prob)
    }

    fn advance(&mut self, rows: Rows<'_>, next: &mut Vec<(usize, u32)>) -> Result<()> {
        let sampling = self.options.sampling.unwrap_or_default();
        let rows: Vec<(&[f32], Norm)> = rows.iter().collect();
        for sample in &mut self.samples {
            let Some(row) = sample.row.take() else { continue };
            let (logits, norm) = rows[row];
            top_k::check(logits, norm).map_err(|entry| entry.at_step(sample.ids.len() + 1))?;
            let Some(token) = sampling.draw(logits, sample.rng.uniform()) else { continue };
            let token_log_prob = norm.log_prob(logits[token as usize]);
            sample.ids.push(token);
            sample.token_log_probs.push(token_log_prob);
            sample.log_prob += f64::from(token_log_prob);
            if token != self.options.eos && sample.ids.len() < self.max_length {
                sample.row = Some(next.len());
                next.push((row, token));
            }
        }
        Ok(())
    }

    fn finish(self) -> (Vec<Hypothesis>, Option<Trace>) {
        let hypothesis = |sample: Sample| Hypothesis {
            score: self.options.score(sample.log_prob, sample.ids.len()),
            finish: if sample.ids.last() == Some(&self.options.eos) { Finish::Eos } else { Finish::Cut },
            ids: sample.ids,
            token_log_probs: sample.token_log_probs,
            log_prob: sample.log_prob,
        };
        let mut list: Vec<Hypothesis> = self.samples.into_iter().map(hypothesis).collect();
        list.sort_by(|a, b| b.score.total_cmp(&a.score));
        (list, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::toy::{
        A, B, BOS, C, EOS, Toy, VOCAB_SIZE, assert_close, distribution, options, random,
    };
    use crate::search::{Rules, decode};
    use std::collections::BTreeMap;

    fn logits() -> Vec<f32> {
        distribution(&[(A, 0.5), (B, 0.3), (C, 0.15), (EOS, 0.05)])
    }

    /// How often each of the toy's tokens is drawn in 20,000 even steps of the random number.
    fn shares(sampling: Sampling) -> [f64; VOCAB_SIZE] {
        let mut shares = [0.0; VOCAB_SIZE];
        for i in 0..20_000 {
            shares[sampling.draw(&logits(), f64::from(i) / 20_000.0).unwrap() as usize] += 1.0 / 20_000.0;
        }
        shares
    }

    fn assert_shares(sampling: Sampling, expected: &[(u32, f64)]) {
        let found = shares(sampling);
        for token in 0..VOCAB_SIZE as u32 {
            let expected = expected.iter().find(|one| one.0 == token).map_or(0.0, |one| one.1);
            assert!((found[token as usize] - expected).abs() < 2e-4, "{sampling:?}: {found:?}");
        }
    }

    /// Temperature 1/2 squares probabilities: 0.25, 0.09, 0.0225, 0.0025, together 0.365. The first two have 0.8 of 1.
    #[test]
    fn tokens_are_drawn_as_often_as_they_are_probable() {
        let all = Sampling::default();
        assert_shares(all, &[(A, 0.5), (B, 0.3), (C, 0.15), (EOS, 0.05)]);
        let squared = [(A, 0.25 / 0.365), (B, 0.09 / 0.365), (C, 0.0225 / 0.365), (EOS, 0.0025 / 0.365)];
        assert_shares(Sampling { temperature: 0.5, ..all }, &squared);
        assert_shares(Sampling { top_k: 3, ..all }, &[(A, 0.5 / 0.95), (B, 0.3 / 0.95), (C, 0.15 / 0.95)]);
        assert_shares(Sampling { top_p: 0.79, ..all }, &[(A, 0.625), (B, 0.375)]);
        assert_shares(Sampling { top_p: 0.5, ..all }, &[(A, 1.0)]);
        assert_shares(Sampling { top_p: 1e-9, ..all }, &[(A, 1.0)]);
        // Of A and B, which 3 of the best leave 0.5/0.95 = 0.53 and 0.32 for, 0.6 needs both.
        assert_shares(Sampling { top_k: 3, top_p: 0.6, ..all }, &[(A, 0.625), (B, 0.375)]);
        assert_eq!(all.draw(&[f32::NEG_INFINITY; 3], 0.5), None);
    }

    /// A first token as often as its probability says, over the samples of one sentence and over sentences.
    #[test]
    fn samples_are_independent() {
        let toy = Toy::new(VOCAB_SIZE, |_, prefix| match prefix {
            [] => distribution(&[(A, 0.7), (B, 0.3)]),
            _ => distribution(&[(EOS, 1.0)]),
        });
        let options = Options { sampling: Some(Sampling::default()), ..options(1, 100) };
        let sentences: Vec<Sentence> =
            (0..20).map(|seed| Sentence { seed, ..Sentence::new(vec![], 5) }).collect();
        let found = decode(&toy, &sentences, &options, None).unwrap();
        let lists: Vec<Vec<Hypothesis>> = found.into_iter().map(Result::unwrap).collect();
        let mut counts = BTreeMap::new();
        for hypothesis in lists.iter().flatten() {
            *counts.entry(hypothesis.ids.clone()).or_insert(0) += 1;
            let p: f64 = if hypothesis.ids[0] == A { 0.7 } else { 0.3 };
            assert_close(hypothesis.log_prob, p.ln());
            assert_eq!(hypothesis.finish, Finish::Eos);
        }
        assert_eq!(counts.len(), 2);
        // 1,400 ± 3 deviations of 20.5.
        assert!((1338..=1462).contains(&counts[&vec![A, EOS]]), "{counts:?}");
        assert!(lists.iter().all(|list| list.is_sorted_by(|a, b| a.score >= b.score)));
    }

    /// The samples of a sentence are those that it has alone, and rules hold.
    #[test]
    fn company_does_not_matter() {
        let toy = random(3, 20, 1000);
        let rules = Rules { no_repeat_ngram: 1, ..Rules::default() };
        let sampling = Some(Sampling { temperature: 2.0, ..Sampling::default() });
        let options = Options { rules, sampling, ..crate::search::Options::new(BOS, EOS) };
        let options = Options { n_best: 3, ..options };
        let sentences: Vec<Sentence> = (0..5)
            .map(|i| Sentence { seed: u64::from(i), ..Sentence::new(vec![i], 4 + i as usize) })
            .collect();
        let together = decode(&toy, &sentences, &options, None).unwrap();
        for (sentence, together) in sentences.iter().zip(together) {
            let alone =
                decode(&toy, std::slice::from_ref(sentence), &options, None).unwrap().remove(0).unwrap();
            assert_eq!(together.unwrap(), alone);
            for hypothesis in alone {
                let mut ids = hypothesis.ids.clone();
                ids.sort_unstable();
                ids.dedup();
                assert_eq!(ids.len(), hypothesis.ids.len());
            }
        }
    }
}
