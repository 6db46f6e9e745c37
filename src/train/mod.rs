//! Training, top to bottom (section 5). It prints nothing: everything that happens goes to an observer.

pub mod best;
pub mod ema;
pub mod events;
pub mod fine_tune;
pub mod finish;
pub mod log;
pub mod loss;
pub mod optim;
pub mod prepare;
pub mod progress;
pub mod reduction;
pub mod resume;
pub mod run_dir;
pub mod settings;
pub mod state;
pub mod tokenizer;
pub mod validate;
pub mod verify;

use crate::data::Batch;
use crate::error::{Error, Result};
use crate::model::{Pass, Transformer, parameters};
use crate::rng::hash;
use candle_core::{Device, Var};
pub use events::{Ending, Event, Outcome, StepReport};
use finish::ModelWriter;
use log::Log;
pub use prepare::{Prepared, Request, prepare};
use progress::Scored;
use reduction::{Gradients, Reduction, Threads};
use run_dir::RunDir;
pub use settings::Settings;
use state::State;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use validate::validate;

/// Steps in a row without a finite gradient after which training gives up.
const MOST_SKIPPED: u64 = 10;

/// Trains on `prepared` into the model directory `out`, until done or `interrupt` is set.
pub fn train(
    prepared: &Prepared,
    out: &Path,
    device: &Device,
    interrupt: &AtomicBool,
    observe: &mut dyn FnMut(Event),
) -> Result<Outcome> {
    let begin = Instant::now();
    let origin = &prepared.origin;
    let settings = &origin.settings;
    settings.check()?;
    let config = settings.config(prepared.tokenizer.vocab_sizes(), prepared.tokenizer.special_ids());
    let run = RunDir::new(out);
    let mut state = start(prepared, &config, &run, device)?;
    let model = Transformer::new(&config, parameters::as_weights(&state.variables), settings.compute.into())?;
    let threads = if device.is_cpu() { rayon::current_num_threads() } else { 1 };
    let workers = Threads::new(threads, settings.batch_tokens)?;
    let mut log = Log::open(RunDir::log_path(out), state.progress.step)?;
    let writer = ModelWriter { prepared, config: &config, out };

    let mut epoch = prepared.epoch(state.progress.epoch)?;
    observe(Event::Begin {
        progress: &state.progress,
        workers: workers.shards(),
        batches_per_epoch: epoch.len().div_ceil(settings.accumulate),
        parameters: state.variables.values().map(|var| var.elem_count()).sum(),
    });
    state.progress.workers = workers.shards();
    let (mut tokens, mut seconds, mut last_save) = (0, 0.0, Instant::now());
    let ending = loop {
        let progress = &mut state.progress;
        // With a small weight an epoch may have no pair at all.
        while progress.batch >= epoch.len() {
            (progress.epoch, progress.batch) = (progress.epoch + 1, 0);
            epoch = prepared.epoch(progress.epoch)?;
        }
        if interrupt.load(Ordering::Relaxed) {
            break Ending::Interrupted;
        }
        if progress.step >= settings.max_steps {
            break Ending::MaxSteps;
        }
        if settings.max_epochs > 0 && progress.epoch >= settings.max_epochs {
            break Ending::MaxEpochs;
        }
        if settings.patience > 0 && progress.without_improvement >= settings.patience {
            break Ending::Patience;
        }
        if prepared.max_time.is_some_and(|most| begin.elapsed() >= most) {
            break Ending::MaxTime;
        }
        let start = Instant::now();
        let step = progress.step + 1;
        let end = (progress.batch + settings.accumulate).min(epoch.len());
        let shards = |batch| epoch.shards(batch, workers.shards(), config.special.bos);
        let parts: Vec<Vec<Batch>> = (progress.batch..end).map(shards).collect();
        let tgt_tokens: usize = parts.iter().flatten().map(Batch::tgt_tokens).sum();
        // Each worker adds up its share of every batch of the step; one division by all target tokens makes the sum the
        // gradient of their mean, however they are dealt out.
        let gradient = workers.sum(&|worker| {
            Gradients::total(parts.iter().enumerate().map(|(part, shards)| {
                let stream = part * workers.shards() + worker;
                let mut pass = Pass::training(hash(hash(settings.seed, step), stream as u64));
                let variables = &state.variables;
                gradient(&model, variables, &shards[worker], settings.label_smoothing, tgt_tokens, &mut pass)
            }))
        })?;
        let grad_norm = optim::global_norm(&gradient.named)?;
        if state.progress.step == 0 && state.progress.skipped == 0 {
            optim::check_gradients(&gradient.named)?;
        }
        state.progress.batch = end;
        if !grad_norm.is_finite() {
            state.progress.skipped += 1;
            state.progress.skipped_in_a_row += 1;
            observe(Event::Skipped { step, in_a_row: state.progress.skipped_in_a_row });
            if state.progress.skipped_in_a_row >= MOST_SKIPPED {
                return Err(too_many_skipped(step, &run)?);
            }
            continue;
        }
        let lr = state.update(&gradient.named, grad_norm, settings)?;
        state.progress.tgt_tokens += tgt_tokens as u64;
        let report = StepReport {
            step,
            epoch: state.progress.epoch + 1,
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
            let weights = state.weights();
            let validation = validate(&config, weights.clone(), prepared)?;
            let is_best = state.progress.judge(Scored::new(step, &validation), settings);
            state.progress.remember(settings.average);
            if state.progress.weights_in_use().any(|used| used == step) {
                run.keep_weights(step, &weights)?;
            }
            run.drop_unused_weights(&state.progress)?;
            if is_best {
                writer.write_best(weights, &state, &validation)?;
            }
            let without_improvement = state.progress.without_improvement;
            observe(Event::Validated { step, validation: &validation, is_best, without_improvement });
        }
        let minutes = last_save.elapsed().as_secs_f64() / 60.0;
        let is_time = settings.save_minutes > 0.0 && minutes >= settings.save_minutes;
        if (is_time || step % settings.save_every == 0) && step < settings.max_steps {
            log.sync()?;
            observe(Event::Saved(&run.save(&state, origin)?));
            last_save = Instant::now();
        }
    };
    log.sync()?;
    observe(Event::Saved(&run.save(&state, origin)?));
    if ending != Ending::Interrupted {
        // Nothing of this is part of the saved state: a longer run would not have looked here.
        observe(Event::Finished(&writer.finish(&state, &run, device)?));
    } else if state.progress.best.is_empty() {
        writer.write(state.weights(), &state, None, None)?;
    }
    Ok(Outcome { ending, progress: state.progress, tgt_tok_s: tokens as f64 / f64::max(seconds, 1e-9) })
}

