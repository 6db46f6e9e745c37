//! The flags of `tx train` about the life of a run (saving, stopping, resuming, choosing the model), and those of `tx average`.

use super::{by_name, finite};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use tx::train::best::Criterion;
use tx::train::resume::Reset;
use tx::train::settings::Stored;

#[derive(Debug, Args)]
#[command(next_help_heading = "Life of a run")]
pub struct LifeArgs {
    /// Start from the weights of this model directory or model of the Hub (fine-tuning); its tokenizer and shape are kept.
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["resume", "tokenizer", "vocab_size", "lowercase", "preset"])]
    pub init_from: Option<PathBuf>,
    /// Parts that a resumed run starts anew, with commas: `optimizer` (moments, EMA), `schedule` (learning rate and warmup),
    /// `data` (the text and the place in it), `best` (the best so far, patience). The settings that belong to a part may change with it.
    #[arg(long, value_name = "PARTS", value_delimiter = ',', requires = "resume", value_parser = reset)]
    pub reset: Vec<Reset>,
    /// Show on this text that a stopped and resumed run is the run that never stopped: trains --max-steps steps [default: 10] in
    /// one go and in two halves, in temporary folders, and compares the files. Exit code 0 if they are the same, else 1.
    #[arg(long, conflicts_with = "resume")]
    pub verify_resume: bool,
    /// Batches that make one update; their gradients are summed and divided once by all their target tokens [default: 1].
    #[arg(long, value_name = "N")]
    pub accumulate: Option<usize>,
    /// Passes over the text to train at most; 0 = any number [default: 0].
    #[arg(long, value_name = "N")]
    pub max_epochs: Option<u64>,
    /// Time to train at most in this call, as 90s, 30m, 2h or 1d; scoring at the end comes on top.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub max_time: Option<Duration>,
    /// Minutes between saves, beside those by --save-every; 0 = only those [default: 10].
    #[arg(long, value_name = "M", value_parser = finite)]
    pub save_minutes: Option<f64>,
    /// Saved states to keep, the last ones [default: 1].
    #[arg(long, value_name = "N")]
    pub keep: Option<usize>,
    /// Weights of the best validations to keep (in train/weights) [default: 1].
    #[arg(long, value_name = "K")]
    pub keep_best: Option<usize>,
    /// What decides which validation is the best, and whether there was an improvement: `nll`, `loss` (lower is better), `bleu` or `chrf`
    /// (higher is better) on dev [default: nll].
    #[arg(long, value_name = "METRIC", value_parser = by_name::<Criterion>)]
    pub metric: Option<Criterion>,
    /// --patience takes only changes of --metric larger than this for an improvement [default: 0].
    #[arg(long, value_name = "X", value_parser = finite)]
    pub min_change: Option<f64>,
    /// Keep the weights of the last N validations, and try their average at the end; 0 = off [default: 5].
    #[arg(long, value_name = "N")]
    pub average: Option<usize>,
    /// Keep an exponential moving average of the weights with this decay, as 0.999, and try it at the end; 0 = off [default: 0].
    #[arg(long, value_name = "DECAY", value_parser = finite)]
    pub ema: Option<f64>,
}

/// Average the weights of models of one shape and tokenizer.
#[derive(Debug, Args)]
pub struct AverageArgs {
    /// Model directories, models of the Hub, or saved weights of a run: `tx-model/train/step-N`, `tx-model/train/weights/step-N.safetensors`.
    #[arg(value_name = "MODEL", required = true)]
    pub models: Vec<PathBuf>,
    /// Model directory to write; it must not hold anything yet.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// How to store the weights: `f32`, or `f16` for half the size.
    #[arg(long, value_name = "TYPE", default_value = "f32", value_parser = by_name::<Stored>)]
    pub dtype: Stored,
}

fn reset(text: &str) -> Result<Reset, String> {
    let names = Reset::ALL.map(Reset::name).join(", ");
    Reset::ALL
        .into_iter()
        .find(|reset| reset.name() == text)
        .ok_or_else(|| format!("expected some of {names}, with commas"))
}

/// `90s`, `30m`, `2h`, `1.5d`.
fn duration(text: &str) -> Result<Duration, String> {
    let seconds = |text: &str| {
        let unit = text.chars().last()?;
        let seconds = match unit {
            's' => 1.0,
            'm' => 60.0,
            'h' => 3600.0,
            'd' => 86_400.0,
            _ => return None,
        };
        let number: f64 = text.strip_suffix(unit)?.parse().ok()?;
        Duration::try_from_secs_f64(number * seconds).ok()
    };
    seconds(text).ok_or_else(|| "expected a number with s, m, h or d, as 90s or 2h".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        for (text, seconds) in [("90s", 90), ("30m", 1800), ("2h", 7200), ("1.5d", 129_600), ("0s", 0)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "2", "h", "-1h", "2 hours", "nanh", "1e999d"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
