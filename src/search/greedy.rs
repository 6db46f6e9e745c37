//! Greedy search: the most probable token at every step, until EOS or the step limit.

use crate::error::Result;
use crate::search::batch::{self, Rows, Search};
use crate::search::top_k::{Extension, TopK};
use crate::search::trace::{self, Candidate, Fate, Live, Places, Stop};
use crate::search::{Finish, Hypothesis, Options, Outcome, Scorer, Sentence, Trace};

/// Takes the most probable token (ties: the lower id) at every step: one hypothesis per sentence, whatever
/// `beam_size` and `n_best` are. Arguments and result are those of [`decode`](crate::search::decode).
pub fn greedy<S: Scorer>(
    scorer: &S,
    sentences: &[Sentence],
    options: &Options,
    traces: Option<&mut Vec<Trace>>,
) -> Result<Vec<Outcome>> {
    batch::check(scorer, sentences, options)?;
    let traced = traces.is_some();
    let searches = sentences.iter().map(|one| Greedy::new(options, one.max_length, traced)).collect();
    batch::run(scorer, sentences, options, searches, traces)
}

pub(super) struct Greedy<'a> {
    options: &'a Options,
    max_length: usize,
    top_k: TopK,
    ids: Vec<u32>,
    token_log_probs: Vec<f32>,
    log_prob: f64,
    trace: Option<Trace>,
}

impl<'a> Greedy<'a> {
    /// A search of at most `max_length` steps, recorded if `traced`.
    pub fn new(options: &'a Options, max_length: usize, traced: bool) -> Self {
        // The runner-up is of interest to the record only.
        let top_k = TopK::new(if traced { 2 } else { 1 });
        let trace = traced.then(|| Trace { beam_size: 1, n_best: 1, ..Trace::new(options, max_length) });
        let (ids, token_log_probs) = (Vec::new(), Vec::new());
        Greedy { options, max_length, top_k, ids, token_log_probs, log_prob: 0.0, trace }
    }

    fn finish_kind(&self) -> Finish {
        if self.ids.last() == Some(&self.options.eos) { Finish::Eos } else { Finish::Cut }
    }

    /// Records a step and what becomes of its best extension; the hypothesis after step n has id n.
    fn record(&mut self, best: &[Extension], fate: Fate, stop: Option<Stop>) {
        let (options, step) = (self.options, self.ids.len() + 1);
        let Some(trace) = &mut self.trace else { return };
        let id = self.ids.len() as u32;
        let token = self.ids.last().copied().unwrap_or(options.bos);
        let live = vec![Live { id, parent: id.checked_sub(1), token, log_prob: self.log_prob }];
        let candidates = best.iter().enumerate().map(|(rank, extension)| Candidate {
            rank,
            id: (rank == 0).then_some(id + 1),
            parent: id,
            token: extension.token,
            token_log_prob: extension.token_log_prob,
            log_prob: extension.log_prob,
            score: options.score(extension.log_prob, step),
            fate: if rank == 0 { fate } else { Fate::Pruned },
            gap: (rank > 0).then_some(best[0].log_prob - extension.log_prob),
            bank: None,
        });
        trace.steps.push(trace::Step {
            step,
            live,
            candidates: candidates.collect(),
            bound: None,
            to_beat: None,
            places: Places { count: 1, by_rank: [true; 2] },
        });
        trace.stop = stop;
    }
}

impl Search for Greedy<'_> {
    fn history(&self, _row: usize) -> Vec<u32> {
        self.ids.clone()
    }

    fn log_prob(&self, _row: usize) -> f64 {
        self.log_prob
    }

    fn advance(&mut self, rows: Rows<'_>, next: &mut Vec<(usize, u32)>) -> Result<()> {
        let step = self.ids.len() + 1;
        for (logits, norm) in rows.iter() {
            self.top_k.scan(0, self.log_prob, logits, norm).map_err(|entry| entry.at_step(step))?;
        }
        let best = self.top_k.take();
        let Some(&chosen) = best.first() else {
            self.record(&best, Fate::Cut, Some(Stop::NoCandidates));
            return Ok(());
        };
        let (fate, stop) = if chosen.token == self.options.eos {
            (Fate::Finished, Some(Stop::Eos))
        } else if step == self.max_length {
            (Fate::Cut, Some(Stop::Limit))
        } else {
            (Fate::Live, None)
        };
        self.record(&best, fate, stop);
        self.ids.push(chosen.token);
        self.token_log_probs.push(chosen.token_log_prob);
        self.log_prob = chosen.log_prob;
        if stop.is_none() {
            next.push((0, chosen.token));
        }
        Ok(())
    }

    fn finish(mut self) -> (Vec<Hypothesis>, Option<Trace>) {
        let finish = self.finish_kind();
        let score = self.options.score(self.log_prob, self.ids.len());
        let (id, log_prob) = (self.ids.len() as u32, self.log_prob);
        let hypothesis =
            Hypothesis { ids: self.ids, token_log_probs: self.token_log_probs, log_prob, score, finish };
        if let Some(trace) = &mut self.trace
            && trace.stop.is_some()
        {
            trace.hypotheses = vec![trace::Ranked { id, hypothesis: hypothesis.clone() }];
        }
        (vec![hypothesis], self.trace)
    }
}
