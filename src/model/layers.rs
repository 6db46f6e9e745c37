//! Hands out the tensors of a checkpoint by name while a model is put together.

use super::linear::{self, Affine, Linear};
use super::parameters::Weights;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::ops::{Precision, dequantized};
use candle_core::Tensor;
use std::cell::RefCell;

/// Weights, and how the linear layers shall hold them.
pub(super) struct Layers<'a> {
    pub config: &'a Config,
    weights: RefCell<Weights>,
    kind: linear::Kind,
}

impl<'a> Layers<'a> {
    pub fn new(config: &'a Config, weights: Weights, kind: linear::Kind) -> Self {
        Layers { config, weights: RefCell::new(weights), kind }
    }
}

impl Layers<'_> {
    /// The tensor `name`.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        let tensor = self.weights.borrow().get(name).cloned();
        tensor.ok_or_else(|| Error::Config(format!("{name} is missing")))
    }

    /// The embedding `name`: in an int8 model with the numbers that int8 can hold, as it would come out of a file.
    pub fn embedding(&self, name: &str) -> Result<Tensor> {
        let weight = self.tensor(name)?;
        if self.kind == linear::Kind::Packed(Precision::Int8) { dequantized(&weight) } else { Ok(weight) }
    }

    /// The linear layers `names` (each a `.weight` and a `.bias`), which read the same rows, as one.
    pub fn linear(&self, names: &[&str]) -> Result<Linear> {
        let part = |name: &&str| -> Result<Affine> {
            let weight = self.tensor(&format!("{name}.weight"))?;
            Ok(Affine { weight, bias: Some(self.tensor(&format!("{name}.bias"))?) })
        };
        let linear = Linear::new(names.iter().map(part).collect::<Result<_>>()?, self.kind);
        if matches!(self.kind, linear::Kind::Packed(_)) {
            self.weights.borrow_mut().retain(|name, _| !names.iter().any(|part| name.starts_with(*part)));
        }
        linear.map_err(|error| Error::Config(format!("{}: {error}", names.join(", "))))
    }
}
