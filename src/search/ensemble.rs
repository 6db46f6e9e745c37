//! Several models as one: the mean of their distributions, p = Σ wᵢ pᵢ with weights that sum to 1.
//!
//! What it gives is a distribution again, so all that is said of `log_prob` stays true.

use crate::error::{Error, Result};
use crate::ops::{Norm, Scores};
use crate::search::Scorer;

/// Scores with the mean of the members' distributions.
#[derive(Debug)]
pub struct Ensemble<S> {
    members: Vec<S>,
    log_weights: Vec<f32>,
}

impl<S: Scorer> Ensemble<S> {
    /// `members`, at least one, with the logarithms of their weights.
    pub fn new(members: Vec<S>, log_weights: Vec<f32>) -> Self {
        Ensemble { members, log_weights }
    }
}

/// The logarithms of `weights` that sum to 1, in their proportion.
pub fn log_weights(weights: &[f64]) -> Result<Vec<f32>> {
    let sum: f64 = weights.iter().sum();
    if weights.iter().any(|&weight| !(weight >= 0.0 && weight.is_finite())) || sum <= 0.0 {
        return Err(Error::Config("expected weights from 0, not all of them 0".into()));
    }
    Ok(weights.iter().map(|weight| (weight / sum).ln() as f32).collect())
}

/// ln(eᵃ + eᵇ)
pub fn log_add(a: f32, b: f32) -> f32 {
    let (more, less) = if a >= b { (a, b) } else { (b, a) };
    // Also where both are -∞, whose difference is no number.
    if less == f32::NEG_INFINITY { more } else { more + (less - more).exp().ln_1p() }
}

impl<S: Scorer> Scorer for Ensemble<S> {
    /// Of each member, and the scores of its last step.
    type State = Vec<(S::State, Scores)>;

    fn vocab_size(&self) -> usize {
        self.members.iter().map(Scorer::vocab_size).min().unwrap_or(0)
    }

    fn start(&self, src: &[Vec<u32>]) -> Result<Self::State> {
        self.members.iter().map(|member| Ok((member.start(src)?, Scores::default()))).collect()
    }

    fn step(&self, state: &mut Self::State, tokens: &[u32], scores: &mut Scores) -> Result<()> {
        let size = self.vocab_size();
        scores.logits.clear();
        scores.logits.resize(tokens.len() * size, f32::NEG_INFINITY);
        scores.norms.clear();
        scores.norms.resize(tokens.len(), Norm::NONE);
        let each = self.members.iter().zip(&self.log_weights).zip(state);
        for ((member, &log_weight), (state, own)) in each {
            member.step(state, tokens, own)?;
            let rows = own.logits.chunks_exact(member.vocab_size()).zip(&own.norms);
            for (mean, (logits, norm)) in scores.logits.chunks_exact_mut(size).zip(rows) {
                for (mean, &logit) in mean.iter_mut().zip(logits) {
                    *mean = log_add(*mean, norm.log_prob(logit) + log_weight);
                }
            }
        }
        Ok(())
    }

    fn reorder(&self, state: &mut Self::State, rows: &[usize]) -> Result<()> {
        self.members.iter().zip(state).try_for_each(|(member, (state, _))| member.reorder(state, rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::toy::{A, B, C, EOS, Toy, VOCAB_SIZE, assert_close, distribution, options, random};
    use crate::search::{Sentence, decode};

    /// (0.75 · 0.6 + 0.25 · 0.2, 0.75 · 0.4 + 0.25 · 0.3, 0.25 · 0.5) = (0.5, 0.375, 0.125).
    #[test]
    fn the_mean_of_distributions_by_hand() {
        let toy = |pairs: &'static [(u32, f64)]| {
            Toy::new(VOCAB_SIZE, move |_, prefix: &[u32]| match prefix {
                [] => distribution(pairs),
                _ => distribution(&[(EOS, 1.0)]),
            })
        };
        let members = vec![toy(&[(A, 0.6), (B, 0.4)]), toy(&[(A, 0.2), (B, 0.3), (C, 0.5)])];
        let ensemble = Ensemble::new(members, log_weights(&[3.0, 1.0]).unwrap());
        let found = decode(&ensemble, &[Sentence::new(vec![], 5)], &options(3, 3), None).unwrap();
        for (hypothesis, (token, p)) in
            found[0].as_ref().unwrap().iter().zip([(A, 0.5f64), (B, 0.375), (C, 0.125)])
        {
            assert_eq!(hypothesis.ids, [token, EOS]);
            assert_close(hypothesis.log_prob, p.ln());
        }
    }

    /// A model twice, with whatever weights, is the model; a weight of 0 leaves a member out.
    #[test]
    fn one_model_is_an_ensemble_of_itself() {
        let sentences = [Sentence::new(vec![1], 6), Sentence::new(vec![2], 4)];
        let alone = decode(&random(5, VOCAB_SIZE, 90), &sentences, &options(3, 2), None).unwrap();
        let twice = Ensemble::new(
            vec![random(5, VOCAB_SIZE, 90), random(5, VOCAB_SIZE, 90)],
            log_weights(&[0.3, 0.5]).unwrap(),
        );
        let with_none = Ensemble::new(
            vec![random(6, VOCAB_SIZE, 90), random(5, VOCAB_SIZE, 90)],
            log_weights(&[0.0, 2.0]).unwrap(),
        );
        for ensemble in [twice, with_none] {
            let found = decode(&ensemble, &sentences, &options(3, 2), None).unwrap();
            for (alone, found) in alone.iter().zip(found) {
                for (alone, found) in alone.as_ref().unwrap().iter().zip(found.unwrap()) {
                    assert_eq!(alone.ids, found.ids);
                    assert_close(found.log_prob, alone.log_prob);
                }
            }
        }
    }

    #[test]
    fn weights_that_are_none_are_refused() {
        for weights in [&[0.0, 0.0][..], &[-1.0, 2.0], &[f64::NAN, 1.0], &[f64::INFINITY]] {
            assert!(log_weights(weights).unwrap_err().to_string().contains("from 0"), "{weights:?}");
        }
    }
}
