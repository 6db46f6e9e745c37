//! What one run through the model carries besides activations: the noise of dropout in training, and the
//! record of attention weights when somebody wants to look. Layers hold no state.

use super::trace::{Kind, Trace};
use crate::error::Result;
use crate::ops::Spans;
use crate::ops::{Dropout, dropout};
use crate::rng::hash;
use candle_core::Tensor;
use std::sync::Arc;

/// One run through the model.
#[derive(Debug, Default)]
pub struct Pass {
    noise: Option<Noise>,
    trace: Option<Trace>,
}

/// The keys of a training step's dropout masks, one for each place that drops.
#[derive(Debug)]
struct Noise {
    key: u64,
    place: u64,
}

impl Pass {
    /// No dropout, no record.
    pub fn inference() -> Self {
        Pass::default()
    }

    /// With dropout, whose masks are a function of `key`.
    pub fn training(key: u64) -> Self {
        Pass { noise: Some(Noise { key, place: 0 }), trace: None }
    }

    /// Without dropout, recording the attention weights of `kinds`.
    pub fn traced(kinds: &'static [Kind]) -> Self {
        Pass { noise: None, trace: Some(Trace::new(kinds)) }
    }

    /// The record, if one was asked for.
    pub fn into_trace(self) -> Option<Trace> {
        self.trace
    }

    /// The mask for the next place that drops with probability `p`; none outside training.
    pub(super) fn next_dropout(&mut self, p: f32) -> Option<Dropout> {
        let noise = self.noise.as_mut().filter(|_| p > 0.0)?;
        noise.place += 1;
        Some(Dropout { p, key: hash(noise.key, noise.place) })
    }

    /// x with a share `p` of its values set to zero and the others scaled by 1/(1-p) in training; x otherwise.
    pub(super) fn dropout(&mut self, x: Tensor, p: f32) -> Result<Tensor> {
        match self.next_dropout(p) {
            Some(mask) => dropout(&x, mask),
            None => Ok(x),
        }
    }

    /// Records the weights of one attention, if a record is being made.
    pub(super) fn record(
        &mut self,
        kind: Kind,
        q: &Tensor,
        kv: &Tensor,
        spans: &Arc<Spans>,
        n_heads: usize,
    ) -> Result<()> {
        match &mut self.trace {
            Some(trace) => trace.record(kind, q, kv, spans, n_heads),
            None => Ok(()),
        }
    }
}
