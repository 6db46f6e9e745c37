//! A given hypothesis within a search: where it stands at each step, among all extensions and not only those that the search
//! weighs; and the same hypothesis alone, under the rules of the search.

use crate::error::Result;
use crate::ops::Norm;
use crate::search::batch::{self, Rows, Search};
use crate::search::beam::Beam;
use crate::search::constraints::Progress;
use crate::search::greedy::Greedy;
use crate::search::top_k::{self, Extension};
use crate::search::{Hypothesis, Options, Outcome, Scorer, Sentence, Trace};
use serde::Serialize;

/// Where a given hypothesis stands at one step of a search.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Standing {
    /// Counts from 1.
    pub step: usize,
    /// The place, among those that the step extends, of the one it extends.
    #[serde(skip)]
    pub row: usize,
    /// The token it adds.
    pub token: u32,
    /// Its sum up to that token; -∞ (in JSON null) if that is ruled out.
    pub log_prob: f64,
    /// Extensions of all live hypotheses that are better, of one bank with it.
    pub rank: usize,
    /// All that are possible, of one bank with it.
    pub of: usize,
    /// As [`Candidate::bank`](crate::search::trace::Candidate::bank).
    #[serde(skip)]
    pub bank: Option<usize>,
}

/// What came of a search for one sentence, its record, and where the target stood as long as it was in the beam.
pub(super) type Watched = (Outcome, Trace, Vec<Standing>);

/// Decodes one sentence with an eye on `target`. The search is that of [`decode`](crate::search::decode), but with `give_up` it
/// ends when the target has fallen off.
pub(super) fn watch<S: Scorer>(
    scorer: &S,
    sentence: &Sentence,
    options: &Options,
    target: &[u32],
    give_up: bool,
) -> Result<Watched> {
    let mut standings = Vec::new();
    let seen = &mut standings;
    let (outcome, trace) = if options.beam_size == 1 && sentence.constraints.is_empty() {
        let search = Greedy::new(options, sentence.max_length, true);
        run(scorer, sentence, options, Watch { search, sentence, target, give_up, step: 0, seen })?
    } else {
        let search = Beam::new(options, sentence, true);
        run(scorer, sentence, options, Watch { search, sentence, target, give_up, step: 0, seen })?
    };
    Ok((outcome, trace.unwrap_or_else(|| Trace::new(options, sentence.max_length)), standings))
}

/// The log-probability of each token of `target` as a search for the sentence adds it up: -∞ where it is ruled out.
pub(super) fn follow<S: Scorer>(
    scorer: &S,
    sentence: &Sentence,
    options: &Options,
    target: &[u32],
) -> Result<Vec<f32>> {
    // A target may be longer than the search.
    let sentence = Sentence { max_length: sentence.max_length.max(target.len()), ..sentence.clone() };
    let mut token_log_probs = Vec::new();
    let search = Follow { target, token_log_probs: &mut token_log_probs };
    run(scorer, &sentence, options, search)?.0?;
    Ok(token_log_probs)
}

/// Runs the search for one sentence.
fn run<S: Scorer, T: Search>(
    scorer: &S,
    sentence: &Sentence,
    options: &Options,
    search: T,
) -> Result<(Outcome, Option<Trace>)> {
    let sentences = std::slice::from_ref(sentence);
    batch::check(scorer, sentences, options)?;
    let mut traces = Vec::new();
    let mut outcomes = batch::run(scorer, sentences, options, vec![search], Some(&mut traces))?;
    Ok((outcomes.pop().unwrap_or(Ok(Vec::new())), traces.pop()))
}

/// A search as it is, and a note of where the target stands.
struct Watch<'a, T> {
    search: T,
    sentence: &'a Sentence,
    target: &'a [u32],
    give_up: bool,
    step: usize,
    seen: &'a mut Vec<Standing>,
}

impl<T: Search> Watch<'_, T> {
    /// Where the target stands if row `own` is what it has been so far and `token` what it goes on with.
    fn standing(&self, rows: Rows<'_>, own: usize, token: u32) -> Standing {
        let constraints = &self.sentence.constraints;
        let progress: Vec<Progress> = match constraints.is_empty() {
            true => Vec::new(),
            false => {
                (0..rows.norms.len()).map(|row| constraints.progress(&self.search.history(row))).collect()
            }
        };
        let bank = |row: usize, token: u32| {
            progress.get(row).map(|before| constraints.bank(&constraints.after(before, token)))
        };
        let extension = |row: usize, (logits, norm): (&[f32], Norm), token: u32| {
            let token_log_prob = norm.log_prob(logits[token as usize]);
            let log_prob = self.search.log_prob(row) + f64::from(token_log_prob);
            Extension { log_prob, row: row as u32, token, token_log_prob }
        };
        let own_bank = bank(own, token);
        let target = rows.iter().nth(own).map(|at| extension(own, at, token));
        let (mut rank, mut of) = (0, 0);
        for (row, at) in rows.iter().enumerate() {
            for other in 0..at.0.len() as u32 {
                let other = extension(row, at, other);
                if other.token_log_prob > f32::NEG_INFINITY && bank(row, other.token) == own_bank {
                    of += 1;
                    rank += usize::from(target.is_some_and(|target| other > target));
                }
            }
        }
        let log_prob = target.map_or(f64::NEG_INFINITY, |target| target.log_prob);
        Standing { step: self.step + 1, row: own, token, log_prob, rank, of, bank: own_bank }
    }
}

impl<T: Search> Search for Watch<'_, T> {
    fn history(&self, row: usize) -> Vec<u32> {
        self.search.history(row)
    }

    fn log_prob(&self, row: usize) -> f64 {
        self.search.log_prob(row)
    }

    fn advance(&mut self, rows: Rows<'_>, next: &mut Vec<(usize, u32)>) -> Result<()> {
        let before = self.target.get(..self.step);
        let row = (0..rows.norms.len()).find(|&row| Some(&self.search.history(row)[..]) == before);
        let at = row.zip(self.target.get(self.step).copied());
        if let Some((row, token)) = at {
            let standing = self.standing(rows, row, token);
            self.seen.push(standing);
        }
        self.step += 1;
        self.search.advance(rows, next)?;
        if self.give_up && !at.is_some_and(|at| next.contains(&at)) {
            next.clear();
        }
        Ok(())
    }

    fn finish(self) -> (Vec<Hypothesis>, Option<Trace>) {
        self.search.finish()
    }
}

/// No search: the target, token by token.
struct Follow<'a> {
    target: &'a [u32],
    token_log_probs: &'a mut Vec<f32>,
}

impl Search for Follow<'_> {
    fn history(&self, _row: usize) -> Vec<u32> {
        self.target[..self.token_log_probs.len()].to_vec()
    }

    fn log_prob(&self, _row: usize) -> f64 {
        self.token_log_probs.iter().map(|&x| f64::from(x)).sum()
    }

    fn advance(&mut self, rows: Rows<'_>, next: &mut Vec<(usize, u32)>) -> Result<()> {
        let step = self.token_log_probs.len();
        for ((logits, norm), &token) in rows.iter().zip(&self.target[step..]) {
            top_k::check(logits, norm).map_err(|entry| entry.at_step(step + 1))?;
            self.token_log_probs.push(norm.log_prob(logits[token as usize]));
            next.push((0, token));
        }
        if self.token_log_probs.len() == self.target.len() {
            next.clear();
        }
        Ok(())
    }

    fn finish(self) -> (Vec<Hypothesis>, Option<Trace>) {
        (Vec::new(), None)
    }
}
