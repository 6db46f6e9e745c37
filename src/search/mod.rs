//! Decoding (paper section 6.1): from a model's next-token distributions to translations.
//!
//! Nothing here knows tensors, files or text. A model is met through [`Scorer`] only, so that the search is
//! tested on toy scorers whose best answers can be worked out by hand.
//!
//! - [`LengthPenalty`]: what makes hypotheses of different lengths comparable;
//! - [`greedy()`], [`beam_search`] and [`sample()`], for one sentence each, and the batch that runs many of them together;
//! - [`Like`]: whose rules end a search;
//! - [`Rules`] and [`Constraints`]: what may not and what must be said, whatever the model says;
//! - [`Ensemble`]: several models as one;
//! - [`trace`]: a record of everything a search looked at;
//! - [`mod@why`]: where a search lost a given translation.
//!
//! `log_prob` is a sum of natural logarithms, added up in f64. `score` is `log_prob` under the length penalty.
//! Hypotheses are compared as token ids: all n best differ in their ids, but two of them may spell one text.

mod batch;
mod beam;
mod constraints;
mod ensemble;
#[cfg(test)]
mod faults;
mod greedy;
mod length_penalty;
mod like;
mod phrase;
#[cfg(test)]
mod properties;
mod rules;
mod sample;
#[cfg(test)]
mod tests;
mod top_k;
#[cfg(test)]
mod toy;
pub mod trace;
mod transformer;
mod watch;
pub mod why;
#[cfg(test)]
mod why_tests;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::ops::Scores;

pub use beam::beam_search;
pub use constraints::Constraints;
pub use ensemble::{Ensemble, log_add, log_weights};
pub use greedy::greedy;
pub use length_penalty::{LengthPenalty, gnmt_divisor, pow_divisor};
pub use like::Like;
pub use phrase::{Phrase, Spelling, letters};
pub use rules::Rules;
pub use sample::{Sampling, sample};
pub use trace::Trace;
pub use transformer::TransformerScorer;
pub use why::{Why, why};

/// A wider beam is refused: it would take the memory of this many copies of the decoder's cache per sentence.
pub const MAX_BEAM_SIZE: usize = 1000;

/// What the search needs of a model.
///
/// A row is a live hypothesis; the rows of one sentence are adjacent, the sentences in the order of the batch.
pub trait Scorer {
    /// The encoded sources and the decoder's caches; the search passes it back and never looks inside.
    type State;

    /// Length of one distribution.
    fn vocab_size(&self) -> usize;

    /// A fresh state with one row per source sentence (ids with EOS).
    fn start(&self, src: &[Vec<u32>]) -> Result<Self::State>;

    /// Feeds the last token of every row (BOS at first) and puts the distributions of the next one into `scores`, row by row,
    /// in place of what is there.
    fn step(&self, state: &mut Self::State, tokens: &[u32], scores: &mut Scores) -> Result<()>;

    /// New row i continues old row `rows[i]`; old rows that are not named are dropped (a finished sentence
    /// leaves the batch). Not called when every row stays where it is.
    fn reorder(&self, state: &mut Self::State, rows: &[usize]) -> Result<()>;
}

/// How to search.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Live hypotheses per sentence, 1 to [`MAX_BEAM_SIZE`]. More than the vocabulary can fill is no error.
    pub beam_size: usize,
    /// Hypotheses returned per sentence, in a search at most `beam_size`. There may be fewer if the model allows no more.
    pub n_best: usize,
    /// Makes `score` out of `log_prob`.
    pub length_penalty: LengthPenalty,
    /// What every token costs before the length penalty (Marian's: below 0 it is a gain).
    pub word_penalty: f64,
    /// The token every hypothesis starts from; not part of it.
    pub bos: u32,
    /// The token that ends a hypothesis; part of it.
    pub eos: u32,
    /// What may not be said.
    pub rules: Rules,
    /// EOS cannot be chosen before this many steps, its own included (as `max_length` counts). With [`Like::Ct2`] there are
    /// as many tokens before EOS, as CTranslate2 counts, and with [`Like::Fairseq`] as fairseq does.
    pub min_length: usize,
    /// Whose rules end a search.
    pub like: Like,
    /// Draws instead of searching.
    pub sampling: Option<Sampling>,
}

/// One sentence to translate.
#[derive(Debug, Clone, PartialEq)]
pub struct Sentence {
    /// Ids of the source with EOS.
    pub src: Vec<u32>,
    /// Decoding steps at most (see [`Like::max_length`]).
    pub max_length: usize,
    /// What every hypothesis begins with.
    pub prefix: Vec<u32>,
    /// So many tokens of the prefix were not the model's to choose, and have the probability 1.
    pub given: usize,
    /// What every hypothesis contains.
    pub constraints: Constraints,
    /// What [`sample()`] draws by.
    pub seed: u64,
}

impl Sentence {
    /// A sentence whose translation is free.
    pub fn new(src: Vec<u32>, max_length: usize) -> Self {
        Sentence {
            src,
            max_length,
            prefix: Vec::new(),
            given: 0,
            constraints: Constraints::default(),
            seed: 0,
        }
    }
}

