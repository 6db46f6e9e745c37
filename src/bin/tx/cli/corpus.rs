//! The flags about parallel text.

use super::finite;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(next_help_heading = "Text")]
pub struct CorpusArgs {
    /// Source language, as in the file names [default: en if it is there, else the first in the alphabet].
    #[arg(long, value_name = "LANG")]
    pub from: Option<String>,
    /// Target language, as in the file names.
    #[arg(long, value_name = "LANG")]
    pub to: Option<String>,
    /// `bpe` or `unigram` (subwords with bytes as the last resort), `wordpiece`, `word`, `char`; or a finished one: a
    /// tokenizer.json, a SentencePiece .model, or a folder with the tokenizer of a model [default: bpe].
    #[arg(long, visible_alias = "tokenizer-type", value_name = "KIND|FILE|DIR")]
    pub tokenizer: Option<String>,
    /// `joint`: one vocabulary for both languages; `separate`: one for each, as suits scripts that share nothing. `--tie` is
    /// then `decoder` or `none` [default: joint].
    #[arg(long, value_name = "WHICH", value_parser = ["joint", "separate"])]
    pub vocab: Option<String>,
    /// Pieces of the vocabulary, or of each [default: by corpus size].
    #[arg(long, value_name = "N")]
    pub vocab_size: Option<usize>,
    /// Lower-case all text.
    #[arg(long)]
    pub lowercase: bool,
    /// BPE-dropout: leave out each merge with this probability, so that training text is cut anew in every epoch, by the seed. Text is
    /// then kept beside the token cache (as much disk as the text itself) and encoded again at the start of each epoch [default: 0;
    /// 0.1 is usual].
    #[arg(long, value_name = "P", value_parser = finite)]
    pub sample_tokens: Option<f64>,
    /// Leave out training pairs of which one side has more than this many times the pieces of the other [default: none].
    #[arg(long, value_name = "RATIO", value_parser = finite)]
    pub max_ratio: Option<f64>,
    /// Leave out training pairs that were read before, both sides to the letter.
    #[arg(long)]
    pub drop_duplicates: bool,
    /// Leave out training pairs whose sides are the same but for spaces.
    #[arg(long)]
    pub drop_identical: bool,
}

/// Look at a corpus or a model directory: what is wrong, where first, and how often.
///
/// Exit code 0: clean, but for notes; 1: problems were found; 2: wrong usage.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// A corpus folder, a model directory, a model of the Hub, a table (.tsv), or two files of parallel lines.
    #[arg(value_name = "DATA|MODEL", required = true, num_args = 1..=2)]
    pub paths: Vec<PathBuf>,
    /// Source language, as in the file names.
    #[arg(long, value_name = "LANG")]
    pub from: Option<String>,
    /// Target language, as in the file names.
    #[arg(long, value_name = "LANG")]
    pub to: Option<String>,
    /// A tokenizer.json, a SentencePiece .model or a model directory: also count the lines it has unknown characters in.
    #[arg(long, value_name = "FILE|DIR")]
    pub tokenizer: Option<PathBuf>,
    /// `text`: for reading; `json`: one object.
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text")]
    pub format: DoctorFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DoctorFormat {
    Text,
    Json,
}
