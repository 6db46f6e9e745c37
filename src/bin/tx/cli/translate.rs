//! The flags of `tx translate`, and of the commands that prepare text for it.

use super::{Batching, Drawing, Search, Terminology};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use tx::checkpoint::AlignmentHead;

/// Translate lines: one line in, one line out.
#[derive(Debug, Args)]
pub struct TranslateArgs {
    /// Text files; standard input if there are none, or for `-`.
    #[arg(value_name = "FILE", conflicts_with = "text")]
    pub files: Vec<PathBuf>,
    /// Translate this instead of a file; each line of it is one line.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub text: Option<String>,
    #[command(flatten)]
    pub search: Search,
    /// Hypotheses to print for each line; above 1 needs another format than text.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub n_best: usize,
    #[command(flatten)]
    pub drawing: Drawing,
    #[command(flatten)]
    pub terminology: Terminology,
    #[command(flatten)]
    pub batching: Batching,
    /// `text`: the best translation, a line each. `jsonl`: an object for each line with `line`, `src` and `hypotheses`. `tsv`: a row for
    /// each hypothesis, line, rank, score, log_prob, source and text. `marian`: `LINE ||| TEXT ||| F0=LOG_PROB ||| SCORE`, lines from 0.
    /// `fairseq`: rows S, H, D and P, lines from 0, logarithms to base 2. Tabs within a column are `\t`, bars `|||` within a text entities.
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text")]
    pub format: TranslationFormat,
    /// Give the log_prob of every piece in `--format marian` too, and in `jsonl`, which has that always, that of every word
    /// (`word_log_probs`, end marks left out).
    #[arg(long)]
    pub word_scores: bool,
    /// Say which source word each word of the translations comes from, both from 0, as `0-0 1-2`: after the text in `text` and
    /// `marian`, as the last column in `tsv`, as row A in `fairseq`; in `jsonl` with all weights, of which the links are the largest of
    /// each row. `pieces`: of pieces instead of words.
    #[arg(long, value_name = "UNIT", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "words")]
    pub alignment: Option<AlignmentUnit>,
    /// The cross-attention that alignments are read from, as LAYER:HEAD or LAYER:mean, both from 0 [default: the one that was found at
    /// the end of training, or the mean of the last layer but one].
    #[arg(long, value_name = "LAYER:HEAD", value_parser = alignment_head)]
    pub alignment_head: Option<AlignmentHead>,
    /// The input is pieces with blanks between them, as `tx tokenize` prints them.
    #[arg(long)]
    pub no_encode: bool,
    /// Print pieces with blanks between them instead of text.
    #[arg(long)]
    pub no_decode: bool,
    /// Refuse input that is not valid UTF-8, instead of putting U+FFFD in its place, and end with exit code 1 if a line was too long, cut
    /// or went in circles, or has text outside the vocabulary.
    #[arg(long)]
    pub strict: bool,
    /// Write how much was done how fast to this file, as JSON: `lines`, `src_tokens`, `tgt_tokens` (with end marks), `seconds` (without
    /// loading the model), `tgt_tok_s`, `load_s`, `peak_mib`, `sentences`, and how many lines, and which, were `blank`, `damaged` (not UTF-8),
    /// `split` (too long for the model), `unknown` (text outside the vocabulary), `missing` (without what they must contain), `cut` (at
    /// the limit of steps), `loop` (said the same 4 times in a row or more) or `failed`.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// Pieces of text, or text of pieces.
#[derive(Debug, Args)]
pub struct TokenizeArgs {
    /// Files of lines; standard input if there are none, or for `-`.
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Model directory, or model of the Hub, whose tokenizer it is [default: as for translate].
    #[arg(long, value_name = "DIR")]
    pub model: Option<PathBuf>,
    /// Numbers of pieces instead of their text.
    #[arg(long)]
    pub ids: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TranslationFormat {
    Text,
    Jsonl,
    Tsv,
    Marian,
    Fairseq,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AlignmentUnit {
    Words,
    Pieces,
}

/// `2:5`, `2:mean`.
fn alignment_head(text: &str) -> Result<AlignmentHead, String> {
    let head = |head: &str| match head {
        "mean" => Some(None),
        number => number.parse().ok().map(Some),
    };
    let parts = text.split_once(':').and_then(|(layer, name)| Some((layer.parse().ok()?, head(name)?)));
    let (layer, head) = parts.ok_or("expected LAYER:HEAD or LAYER:mean, both from 0, as 2:5")?;
    Ok(AlignmentHead { layer, head })
}
