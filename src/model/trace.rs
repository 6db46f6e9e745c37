//! The record of attention weights of one run: what `tx inspect-attention` shows.

use crate::error::Result;
use crate::ops::Spans;
use crate::ops::attention_weights;
use candle_core::Tensor;
use std::sync::Arc;

/// The three uses of attention (section 3.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Every source token looks at the source.
    EncoderSelf,
    /// Every target token looks at the target up to itself.
    DecoderSelf,
    /// Every target token looks at the memory.
    Cross,
}

/// Attention weights by layer; each tensor is [h, q, k] of the run's first sentence, rows sum to 1.
#[derive(Debug, Default)]
pub struct Trace {
    /// Queries and keys: src.
    pub encoder_self: Vec<Tensor>,
    /// Queries: tgt_out, keys: tgt_in.
    pub decoder_self: Vec<Tensor>,
    /// Queries: tgt_out, keys: src.
    pub cross: Vec<Tensor>,
}

impl Trace {
    /// Adds the next layer of `kind`, of queries q [n_q, d] over keys and values kv [n_k, 2d].
    pub(super) fn record(
        &mut self,
        kind: Kind,
        q: &Tensor,
        kv: &Tensor,
        spans: &Arc<Spans>,
        n_heads: usize,
    ) -> Result<()> {
        let layers = match kind {
            Kind::EncoderSelf => &mut self.encoder_self,
            Kind::DecoderSelf => &mut self.decoder_self,
            Kind::Cross => &mut self.cross,
        };
        layers
            .extend(attention_weights(q, &kv.narrow(1, 0, q.dim(1)?)?, spans, n_heads)?.into_iter().take(1));
        Ok(())
    }
}
