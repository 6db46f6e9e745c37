//! MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W_O with head_i = Attention(Q W_Qi, K W_Ki, V W_Vi)
//! (section 3.2.2). The heads are column blocks of width d/h of the projected rows.

use super::layers::Layers;
use super::linear::Linear;
use super::pass::Pass;
use super::trace::Kind;
use crate::error::Result;
use crate::ops::{Spans, attention};
use candle_core::Tensor;
use std::sync::Arc;

/// Keys and values [n_k, d] of everything a query may look at.
#[derive(Debug, Clone)]
pub struct KeysValues {
    /// x W_K
    pub k: Tensor,
    /// x W_V
    pub v: Tensor,
}

/// One attention sublayer.
#[derive(Debug)]
pub struct MultiHeadAttention {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    out_proj: Linear,
    n_heads: usize,
    dropout: f32,
    kind: Kind,
}

impl MultiHeadAttention {
    /// The attention stored under `name`.
    pub(super) fn new(layers: &Layers, name: &str, n_heads: usize, kind: Kind) -> Result<Self> {
        Ok(MultiHeadAttention {
            q_proj: layers.linear(&format!("{name}.q_proj"))?,
            k_proj: layers.linear(&format!("{name}.k_proj"))?,
            v_proj: layers.linear(&format!("{name}.v_proj"))?,
            out_proj: layers.linear(&format!("{name}.out_proj"))?,
            n_heads,
            dropout: layers.config.dropout.attention,
            kind,
        })
    }

    /// Keys and values [n, d] of the rows x [n, d].
    pub fn keys_values(&self, x: &Tensor) -> Result<KeysValues> {
        Ok(KeysValues { k: self.k_proj.forward(x)?, v: self.v_proj.forward(x)? })
    }

    /// Every row of x [n_q, d] looks at the rows of `memory` that `spans` gives it → [n_q, d].
    pub fn forward(
        &self,
        x: &Tensor,
        memory: &KeysValues,
        spans: &Arc<Spans>,
        pass: &mut Pass,
    ) -> Result<Tensor> {
        let q = self.q_proj.forward(x)?;
        pass.record(self.kind, &q, &memory.k, spans, self.n_heads)?;
        let dropout = pass.next_dropout(self.dropout);
        let heads = attention(&q, &memory.k, &memory.v, spans, self.n_heads, dropout)?;
        self.out_proj.forward(&heads)
    }
}
