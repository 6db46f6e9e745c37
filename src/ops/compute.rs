//! In which numbers the products of training are computed. Weights, gradients, moments and everything between the
//! products are f32 either way.

use super::bf16::{self, Bf16Level, bf16_level};
use super::matmul::{self, Matrix};
use serde::{Deserialize, Serialize};

/// The numbers that are multiplied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compute {
    /// As they are.
    #[default]
    F32,
    /// Rounded to eight bits of mantissa and summed in f32: several times faster on processors that have
    /// instructions for it.
    Bf16,
}

impl Compute {
    /// What is fastest on this processor: bf16 where it has instructions for it.
    pub fn fastest() -> Self {
        if bf16_level() == Bf16Level::Plain { Compute::F32 } else { Compute::Bf16 }
    }

    /// a \[m,k\] · b \[k,n\] as the rows of \[m,n\].
    pub(super) fn product(self, a: Matrix, b: Matrix) -> Vec<f32> {
        match self {
            Compute::F32 => matmul::product(a, b),
            Compute::Bf16 => bf16::product(a, b),
        }
    }

    /// out \[m,n\] += a \[m,k\] · b \[k,n\].
    pub(super) fn add_product(self, a: Matrix, b: Matrix, out: &mut [f32]) {
        match self {
            Compute::F32 => matmul::add_product(a, b, out),
            Compute::Bf16 => bf16::add_product(a, b, out),
        }
    }
}
