//! The flags that say which model translates, and how it is searched.

use super::{Machine, Rules, finite, positive};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use tx::search::LengthPenalty;

/// Which model, and how to search with it.
#[derive(Debug, Args)]
pub struct Search {
    /// Model directory, or a model of the Hugging Face Hub: `owner/name`, or `owner/name@revision`; or one inside tx: `bundled`, or by its
    /// languages, as `bundled:en-de` [default: $TX_MODEL, else ./tx-model if it exists, else bundled]. Given several
    /// times the models, which must be of one tokenizer, translate together: each piece has the mean of the probabilities that they give it.
    #[arg(long, value_name = "DIR|ID")]
    pub model: Vec<PathBuf>,
    /// How much each --model counts, in their order and with commas, as 2,1 [default: all the same].
    #[arg(long, value_name = "W,W,...", value_delimiter = ',', requires = "model", value_parser = finite)]
    pub weights: Vec<f64>,
    /// Language to translate from, for models that know several and to choose among those inside tx.
    #[arg(long, value_name = "LANG")]
    pub from: Option<String>,
    /// Language to translate to, likewise: as the model names it, `de` or `deu_Latn`.
    #[arg(long, value_name = "LANG")]
    pub to: Option<String>,
    /// Hypotheses kept at each step; 1 is greedy [default: 4, or what a foreign model asks for, or --n-best if that is more].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub beam: Option<usize>,
    /// What a hypothesis' log_prob is divided by: `gnmt:A` = ((5+len)/6)^A, `pow:A` = len^A, `none`; len counts target pieces with
    /// the end mark [default: gnmt:0.6, or what a foreign model asks for].
    #[arg(long, value_name = "PENALTY")]
    pub length_penalty: Option<LengthPenalty>,
    /// Whose rules of search to follow. They set --length-penalty, --max-length, where the search stops, and --on-unk:
    ///
    /// - tx: gnmt:0.6; source + 50; when no live hypothesis can still win; ban
    /// - paper: as tx, with --beam 4 and gnmt:0.6 also where a foreign model asks for something else
    /// - ct2 (CTranslate2): pow:1.0; 256; when --beam hypotheses have finished, none of them at the first step; keep
    /// - hf (transformers): pow:1.0; the model's positions - 1; when none of --beam finished ones is worse than the best live one as
    ///   it is; keep
    /// - fairseq: pow:1.0; 201; when --beam hypotheses have finished, none at the first step, all live ones at the last; keep
    /// - marian: none; 3 times the source; when all have finished, each of which makes the beam narrower by one; ban
    ///
    /// The end mark counts as a piece in all of them, for the limit and for the penalty.
    #[arg(long, value_name = "WHOSE", value_enum, default_value = "tx", verbatim_doc_comment)]
    pub like: LikeArg,
    /// Decoding steps at most; the end mark is one of them [default: pieces of the source with its end mark + 50, or as --like says].
    #[arg(long, value_name = "STEPS", value_parser = positive)]
    pub max_length: Option<usize>,
    /// Decoding steps at least; the end mark is one of them, but with --like ct2 and fairseq, where there are as many pieces before it
    /// [default: 0].
    #[arg(long, value_name = "STEPS", value_parser = positive)]
    pub min_length: Option<usize>,
    /// Numbers that the linear layers multiply, on the CPU: `f32`; `bf16` (8 bits of mantissa, half the memory); `int8` (scaled
    /// whole numbers, a quarter of the memory, the fastest); `auto`: the fastest for this CPU [default: as the model is stored].
    #[arg(long, value_name = "TYPE", value_enum)]
    pub compute: Option<PrecisionArg>,
    #[command(flatten)]
    pub rules: Rules,
    #[command(flatten)]
    pub machine: Machine,
}

/// How many lines go through the model at once.
#[derive(Debug, Args)]
pub struct Batching {
    /// Lines translated together; the translations do not depend on it [default: 32, in bf16 and int8 16].
    #[arg(long, value_name = "LINES", value_parser = positive)]
    pub batch_size: Option<usize>,
    /// `auto`: a line of several sentences is translated sentence by sentence, but with --like ct2, hf, fairseq and marian and with
    /// --must-contain as one; `never`: every line as one. What is too long for the model is split in any case.
    #[arg(long, value_name = "WHEN", value_enum, default_value = "auto")]
    pub split: SplitArg,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SplitArg {
    Auto,
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PrecisionArg {
    F32,
    Bf16,
    Int8,
    Auto,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LikeArg {
    Tx,
    Ct2,
    Hf,
    Fairseq,
    Marian,
    Paper,
}
