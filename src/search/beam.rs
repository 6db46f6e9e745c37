//! Beam search: keeps the `beam_size` most probable unfinished hypotheses of a sentence, and returns the finished
//! ones of the best score.
//!
//! Each step weighs the 2 × beam best extensions of the live hypotheses by `log_prob`. That many always hold
//! `beam_size` that are not EOS, as each live hypothesis has only one extension by EOS.
//!
//! Departs from the paper, which does not say when to stop: here the search goes on until no live hypothesis
//! can enter the n best any more, under the same penalty. Stopping at the first finished hypothesis would
//! favour short ones.

use crate::error::Result;
use crate::search::batch::{self, Rows, Search};
use crate::search::top_k::{Extension, TopK};
use crate::search::trace::{self, Candidate, Fate, Ranked, Stop};
use crate::search::{Finish, Hypothesis, Like, Options, Outcome, Scorer, Sentence, Trace};

/// Beam search. Arguments and result are those of [`decode`](crate::search::decode), which see for width 1.
pub fn beam_search<S: Scorer>(
    scorer: &S,
    sentences: &[Sentence],
    options: &Options,
    traces: Option<&mut Vec<Trace>>,
) -> Result<Vec<Outcome>> {
    batch::check(scorer, sentences, options)?;
    let traced = traces.is_some();
    let searches = sentences.iter().map(|one| Beam::new(options, one.max_length, traced)).collect();
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

struct Beam<'a> {
    options: &'a Options,
    max_length: usize,
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
    fn new(options: &'a Options, max_length: usize, traced: bool) -> Self {
        Beam {
            options,
            max_length,
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

    /// What becomes of the extension at `rank`, when `kept` better ones without EOS have already been kept.
    fn fate(&self, rank: usize, extension: &Extension, kept: usize) -> Fate {
        let Options { beam_size, eos, like, .. } = *self.options;
        let at_limit = self.step == self.max_length;
        let by_rank = extension.token == eos || (at_limit && like != Like::Tx);
        let within = if by_rank { rank < beam_size } else { kept < beam_size };
        if !within {
            Fate::Pruned
        } else if extension.token == eos {
            Fate::Finished
        } else if at_limit {
            Fate::Cut
        } else {
            Fate::Live
        }
    }

    /// The 2 × beam best extensions of the live hypotheses, best first.
    fn candidates(&mut self, rows: Rows<'_>) -> Result<Vec<Extension>> {
        for (row, (live, (logits, norm))) in self.live.iter().zip(rows.iter()).enumerate() {
            let scanned = self.top_k.scan(row as u32, live.log_prob, logits, norm);
            scanned.map_err(|entry| entry.at_step(self.step))?;
        }
        Ok(self.top_k.take())
    }

    /// Decides on every candidate; returns the new live hypotheses, and pushes their rows and tokens to `next`.
    fn keep(&mut self, candidates: &[Extension], next: &mut Vec<(usize, u32)>) -> Vec<Live> {
        let (mut live, mut kept) = (Vec::with_capacity(self.options.beam_size), 0);
        self.top_was_eos |= candidates.first().is_some_and(|best| best.token == self.options.eos);
        for (rank, extension) in candidates.iter().enumerate() {
            let fate = self.fate(rank, extension, kept);
            let node = self.nodes.len() as u32;
            self.record_candidate(rank, extension, node, fate);
            if fate == Fate::Pruned {
                continue;
            }
            let Extension { log_prob, row, token, token_log_prob } = *extension;
            self.nodes.push(Node { parent: self.live[row as usize].node, token, token_log_prob });
            kept += usize::from(fate != Fate::Finished);
            match fate {
                Fate::Finished => self.add_finished(node, log_prob, self.step, Finish::Eos),
                Fate::Cut => self.add_finished(node, log_prob, self.step, Finish::Cut),
                _ => {
                    live.push(Live { node, log_prob });
                    next.push((row as usize, token));
                }
            }
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
            Like::Ct2 => return (None, None),
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
            Like::Tx | Like::Hf => (to_beat? >= bound?).then_some(Stop::Bound),
            Like::Ct2 if without_penalty => {
                (self.top_was_eos && self.n_finished >= n_best).then_some(Stop::Enough)
            }
            Like::Ct2 => (self.n_finished >= beam_size).then_some(Stop::Enough),
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
        });
    }

    /// Adds a candidate to the record of the step; `id` is the node it becomes if it is kept.
    fn record_candidate(&mut self, rank: usize, extension: &Extension, id: u32, fate: Fate) {
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
        let tokens = self.path(self.live[row].node).map(|node| node.token);
        let mut tokens: Vec<u32> = tokens.collect();
        tokens.reverse();
        tokens
    }

    fn advance(&mut self, rows: Rows<'_>, next: &mut Vec<(usize, u32)>) -> Result<()> {
        self.step += 1;
        let candidates = self.candidates(rows)?;
        self.record_step();
        let live = self.keep(&candidates, next);
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
