//! Forced decoding: how probable the model holds a given translation, by the chain rule
//! log P(y|x) = Σ_t log p(y_t | y_<t, x) over its pieces and the end mark, without dropout or label smoothing.
//!
//! The whole target is fed at once (section 3.1: shifted right by one, so that no position sees what it predicts). Pairs
//! of like length go together; on the CPU a row's numbers never depend on the other rows, so neither does a pair's
//! result on its company.

use super::Translator;
use crate::data::{Batch, Pairs, batches};
use crate::error::Result;
use crate::model::Pass;
use crate::ops::scores;
use crate::search::log_add;
use crate::text;
use rayon::prelude::*;
use serde::Serialize;

/// Pairs times longest side of what is decoded together: the logits of a large vocabulary are what needs memory.
pub(super) const BATCH_TOKENS: usize = 512;

/// How probable the model holds a translation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Forced {
    /// Its ids: pieces and the end mark.
    pub ids: Vec<u32>,
    /// Natural logarithm of the probability of each, given those before it.
    pub token_log_probs: Vec<f32>,
    /// Their sum.
    pub log_prob: f64,
}

impl Forced {
    /// Negative log-likelihood per token.
    pub fn nll(&self) -> f64 {
        -self.log_prob / self.ids.len() as f64
    }
}

/// Why a pair has no probability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOut {
    /// A side is blank, which never reaches the model.
    Blank,
    /// A side has more pieces than the model has positions.
    TooLong,
    /// The model gives no finite number.
    NotFinite,
}

/// The probability of a pair's target, or why there is none.
pub type Likely = Result<Forced, LeftOut>;

/// The ids of source and target, each with its end mark.
pub(super) type Sides = (Vec<u32>, Vec<u32>);

impl Translator {
    /// The probability of every target given its source, in the order of `pairs` (source, target).
    pub fn force<S: AsRef<str> + Sync>(&self, pairs: &[(S, S)]) -> Result<Vec<Likely>> {
        let sides = pairs
            .par_iter()
            .map(|(src, tgt)| self.sides(src.as_ref(), tgt.as_ref()))
            .collect::<Result<Vec<_>>>()?;
        let mut likely = Vec::with_capacity(pairs.len());
        let (mut encoded, mut places) = (Pairs::default(), Vec::new());
        for (place, sides) in sides.into_iter().enumerate() {
            if let Ok((src, tgt)) = &sides {
                encoded.push(src, tgt);
                places.push(place);
            }
            likely.push(sides.map(|(_, ids)| Forced { ids, token_log_probs: Vec::new(), log_prob: 0.0 }));
        }
        let found = self.over_batches(&encoded, |batch| self.token_log_probs(batch))?;
        for (place, token_log_probs) in places.into_iter().zip(found) {
            let place = &mut likely[place];
            let log_prob: f64 = token_log_probs.iter().map(|&x| f64::from(x)).sum();
            match place {
                Ok(forced) if log_prob.is_finite() => {
                    (forced.token_log_probs, forced.log_prob) = (token_log_probs, log_prob);
                }
                _ => *place = Err(LeftOut::NotFinite),
            }
        }
        Ok(likely)
    }

    /// What `work` makes of each of `pairs`, in batches of like length, in the order of the pairs.
    pub(super) fn over_batches<T: Send>(
        &self,
        pairs: &Pairs,
        work: impl Fn(&Batch) -> Result<Vec<T>> + Sync,
    ) -> Result<Vec<T>> {
        let of_batch = |rows: &[u32], batch: &Batch| Ok(rows.iter().copied().zip(work(batch)?).collect());
        let found: Vec<Vec<(u32, T)>> = self.by_batch(pairs, of_batch)?;
        let mut found: Vec<(u32, T)> = found.into_iter().flatten().collect();
        found.sort_by_key(|(pair, _)| *pair);
        Ok(found.into_iter().map(|(_, found)| found).collect())
    }

    /// What `work` makes of each batch of like length, given the numbers of its pairs among `pairs`.
    pub(super) fn by_batch<T: Send>(
        &self,
        pairs: &Pairs,
        work: impl Fn(&[u32], &Batch) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let bos = self.model().config().special.bos;
        let plan = batches(pairs.lengths(), BATCH_TOKENS, 0, 0);
        plan.par_iter().map(|rows| work(rows, &pairs.batch(rows, bos))).collect()
    }

    /// The ids of a pair that the model can be given.
    pub(super) fn sides(&self, src: &str, tgt: &str) -> Result<Result<Sides, LeftOut>> {
        if text::is_blank(src) || text::is_blank(tgt) {
            return Ok(Err(LeftOut::Blank));
        }
        let (src, tgt) = (self.encode(src)?, self.encode_target(tgt)?);
        let is_too_long = src.len().max(tgt.len()) > self.max_positions();
        Ok(if is_too_long { Err(LeftOut::TooLong) } else { Ok((src, tgt)) })
    }

    /// Of each target of the batch, the log-probability of every token.
    fn token_log_probs(&self, batch: &Batch) -> Result<Vec<Vec<f32>>> {
        let mut mean = vec![f32::NEG_INFINITY; batch.tgt_out.len()];
        for (model, &log_weight) in self.models().iter().zip(self.log_weights()) {
            let mut pass = Pass::inference();
            let memory = model.encode(&batch.src, &batch.src_lengths, &mut pass)?;
            let logits = model.decode(&batch.tgt_in, &batch.tgt_lengths, &memory, &mut pass)?;
            let (_n, v) = logits.dims2()?;
            let rows = scores(&logits)?.into_log_probs();
            for ((mean, row), &id) in mean.iter_mut().zip(rows.chunks_exact(v)).zip(&batch.tgt_out) {
                *mean = log_add(*mean, row[id as usize] + log_weight);
            }
        }
        let mut tokens = mean.into_iter();
        Ok(batch.tgt_lengths.iter().map(|&length| tokens.by_ref().take(length).collect()).collect())
    }
}
