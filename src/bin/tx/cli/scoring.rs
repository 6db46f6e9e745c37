//! The flags of the commands that score.

use super::{Batching, LineFormat, Search};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Which scores, and how they are computed and printed.
#[derive(Debug, Args)]
pub struct Scoring {
    /// Any of bleu, chrf, chrf++, ter, rouge1, rouge2, rougeL, exact, length-ratio.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "bleu,chrf,chrf++,ter")]
    pub metrics: Vec<String>,
    /// How BLEU cuts words: 13a, intl, char, zh or none.
    #[arg(long, value_name = "NAME", default_value = "13a")]
    pub tokenize: String,
    /// Ignore case.
    #[arg(long)]
    pub lowercase: bool,
    /// Seed of a comparison's random trials.
    #[arg(long, value_name = "N", default_value_t = 12345)]
    pub seed: u64,
    /// Decimals of a score.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub width: usize,
}

/// Score translations against references: the numbers and signatures that sacreBLEU gives.
#[derive(Debug, Args)]
pub struct ScoreArgs {
    /// Translations, a line each.
    #[arg(value_name = "HYP")]
    pub hypotheses: PathBuf,
    /// References, a line each; several files are several references for each line.
    #[arg(value_name = "REF", required = true)]
    pub references: Vec<PathBuf>,
    #[command(flatten)]
    pub scoring: Scoring,
    /// Score every line by itself.
    #[arg(long, conflicts_with = "compare")]
    pub sentence: bool,
    /// Compare with these translations of the same lines: paired bootstrap and approximate randomization.
    #[arg(long, value_name = "HYP2")]
    pub compare: Option<PathBuf>,
    /// `text`: a line for each score; `json`: a list of objects.
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text")]
    pub format: ScoreFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ScoreFormat {
    Text,
    Json,
}

/// Translate a test set, score it, and show where the model does worst.
#[derive(Debug, Args)]
pub struct EvaluateArgs {
    /// Text to translate, a line each.
    #[arg(value_name = "SRC")]
    pub src: PathBuf,
    /// References, a line each; several files are several references for each line. The perplexity is that of the first.
    #[arg(value_name = "REF", required = true)]
    pub references: Vec<PathBuf>,
    #[command(flatten)]
    pub search: Search,
    #[command(flatten)]
    pub batching: Batching,
    /// Compare with this model: both scores, whether they differ by more than chance, and the lines that differ most.
    #[arg(long, value_name = "DIR")]
    pub against: Option<PathBuf>,
    #[command(flatten)]
    pub scoring: Scoring,
    /// Lines to show: the worst, or with --against those that differ most.
    #[arg(long, value_name = "K", default_value_t = 10)]
    pub worst: usize,
    /// What makes a line bad; with --against, NLL counts per character, since pieces may differ.
    #[arg(long, value_name = "MEASURE", value_enum, default_value = "chrf")]
    pub by: Measure,
    /// `text`: for reading. `jsonl`: an object with the corpus results, then one for each line shown.
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text")]
    pub format: LineFormat,
    /// Write the same as one HTML page that needs nothing else.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Keep the translations (of --model), a line each.
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// A number that every line has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Measure {
    /// chrF of the line; lower is worse.
    Chrf,
    /// BLEU of the line; lower is worse.
    Bleu,
    /// TER of the line; higher is worse.
    Ter,
    /// Negative log-likelihood of the reference per target piece; higher is worse.
    Nll,
}

/// Print how probable the model holds given translations: the natural logarithm, a line for each pair.
#[derive(Debug, Args)]
pub struct ScorePairsArgs {
    /// Sources, a line each.
    #[arg(value_name = "SRC")]
    pub src: PathBuf,
    /// Their translations, a line each; with --rerank an n-best list.
    #[arg(value_name = "TGT")]
    pub tgt: PathBuf,
    #[command(flatten)]
    pub search: Search,
    /// TGT is an n-best list, `LINE ||| TEXT ||| ...` with lines from 0: print it again with the model's scores, the best first.
    #[arg(long)]
    pub rerank: bool,
    /// `text`: the log_prob; `jsonl`: an object for each pair with `line`, `log_prob`, `score`, `tokens`, `ids` and `token_log_probs`.
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text", conflicts_with = "rerank")]
    pub format: PairFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PairFormat {
    Text,
    Jsonl,
}