/// The saved state, with what is to start anew; else that of a new run.
fn start(
    prepared: &Prepared,
    config: &crate::config::Config,
    run: &RunDir,
    device: &Device,
) -> Result<State> {
    let mut state = State::new(config, &prepared.origin.settings, device)?;
    if run.load(&mut state, device)? {
        state.reset(&prepared.resets)?;
        state.progress.average_at_most(prepared.origin.settings.average);
    } else if let Some(model) = &prepared.origin.init_from {
        model.start(&mut state, device)?;
    }
    Ok(state)
}

/// What a shard contributes to the gradient of the mean loss over the `tgt_tokens` of its whole step.
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

/// The end of a run that has gone astray.
fn too_many_skipped(step: u64, run: &RunDir) -> Result<Error> {
    let saved = match run.last()? {
        Some(path) => format!("the last good state is kept in {}", path.display()),
        None => "no state was saved before it".to_string(),
    };
    Ok(Error::Numeric(format!(
        "the gradient was not finite {MOST_SKIPPED} times in a row at step {step}: start again with a lower --lr or a longer \
         --warmup, or go on from before it with --resume --reset schedule and a lower --lr; {saved}"
    )))
}

/// Where `tx train` writes unless told otherwise.
pub fn default_out() -> PathBuf {
    PathBuf::from("tx-model")
}
