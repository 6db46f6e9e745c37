//! Why a search did not return a given translation: where it left the beam, and whether the search or the model is to blame.
//!
//! A search error (Stahlberg and Byrne 2019): the target scores better than what was returned, and the search lost it. A
//! model error: it scores no better, so that no search by this score would return it.

use crate::error::{Error, Result};
use crate::search::trace::{Fate, Step, Trace};
pub use crate::search::watch::Standing;
use crate::search::watch::{follow, watch};
use crate::search::{Hypothesis, Options, Rules, Scorer, Sentence};
use serde::Serialize;

/// Wider beams than this are not tried, unless the search itself has one of more than half of it.
pub const WIDEST_TRIED: usize = 64;

/// A given translation beside a search.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Why {
    /// Its ids, with the end mark.
    pub ids: Vec<u32>,
    /// Of each, given those before it: as the search counts, or as the model alone does if it is ruled out.
    pub token_log_probs: Vec<f32>,
    /// Their sum.
    pub log_prob: f64,
    /// `log_prob` under the length penalty.
    pub score: f64,
    /// Where it stood at each step, as long as it was in the beam.
    pub standings: Vec<Standing>,
    /// Where it left the beam; none if it came to its end.
    pub left: Option<Left>,
    /// What this means.
    pub verdict: Verdict,
}

/// Where a translation left the beam.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Left {
    /// The first step that did not keep it.
    pub step: usize,
    /// The token that it should have added there.
    pub token: u32,
    /// What happened.
    pub how: How,
    /// Its rank from 0 among all extensions of the live hypotheses, if it had one.
    pub rank: Option<usize>,
    /// How many extensions there were.
    pub of: Option<usize>,
    /// How far its `log_prob` was below that of the last one that was kept.
    pub gap: Option<f64>,
}

/// How a translation left the beam.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// Better ones took all places.
    Pruned,
    /// The rules of the search forbid it to go on so.
    RuledOut,
    /// It was closed without its end at the step limit.
    Cut,
    /// The search ended before it did.
    Stopped,
}

/// What a search's answer says of a given translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Verdict {
    /// It is what the search returns.
    Winner,
    /// It is further down in the list.
    Listed {
        /// Its place, from 1.
        place: usize,
    },
    /// It scores better than what the search returns.
    SearchError {
        /// A beam of this width finds it, one that is narrower by one does not; none up to `tried` does otherwise.
        found_by: Option<usize>,
        /// The widest beam that was tried.
        tried: usize,
    },
    /// It scores no better.
    ModelError,
    /// The rules of the search forbid it.
    RuledOut {
        /// The first step whose token they forbid.
        step: usize,
    },
    /// It has more tokens than the search has steps.
    TooLong {
        /// The limit.
        limit: usize,
    },
}

/// Searches for `sentence`, and says why the result is not `target` (ids with the end mark).
pub fn why<S: Scorer>(
    scorer: &S,
    sentence: &Sentence,
    options: &Options,
    target: &[u32],
) -> Result<(Vec<Hypothesis>, Trace, Why)> {
    if options.sampling.is_some() {
        return Err(Error::Config("what is drawn is not searched for: there is no beam to leave".into()));
    }
    if target.last() != Some(&options.eos) {
        return Err(Error::Data("a translation to look for ends with the end mark".into()));
    }
    let (outcome, trace, standings) = watch(scorer, sentence, options, target, false)?;
    let found = outcome?;
    let ruled = follow(scorer, sentence, options, target)?;
    let forbidden = ruled.iter().position(|&x| x == f32::NEG_INFINITY);
    let token_log_probs = match forbidden {
        None => ruled,
        Some(_) => follow(scorer, &free(sentence), &lawless(options), target)?,
    };
    let log_prob = token_log_probs.iter().map(|&x| f64::from(x)).sum();
    let score = options.score(log_prob, target.len());
    let left = left(&trace, &standings, target, options.eos);
    let place = found.iter().position(|one| one.ids == target);
    let verdict = match (place, forbidden, found.first()) {
        (Some(0), ..) => Verdict::Winner,
        (Some(place), ..) => Verdict::Listed { place: place + 1 },
        (_, Some(before), _) => Verdict::RuledOut { step: before + 1 },
        _ if target.len() > sentence.max_length => Verdict::TooLong { limit: sentence.max_length },
        (.., Some(winner)) if score <= winner.score => Verdict::ModelError,
        _ => search_error(scorer, sentence, options, target)?,
    };
    let why = Why { ids: target.to_vec(), token_log_probs, log_prob, score, standings, left, verdict };
    Ok((found, trace, why))
}

