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
