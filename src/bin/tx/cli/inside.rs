//! The flags of what else `tx inspect-attention` can look at.

use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(next_help_heading = "Instead of maps")]
pub struct Inside {
    /// Follow the sentence through the model: tokens, embeddings, positions, queries, keys, scores, weights, residuals and norms, to the most
    /// probable pieces of each step, each with its shape, the paper's equation and section. On the terminal of one --layer and --head
    /// [default: 0]; --html has all of them, --format json every number.
    #[arg(long)]
    pub walk: bool,
    /// What each head does over a corpus, a line of SRC with its translation in TGT [default: the model's own]: how sharply it looks, at end
    /// marks, how far from the diagonal, at the token before or after, and how much worse the model is without it. Also --html and
    /// --format json.
    #[arg(long, value_names = ["SRC", "TGT"], num_args = 1..=2, conflicts_with = "walk")]
    pub profile: Vec<PathBuf>,
    /// Alignments of the lines of --profile, words from 0 (`0-0 1-2`, possible ones as `1p1`): each head's alignment error rate is among
    /// what is told.
    #[arg(long, value_name = "FILE", requires = "profile")]
    pub gold: Option<PathBuf>,
    /// Leave out how much worse the model is without each head, which takes a run over the corpus for each of them.
    #[arg(long, requires = "profile")]
    pub no_losses: bool,
    /// Keep the head that aligns best in the model directory, for `tx translate --alignment`: the one with the smallest error rate with
    /// --gold, else the one whose links say most about the translations.
    #[arg(long, requires = "profile")]
    pub store_alignment_head: bool,
    /// The pieces that the model holds for most alike, by the cosine between their rows of the embedding.
    #[arg(long, value_name = "WORD", conflicts_with_all = ["walk", "profile"], allow_hyphen_values = true)]
    pub neighbours: Option<String>,
    /// How many of them.
    #[arg(long, value_name = "N", default_value_t = 10, requires = "neighbours")]
    pub count: usize,
    /// Draw the positional encoding of the first N positions (50): rows are positions, columns dimensions, -1 light to 1 dark. Also --svg and
    /// --png.
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "50", conflicts_with_all = ["walk", "profile", "neighbours"])]
    pub positions: Option<usize>,
}

impl Inside {
    /// Whether no sentence is needed.
    pub fn needs_no_sentence(&self) -> bool {
        !self.profile.is_empty() || self.neighbours.is_some() || self.positions.is_some()
    }
}
