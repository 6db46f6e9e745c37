//! Hands out the tensors of a checkpoint by name while a model is put together.

use super::embedding::Table;
use super::linear::{self, Affine, Linear};
use super::parameters::Weights;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::ops::PackedLinear;
use candle_core::Tensor;
use std::cell::RefCell;
use std::sync::Arc;

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

    /// The tensor `name`, which is let go here if it is going to be packed.
    pub fn take(&self, name: &str) -> Result<Tensor> {
        let tensor = self.tensor(name)?;
        if matches!(self.kind, linear::Kind::Packed(_)) {
            self.weights.borrow_mut().remove(name);
        }
        Ok(tensor)
    }

    /// The embedding `name`. A packed one is held as linear layers are; it may be the matrix `head` of the layer `output`.
    pub fn embedding(&self, name: &str, (head, output): (&str, &Linear)) -> Result<Table> {
        match (self.kind, output) {
            (linear::Kind::Packed(_), Linear::Packed(packed)) if name == head => {
                Ok(Table::Packed(packed.clone()))
            }
            (linear::Kind::Packed(precision), _) => {
                Ok(Table::Packed(Arc::new(PackedLinear::new(&self.take(name)?, None, precision)?)))
            }
            _ => Ok(Table::Dense(self.tensor(name)?)),
        }
    }

    /// The linear layers `names` (each a `.weight` and a `.bias`), which read the same rows, as one.
    pub fn linear(&self, names: &[&str]) -> Result<Linear> {
        let part = |name: &&str| -> Result<Affine> {
            let weight = self.take(&format!("{name}.weight"))?;
            Ok(Affine { weight, bias: Some(self.take(&format!("{name}.bias"))?) })
        };
        let linear = Linear::new(names.iter().map(part).collect::<Result<_>>()?, self.kind);
        linear.map_err(|error| Error::Config(format!("{}: {error}", names.join(", "))))
    }
}
