//! The record of attention weights of one run: what `tx inspect-attention` shows, and what alignments are read from.

use crate::error::Result;
use crate::ops::Spans;
use crate::ops::attention_weights;
use candle_core::Tensor;
use serde::Serialize;
use std::sync::Arc;

/// The three uses of attention (section 3.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Every source token looks at the source.
    EncoderSelf,
    /// Every target token looks at the target up to itself.
    DecoderSelf,
    /// Every target token looks at the memory.
    Cross,
}

impl Kind {
    /// All of them.
    pub const ALL: &'static [Kind] = &[Kind::EncoderSelf, Kind::DecoderSelf, Kind::Cross];
}

/// One head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct HeadPlace {
    /// Of which attention.
    pub kind: Kind,
    /// From 0.
    pub layer: usize,
    /// From 0.
    pub head: usize,
}

/// Attention weights of the kinds that were asked for: of each layer those of each sentence, [h, q, k], whose rows sum to 1.
#[derive(Debug)]
pub struct Trace {
    kinds: &'static [Kind],
    /// Queries and keys: src.
    pub encoder_self: Vec<Vec<Tensor>>,
    /// Queries: tgt_out, keys: tgt_in.
    pub decoder_self: Vec<Vec<Tensor>>,
    /// Queries: tgt_out, keys: src.
    pub cross: Vec<Vec<Tensor>>,
}

impl Trace {
    /// An empty record for `kinds`.
    pub(super) fn new(kinds: &'static [Kind]) -> Self {
        Trace { kinds, encoder_self: Vec::new(), decoder_self: Vec::new(), cross: Vec::new() }
    }

    /// Adds the next layer of `kind`, of queries q [n_q, d] over keys and values kv [n_k, 2d].
    pub(super) fn record(
        &mut self,
        kind: Kind,
        q: &Tensor,
        kv: &Tensor,
        spans: &Arc<Spans>,
        n_heads: usize,
    ) -> Result<()> {
        if !self.kinds.contains(&kind) {
            return Ok(());
        }
        let layers = match kind {
            Kind::EncoderSelf => &mut self.encoder_self,
            Kind::DecoderSelf => &mut self.decoder_self,
            Kind::Cross => &mut self.cross,
        };
        layers.push(attention_weights(q, &kv.narrow(1, 0, q.dim(1)?)?, spans, n_heads)?);
        Ok(())
    }
}
