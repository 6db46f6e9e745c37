//! Training, top to bottom (section 5). It prints nothing: everything that happens goes to an observer.

pub mod loss;
pub mod optim;
pub mod prepare;
pub mod reduction;
pub mod run_dir;
pub mod settings;
pub mod validate;

use crate::checkpoint::{Checkpoint, Generation, TxInfo, config_json};
use crate::data::Batch;
use crate::error::{Error, Result};
use crate::model::{Pass, Transformer, parameters};
use crate::rng::hash;
use candle_core::{Device, Var};
use optim::Optimizer;
pub use prepare::{Prepared, Request, prepare};
use reduction::{Gradients, Reduction, Threads};
use run_dir::{Best, Log, Progress, RunDir};
pub use settings::Settings;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use validate::{Validation, validate};

/// Steps in a row without a finite gradient after which training gives up.
const MOST_SKIPPED: u64 = 10;

/// What happens while training.
#[derive(Debug)]
pub enum Event<'a> {
    /// Training starts, or goes on, at this step.
    Begin {
        /// Where it stands.
        progress: &'a Progress,
        /// Of this epoch.
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
        /// Validations since the best.
        without_improvement: u64,
    },
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
    fn to_json(&self) -> serde_json::Value {
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

/// Trains on `prepared` into the model directory `out`, until done or `interrupt` is set.
pub fn train(
    prepared: &Prepared,
    out: &Path,
    device: &Device,
    interrupt: &AtomicBool,
    observe: &mut dyn FnMut(Event),
) -> Result<Outcome> {
    let settings = &prepared.origin.settings;
    settings.check()?;
    let config = settings.config(prepared.tokenizer.vocab_size(), prepared.tokenizer.special_ids());
    let variables = parameters::initial(&config, settings.seed, device)?;
    let model = Transformer::new(&config, &parameters::as_weights(&variables), settings.compute.into())?;
    let mut optimizer = Optimizer::new(&variables)?;
    let threads = if device.is_cpu() { rayon::current_num_threads() } else { 1 };
    let workers = Threads::new(threads, settings.batch_tokens)?;
    let run = RunDir::new(out);
    let mut progress = run.load(&variables, &mut optimizer, device)?;
    let mut log = Log::open(RunDir::log_path(out), progress.step)?;
    let writer = ModelWriter { prepared, config: &config, out };

    let mut epoch = prepared.epoch(progress.epoch)?;
    observe(Event::Begin {
        progress: &progress,
        batches_per_epoch: epoch.len(),
        parameters: variables.values().map(|var| var.elem_count()).sum(),
    });
    let (mut tokens, mut seconds, mut skipped_in_a_row) = (0, 0.0, 0);
    let ending = loop {
        if interrupt.load(Ordering::Relaxed) {
            break Ending::Interrupted;
        }
        if progress.step >= settings.max_steps {
            break Ending::MaxSteps;
        }
        if settings.patience > 0 && progress.without_improvement >= settings.patience {
            break Ending::Patience;
        }
        if progress.batch == epoch.len() {
            (progress.epoch, progress.batch) = (progress.epoch + 1, 0);
            epoch = prepared.epoch(progress.epoch)?;
        }
        let start = Instant::now();
        let step = progress.step + 1;
        let shards = epoch.shards(progress.batch, workers.shards(), config.special.bos);
        let tgt_tokens: usize = shards.iter().map(Batch::tgt_tokens).sum();
        let gradient = workers.sum(&|index| {
            let mut pass = Pass::training(hash(hash(settings.seed, step), index as u64));
            gradient(&model, &variables, &shards[index], settings.label_smoothing, tgt_tokens, &mut pass)
        })?;
        let grad_norm = optim::global_norm(&gradient.named)?;
        if progress.step == 0 && progress.skipped == 0 {
            optim::check_gradients(&gradient.named)?;
        }
        progress.batch += 1;
        if !grad_norm.is_finite() {
            progress.skipped += 1;
            skipped_in_a_row += 1;
            observe(Event::Skipped { step, in_a_row: skipped_in_a_row });
            if skipped_in_a_row >= MOST_SKIPPED {
                return Err(Error::Numeric(format!(
                    "the gradient was not finite {MOST_SKIPPED} times in a row at step {step}: start again with a lower --lr \
                     or a longer --warmup; the last saved state is in {}",
                    out.display()
                )));
            }
            continue;
        }
        skipped_in_a_row = 0;
        let lr = optim::learning_rate(settings.lr, settings.warmup_steps, step);
        let scale = optim::clip_scale(grad_norm, settings.clip_norm);
        optimizer.step(&variables, &gradient.named, step, lr, scale)?;
        progress.step = step;
        progress.tgt_tokens += tgt_tokens as u64;
        let report = StepReport {
            step,
            epoch: progress.epoch + 1,
            loss: gradient.loss,
            nll: gradient.nll / tgt_tokens as f64,
            lr,
            grad_norm,
            tgt_tokens,
            seconds: start.elapsed().as_secs_f64(),
        };
        tokens += report.tgt_tokens;
        seconds += report.seconds;
        log.write(&report.to_json())?;
        observe(Event::Step(&report));

        if step % settings.valid_every == 0 {
            let validation = validate(&config, &variables, prepared)?;
            let is_best = update_best(&mut progress, &validation);
            if is_best {
                writer.write(&variables, &progress, Some(&validation))?;
            }
            let without_improvement = progress.without_improvement;
            observe(Event::Validated { step, validation: &validation, is_best, without_improvement });
        }
        if step % settings.save_every == 0 && step < settings.max_steps {
            observe(Event::Saved(&run.save(&progress, &variables, &optimizer)?));
        }
    };
    observe(Event::Saved(&run.save(&progress, &variables, &optimizer)?));
    if ending == Ending::MaxSteps && progress.step % settings.valid_every != 0 {
        // Not part of the saved state: a longer run would not have looked here.
        let validation = validate(&config, &variables, prepared)?;
        let mut after = progress.clone();
        let is_best = update_best(&mut after, &validation);
        if is_best {
            writer.write(&variables, &after, Some(&validation))?;
        }
        let without_improvement = after.without_improvement;
        observe(Event::Validated { step: after.step, validation: &validation, is_best, without_improvement });
    } else if progress.best.is_none() {
        writer.write(&variables, &progress, None)?;
    }
    Ok(Outcome { ending, progress, tgt_tok_s: tokens as f64 / f64::max(seconds, 1e-9) })
}

/// What a shard contributes to the gradient of the mean loss over the `tgt_tokens` of its whole batch.
fn gradient(
    model: &Transformer,
    variables: &BTreeMap<String, Var>,
    shard: &Batch,
    label_smoothing: f64,
    tgt_tokens: usize,
    pass: &mut Pass,
) -> Result<Gradients> {
    let loss = loss::batch_loss(model, shard, label_smoothing, pass)?;
    let mean = (&loss.loss / tgt_tokens as f64)?;
    let named = optim::collect(&mean.backward()?, variables)?;
    Ok(Gradients { named, loss: f64::from(mean.to_scalar::<f32>()?), nll: loss.nll })
}

/// Whether this validation is the best so far: by NLL on dev, lower is better; NaN and ties never are.
fn update_best(progress: &mut Progress, validation: &Validation) -> bool {
    let is_best = match progress.best {
        Some(best) => validation.nll < best.nll,
        None => validation.nll.is_finite(),
    };
    if is_best {
        let Validation { nll, bleu, chrf, .. } = *validation;
        progress.best = Some(Best { step: progress.step, nll, bleu, chrf: Some(chrf) });
        progress.without_improvement = 0;
    } else {
        progress.without_improvement += 1;
    }
    is_best
}

/// Writes the model directory.
struct ModelWriter<'a> {
    prepared: &'a Prepared,
    config: &'a crate::config::Config,
    out: &'a Path,
}

