//! An exponential moving average of the weights, kept beside them: often better than any single state.

use super::state::take;
use crate::error::Result;
use crate::model::parameters::Weights;
use crate::ops::mix_in_place;
use candle_core::Var;
use std::collections::BTreeMap;

/// The averages, by the name of the parameter.
#[derive(Debug)]
pub struct Ema {
    averages: BTreeMap<String, Var>,
}

/// How much of the old average stays at the `update`-th update, from 1: min(decay, (1 + n) / (10 + n)), so that the start is
/// soon forgotten.
fn decay_at(decay: f64, update: u64) -> f64 {
    let n = update as f64;
    decay.min((1.0 + n) / (10.0 + n))
}

impl Ema {
    /// Starts at the present weights.
    pub fn new(variables: &BTreeMap<String, Var>) -> Result<Self> {
        let copy = |(name, var): (&String, &Var)| -> Result<(String, Var)> {
            Ok((name.clone(), Var::from_tensor(&var.as_detached_tensor().copy()?)?))
        };
        Ok(Ema { averages: variables.iter().map(copy).collect::<Result<_>>()? })
    }

    /// average ← decay · average + (1 - decay) · weights, after the `update`-th update.
    pub fn update(&mut self, variables: &BTreeMap<String, Var>, decay: f64, update: u64) -> Result<()> {
        let share = 1.0 - decay_at(decay, update);
        for (name, average) in &self.averages {
            mix_in_place(average, &variables[name].as_detached_tensor(), share)?;
        }
        Ok(())
    }

    /// The averages as weights.
    pub fn weights(&self) -> Weights {
        self.averages.iter().map(|(name, var)| (name.clone(), var.as_detached_tensor())).collect()
    }

    /// Takes saved averages back.
    pub fn load(&mut self, saved: &Weights) -> Result<()> {
        take(&self.averages, saved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Device;

    /// Decay 0.5 from the start: (1 + 1)/(10 + 1) = 2/11 at the first update, 3/12 at the second, at the tenth 11/20 > 0.5.
    #[test]
    fn the_average_follows_the_weights() {
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{a} instead of {b}");
        close(decay_at(0.5, 1), 2.0 / 11.0);
        close(decay_at(0.5, 10), 0.5);
        close(decay_at(0.999, 100_000), 0.999);
        let variables = BTreeMap::from([("a".to_string(), Var::new(&[1f32], &Device::Cpu).unwrap())]);
        let mut ema = Ema::new(&variables).unwrap();
        variables["a"].set(&candle_core::Tensor::new(&[2f32], &Device::Cpu).unwrap()).unwrap();
        let value = |ema: &Ema| f64::from(ema.weights()["a"].to_vec1::<f32>().unwrap()[0]);
        close(value(&ema), 1.0);
        ema.update(&variables, 0.5, 1).unwrap();
        close(value(&ema), 2.0 / 11.0 + 9.0 / 11.0 * 2.0);
    }
}