/// The sentence with nothing that must be said, but for what was given.
fn free(sentence: &Sentence) -> Sentence {
    let prefix = sentence.prefix[..sentence.given].to_vec();
    let Sentence { given, max_length, .. } = *sentence;
    Sentence { prefix, given, ..Sentence::new(sentence.src.clone(), max_length) }
}

/// The same search without rules.
fn lawless(options: &Options) -> Options {
    Options { rules: Rules::default(), min_length: 0, like: Default::default(), ..options.clone() }
}

/// The candidate that a standing is, if it was one.
fn fate(step: &Step, standing: &Standing) -> Option<Fate> {
    let parent = step.live.get(standing.row)?.id;
    let own = |one: &&crate::search::trace::Candidate| one.parent == parent && one.token == standing.token;
    step.candidates.iter().find(own).map(|one| one.fate)
}

/// Where the target left the beam.
fn left(trace: &Trace, standings: &[Standing], target: &[u32], eos: u32) -> Option<Left> {
    let last = standings.last()?;
    let step = trace.steps.get(last.step - 1)?;
    let Standing { token, rank, of, log_prob, bank, .. } = *last;
    let here = |how, gap| {
        let rank = (how != How::RuledOut).then_some(rank);
        Some(Left { step: last.step, token, how, rank, of: Some(of), gap })
    };
    match fate(step, last) {
        Some(Fate::Finished) => None,
        Some(Fate::Cut) => here(How::Cut, None),
        Some(Fate::Live) => {
            let &token = target.get(last.step)?;
            Some(Left { step: last.step + 1, token, how: How::Stopped, rank: None, of: None, gap: None })
        }
        Some(Fate::Pruned) | None if log_prob > f64::NEG_INFINITY => {
            here(How::Pruned, step.gap(bank, token == eos, log_prob))
        }
        Some(Fate::Pruned) | None => here(How::RuledOut, None),
    }
}

/// Looks for a beam that finds the target: twice as wide each time, then in between. A wider beam may lose what a narrower one finds,
/// so what is known is that the width found finds it and the one below it does not.
fn search_error<S: Scorer>(
    scorer: &S,
    sentence: &Sentence,
    options: &Options,
    target: &[u32],
) -> Result<Verdict> {
    let finds = |beam_size: usize| {
        let options = Options { beam_size, ..options.clone() };
        let (outcome, trace, standings) = watch(scorer, sentence, &options, target, true)?;
        outcome?;
        Ok::<bool, Error>(
            standings.len() == target.len() && left(&trace, &standings, target, options.eos).is_none(),
        )
    };
    let widest = WIDEST_TRIED.max(2 * options.beam_size).min(crate::search::MAX_BEAM_SIZE);
    let (mut loses, mut tried) = (options.beam_size, options.beam_size);
    while tried < widest {
        tried = (2 * tried).min(widest);
        if !finds(tried)? {
            loses = tried;
            continue;
        }
        let mut found = tried;
        while found - loses > 1 {
            let between = loses + (found - loses) / 2;
            *(if finds(between)? { &mut found } else { &mut loses }) = between;
        }
        return Ok(Verdict::SearchError { found_by: Some(found), tried });
    }
    Ok(Verdict::SearchError { found_by: None, tried })
}