impl ModelWriter<'_> {
    fn write(
        &self,
        variables: &BTreeMap<String, Var>,
        progress: &Progress,
        validation: Option<&Validation>,
    ) -> Result<()> {
        let origin = &self.prepared.origin;
        let info = TxInfo {
            format: config_json::FORMAT,
            norm: "post".into(),
            positions: self.config.positions,
            src_lang: origin.src_lang.clone(),
            tgt_lang: origin.tgt_lang.clone(),
            tokenizer_sha256: origin.tokenizer_sha256.clone(),
            provenance: serde_json::json!({
                "version": origin.version,
                "data_sha256": origin.data_sha256,
                "step": progress.step,
                "tgt_tokens": progress.tgt_tokens,
                "dev": validation.map(Validation::to_json),
                "settings": origin.settings,
            }),
        };
        let checkpoint = Checkpoint {
            config: self.config.clone(),
            weights: parameters::as_weights(variables),
            tokenizer: self.prepared.tokenizer.clone(),
            info: Some(info),
            generation: Generation::default(),
        };
        checkpoint.save(self.out, origin.settings.dtype.into())
    }
}

/// Where `tx train` writes unless told otherwise.
pub fn default_out() -> PathBuf {
    PathBuf::from("tx-model")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows 94 to 96: NaN and ties never count as best, and patience counts validations.
    #[test]
    fn the_best_validation_is_the_one_with_the_lowest_nll() {
        let mut progress = Progress::default();
        let mut bests = Vec::new();
        for nll in [f64::NAN, 3.0, 2.0, 2.0, f64::NAN, 2.5, 1.0] {
            progress.step += 1;
            bests.push(update_best(&mut progress, &Validation { nll, ..Validation::default() }));
        }
        assert_eq!(bests, [false, true, true, false, false, false, true]);
        assert_eq!(progress.best.map(|best| best.step), Some(7));
        update_best(&mut progress, &Validation { nll: 1.0, ..Validation::default() });
        assert_eq!(progress.without_improvement, 1);
    }
}
