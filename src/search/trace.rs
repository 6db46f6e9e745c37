//! The record of one sentence's search: every hypothesis that was extended, every extension that was weighed,
//! what became of it and why. Ids only; whoever shows it adds the texts.
//!
//! Hypotheses have ids: 0 is the empty one (BOS alone), every extension that was kept has its own. Following
//! `parent` from any id leads back to 0, so the ids make the tree of the search.

use serde::Serialize;

use crate::search::{Hypothesis, LengthPenalty, Like, Options};

/// The search for one sentence, step by step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trace {
    /// Live hypotheses at most.
    pub beam_size: usize,
    /// Hypotheses asked for.
    pub n_best: usize,
    /// The penalty that makes `score` of `log_prob`.
    pub length_penalty: LengthPenalty,
    /// The step limit.
    pub max_length: usize,
    /// Whose rules were followed.
    pub like: Like,
    /// In order; the first extends the empty hypothesis.
    pub steps: Vec<Step>,
    /// The result, best first; empty if the search failed.
    pub hypotheses: Vec<Ranked>,
    /// Why the search ended; none if it failed.
    pub stop: Option<Stop>,
}

/// One step of the search.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// Counts from 1: the length of this step's candidates, an end mark included.
    pub step: usize,
    /// The hypotheses that were extended, best first.
    pub live: Vec<Live>,
    /// The 2 × beam best extensions, best `log_prob` first.
    pub candidates: Vec<Candidate>,
    /// After the step: the best score that a live hypothesis could still reach.
    pub bound: Option<f64>,
    /// After the step: the score that it must beat, which is that of the n_best-th finished hypothesis. The
    /// search ends when it cannot. Neither is used by CTranslate2's rules.
    pub to_beat: Option<f64>,
    /// What it takes to be kept.
    #[serde(skip)]
    pub(super) places: Places,
}

/// How many extensions a step keeps, and how they are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Places {
    pub count: usize,
    /// Whether rank alone decides, of extensions by another token and by EOS; else those by EOS take no place of the others.
    pub by_rank: [bool; 2],
}

impl Step {
    /// How far an extension with `bank` that was not kept is below the last one that was. None if it had a place, and there was another
    /// reason (fairseq lets no more than the beam size end).
    pub(super) fn gap(&self, bank: Option<usize>, ends: bool, log_prob: f64) -> Option<f64> {
        self.bar(bank, ends).map(|bar| bar - log_prob).filter(|&gap| gap >= 0.0)
    }

    /// The `log_prob` of the last one that was kept, of those with `bank`: what an extension that `ends` had to reach. None if
    /// there were places left.
    fn bar(&self, bank: Option<usize>, ends: bool) -> Option<f64> {
        let Places { count, by_rank } = self.places;
        let mut same = self.candidates.iter().filter(|one| one.bank == bank);
        let last = if by_rank[usize::from(ends)] {
            same.nth(count.checked_sub(1)?)
        } else {
            same.filter(|one| matches!(one.fate, Fate::Live | Fate::Cut)).nth(count.checked_sub(1)?)
        };
        last.map(|last| last.log_prob)
    }

    /// Says of every candidate that fell off what it lacked.
    pub(super) fn record_gaps(&mut self, eos: u32) {
        let gap = |one: &Candidate| {
            let fell = one.fate == Fate::Pruned;
            fell.then(|| self.gap(one.bank, one.token == eos, one.log_prob)).flatten()
        };
        let gaps: Vec<Option<f64>> = self.candidates.iter().map(gap).collect();
        self.candidates.iter_mut().zip(gaps).for_each(|(one, gap)| one.gap = gap);
    }
}

/// A hypothesis that a step extends.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Live {
    /// Its id.
    pub id: u32,
    /// The hypothesis it extends; none for the empty one.
    pub parent: Option<u32>,
    /// Its last token.
    pub token: u32,
    /// Sum over its tokens.
    pub log_prob: f64,
}

/// An extension of a live hypothesis by one token.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Candidate {
    /// Counts from 0 within the step. An end mark finishes only at a rank below the beam size.
    pub rank: usize,
    /// The id of the new hypothesis; none if it was pruned.
    pub id: Option<u32>,
    /// The hypothesis it extends.
    pub parent: u32,
    /// The token it adds.
    pub token: u32,
    /// Log-probability of that token.
    pub token_log_prob: f32,
    /// Sum over all tokens.
    pub log_prob: f64,
    /// What its score is if it ends here.
    pub score: f64,
    /// What became of it.
    pub fate: Fate,
    /// If it fell off since others were better: how far its `log_prob` was below that of the last one kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap: Option<f64>,
    /// With constraints: how many tokens of them it has; it competes with those alone that have as many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bank: Option<usize>,
}

/// What became of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// Extended in the next step, if there is one.
    Live,
    /// Ended with EOS.
    Finished,
    /// Fell off the beam.
    Pruned,
    /// Closed without EOS at the step limit; competes with the finished ones.
    Cut,
}

/// Why a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// No live hypothesis could still enter the n best.
    Bound,
    /// The step limit.
    Limit,
    /// Nothing could follow: every hypothesis ended, or no token had a probability.
    NoCandidates,
    /// Greedy search chose EOS.
    Eos,
    /// Enough hypotheses had finished (CTranslate2's rule).
    Enough,
}

/// A hypothesis of the result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ranked {
    /// Its id in the steps.
    pub id: u32,
    /// The hypothesis as it is returned.
    #[serde(flatten)]
    pub hypothesis: Hypothesis,
}

impl Trace {
    pub(super) fn new(options: &Options, max_length: usize) -> Self {
        let Options { beam_size, n_best, length_penalty, like, .. } = *options;
        let (steps, hypotheses) = (Vec::new(), Vec::new());
        Trace { beam_size, n_best, length_penalty, max_length, like, steps, hypotheses, stop: None }
    }
}

#[cfg(test)]
mod tests {
    use crate::search::toy::{A, EOS, Toy, VOCAB_SIZE, distribution, options, traced};
    use crate::search::{LengthPenalty, Options};

    /// The words of the record as JSON.
    #[test]
    fn a_trace_is_written_with_the_terms_of_the_field() {
        let toy = Toy::new(VOCAB_SIZE, |_, _| {
            let mut log_probs = distribution(&[]);
            (log_probs[EOS as usize], log_probs[A as usize]) = (-0.5, -1.0);
            log_probs
        });
        let trace = traced(&toy, 1, &Options { length_penalty: LengthPenalty::Pow(1.0), ..options(2, 1) });
        let expected = concat!(
            r#"{"beam_size":2,"n_best":1,"length_penalty":"pow:1.0","max_length":1,"like":"tx","steps":[{"step":1,"#,
            r#""live":[{"id":0,"parent":null,"token":4,"log_prob":0.0}],"candidates":["#,
            r#"{"rank":0,"id":1,"parent":0,"token":0,"token_log_prob":-0.5,"log_prob":-0.5,"score":-0.5,"fate":"finished"},"#,
            r#"{"rank":1,"id":2,"parent":0,"token":1,"token_log_prob":-1.0,"log_prob":-1.0,"score":-1.0,"fate":"cut"}],"#,
            r#""bound":null,"to_beat":-0.5}],"hypotheses":[{"id":1,"ids":[0],"token_log_probs":[-0.5],"#,
            r#""log_prob":-0.5,"score":-0.5,"finish":"eos"}],"stop":"limit"}"#,
        );
        assert_eq!(serde_json::to_string(&trace).unwrap(), expected);
    }
}
