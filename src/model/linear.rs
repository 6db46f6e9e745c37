//! x Wᵀ + b, the only place where weights are multiplied: in training as a differentiable operation, in
//! decoding on a CPU with weights packed once.

use crate::error::Result;
use crate::ops::{PackedLinear, linear};
use candle_core::Tensor;

/// How the linear layers of a model hold their weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Differentiable, on every device.
    Plain,
    /// For decoding on a CPU: packed, and every output row has the same bits in any company.
    Packed,
}

/// A linear layer of weight [o, i] and bias \[o\].
#[derive(Debug)]
pub enum Linear {
    /// Differentiable.
    Plain {
        /// [o, i]
        weight: Tensor,
        /// \[o\]
        bias: Option<Tensor>,
    },
    /// For decoding on a CPU.
    Packed(PackedLinear),
}

impl Linear {
    /// A layer of `weight` [o, i] and `bias` \[o\].
    pub fn new(weight: Tensor, bias: Option<Tensor>, kind: Kind) -> Result<Self> {
        Ok(match kind {
            Kind::Plain => Linear::Plain { weight, bias },
            Kind::Packed => Linear::Packed(PackedLinear::new(&weight, bias.as_ref())?),
        })
    }

    /// x [n, i] → [n, o]
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        match self {
            Linear::Plain { weight, bias } => linear(x, weight, bias.as_ref()),
            Linear::Packed(packed) => packed.forward(x),
        }
    }
}
