//! Beam search: keeps the `beam_size` most probable unfinished hypotheses of a sentence, and returns the finished
//! ones of the best score.
//!
//! Each step weighs the 2 × beam best extensions of the live hypotheses by `log_prob`. That many always hold
//! `beam_size` that are not EOS, as each live hypothesis has only one extension by EOS.
//!
//! Departs from the paper, which does not say when to stop: here the search goes on until no live hypothesis
//! can enter the n best any more, under the same penalty. Stopping at the first finished hypothesis would
//! favour short ones.
//!
//! With constraints the hypotheses that are equally far with them are a beam of their own, and all this is said of each of them.

use crate::error::Result;
use crate::search::batch::{self, Rows, Search};
use crate::search::constraints::{Constraints, Progress};
use crate::search::top_k::{Extension, TopK};
use crate::search::trace::{self, Candidate, Fate, Places, Ranked, Stop};
use crate::search::{Finish, Hypothesis, Like, Options, Outcome, Scorer, Sentence, Trace};
use std::collections::BTreeSet;

/// Beam search. Arguments and result are those of [`decode`](crate::search::decode), which see for width 1.
pub fn beam_search<S: Scorer>(
    scorer: &S,
    sentences: &[Sentence],
    options: &Options,
    traces: Option<&mut Vec<Trace>>,
) -> Result<Vec<Outcome>> {
    batch::check(scorer, sentences, options)?;
    let traced = traces.is_some();
    let searches = sentences.iter().map(|one| Beam::new(options, one, traced)).collect();
    batch::run(scorer, sentences, options, searches, traces)
}

/// A hypothesis is a node of the tree of prefixes: its last token, and the node of all before.
#[derive(Debug, Clone, Copy)]
struct Node {
    parent: u32,
    token: u32,
    token_log_prob: f32,
}

/// The node of the empty hypothesis.
const ROOT: u32 = 0;

#[derive(Debug, Clone, Copy)]
struct Live {
    node: u32,
    log_prob: f64,
}

#[derive(Debug, Clone, Copy)]
struct Finished {
    node: u32,
    log_prob: f64,
    score: f64,
    finish: Finish,
}

pub(super) struct Beam<'a> {
    options: &'a Options,
    max_length: usize,
    constraints: &'a Constraints,
    /// Steps done, which is the length of the live hypotheses.
    step: usize,
    nodes: Vec<Node>,
    /// One per row, best first.
    live: Vec<Live>,
    /// The best so far, best first.
    finished: Vec<Finished>,
    /// All that ever finished.
    n_finished: usize,
    /// CTranslate2's rule without a penalty: has EOS ever been the best extension?
    top_was_eos: bool,
    top_k: TopK,
    trace: Option<Trace>,
}

impl<'a> Beam<'a> {
    /// A search for `sentence`, recorded if `traced`.
    pub fn new(options: &'a Options, sentence: &'a Sentence, traced: bool) -> Self {
        let Sentence { max_length, ref constraints, .. } = *sentence;
        Beam {
            options,
            max_length,
            constraints,
            step: 0,
            nodes: vec![Node { parent: ROOT, token: options.bos, token_log_prob: 0.0 }],
            live: vec![Live { node: ROOT, log_prob: 0.0 }],
            finished: Vec::new(),
            n_finished: 0,
            top_was_eos: false,
            top_k: TopK::new(2 * options.beam_size),
            trace: traced.then(|| Trace::new(options, max_length)),
        }
    }

    /// What becomes of the extension at `rank`, when `kept` better ones without EOS have already been kept of `places`.
    fn fate(&self, rank: usize, extension: &Extension, kept: usize, places: usize) -> Fate {
        let Options { beam_size, eos, like, .. } = *self.options;
        let at_limit = self.step == self.max_length;
        let ends = extension.token == eos;
        let has_place = if self.by_rank(ends) { rank < places } else { kept < places };
        if !has_place || like == Like::Fairseq && ends && self.n_finished >= beam_size {
            Fate::Pruned
        } else if ends {
            Fate::Finished
        } else if at_limit {
            Fate::Cut
        } else {
            Fate::Live
        }
    }

