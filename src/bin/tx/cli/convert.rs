//! The flags of the commands that make other models of a model, and of the one that shows what a model is.

use super::by_name;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use tx::train::settings::Stored;

/// Write a model directory a quarter of the size, with its matrices in int8.
#[derive(Debug, Args)]
pub struct QuantizeArgs {
    /// Model directory to read, or a model of the Hub.
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// Model directory to write; only tx opens it.
    #[arg(value_name = "OUT")]
    pub out: PathBuf,
}

/// Write a model in the form of another program.
#[derive(Debug, Args)]
pub struct ConvertArgs {
    /// Model to read, in any form that tx opens.
    #[arg(value_name = "IN")]
    pub model: PathBuf,
    /// Directory to write; it must not hold anything yet.
    #[arg(value_name = "OUT")]
    pub out: PathBuf,
    /// `hf`: for `transformers` (Marian, Pegasus or M2M100, as the model computes); `ct2`: for CTranslate2, in f32, which adds no end mark
    /// to sources by itself.
    #[arg(long, value_name = "FORM", value_enum)]
    pub to: Form,
    /// How to store the weights for `hf`: `f32`, or `f16` for half the size.
    #[arg(long, value_name = "TYPE", default_value = "f32", value_parser = by_name::<Stored>)]
    pub dtype: Stored,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    Hf,
    Ct2,
}

/// Write a model as one safetensors file that every command opens.
#[derive(Debug, Args)]
pub struct BundleArgs {
    /// Model to read.
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// File to write, with the ending .safetensors.
    #[arg(value_name = "OUT")]
    pub out: PathBuf,
}

/// Show what a model is: architecture, parameters, tokenizer, languages, where it comes from and how it is decoded.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Model [default: as for translate].
    #[arg(value_name = "MODEL")]
    pub model: Option<PathBuf>,
    /// `text`: for reading; `json`: one object, with all that is known of its training.
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text")]
    pub format: ShowFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ShowFormat {
    Text,
    Json,
}
