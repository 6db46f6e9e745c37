//! The progress of training: a live bar on a terminal, a line now and then elsewhere. All of it on stderr.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};
use tx::score::perplexity;
use tx::train::best::Criterion;
use tx::train::finish::{Candidate, Choice};
use tx::train::validate::Validation;
use tx::train::{Event, Settings, StepReport};

/// Time between lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(30);
/// Share of the newest step in the running means that are shown.
const NEWEST: f64 = 0.05;

/// Shows the events of a run.
pub struct Progress {
    bar: Option<ProgressBar>,
    max_steps: u64,
    patience: u64,
    metric: Criterion,
    batches_per_epoch: usize,
    means: Option<Means>,
    last_line: Instant,
}

/// Running means over the last steps.
struct Means {
    loss: f64,
    nll: f64,
    tgt_tok_s: f64,
}

impl Progress {
    /// For a run with these settings.
    pub fn new(settings: &Settings) -> Self {
        let Settings { max_steps, patience, metric, .. } = *settings;
        Progress {
            bar: None,
            max_steps,
            patience,
            metric,
            batches_per_epoch: 1,
            means: None,
            last_line: Instant::now(),
        }
    }

    /// Shows one event.
    pub fn show(&mut self, event: &Event) {
        match event {
            Event::Begin { progress, workers, batches_per_epoch, parameters } => {
                self.batches_per_epoch = (*batches_per_epoch).max(1);
                let parameters = *parameters as f64 / 1e6;
                self.say(&format!(
                    "{parameters:.1} million parameters, about {batches_per_epoch} batches an epoch, from step {}",
                    progress.step + 1
                ));
                self.say(&format!(
                    "the best model is that of the {} dev {}",
                    if self.metric.direction() == "lower" { "lowest" } else { "highest" },
                    self.metric.name()
                ));
                if progress.workers > 0 && progress.workers != *workers {
                    self.say(&format!(
                        "note: {workers} workers share a batch, not {} as before: gradients are added in another order, so \
                         the bytes will not be those of a run that never stopped (--threads)",
                        progress.workers
                    ));
                }
                if progress.step > 0 {
                    self.say(&from_checkpoint(progress, self.metric));
                }
                self.start_bar(progress.step);
            }
            Event::Step(report) => self.step(report),
            Event::Skipped { step, in_a_row } => {
                self.say(&format!(
                    "warning: step {step}: the gradient is not finite; skipped ({in_a_row} in a row)"
                ));
            }
            Event::Validated { step, validation, is_best, without_improvement } => {
                self.validated(*step, validation, *is_best, *without_improvement);
            }
            Event::Finished(choice) => self.finished(choice),
            Event::Saved(path) => {
                if let Some(bar) = &self.bar {
                    bar.set_prefix(format!(
                        "saved {}",
                        path.file_name().unwrap_or_default().to_string_lossy()
                    ));
                }
            }
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn start_bar(&mut self, step: u64) {
        if !std::io::stderr().is_terminal() {
            return;
        }
        let bar = ProgressBar::new(self.max_steps).with_position(step);
        let template = "{bar:24} {pos}/{len}  {msg}  {eta} left  {prefix}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
        }
        bar.reset_eta();
        self.bar = Some(bar);
    }

    fn step(&mut self, report: &StepReport) {
        let speed = report.tgt_tokens as f64 / report.seconds;
        let newest = Means { loss: report.loss, nll: report.nll, tgt_tok_s: speed };
        let means = match self.means.take() {
            Some(old) => Means {
                loss: mix(old.loss, newest.loss),
                nll: mix(old.nll, newest.nll),
                tgt_tok_s: mix(old.tgt_tok_s, newest.tgt_tok_s),
            },
            None => newest,
        };
        let message = format!(
            "epoch {}  loss {:.3}  nll {:.3}  ppl {:.1}  lr {:.2e}  {:.0} tok/s",
            report.epoch,
            means.loss,
            means.nll,
            perplexity(means.nll),
            report.lr,
            means.tgt_tok_s
        );
        self.means = Some(means);
        match &self.bar {
            Some(bar) => {
                bar.set_position(report.step);
                bar.set_message(message);
            }
            None if self.last_line.elapsed() >= LINE_EVERY || report.step == 1 => {
                self.last_line = Instant::now();
                self.say(&format!("step {}/{}  {message}", report.step, self.max_steps));
            }
            None => {}
        }
    }

    fn validated(&self, step: u64, validation: &Validation, is_best: bool, without_improvement: u64) {
        let verdict = match (is_best, self.patience) {
            (true, _) => "best so far, saved".to_string(),
            (false, 0) => "no improvement".to_string(),
            (false, patience) => format!("no improvement, {without_improvement} of {patience}"),
        };
        self.say(&format!("step {step}: dev {}  ({verdict})", numbers(validation)));
        for sample in &validation.samples {
            self.say(&format!(
                "  src {}\n  ref {}\n  hyp {}",
                sample.src, sample.reference, sample.hypothesis
            ));
        }
    }

    /// The table of the weights that could become the model.
    fn finished(&self, Choice { candidates, winner, left_out }: &Choice) {
        for (kind, error) in left_out {
            self.say(&format!("warning: {} is left out of the choice of the model: {error}", kind.name()));
        }
        for (at, Candidate { kind, steps, validation }) in candidates.iter().enumerate() {
            let steps = steps.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
            let verdict = if Some(at) == *winner { "  (the model)" } else { "" };
            let name = kind.name();
            self.say(&format!("{name:<7} dev {}  (step {steps}){verdict}", numbers(validation)));
        }
    }

    /// Prints above the bar.
    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| say!("{text}")),
            None => say!("{text}"),
        }
    }
}

fn numbers(validation: &Validation) -> String {
    format!(
        "loss {:.4}  nll {:.4}  ppl {:.2}  BLEU {:.2}  chrF {:.2}",
        validation.loss,
        validation.nll,
        validation.perplexity(),
        validation.bleu,
        validation.chrf
    )
}

/// What a resumed run has of its past.
fn from_checkpoint(progress: &tx::train::progress::Progress, metric: Criterion) -> String {
    let best = progress.best.first().map_or("none".to_string(), |best| {
        format!("{} {:.4} at step {}", metric.name(), metric.of(best), best.step)
    });
    format!(
        "from the checkpoint: weights, moments, step {}, epoch {}, {} batches of it used, best so far: {best}, {} validations \
         without improvement",
        progress.step,
        progress.epoch + 1,
        progress.batch,
        progress.without_improvement
    )
}

fn mix(old: f64, new: f64) -> f64 {
    old + NEWEST * (new - old)
}
