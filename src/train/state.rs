//! What an update changes: weights, moments, their moving average, and where the run stands.

use super::ema::Ema;
use super::optim::{self, Optimizer};
use super::progress::Progress;
use super::resume::Reset;
use super::settings::Settings;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::model::parameters::{self, Weights};
use candle_core::{Device, Tensor, Var};
use std::collections::BTreeMap;

/// All that changes while training.
#[derive(Debug)]
pub struct State {
    /// The weights.
    pub variables: BTreeMap<String, Var>,
    /// The moments.
    pub optimizer: Optimizer,
    /// The moving average, if it was asked for.
    pub ema: Option<Ema>,
    /// Where the run stands.
    pub progress: Progress,
}

impl State {
    /// The start of a run: fresh weights, zero moments.
    pub fn new(config: &Config, settings: &Settings, device: &Device) -> Result<Self> {
        let variables = parameters::initial(config, settings.seed, device)?;
        Ok(State {
            optimizer: Optimizer::new(&variables)?,
            ema: if settings.ema > 0.0 { Some(Ema::new(&variables)?) } else { None },
            progress: Progress::default(),
            variables,
        })
    }

    /// The weights, without a graph behind them.
    pub fn weights(&self) -> Weights {
        self.variables.iter().map(|(name, var)| (name.clone(), var.as_detached_tensor())).collect()
    }

    /// Starts from `weights` instead of fresh ones.
    pub fn start_from(&mut self, weights: &Weights) -> Result<()> {
        take(&self.variables, weights)?;
        self.restart_ema()
    }

    /// Forgets parts of the state.
    pub fn reset(&mut self, resets: &[Reset]) -> Result<()> {
        for &reset in resets {
            self.progress.reset(reset);
            if reset == Reset::Optimizer {
                self.optimizer = Optimizer::new(&self.variables)?;
                self.restart_ema()?;
            }
        }
        Ok(())
    }

    fn restart_ema(&mut self) -> Result<()> {
        if self.ema.is_some() {
            self.ema = Some(Ema::new(&self.variables)?);
        }
        Ok(())
    }

    /// One update by the gradient `named` of norm `grad_norm`; gives its learning rate.
    pub fn update(
        &mut self,
        named: &BTreeMap<String, Tensor>,
        grad_norm: f64,
        settings: &Settings,
    ) -> Result<f64> {
        let step = self.progress.step + 1;
        let lr = optim::learning_rate(settings.lr, settings.warmup_steps, step - self.progress.schedule_from)
            * optim::cooldown(settings.cooldown, settings.max_steps, step);
        let scale = optim::clip_scale(grad_norm, settings.clip_norm);
        let update = step - self.progress.optimizer_from;
        self.optimizer.step(&self.variables, named, update, lr, scale)?;
        if let Some(ema) = &mut self.ema {
            ema.update(&self.variables, settings.ema, update)?;
        }
        self.progress.step = step;
        self.progress.skipped_in_a_row = 0;
        Ok(lr)
    }
}

/// Sets every variable to the tensor of its name; each must be there, in its shape.
pub fn take(variables: &BTreeMap<String, Var>, weights: &Weights) -> Result<()> {
    for (name, var) in variables {
        match weights.get(name).filter(|saved| saved.shape() == var.shape()) {
            Some(saved) => var.set(saved)?,
            None => return Err(Error::Config(format!("the saved weights lack {name} {:?}", var.dims()))),
        }
    }
    Ok(())
}