    /// Whether an extension's rank alone decides if it is kept; else the end marks before it take no place away.
    fn by_rank(&self, ends: bool) -> bool {
        match self.options.like {
            Like::Tx => ends,
            Like::Ct2 | Like::Hf | Like::Fairseq => ends || self.step == self.max_length,
            Like::Marian => true,
        }
    }

    /// Live hypotheses that this step may keep.
    fn places(&self) -> usize {
        let Options { beam_size, like, .. } = *self.options;
        if like == Like::Marian { beam_size - self.n_finished.min(beam_size) } else { beam_size }
    }

    /// The 2 × beam best extensions of the live hypotheses, best first; with constraints those of each bank, and all that are
    /// further with them.
    fn candidates(&mut self, rows: Rows<'_>, progress: &[Progress]) -> Result<Vec<Extension>> {
        if self.constraints.is_empty() {
            self.scan(rows, |_| true)?;
            return Ok(self.top_k.take());
        }
        let bank_of: Vec<usize> = progress.iter().map(|one| self.constraints.bank(one)).collect();
        let banks: BTreeSet<usize> = bank_of.iter().copied().collect();
        let mut found = BTreeSet::new();
        for bank in banks {
            self.scan(rows, |row| bank_of[row] == bank)?;
            found.extend(self.top_k.take());
        }
        for ((row, live), (logits, norm)) in (0..).zip(&self.live).zip(rows.iter()) {
            for token in self.constraints.further(&progress[row as usize]) {
                let token_log_prob = norm.log_prob(logits[token as usize]);
                if token_log_prob > f32::NEG_INFINITY {
                    let log_prob = live.log_prob + f64::from(token_log_prob);
                    found.insert(Extension { log_prob, row, token, token_log_prob });
                }
            }
        }
        Ok(found.into_iter().rev().collect())
    }

    /// Shows `top_k` the rows that are `chosen`.
    fn scan(&mut self, rows: Rows<'_>, chosen: impl Fn(usize) -> bool) -> Result<()> {
        for (row, (live, (logits, norm))) in self.live.iter().zip(rows.iter()).enumerate() {
            if chosen(row) {
                let scanned = self.top_k.scan(row as u32, live.log_prob, logits, norm);
                scanned.map_err(|entry| entry.at_step(self.step))?;
            }
        }
        Ok(())
    }

    /// How far every live hypothesis is with the constraints; nothing without any.
    fn progress(&self) -> Vec<Progress> {
        if self.constraints.is_empty() {
            return Vec::new();
        }
        self.live.iter().map(|live| self.constraints.progress(&self.tokens(live.node))).collect()
    }

    /// The beam that an extension competes in, of hypotheses with this `progress`.
    fn bank(&self, extension: &Extension, progress: &[Progress]) -> usize {
        let before = progress.get(extension.row as usize);
        before.map_or(0, |before| self.constraints.bank(&self.constraints.after(before, extension.token)))
    }

