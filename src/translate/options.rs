//! How to translate.

use super::alignment::Unit;
use super::terms::Terms;
use super::unknown::OnUnk;
use crate::checkpoint::AlignmentHead;
use crate::search::{LengthPenalty, Like, Sampling};
use std::sync::Arc;

/// How to translate. Unset fields take the model's own defaults.
#[derive(Debug, Clone)]
pub struct Options {
    /// Hypotheses kept at each step; 1 is greedy.
    pub beam_size: Option<usize>,
    /// Hypotheses returned.
    pub n_best: Option<usize>,
    /// What a log_prob is divided by.
    pub length_penalty: Option<LengthPenalty>,
    /// Whose rules end a search; those of others come with their length penalty and ban less.
    pub like: Like,
    /// Decoding steps at most, the end mark included; unset: as `like` has it.
    pub max_length: Option<usize>,
    /// Decoding steps at least, as [`crate::search::Options::min_length`] counts.
    pub min_length: usize,
    /// What every target token costs before the length penalty, as [`crate::search::Options::word_penalty`].
    pub word_penalty: f64,
    /// What becomes of the unknown piece; unset: as `like` has it.
    pub on_unk: Option<OnUnk>,
    /// Texts whose pieces every translation has.
    pub must_contain: Vec<String>,
    /// What the translations of lines with certain words must contain.
    pub terms: Option<Arc<Terms>>,
    /// Texts whose pieces never follow each other in a translation.
    pub suppress: Vec<String>,
    /// No sequence of this many pieces occurs twice in a translation; 0 turns it off.
    pub no_repeat_ngram: usize,
    /// As [`crate::search::Rules::repetition_penalty`]; unset: 1, which turns it off.
    pub repetition_penalty: Option<f32>,
    /// Draws translations instead of searching for them, by `seed` and the number of the line.
    pub sampling: Option<Sampling>,
    /// Of `sampling`.
    pub seed: u64,
    /// Says which source unit each target unit comes from.
    pub alignment: Option<Unit>,
    /// Where that is read from; unset: as the model has it.
    pub alignment_head: Option<AlignmentHead>,
    /// Whether a line of several sentences is translated sentence by sentence.
    pub split: bool,
    /// Whether lines are pieces with blanks between them.
    pub encoded: bool,
    /// Whether pieces are put together to a text; else it has them with blanks between them.
    pub decode: bool,
    /// Sentences translated together.
    pub batch_size: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            beam_size: None,
            n_best: None,
            length_penalty: None,
            like: Like::default(),
            max_length: None,
            min_length: 0,
            word_penalty: 0.0,
            on_unk: None,
            must_contain: Vec::new(),
            terms: None,
            suppress: Vec::new(),
            no_repeat_ngram: 0,
            repetition_penalty: None,
            sampling: None,
            seed: 0,
            alignment: None,
            alignment_head: None,
            split: true,
            encoded: false,
            decode: true,
            batch_size: None,
        }
    }
}
