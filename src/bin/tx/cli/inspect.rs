//! The flags of `tx inspect-attention`.

use super::Search;
use clap::{Args, ValueEnum};

/// Show the attention weights of a translation.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// The source sentence.
    #[arg(allow_hyphen_values = true)]
    pub sentence: String,
    /// Look at this translation instead of the model's own.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub target: Option<String>,
    #[command(flatten)]
    pub search: Search,
    /// Which attention to draw.
    #[arg(long, value_enum, default_value = "cross")]
    pub kind: AttentionKind,
    /// Which layer to draw, from 0 [default: the last].
    #[arg(long, value_name = "N")]
    pub layer: Option<usize>,
    /// Which head to draw, from 0, or `mean` of all.
    #[arg(long, value_name = "HEAD", default_value = "mean")]
    pub head: Head,
    /// `text`: a heat map of the chosen kind, layer and head; `json`, `csv`: all of them.
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text")]
    pub format: InspectFormat,
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
pub enum Head {
    Mean,
    One(usize),
}

impl std::str::FromStr for Head {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "mean" => Ok(Head::Mean),
            _ => text.parse().map(Head::One).map_err(|_| "expected a number from 0, or `mean`".to_string()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum InspectFormat {
    Text,
    Json,
    Csv,
}
