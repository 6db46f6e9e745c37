//! MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W_O with head_i = Attention(Q W_Qi, K W_Ki, V W_Vi)
//! (section 3.2.2). The heads are column blocks of width d/h of the projected rows. Keys and values stand side by side,
//! [n, 2d], and in self-attention the queries before them, [n, 3d]: one product makes them all.

use super::layers::Layers;
use super::linear::Linear;
use super::pass::Pass;
use super::trace::Kind;
use super::walk::Quantity;
use crate::error::Result;
use crate::ops::{Ancestors, Spans, attention, cached_attention, self_attention};
use candle_core::{D, Tensor};
use std::sync::Arc;

/// What both uses of attention share.
#[derive(Debug)]
struct Heads {
    out_proj: Linear,
    n_heads: usize,
    dropout: f32,
    name: String,
    place: Place,
}

/// Which attention it is, and in which layer, from 0.
pub type Place = (Kind, usize);

impl Heads {
    fn new(layers: &Layers, name: &str, n_heads: usize, place: Place) -> Result<Self> {
        let out_proj = layers.linear(&[&format!("{name}.out_proj")])?;
        Ok(Heads {
            out_proj,
            n_heads,
            dropout: layers.config.dropout.attention,
            name: name.to_string(),
            place,
        })
    }

    /// Records that the queries q [n_q, d] look at the keys and values kv [n_k, 2d] that `spans` give them.
    fn record(&self, q: &Tensor, kv: &Tensor, spans: &Arc<Spans>, pass: &mut Pass) -> Result<()> {
        pass.record((self.place.0, &self.name), q, kv, spans, self.n_heads)
    }

    /// Concat(head_1, ..., head_h) W_O of the outputs [n, d] of the heads → [n, d]
    fn combine(&self, outputs: Tensor, pass: &mut Pass) -> Result<Tensor> {
        let (kind, layer) = self.place;
        let out = self.out_proj.forward(&pass.leave_out(kind, layer, self.n_heads, outputs)?)?;
        pass.note(&self.name, Quantity::MultiHead, || Ok(out.clone()))?;
        Ok(out)
    }
}

/// Attention of rows over themselves and, while decoding, over those before them.
#[derive(Debug)]
pub struct SelfAttention {
    qkv_proj: Linear,
    heads: Heads,
}

/// Keys and values of what was fed so far: of each step a block [rows, 2d].
pub type Past = Vec<Tensor>;

/// What the rows of self-attention look at.
pub enum View<'a> {
    /// Whole sentences.
    Sentences(&'a Arc<Spans>),
    /// While decoding, x has one new row for each hypothesis, which is added to the past that it looks at.
    Cached(&'a mut Past, &'a Ancestors),
}

impl SelfAttention {
    /// The attention stored under `name`.
    pub(super) fn new(layers: &Layers, name: &str, n_heads: usize, place: Place) -> Result<Self> {
        let [q, k, v] = ["q_proj", "k_proj", "v_proj"].map(|part| format!("{name}.{part}"));
        Ok(SelfAttention {
            qkv_proj: layers.linear(&[&q, &k, &v])?,
            heads: Heads::new(layers, name, n_heads, place)?,
        })
    }

    /// x [n, d] → [n, d]
    pub fn forward(&self, x: &Tensor, view: View, pass: &mut Pass) -> Result<Tensor> {
        let qkv = self.qkv_proj.forward(x)?;
        let d = qkv.dim(D::Minus1)? / 3;
        let (q, kv) = (qkv.narrow(1, 0, d)?, qkv.narrow(1, d, 2 * d)?);
        let heads = &self.heads;
        let out = match view {
            View::Sentences(spans) => {
                heads.record(&q, &kv, spans, pass)?;
                self_attention(&qkv, spans, heads.n_heads, pass.next_dropout(heads.dropout))?
            }
            View::Cached(past, ancestors) => {
                // A copy, so that the queries need not be kept.
                past.push(kv.contiguous()?);
                cached_attention(&q, past, ancestors, heads.n_heads)?
            }
        };
        heads.combine(out, pass)
    }
}

/// Attention over the memory.
#[derive(Debug)]
pub struct CrossAttention {
    q_proj: Linear,
    kv_proj: Linear,
    heads: Heads,
}

impl CrossAttention {
    /// The attention stored under `name`.
    pub(super) fn new(layers: &Layers, name: &str, n_heads: usize, layer: usize) -> Result<Self> {
        let [q, k, v] = ["q_proj", "k_proj", "v_proj"].map(|part| format!("{name}.{part}"));
        Ok(CrossAttention {
            q_proj: layers.linear(&[&q])?,
            kv_proj: layers.linear(&[&k, &v])?,
            heads: Heads::new(layers, name, n_heads, (Kind::Cross, layer))?,
        })
    }

    /// Keys and values [n, 2d] of the memory [n, d].
    pub fn keys_values(&self, memory: &Tensor) -> Result<Tensor> {
        self.kv_proj.forward(memory)
    }

    /// Every row of x [n_q, d] looks at the rows of [`CrossAttention::keys_values`] that `spans` give it → [n_q, d].
    pub fn forward(&self, x: &Tensor, kv: &Tensor, spans: &Arc<Spans>, pass: &mut Pass) -> Result<Tensor> {
        let (heads, q) = (&self.heads, self.q_proj.forward(x)?);
        heads.record(&q, kv, spans, pass)?;
        let dropout = pass.next_dropout(heads.dropout);
        heads.combine(attention(&q, kv, spans, heads.n_heads, dropout)?, pass)
    }
}
