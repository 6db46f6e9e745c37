//! The loss of a training step and its plain relatives (section 5.4 and equation of the cross-entropy).

use crate::data::Batch;
use crate::error::Result;
use crate::model::{Pass, Transformer};
use crate::ops::Loss;

/// Label-smoothed cross-entropy and plain negative log-likelihood of a batch, summed over its target tokens. Divide
/// once by the number of target tokens of the whole step.
pub fn batch_loss(model: &Transformer, batch: &Batch, label_smoothing: f64, pass: &mut Pass) -> Result<Loss> {
    let memory = model.encode(&batch.src, &batch.src_lengths, pass)?;
    model.loss((&batch.tgt_in, &batch.tgt_out), &batch.tgt_lengths, &memory, label_smoothing, pass)
}

/// Perplexity = e^NLL, for an NLL per target token; infinite where that overflows.
pub fn perplexity(nll: f64) -> f64 {
    nll.exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model that hesitates evenly between 10 words has perplexity 10; overflow is infinite, not an error.
    #[test]
    fn perplexity_by_hand() {
        assert!((perplexity(10f64.ln()) - 10.0).abs() < 1e-12);
        assert_eq!(perplexity(800.0), f64::INFINITY);
    }
}
