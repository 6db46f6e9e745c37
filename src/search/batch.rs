//! Many searches over one scorer: every step is one call for the rows of all sentences, and a sentence that has
//! finished leaves.
//!
//! A search sees only the rows of its own sentence, so its result cannot depend on the others.

use crate::error::{Error, Result};
use crate::ops::{Norm, Scores};
use crate::search::rules;
use crate::search::{Hypothesis, Options, Outcome, Scorer, Sentence, Trace};

/// The distributions after some rows, at least one: the logits of each, and its norm.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub logits: &'a [f32],
    pub norms: &'a [Norm],
}

impl<'a> Rows<'a> {
    /// Row by row.
    pub fn iter(self) -> impl Iterator<Item = (&'a [f32], Norm)> {
        self.logits.chunks_exact(self.logits.len() / self.norms.len()).zip(self.norms.iter().copied())
    }
}

/// The search for one sentence. It starts with one row.
pub(super) trait Search {
    /// The tokens of a row, without BOS.
    fn history(&self, row: usize) -> Vec<u32>;

    /// The sum over them.
    fn log_prob(&self, row: usize) -> f64;

    /// Takes the distributions of the sentence's rows and pushes the rows that go on as (continued row, token); pushing
    /// none ends the search.
    fn advance(&mut self, rows: Rows<'_>, next: &mut Vec<(usize, u32)>) -> Result<()>;

    /// What was found, and the record of the search if one was made.
    fn finish(self) -> (Vec<Hypothesis>, Option<Trace>);
}

/// Refuses settings that do not fit the batch or the scorer.
pub(super) fn check<S: Scorer>(scorer: &S, sentences: &[Sentence], options: &Options) -> Result<()> {
    options.check(scorer.vocab_size())?;
    for (number, Sentence { max_length, prefix, constraints, .. }) in (1..).zip(sentences) {
        let (min, forced, must) = (options.min_length, prefix.len(), constraints.len());
        let vocab_size = scorer.vocab_size();
        let mut given = prefix.iter().copied().chain(constraints.tokens());
        let message = if *max_length == 0 {
            format!(
                "step limit 0 for sentence {number} of the batch: expected at least 1, the step that gives the end mark"
            )
        } else if *max_length < min {
            format!(
                "a translation of at least {min} tokens does not fit the limit of {max_length}: lower the first, or raise \
                 the second"
            )
        } else if *max_length <= forced && forced > 0 {
            format!("a prefix of {forced} tokens does not fit the limit of {max_length}, end mark included")
        } else if must > 0 && *max_length <= forced + must {
            format!(
                "{must} tokens that must be said{} do not fit the limit of {max_length}, end mark included",
                if forced > 0 { format!(" and a prefix of {forced}") } else { String::new() }
            )
        } else if let Some(id) = given.find(|&id| id as usize >= vocab_size || id == options.eos) {
            format!(
                "token id {id} cannot be part of what is to be said: expected one of {vocab_size} that is not the end mark"
            )
        } else {
            continue;
        };
        return Err(Error::Config(message));
    }
    Ok(())
}

/// Runs one search per sentence of `src` to its end.
pub(super) fn run<S: Scorer, T: Search>(
    scorer: &S,
    sentences: &[Sentence],
    options: &Options,
    mut searches: Vec<T>,
    traces: Option<&mut Vec<Trace>>,
) -> Result<Vec<Outcome>> {
    let mut failures: Vec<Option<Error>> = sentences.iter().map(|_| None).collect();
    if !sentences.is_empty() {
        run_steps(scorer, sentences, options, &mut searches, &mut failures)?;
    }
    let mut recorded = Vec::new();
    let mut outcomes = Vec::with_capacity(sentences.len());
    for (search, failure) in searches.into_iter().zip(failures) {
        let (hypotheses, trace) = search.finish();
        recorded.extend(trace);
        outcomes.push(failure.map_or(Ok(hypotheses), Err));
    }
    if let Some(traces) = traces {
        *traces = recorded;
    }
    Ok(outcomes)
}

fn run_steps<S: Scorer, T: Search>(
    scorer: &S,
    sentences: &[Sentence],
    options: &Options,
    searches: &mut [T],
    failures: &mut [Option<Error>],
) -> Result<()> {
    let vocab_size = scorer.vocab_size();
    let src: Vec<Vec<u32>> = sentences.iter().map(|sentence| sentence.src.clone()).collect();
    let mut state = scorer.start(&src)?;
    let mut tokens = vec![options.bos; src.len()];
    // Sentence and number of rows of all that are still running, in the order of the rows.
    let mut running: Vec<(usize, usize)> = (0..src.len()).map(|sentence| (sentence, 1)).collect();
    let (mut rows, mut next, mut still_running) = (Vec::new(), Vec::new(), Vec::new());
    let look_back = options.rules.look_back();
    let mut scores = Scores::default();
    let mut length = 0;
    while !running.is_empty() {
        step(scorer, &mut state, &tokens, &mut scores)?;
        length += 1;
        let Scores { logits, norms } = &mut scores;
        let mut each = logits.chunks_exact_mut(vocab_size).zip(norms.iter_mut());
        for &(sentence, n) in &running {
            let look_back = look_back || !sentences[sentence].constraints.is_empty();
            for (row, (logits, norm)) in each.by_ref().take(n).enumerate() {
                let history = if look_back { searches[sentence].history(row) } else { Vec::new() };
                rules::apply(logits, norm, options, &sentences[sentence], &history, length);
            }
        }
        let n_rows = tokens.len();
        rows.clear();
        tokens.clear();
        still_running.clear();
        let mut first = 0;
        for &(sentence, n) in &running {
            let own = Rows {
                logits: &logits[first * vocab_size..(first + n) * vocab_size],
                norms: &norms[first..first + n],
            };
            next.clear();
            if let Err(error) = searches[sentence].advance(own, &mut next) {
                failures[sentence] = Some(error);
                next.clear();
            }
            rows.extend(next.iter().map(|&(row, _)| first + row));
            tokens.extend(next.iter().map(|&(_, token)| token));
            if !next.is_empty() {
                still_running.push((sentence, next.len()));
            }
            first += n;
        }
        std::mem::swap(&mut running, &mut still_running);
        let moved = rows.len() != n_rows || rows.iter().enumerate().any(|(new, &old)| new != old);
        if moved && !running.is_empty() {
            scorer.reorder(&mut state, &rows)?;
        }
    }
    Ok(())
}

/// One step of the scorer, the size of its answer checked.
fn step<S: Scorer>(scorer: &S, state: &mut S::State, tokens: &[u32], scores: &mut Scores) -> Result<()> {
    scorer.step(state, tokens, scores)?;
    let (rows, vocab_size) = (tokens.len(), scorer.vocab_size());
    let (found, norms) = (scores.logits.len(), scores.norms.len());
    if found == rows * vocab_size && norms == rows {
        return Ok(());
    }
    Err(Error::Numeric(format!(
        "the model gave {found} log-probabilities in {norms} rows, expected {rows} rows of {vocab_size}"
    )))
}
