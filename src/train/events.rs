//! What training tells its observer, and what it leaves.

use super::finish::Choice;
use super::progress::Progress;
use super::validate::Validation;
use std::path::Path;

/// What happens while training.
#[derive(Debug)]
pub enum Event<'a> {
    /// Training starts, or goes on, at this step.
    Begin {
        /// Where it stands, with the workers that it had.
        progress: &'a Progress,
        /// The workers that it has now.
        workers: usize,
        /// Of this epoch, an update each.
        batches_per_epoch: usize,
        /// Numbers that are trained.
        parameters: usize,
    },
    /// An update was done.
    Step(&'a StepReport),
    /// The gradient was not finite, so nothing was changed.
    Skipped {
        /// Which update.
        step: u64,
        /// How many since the last good one.
        in_a_row: u64,
    },
    /// The model was tried on dev.
    Validated {
        /// After which update.
        step: u64,
        /// How it did.
        validation: &'a Validation,
        /// Whether it was the best so far, and is the model now.
        is_best: bool,
        /// Validations since the last improvement.
        without_improvement: u64,
    },
    /// At the end: the weights that could become the model.
    Finished(&'a Choice),
    /// The state was saved.
    Saved(&'a Path),
}

/// One update.
#[derive(Debug, Clone)]
pub struct StepReport {
    /// From 1.
    pub step: u64,
    /// From 1.
    pub epoch: u64,
    /// Label-smoothed cross-entropy per target token.
    pub loss: f64,
    /// Negative log-likelihood per target token.
    pub nll: f64,
    /// Learning rate of the update.
    pub lr: f64,
    /// Global norm of the gradient before clipping.
    pub grad_norm: f64,
    /// Target tokens of the batch, end marks included.
    pub tgt_tokens: usize,
    /// Seconds of the step.
    pub seconds: f64,
}

impl StepReport {
    /// A row of the log.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "step": self.step, "epoch": self.epoch, "loss": self.loss, "nll": self.nll, "lr": self.lr,
            "grad_norm": self.grad_norm, "tgt_tokens": self.tgt_tokens, "seconds": self.seconds,
            "tgt_tok_s": self.tgt_tokens as f64 / self.seconds,
        })
    }
}

/// Why training ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// All steps were done.
    MaxSteps,
    /// All epochs were done.
    MaxEpochs,
    /// The time for this call is over; the run can go on.
    MaxTime,
    /// Dev did not improve any more.
    Patience,
    /// The user asked to stop; the state is saved.
    Interrupted,
}

/// What training leaves.
#[derive(Debug)]
pub struct Outcome {
    /// Why it ended.
    pub ending: Ending,
    /// Where it stands.
    pub progress: Progress,
    /// Target tokens per second over the updates of this call, validation not counted.
    pub tgt_tok_s: f64,
}
