//! The flags. What they mean together is worked out by the commands.

mod beam;
mod convert;
mod corpus;
mod decoding;
mod inside;
mod inspect;
mod life;
mod machine;
mod models;
mod scoring;
mod search;
mod translate;

pub use beam::{BeamArgs, BeamFormat};
use clap::{Args, Parser, Subcommand, ValueEnum};
pub use convert::{BundleArgs, ConvertArgs, Form, QuantizeArgs, ShowArgs, ShowFormat};
pub use corpus::{CorpusArgs, DoctorArgs, DoctorFormat};
pub use decoding::{Drawing, OnUnkArg, Rules, Terminology};
pub use inspect::{AttentionKind, Head, InspectArgs, InspectFormat, Layer};
pub use life::{AverageArgs, LifeArgs};
pub use machine::{DeviceArg, Machine};
pub use models::{ModelsAction, ModelsArgs};
pub use scoring::{EvaluateArgs, Measure, PairFormat, ScoreArgs, ScoreFormat, ScorePairsArgs, Scoring};
pub use search::{Batching, LikeArg, PrecisionArg, Search, SplitArg};
use std::path::PathBuf;
pub use translate::{AlignmentUnit, TokenizeArgs, TranslateArgs, TranslationFormat};
use tx::config::{Activation, Norm, Positions, Preset, Tie};
use tx::data::Source;
use tx::train::settings::Stored;

/// `0.1.0 (abc1234)`, or `0.1.0` where it was not built from a git checkout.
const VERSION: &str = if env!("TX_COMMIT").is_empty() {
    env!("CARGO_PKG_VERSION")
} else {
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("TX_COMMIT"), ")")
};