    /// Decides on every candidate; returns the new live hypotheses, and pushes their rows and tokens to `next`.
    fn keep(
        &mut self,
        candidates: &[Extension],
        progress: &[Progress],
        next: &mut Vec<(usize, u32)>,
    ) -> Vec<Live> {
        let Options { beam_size, eos, .. } = *self.options;
        self.top_was_eos |= candidates.first().is_some_and(|best| best.token == eos);
        let places = self.places();
        // Of each bank, the candidates that were looked at, and those that were kept without EOS.
        let mut banks = vec![(0, 0); self.constraints.len() + 1];
        let mut live = Vec::with_capacity(beam_size);
        for (rank, extension) in candidates.iter().enumerate() {
            let bank = self.bank(extension, progress);
            let (seen, kept) = banks[bank];
            let fate = self.fate(seen, extension, kept, places);
            let node = self.nodes.len() as u32;
            self.record_candidate(rank, extension, node, fate, bank);
            banks[bank] = (seen + 1, kept + usize::from(matches!(fate, Fate::Live | Fate::Cut)));
            if fate == Fate::Pruned {
                continue;
            }
            let Extension { log_prob, row, token, token_log_prob } = *extension;
            self.nodes.push(Node { parent: self.live[row as usize].node, token, token_log_prob });
            match fate {
                Fate::Finished => self.add_finished(node, log_prob, self.step, Finish::Eos),
                Fate::Cut => self.add_finished(node, log_prob, self.step, Finish::Cut),
                _ => {
                    live.push(Live { node, log_prob });
                    next.push((row as usize, token));
                }
            }
        }
        if let Some(step) = self.trace.as_mut().and_then(|trace| trace.steps.last_mut()) {
            step.record_gaps(eos);
        }
        live
    }

    /// Adds a finished hypothesis in its place among the n best; of equal scores the earlier one stays ahead.
    fn add_finished(&mut self, node: u32, log_prob: f64, length: usize, finish: Finish) {
        let score = self.options.score(log_prob, length);
        let place = self.finished.partition_point(|other| other.score.total_cmp(&score).is_ge());
        self.finished.insert(place, Finished { node, log_prob, score, finish });
        self.finished.truncate(self.options.kept());
        self.n_finished += 1;
    }

    /// The best score that a live hypothesis can still reach, and the score that it has to beat to matter.
    fn bound_and_to_beat(&self) -> (Option<f64>, Option<f64>) {
        let lengths = match self.options.like {
            Like::Tx => self.step + 1..=self.max_length,
            Like::Hf => self.step..=self.step,
            Like::Ct2 | Like::Fairseq | Like::Marian => return (None, None),
        };
        // All live hypotheses have one length, so the most probable has the best bound.
        let bound = self.live.first().map(|live| self.options.bound(live.log_prob, lengths));
        (bound, self.finished.get(self.options.kept() - 1).map(|worst| worst.score))
    }

    /// Why the search ends after this step, if it does.
    fn stop(&self, bound: Option<f64>, to_beat: Option<f64>) -> Option<Stop> {
        let Options { beam_size, n_best, length_penalty, like, .. } = *self.options;
        if self.step == self.max_length {
            return Some(Stop::Limit);
        }
        if self.live.is_empty() {
            return Some(Stop::NoCandidates);
        }
        let without_penalty = length_penalty.alpha() == 0.0;
        match like {
            Like::Tx if beam_size == 1 && self.constraints.is_empty() => {
                (self.n_finished > 0).then_some(Stop::Eos)
            }
            Like::Tx | Like::Hf => (to_beat? >= bound?).then_some(Stop::Bound),
            Like::Ct2 if without_penalty => {
                (self.top_was_eos && self.n_finished >= n_best).then_some(Stop::Enough)
            }
            Like::Ct2 | Like::Fairseq | Like::Marian => {
                (self.n_finished >= beam_size).then_some(Stop::Enough)
            }
        }
    }

    /// The nodes of a hypothesis, the last one first.
    fn path(&self, mut node: u32) -> impl Iterator<Item = &Node> {
        std::iter::from_fn(move || {
            let own = (node != ROOT).then(|| &self.nodes[node as usize]);
            node = own.map_or(ROOT, |own| own.parent);
            own
        })
    }

    /// The tokens of a node's hypothesis.
    fn tokens(&self, node: u32) -> Vec<u32> {
        let mut tokens: Vec<u32> = self.path(node).map(|node| node.token).collect();
        tokens.reverse();
        tokens
    }

