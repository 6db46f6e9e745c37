//! What a run is, and where it stands.

use super::fine_tune::StartedFrom;
use super::resume::Reset;
use super::settings::Settings;
use super::validate::Validation;
use serde::{Deserialize, Serialize};

/// What a run was started with, and what it was started on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// Resolved settings.
    pub settings: Settings,
    /// SHA-256 of the training text.
    pub data_sha256: String,
    /// SHA-256 of the tokenizer.
    pub tokenizer_sha256: String,
    /// Source language.
    pub src_lang: String,
    /// Target language.
    pub tgt_lang: String,
    /// Version of tx.
    pub version: String,
    /// The model that it was fine-tuned from.
    #[serde(default)]
    pub init_from: Option<StartedFrom>,
}

/// Where a run stands. With the weights (also those kept for the best and for the average), the moments and the settings
/// this is all its state: masks, orders and initial values are functions of seed, epoch and step.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Progress {
    /// Updates done.
    pub step: u64,
    /// The epoch of the next batch, from 0.
    pub epoch: u64,
    /// Batches of that epoch already used.
    pub batch: usize,
    /// Target tokens seen.
    pub tgt_tokens: u64,
    /// Steps whose gradient was not finite, which changed nothing.
    pub skipped: u64,
    /// How many of them came since the last update.
    pub skipped_in_a_row: u64,
    /// The best validations so far, the best first.
    pub best: Vec<Scored>,
    /// The value from which patience waits for an improvement.
    pub waits_at: Option<f64>,
    /// Validations since then.
    pub without_improvement: u64,
    /// The steps of which the weights are kept for the average, the oldest first.
    pub ring: Vec<u64>,
    /// The step at which the moments were zero.
    pub optimizer_from: u64,
    /// The step at which the schedule of the learning rate began.
    pub schedule_from: u64,
    /// How many workers share a batch: another number adds gradients in another order. 0 before the first step.
    #[serde(default)]
    pub workers: usize,
}

/// A validation in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Scored {
    /// After which step.
    pub step: u64,
    /// Label-smoothed cross-entropy per target token on dev.
    pub loss: f64,
    /// NLL per target token on dev.
    pub nll: f64,
    /// BLEU on dev.
    pub bleu: f64,
    /// chrF on dev.
    pub chrf: f64,
}

impl Scored {
    /// The numbers of `validation` after `step`.
    pub fn new(step: u64, validation: &Validation) -> Self {
        let Validation { loss, nll, bleu, chrf, .. } = *validation;
        Scored { step, loss, nll, bleu, chrf }
    }

    /// Whether all of them are numbers.
    pub fn is_finite(&self) -> bool {
        [self.loss, self.nll, self.bleu, self.chrf].iter().all(|x| x.is_finite())
    }
}

impl Progress {
    /// Adds the weights of this step to those that are averaged: the last `most`.
    pub fn remember(&mut self, most: usize) {
        self.ring.push(self.step);
        self.average_at_most(most);
    }

    /// Averages the last `most` of those whose weights are kept.
    pub fn average_at_most(&mut self, most: usize) {
        self.ring.drain(..self.ring.len().saturating_sub(most));
    }

    /// The steps of which the weights must be kept.
    pub fn weights_in_use(&self) -> impl Iterator<Item = u64> {
        self.best.iter().map(|best| best.step).chain(self.ring.iter().copied())
    }

    /// Forgets parts of the state, so that they start anew here. Data goes on with a fresh epoch, not with the first.
    pub fn reset(&mut self, reset: Reset) {
        match reset {
            Reset::Optimizer => self.optimizer_from = self.step,
            Reset::Schedule => self.schedule_from = self.step,
            Reset::Data => (self.epoch, self.batch) = (self.epoch + 1, 0),
            Reset::Best => {
                self.best.clear();
                (self.waits_at, self.without_improvement) = (None, 0);
            }
        }
    }
}
