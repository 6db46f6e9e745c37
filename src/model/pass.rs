//! What one run through the model carries besides activations: the noise of dropout in training, and when somebody wants
//! to look, the record of attention weights or of everything, and the head that is left out. Layers hold no state.

use super::trace::{HeadPlace, Kind, Trace};
use super::walk::{Quantity, Walk};
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
    walk: Option<Walk>,
    without: Option<HeadPlace>,
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
        Pass { noise: Some(Noise { key, place: 0 }), ..Pass::default() }
    }

    /// Without dropout, recording the attention weights of `kinds`.
    pub fn traced(kinds: &'static [Kind]) -> Self {
        Pass { trace: Some(Trace::new(kinds)), ..Pass::default() }
    }

    /// Without dropout, recording every quantity that one sentence becomes.
    pub fn walking() -> Self {
        Pass { walk: Some(Walk::default()), ..Pass::default() }
    }

    /// Without dropout, and with the output of one head set to zero.
    pub fn without(head: HeadPlace) -> Self {
        Pass { without: Some(head), ..Pass::default() }
    }

    /// What [`Pass::walking`] has recorded.
    pub fn into_walk(self) -> Option<Walk> {
        self.walk
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

    /// Records one attention, stored as `place`, if a record is being made.
    pub(super) fn record(
        &mut self,
        (kind, place): (Kind, &str),
        q: &Tensor,
        kv: &Tensor,
        spans: &Arc<Spans>,
        n_heads: usize,
    ) -> Result<()> {
        if let Some(walk) = &mut self.walk {
            walk.attention(place, q, kv, spans, n_heads)?;
        }
        match &mut self.trace {
            Some(trace) => trace.record(kind, q, kv, spans, n_heads),
            None => Ok(()),
        }
    }

    /// Records `values`, stored as `place`, if everything is being recorded.
    pub(super) fn note(
        &mut self,
        place: &str,
        quantity: Quantity,
        values: impl FnOnce() -> Result<Tensor>,
    ) -> Result<()> {
        match &mut self.walk {
            Some(walk) => walk.note(place, quantity, &values()?),
            None => Ok(()),
        }
    }

    /// The outputs of the heads side by side, [n, d], with that of the head that is left out set to zero.
    pub(super) fn leave_out(
        &self,
        kind: Kind,
        layer: usize,
        n_heads: usize,
        outputs: Tensor,
    ) -> Result<Tensor> {
        match self.without {
            Some(out) if (out.kind, out.layer) == (kind, layer) => {
                let d_k = outputs.dim(1)? / n_heads;
                let keep = |column: usize| f32::from(column / d_k != out.head);
                let keep = Tensor::from_iter((0..n_heads * d_k).map(keep), outputs.device())?;
                Ok(outputs.broadcast_mul(&keep)?)
            }
            _ => Ok(outputs),
        }
    }
}
