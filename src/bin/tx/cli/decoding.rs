//! The flags that say what a translation may be, beside how it is searched for.

use super::finite;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// What may be said.
#[derive(Debug, Args)]
#[command(next_help_heading = "What may be said", allow_negative_numbers = true)]
pub struct Rules {
    /// What each target piece costs before the length penalty: score = (log_prob - W * len) / penalty, as Marian has it; below 0
    /// longer translations gain.
    #[arg(long, value_name = "W", value_parser = word_penalty, default_value_t = 0.0)]
    pub word_penalty: f64,
    /// Multiply the log-probabilities of pieces that the translation has already by this; 1 = off [default: 1].
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    pub repetition_penalty: Option<f32>,
    /// No N pieces occur twice in the same order within a translation; 0 = off.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub no_repeat_ngram: usize,
    /// What becomes of the unknown piece in translations: `ban`: the model may not say it; `keep`: it may, and the text has ⁇ for it;
    /// `copy`: it may, and the text has the word of the source that the alignment links it to [default: ban, or as --like says].
    #[arg(long, value_name = "WHAT", value_enum)]
    pub on_unk: Option<OnUnkArg>,
    /// Never say this as whole words, however it is cut into pieces. Can be given several times; words in other letters (at the
    /// beginning of a sentence, say) are other words.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, value_parser = not_blank)]
    pub suppress: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnUnkArg {
    Keep,
    Copy,
    Ban,
}

/// What must be said.
#[derive(Debug, Args)]
#[command(next_help_heading = "What may be said")]
pub struct Terminology {
    /// Every translation contains this text, wherever it fits best. Can be given several times. The search keeps --beam hypotheses for each
    /// further piece that they have of it, so a line takes so many times as long; where it cannot be said the line is named and the
    /// exit code 1.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, value_parser = not_blank)]
    pub must_contain: Vec<String>,
    /// A file of lines SOURCE, tab, TARGET: the translation of a line with the words SOURCE (in the same letters) contains TARGET, as with
    /// --must-contain. Where terms overlap the first, and of these the longest, counts. Can be given several times.
    #[arg(long, value_name = "FILE")]
    pub terms: Vec<PathBuf>,
}

/// Drawing instead of searching, and what translations begin with.
#[derive(Debug, Args)]
#[command(next_help_heading = "What may be said")]
pub struct Drawing {
    /// Draw translations from the model's distribution instead of searching for the best; --n-best of them, best first, two of which
    /// may be the same. A line's depend on --seed and on its number.
    #[arg(long, conflicts_with = "beam")]
    pub sample: bool,
    /// Divide logits by this before drawing: below 1 the probable becomes more so.
    #[arg(long, value_name = "T", value_parser = temperature, default_value_t = 1.0, requires = "sample")]
    pub temperature: f64,
    /// Draw among the K most probable pieces; 0 = all.
    #[arg(long, value_name = "K", default_value_t = 0, requires = "sample")]
    pub top_k: usize,
    /// Draw among the most probable pieces that have this share of the probability; 1 = all.
    #[arg(long, value_name = "P", value_parser = share, default_value_t = 1.0, requires = "sample")]
    pub top_p: f64,
    /// Seed of --sample.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "sample")]
    pub seed: u64,
    /// What every translation begins with.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with = "prefix_file")]
    pub prefix: Option<String>,
    /// A file with a line for each line of the input: what its translation begins with; a blank one leaves it free.
    #[arg(long, value_name = "FILE")]
    pub prefix_file: Option<PathBuf>,
}

pub(super) fn not_blank(text: &str) -> Result<String, String> {
    if tx::text::is_blank(text) { Err("a blank text says nothing".into()) } else { Ok(text.to_string()) }
}

/// A number that `is_right`, which `expected` describes.
fn number(text: &str, expected: &str, is_right: impl Fn(f64) -> bool) -> Result<f64, String> {
    finite(text).ok().filter(|&x| is_right(x)).ok_or_else(|| format!("expected {expected}"))
}

fn word_penalty(text: &str) -> Result<f64, String> {
    number(text, "a number between -1000 and 1000", |x| x.abs() <= 1000.0)
}

fn factor(text: &str) -> Result<f32, String> {
    number(text, "a number above 0 and below 1000; 1 turns it off, 1.2 is usual", |x| 1e-3 < x && x < 1e3)
        .map(|x| x as f32)
}

fn temperature(text: &str) -> Result<f64, String> {
    number(text, "a number above 0", |x| x > 0.0)
}

fn share(text: &str) -> Result<f64, String> {
    number(text, "a share above 0, at most 1 (which is all)", |x| 0.0 < x && x <= 1.0)
}
