//! The flags of `tx inspect-attention`.

use super::inside::Inside;
use super::{AlignmentUnit, Search};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Show the attention weights of translations: as a page to look around in, a picture, a map in the terminal, or numbers.
///
/// Rows are queries (what is answered), columns keys (what is looked at); every row sums to 1. Layers and heads count from 0.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// The source sentence.
    #[arg(value_name = "TEXT", allow_hyphen_values = true, required_unless_present_any = ["file", "profile", "neighbours", "positions"])]
    pub sentence: Option<String>,
    /// More of them.
    #[arg(value_name = "TEXT")]
    pub more: Vec<String>,
    /// Look at every line of this file instead; `-` is standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sentence", "more"])]
    pub file: Option<PathBuf>,
    /// Look at this translation instead of the model's own; with several sentences once for each, in their order.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub target: Vec<String>,
    /// The same from a file, a line for each sentence.
    #[arg(long, value_name = "FILE", conflicts_with = "target")]
    pub target_file: Option<PathBuf>,
    /// What the model's own translations begin with.
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["target", "target_file"])]
    pub prefix: Option<String>,
    #[command(flatten)]
    pub search: Search,
    #[command(flatten)]
    pub inside: Inside,
    /// Which attention to draw.
    #[arg(long, value_enum, default_value = "cross")]
    pub kind: AttentionKind,
    /// Which layer to draw, from 0, or `all` [default: the last].
    #[arg(long, value_name = "N")]
    pub layer: Option<Layer>,
    /// Which head to draw, from 0, `mean` of all, or `all` one by one.
    #[arg(long, value_name = "HEAD", default_value = "mean")]
    pub head: Head,
    /// Draw between pieces, or between words: the weights of a word's pieces are added up where they are looked at, and averaged where
    /// they look.
    #[arg(long, value_name = "UNIT", value_enum, default_value = "pieces")]
    pub unit: AlignmentUnit,
    /// Draw no start and end marks: each row is divided by what it gives to the rest, and empty if that is nothing.
    #[arg(long)]
    pub hide_marks: bool,
    /// `text`: a heat map of the chosen kind, layer and head, in percent. The others have all kinds, layers and heads: `json`, and
    /// `jsonl` for several sentences, an object a line: `src`, `tgt`, `src_tokens`, `tgt_in`, `tgt_out`, and the weights `encoder_self`,
    /// `decoder_self` and `cross` as [layer][head][query][key]; `csv`: a row for each weight; `npz`, which needs --output: the
    /// same names as arrays of numpy, weights in f32, of several sentences with the number of the line before them, as `2/cross`
    /// [default: text, unless a file is asked for below].
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: Option<InspectFormat>,
    /// Write what --format asks for to this file instead of standard output.
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write a page to look around in: all layers and heads of all sentences, in one file that needs nothing else.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Draw the chosen kind, layers and heads of one sentence as SVG.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// The same as PNG, in the fonts of this machine.
    #[arg(long, value_name = "FILE")]
    pub png: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AttentionKind {
    /// Source tokens look at the source.
    EncoderSelf,
    /// Target tokens look at the target before them.
    DecoderSelf,
    /// Target tokens look at the source.
    Cross,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    All,
    One(usize),
}

impl std::str::FromStr for Layer {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Layer::All),
            _ => text.parse().map(Layer::One).map_err(|_| "expected a number from 0, or `all`".to_string()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head {
    Mean,
    All,
    One(usize),
}

impl std::str::FromStr for Head {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "mean" => Ok(Head::Mean),
            "all" => Ok(Head::All),
            _ => text
                .parse()
                .map(Head::One)
                .map_err(|_| "expected a number from 0, `mean` or `all`".to_string()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum InspectFormat {
    Text,
    Json,
    Jsonl,
    Csv,
    Npz,
}