    /// The hypothesis that ends in a node.
    fn hypothesis(&self, finished: &Finished) -> Hypothesis {
        let Finished { log_prob, score, finish, node } = *finished;
        let path = self.path(node).map(|node| (node.token, node.token_log_prob));
        let (mut ids, mut token_log_probs): (Vec<u32>, Vec<f32>) = path.unzip();
        ids.reverse();
        token_log_probs.reverse();
        Hypothesis { ids, token_log_probs, log_prob, score, finish }
    }

    /// Opens the record of a step.
    fn record_step(&mut self) {
        let places = Places { count: self.places(), by_rank: [false, true].map(|ends| self.by_rank(ends)) };
        let Some(trace) = &mut self.trace else { return };
        let live = self.live.iter().map(|&Live { node, log_prob }| {
            let Node { parent, token, .. } = self.nodes[node as usize];
            trace::Live { id: node, parent: (node != ROOT).then_some(parent), token, log_prob }
        });
        let live = live.collect();
        trace.steps.push(trace::Step {
            step: self.step,
            live,
            candidates: Vec::new(),
            bound: None,
            to_beat: None,
            places,
        });
    }

    /// Adds a candidate to the record of the step; `id` is the node it becomes if it is kept, `bank` the beam it competes in.
    fn record_candidate(&mut self, rank: usize, extension: &Extension, id: u32, fate: Fate, bank: usize) {
        let Some(step) = self.trace.as_mut().and_then(|trace| trace.steps.last_mut()) else { return };
        let Extension { log_prob, row, token, token_log_prob } = *extension;
        step.candidates.push(Candidate {
            rank,
            id: (fate != Fate::Pruned).then_some(id),
            parent: self.live[row as usize].node,
            token,
            token_log_prob,
            log_prob,
            score: self.options.score(log_prob, self.step),
            fate,
            gap: None,
            bank: (!self.constraints.is_empty()).then_some(bank),
        });
    }

    /// Closes the record of a step.
    fn record_stop(&mut self, bound: Option<f64>, to_beat: Option<f64>, stop: Option<Stop>) {
        let Some(trace) = &mut self.trace else { return };
        trace.stop = stop;
        if let Some(step) = trace.steps.last_mut() {
            (step.bound, step.to_beat) = (bound, to_beat);
        }
    }
}

impl Search for Beam<'_> {
    fn history(&self, row: usize) -> Vec<u32> {
        self.tokens(self.live[row].node)
    }

    fn log_prob(&self, row: usize) -> f64 {
        self.live[row].log_prob
    }

    fn advance(&mut self, rows: Rows<'_>, next: &mut Vec<(usize, u32)>) -> Result<()> {
        self.step += 1;
        let progress = self.progress();
        let candidates = self.candidates(rows, &progress)?;
        self.record_step();
        let live = self.keep(&candidates, &progress, next);
        if candidates.is_empty() && self.finished.is_empty() {
            // No token was possible after any of them: what is there is all there will be.
            for Live { node, log_prob } in std::mem::take(&mut self.live) {
                self.add_finished(node, log_prob, self.step - 1, Finish::Cut);
            }
        }
        self.live = live;
        let (bound, to_beat) = self.bound_and_to_beat();
        let stop = self.stop(bound, to_beat);
        self.record_stop(bound, to_beat, stop);
        if stop.is_some() {
            next.clear();
        }
        Ok(())
    }

    fn finish(mut self) -> (Vec<Hypothesis>, Option<Trace>) {
        self.finished.truncate(self.options.n_best);
        let hypotheses: Vec<Hypothesis> = self.finished.iter().map(|one| self.hypothesis(one)).collect();
        if let Some(trace) = &mut self.trace
            && trace.stop.is_some()
        {
            let ids = self.finished.iter().map(|one| one.node);
            trace.hypotheses =
                ids.zip(&hypotheses).map(|(id, one)| Ranked { id, hypothesis: one.clone() }).collect();
        }
        (hypotheses, self.trace)
    }
}
