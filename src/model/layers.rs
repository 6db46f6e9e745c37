//! Hands out the tensors of a checkpoint by name while a model is put together.

use super::linear::{self, Affine, Linear};
use super::parameters::Weights;
use crate::config::Config;
use crate::error::{Error, Result};
use candle_core::Tensor;

/// Weights, and how the linear layers shall hold them.
pub(super) struct Layers<'a> {
    pub config: &'a Config,
    pub weights: &'a Weights,
    pub kind: linear::Kind,
}

impl Layers<'_> {
    /// The tensor `name`.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        let tensor = self.weights.get(name);
        tensor.cloned().ok_or_else(|| Error::Config(format!("{name} is missing")))
    }

    /// The linear layers `names` (each a `.weight` and a `.bias`), which read the same rows, as one.
    pub fn linear(&self, names: &[&str]) -> Result<Linear> {
        let part = |name: &&str| -> Result<Affine> {
            let weight = self.tensor(&format!("{name}.weight"))?;
            Ok(Affine { weight, bias: Some(self.tensor(&format!("{name}.bias"))?) })
        };
        Linear::new(names.iter().map(part).collect::<Result<_>>()?, self.kind)
    }
}
