//! LayerNorm(x + Dropout(Sublayer(x))): the residual connection around every sublayer (section 3.1),
//! post-norm as in the paper.

use super::layers::Layers;
use super::pass::Pass;
use crate::error::Result;
use crate::ops::add_norm;
use candle_core::Tensor;

/// ε under the root of the layer norm.
const EPSILON: f64 = 1e-5;

/// What surrounds one sublayer.
#[derive(Debug)]
pub struct Residual {
    weight: Tensor,
    bias: Tensor,
    dropout: f32,
}

impl Residual {
    /// The norm stored under `name`.
    pub(super) fn new(layers: &Layers, name: &str) -> Result<Self> {
        Ok(Residual {
            weight: layers.tensor(&format!("{name}.weight"))?,
            bias: layers.tensor(&format!("{name}.bias"))?,
            dropout: layers.config.dropout.residual,
        })
    }

    /// x [n, d] and the sublayer's output for it [n, d] → [n, d]
    pub fn forward(&self, x: &Tensor, sublayer: &Tensor, pass: &mut Pass) -> Result<Tensor> {
        let dropout = pass.next_dropout(self.dropout);
        add_norm(x, sublayer, &self.weight, &self.bias, EPSILON, dropout)
    }
}
