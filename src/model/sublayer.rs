//! The residual connection around every sublayer (section 3.1): LayerNorm(x + Dropout(Sublayer(x))), post-norm as in the
//! paper, or x + Dropout(Sublayer(LayerNorm(x))), pre-norm, which has one more norm after each stack.

use super::layers::Layers;
use super::pass::Pass;
use super::walk::Quantity;
use crate::config;
use crate::error::Result;
use crate::ops::{add_norm, layer_norm};
use candle_core::Tensor;

/// ε under the root of the layer norm.
const EPSILON: f64 = 1e-5;

/// Gain and bias of a layer norm.
#[derive(Debug)]
struct Norm {
    name: String,
    weight: Tensor,
    bias: Tensor,
}

impl Norm {
    fn new(layers: &Layers, name: &str) -> Result<Self> {
        let tensor = |part: &str| layers.tensor(&format!("{name}.{part}"));
        Ok(Norm { name: name.to_string(), weight: tensor("weight")?, bias: tensor("bias")? })
    }

    /// x [n, d] → [n, d]
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> Result<Tensor> {
        let out = layer_norm(x, &self.weight, &self.bias, EPSILON)?;
        pass.note(&self.name, Quantity::Norm, || Ok(out.clone()))?;
        Ok(out)
    }
}

/// The norm after a pre-norm stack; a post-norm stack ends with that of its last sublayer.
#[derive(Debug)]
pub struct LastNorm(Option<Norm>);

impl LastNorm {
    /// That of the stack `side`.
    pub(super) fn new(layers: &Layers, side: &str) -> Result<Self> {
        Ok(LastNorm(match layers.config.norm {
            config::Norm::Post => None,
            config::Norm::Pre => Some(Norm::new(layers, &format!("{side}.layer_norm"))?),
        }))
    }

    /// x [n, d] → [n, d]
    pub fn forward(&self, x: Tensor, pass: &mut Pass) -> Result<Tensor> {
        match &self.0 {
            None => Ok(x),
            Some(norm) => norm.forward(&x, pass),
        }
    }
}

/// What surrounds one sublayer.
#[derive(Debug)]
pub struct Residual {
    norm: Norm,
    place: config::Norm,
    dropout: f32,
}

impl Residual {
    /// The norm stored under `name`.
    pub(super) fn new(layers: &Layers, name: &str) -> Result<Self> {
        let (place, dropout) = (layers.config.norm, layers.config.dropout.residual);
        Ok(Residual { norm: Norm::new(layers, name)?, place, dropout })
    }

    /// x [n, d] through `sublayer`, [n, d] → [n, d], and around it → [n, d]
    pub fn around(
        &self,
        x: &Tensor,
        pass: &mut Pass,
        sublayer: impl FnOnce(&Tensor, &mut Pass) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let Norm { name, weight, bias } = &self.norm;
        match self.place {
            config::Norm::Post => {
                let out = sublayer(x, pass)?;
                pass.note(name, Quantity::Residual, || Ok((x + &out)?))?;
                let out = add_norm(x, &out, weight, bias, EPSILON, pass.next_dropout(self.dropout))?;
                pass.note(name, Quantity::Norm, || Ok(out.clone()))?;
                Ok(out)
            }
            config::Norm::Pre => {
                let out = sublayer(&self.norm.forward(x, pass)?, pass)?;
                let out = (x + pass.dropout(out, self.dropout)?)?;
                pass.note(name, Quantity::Residual, || Ok(out.clone()))?;
                Ok(out)
            }
        }
    }
}
