//! x Wᵀ + b, the only place where weights are multiplied: in training as a differentiable operation, in
//! decoding on a CPU with weights packed once.

use crate::config::Activation;
use crate::error::Result;
use crate::ops::{self, Compute, Loss, PackedLinear, Precision, Scores};
use candle_core::Tensor;
use std::sync::Arc;

/// How the linear layers of a model hold their weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Differentiable, on every device.
    Plain,
    /// Differentiable, with products in bf16 on the CPU.
    Bf16,
    /// For decoding on a CPU: packed, and every output row has the same bits in any company.
    Packed(Precision),
}

impl From<Compute> for Kind {
    fn from(compute: Compute) -> Self {
        match compute {
            Compute::F32 => Kind::Plain,
            Compute::Bf16 => Kind::Bf16,
        }
    }
}

/// One or several linear layers that read the same rows: weights [o, i] and biases \[o\], whose outputs stand side by
/// side.
#[derive(Debug)]
pub enum Linear {
    /// Differentiable.
    Plain(Vec<Affine>, Compute),
    /// For decoding on a CPU.
    Packed(Arc<PackedLinear>),
}

/// Weight and bias of a linear layer.
#[derive(Debug, Clone)]
pub struct Affine {
    /// [o, i]
    pub weight: Tensor,
    /// \[o\]
    pub bias: Option<Tensor>,
}

impl Linear {
    /// The layers `parts` as one.
    pub fn new(parts: Vec<Affine>, kind: Kind) -> Result<Self> {
        Ok(match kind {
            Kind::Plain => Linear::Plain(parts, Compute::F32),
            Kind::Bf16 => Linear::Plain(parts, Compute::Bf16),
            Kind::Packed(precision) => {
                let Affine { weight, bias } = side_by_side(&parts)?;
                Linear::Packed(Arc::new(PackedLinear::new(&weight, bias.as_ref(), precision)?))
            }
        })
    }

    /// x [n, i] → [n, o]
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        match self {
            Linear::Plain(parts, compute) => {
                let Affine { weight, bias } = side_by_side(parts)?;
                ops::linear(x, &weight, bias.as_ref(), *compute)
            }
            Linear::Packed(packed) => packed.forward(x),
        }
    }

    /// activation(x [n, i]) → [n, o]
    pub fn forward_activated(&self, x: &Tensor, activation: Activation) -> Result<Tensor> {
        match (self, activation) {
            (Linear::Plain(parts, compute), Activation::Relu) => {
                let Affine { weight, bias } = side_by_side(parts)?;
                ops::linear_relu(x, &weight, bias.as_ref(), *compute)
            }
            (Linear::Packed(packed), Activation::Relu) => packed.forward_relu(x),
            _ => ops::activation(&self.forward(x)?, activation),
        }
    }

    /// x [n, i] → logits [n, o] and the norm of each row, in the memory of `scores`
    pub fn scores(&self, x: &Tensor, scores: &mut Scores) -> Result<()> {
        match self {
            Linear::Plain(..) => {
                *scores = ops::scores(&self.forward(x)?)?;
                Ok(())
            }
            Linear::Packed(packed) => packed.scores(x, scores),
        }
    }

    /// The loss of the rows x [n, i], whose outputs are the logits of `targets`.
    pub fn cross_entropy(&self, x: &Tensor, targets: &[u32], label_smoothing: f64) -> Result<Loss> {
        match self {
            Linear::Plain(parts, compute) => {
                let Affine { weight, bias } = side_by_side(parts)?;
                ops::cross_entropy(x, &weight, bias.as_ref(), targets, label_smoothing, *compute)
            }
            Linear::Packed(packed) => ops::cross_entropy_plain(&packed.forward(x)?, targets, label_smoothing),
        }
    }
}

/// Layers of the same input as one with all their outputs.
fn side_by_side(parts: &[Affine]) -> Result<Affine> {
    if let [only] = parts {
        return Ok(only.clone());
    }
    let weights: Vec<&Tensor> = parts.iter().map(|part| &part.weight).collect();
    let biases: Option<Vec<&Tensor>> = parts.iter().map(|part| part.bias.as_ref()).collect();
    let bias = biases.map(|biases| Tensor::cat(&biases, 0)).transpose()?;
    Ok(Affine { weight: Tensor::cat(&weights, 0)?, bias })
}