impl Options {
    /// The paper's settings: beam 4, `gnmt:0.6`, one hypothesis, nothing banned.
    pub fn new(bos: u32, eos: u32) -> Self {
        let length_penalty = LengthPenalty::Gnmt(0.6);
        Options {
            beam_size: 4,
            n_best: 1,
            length_penalty,
            word_penalty: 0.0,
            bos,
            eos,
            rules: Rules::default(),
            min_length: 0,
            like: Like::Tx,
            sampling: None,
        }
    }

    /// Finished hypotheses that a search keeps: all that decide when it ends.
    fn kept(&self) -> usize {
        if self.like == Like::Hf { self.beam_size } else { self.n_best }
    }

    /// (log_prob - word_penalty · len) under the length penalty.
    pub fn score(&self, log_prob: f64, len: usize) -> f64 {
        self.length_penalty.score(log_prob - self.word_penalty * len as f64, len)
    }

    /// The best score that a hypothesis of this `log_prob` can still reach at one of `lengths`: its log_prob can only fall.
    fn bound(&self, log_prob: f64, mut lengths: std::ops::RangeInclusive<usize>) -> f64 {
        if self.word_penalty == 0.0 {
            return self.length_penalty.bound(log_prob, *lengths.start(), *lengths.end());
        }
        let first = self.score(log_prob, lengths.next().unwrap_or(1));
        lengths.map(|len| self.score(log_prob, len)).fold(first, f64::max)
    }

    /// Refuses settings that are none, or do not fit the vocabulary.
    pub fn check(&self, vocab_size: usize) -> Result<()> {
        match self.sampling {
            Some(sampling) => sampling.check()?,
            None => check_sizes(self.beam_size, self.n_best)?,
        }
        self.length_penalty.check()?;
        self.rules.check(vocab_size)?;
        if !self.word_penalty.is_finite() {
            return Err(Error::Config(format!("word penalty {}: expected a number", self.word_penalty)));
        }
        if self.like == Like::Ct2 && matches!(self.length_penalty, LengthPenalty::Gnmt(_)) {
            let penalty = self.length_penalty;
            return Err(Error::Config(format!(
                "length penalty {penalty} together with CTranslate2's rules: it knows only pow:ALPHA and none"
            )));
        }
        let named = [("bos", self.bos), ("eos", self.eos)];
        match named.into_iter().find(|&(_, id)| id as usize >= vocab_size) {
            Some((name, id)) => Err(Error::Config(format!(
                "{name} id {id} lies outside the model's vocabulary of {vocab_size}: do tokenizer and model belong \
                 together?"
            ))),
            None => Ok(()),
        }
    }
}

/// Refuses a beam or an n-best list that cannot be searched for; needs no model, so it can come before loading one.
pub fn check_sizes(beam_size: usize, n_best: usize) -> Result<()> {
    let message = match (beam_size, n_best) {
        (0, _) => "beam size 0: expected at least 1 (1 is greedy search, 4 is usual)".to_string(),
        (_, 0) => "n-best 0: expected at least 1".to_string(),
        (beam, _) if beam > MAX_BEAM_SIZE => {
            format!("beam size {beam}: at most {MAX_BEAM_SIZE} (translations rarely gain beyond 10)")
        }
        (beam, n) if n > beam => {
            format!("n-best {n} is more than beam size {beam} can give: ask for a beam of {n}, or for fewer")
        }
        _ => return Ok(()),
    };
    Err(Error::Config(message))
}

/// How a hypothesis ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Finish {
    /// The model gave EOS.
    Eos,
    /// It was closed without EOS, at the step limit or because nothing could follow.
    Cut,
}

/// One translation as token ids.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Hypothesis {
    /// Token ids without BOS, with the final EOS if it was given.
    pub ids: Vec<u32>,
    /// One log-probability for every id.
    pub token_log_probs: Vec<f32>,
    /// The sum of `token_log_probs`.
    pub log_prob: f64,
    /// `log_prob` under the length penalty at `ids.len()` tokens.
    pub score: f64,
    /// How it ended.
    pub finish: Finish,
}

/// The n best hypotheses of one sentence, best first and at least one; or why it could not be translated.
pub type Outcome = Result<Vec<Hypothesis>>;

/// Decodes a batch: [`sample()`] if that is asked for, [`greedy()`] if `beam_size` is 1, else [`beam_search`].
///
/// `traces`, if given, is filled with one record per sentence, but when sampling; recording changes no result. The outer
/// error is about settings or the model as a whole; a sentence whose log-probabilities are not numbers has an error of its own, the others go on. What a
/// sentence gets does not depend on its company, as long as the scorer's rows do not.
///
/// A beam of width 1 is greedy search by definition here, so beam search of that width ends with its first EOS too. With
/// [`Constraints`] it has a beam of that width for every part of them.
pub fn decode<S: Scorer>(
    scorer: &S,
    sentences: &[Sentence],
    options: &Options,
    traces: Option<&mut Vec<Trace>>,
) -> Result<Vec<Outcome>> {
    match (options.sampling, options.beam_size) {
        (Some(_), _) => sample(scorer, sentences, options),
        (None, 1) if sentences.iter().all(|sentence| sentence.constraints.is_empty()) => {
            greedy(scorer, sentences, options, traces)
        }
        (None, _) => beam_search(scorer, sentences, options, traces),
    }
}