/// Train, run and look inside the Transformer of "Attention Is All You Need" for translation.
#[derive(Debug, Parser)]
#[command(name = "tx", version = VERSION, args_override_self = true, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Train(Box<TrainArgs>),
    Translate(TranslateArgs),
    Beam(BeamArgs),
    InspectAttention(InspectArgs),
    Score(ScoreArgs),
    Evaluate(EvaluateArgs),
    Doctor(DoctorArgs),
    Average(AverageArgs),
    Quantize(QuantizeArgs),
    Convert(ConvertArgs),
    Bundle(BundleArgs),
    Show(ShowArgs),
    /// Print the pieces of text: one line in, one line of pieces out.
    Tokenize(TokenizeArgs),
    /// Print the text of pieces: one line of pieces in, one line out.
    Detokenize(TokenizeArgs),
    ScorePairs(ScorePairsArgs),
    Models(ModelsArgs),
    /// Print a completion script for a shell.
    Completions {
        /// The shell to write it for.
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LineFormat {
    Text,
    Jsonl,
}

/// Train a model on a folder of parallel text.
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub struct TrainArgs {
    /// Folder with `train.XX` and `train.YY` (also .gz, .zst, or train.tsv), and, if there are any, `dev.*` (or `valid.*`, `val.*`) and
    /// `test.*`; or `-`: pairs from standard input, two columns divided by a tab. Further folders add to train: `DIR=0.5` is seen half
    /// as often, each of its pairs once in two epochs; direction, dev and test are those of the first.
    #[arg(value_name = "DATA[=WEIGHT]", required = true)]
    pub data: Vec<Source>,
    /// Model directory to write.
    #[arg(long, value_name = "DIR", default_value = "tx-model")]
    pub out: PathBuf,
    /// Go on with the run in the model directory.
    #[arg(long)]
    pub resume: bool,
    /// Print what would be trained and what it would take, without training: corpus and model as they come out, batches, memory, and
    /// the time by a few measured steps. Nothing is left on disk.
    #[arg(long, conflicts_with = "resume")]
    pub dry_run: bool,
    /// A file of flags, one a line; those on the command line win.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub corpus: CorpusArgs,
    #[command(flatten)]
    pub shape: ShapeArgs,
    #[command(flatten)]
    pub optim: OptimArgs,
    #[command(flatten)]
    pub life: LifeArgs,
    #[command(flatten)]
    pub machine: Machine,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub struct ShapeArgs {
    /// Sizes to start from: layers, d_model, d_ff and heads [default: by corpus size].
    #[arg(long, value_name = "PRESET", value_parser = by_name::<Preset>)]
    pub preset: Option<Preset>,
    /// Width of the model.
    #[arg(long, value_name = "N")]
    pub d_model: Option<usize>,
    /// Attention heads.
    #[arg(long, value_name = "N")]
    pub heads: Option<usize>,
    /// Inner width of the feed-forward sublayers.
    #[arg(long, value_name = "N")]
    pub ff: Option<usize>,
    /// Layers of encoder and decoder.
    #[arg(long, value_name = "N")]
    pub layers: Option<usize>,
    /// Layers of the encoder.
    #[arg(long, value_name = "N")]
    pub encoder_layers: Option<usize>,
    /// Layers of the decoder.
    #[arg(long, value_name = "N")]
    pub decoder_layers: Option<usize>,
    /// `relu`, `gelu` or `swish` [default: relu].
    #[arg(long, value_name = "NAME", value_parser = by_name::<Activation>)]
    pub activation: Option<Activation>,
    /// Which of source embedding, target embedding and output projection are one matrix: `all`, `decoder` (the last two)
    /// or `none` [default: all].
    #[arg(long, value_name = "WHICH", value_parser = by_name::<Tie>)]
    pub tie: Option<Tie>,
    /// Where the layer norms stand: `post` (after each sublayer, as in the paper) or `pre` (before it, and once more after each
    /// stack; learns more surely where layers are many) [default: post].
    #[arg(long, value_name = "PLACE", value_parser = by_name::<Norm>)]
    pub norm: Option<Norm>,
    /// Columns of the positional encoding: `halves` (as Hugging Face Marian), `interleaved` (as the paper prints it) or `t2t`
    /// (as tensor2tensor and M2M100) [default: halves].
    #[arg(long, value_name = "LAYOUT", value_parser = by_name::<Positions>)]
    pub positions: Option<Positions>,
    /// Longest source or target in pieces with the end mark; longer training pairs are left out [default: 512].
    #[arg(long, value_name = "PIECES")]
    pub max_positions: Option<usize>,
    /// Dropout on sublayer outputs and embeddings [default: 0.1].
    #[arg(long, value_name = "P", value_parser = finite)]
    pub dropout: Option<f64>,
    /// Dropout on attention weights [default: as --dropout].
    #[arg(long, value_name = "P", value_parser = finite)]
    pub attention_dropout: Option<f64>,
    /// Dropout inside the feed-forward sublayers [default: 0].
    #[arg(long, value_name = "P", value_parser = finite)]
    pub activation_dropout: Option<f64>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Training")]
pub struct OptimArgs {
    /// Seed of everything random [default: 1].
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Size of a batch: sentence pairs times the longest side, in pieces [default: by corpus size, at most 4096].
    #[arg(long, value_name = "PIECES")]
    pub batch_tokens: Option<usize>,
    /// Learning rate at the end of the warmup [default: (d_model * warmup)^-0.5, as in the paper].
    #[arg(long, value_name = "RATE", value_parser = finite)]
    pub lr: Option<f64>,
    /// Steps of linear increase of the learning rate [default: 4000, below d_model 512 1000].
    #[arg(long, value_name = "STEPS")]
    pub warmup: Option<u64>,
    /// Steps before --max-steps over which the learning rate falls to zero, in a straight line [default: 0].
    #[arg(long, value_name = "STEPS")]
    pub cooldown: Option<u64>,
    /// Share of probability that label smoothing spreads over the other pieces [default: 0.1].
    #[arg(long, value_name = "P", value_parser = finite)]
    pub label_smoothing: Option<f64>,
    /// Largest norm of the gradient; 0 turns clipping off [default: 1].
    #[arg(long, value_name = "NORM", value_parser = finite)]
    pub clip_norm: Option<f64>,
    /// Steps to train at most [default: 20000].
    #[arg(long, value_name = "STEPS")]
    pub max_steps: Option<u64>,
    /// Steps between validations on dev [default: 500].
    #[arg(long, value_name = "STEPS")]
    pub valid_every: Option<u64>,
    /// Steps between saves [default: as --valid-every].
    #[arg(long, value_name = "STEPS")]
    pub save_every: Option<u64>,
    /// Validations without a better --metric on dev after which training ends; 0 = never [default: 5].
    #[arg(long, value_name = "N")]
    pub patience: Option<u64>,
    /// Numbers that are multiplied in training: `f32`, `bf16` (8 bits of mantissa, sums and weights in f32; faster where the
    /// CPU has AMX or AVX512-BF16), or `auto`: bf16 on such a CPU, else f32. A resumed run keeps what it has.
    #[arg(long, value_name = "TYPE", value_enum, default_value = "auto")]
    pub compute: ComputeArg,
    /// How to store the weights of the model directory: `f32`, or `f16` for half the size [default: f32].
    #[arg(long, value_name = "TYPE", value_parser = by_name::<Stored>)]
    pub dtype: Option<Stored>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ComputeArg {
    F32,
    Bf16,
    Auto,
}

/// A value of a library enum by its serde name; the error lists the names.
fn by_name<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    let value = serde_json::Value::String(text.to_string());
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn positive(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&n| n > 0).ok_or_else(|| "expected a number above 0".to_string())
}

fn finite(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|x: &f64| x.is_finite()).ok_or_else(|| "expected a finite number".to_string())
}
