//! One beam search to look at: what all its forms are made of.

pub mod dot;
pub mod html;
pub mod text;

use serde::Serialize;
use serde_json::{Value, json};
use tx::search::trace::{Fate, Stop};
use tx::search::why::{How, Verdict};
use tx::search::{LengthPenalty, Sentence, Trace, Why};
use tx::translate::{Candidate, Translator};

/// A search, and what was asked beside.
pub struct View<'a> {
    pub translator: &'a Translator,
    /// The sentence as it was given.
    pub text: &'a str,
    /// Its ids with the end mark.
    pub src: &'a [u32],
    pub trace: Trace,
    pub n_best: Vec<Candidate>,
    pub why: Option<Asked>,
    pub compared: Vec<Compared>,
}

/// A translation that was asked for, beside the best one.
#[derive(Serialize)]
pub struct Asked {
    /// What its pieces spell.
    pub text: String,
    /// Its pieces with the end mark.
    pub tokens: Vec<String>,
    #[serde(flatten)]
    pub why: Why,
    /// The answer in words: the verdict, where it left the beam, and what else is to be known.
    pub says: Vec<String>,
    /// The place in the list, from 1, of one that has the same text in other pieces.
    pub same_text: Option<usize>,
    /// Its pieces beside those of the best one.
    pub positions: Vec<Position>,
}

/// What two translations have at one position.
#[derive(Serialize)]
pub struct Position {
    pub target: Option<Cell>,
    pub winner: Option<Cell>,
}

/// A piece, its log_prob, and the sum up to it.
#[derive(Serialize)]
pub struct Cell {
    pub piece: String,
    pub log_prob: f32,
    pub sum: f64,
}

/// The best translation of another search.
#[derive(Serialize)]
pub struct Compared {
    pub beam_size: usize,
    pub length_penalty: LengthPenalty,
    pub steps: usize,
    /// Pieces with the end mark, over those of the source.
    pub length_ratio: f64,
    /// Whether it has the pieces of the first of these.
    pub is_first: bool,
    #[serde(flatten)]
    pub best: Candidate,
}

impl View<'_> {
    /// The record with the pieces beside the ids, and what was asked beside.
    pub fn to_json(&self) -> anyhow::Result<Value> {
        let mut record = serde_json::to_value(&self.trace)?;
        let tokenizer = self.translator.tgt_tokenizer();
        for step in record["steps"].as_array_mut().into_iter().flatten() {
            for list in ["live", "candidates"] {
                for entry in step[list].as_array_mut().into_iter().flatten() {
                    if let Some(id) = entry["token"].as_u64() {
                        entry["piece"] = json!(tokenizer.piece(id as u32));
                    }
                }
            }
        }
        let hypotheses = record["hypotheses"].as_array_mut().into_iter().flatten();
        for (entry, hypothesis) in hypotheses.zip(&self.n_best) {
            entry["text"] = json!(hypothesis.text);
            entry["tokens"] = json!(hypothesis.tokens);
        }
        let src_tokens: Vec<&str> =
            self.src.iter().map(|&id| self.translator.tokenizer().piece(id)).collect();
        let mut json = json!({"src": self.text, "src_tokens": src_tokens});
        for (name, value) in record.as_object().into_iter().flatten() {
            json[name] = value.clone();
        }
        if let Some(why) = &self.why {
            json["why"] = serde_json::to_value(why)?;
        }
        if !self.compared.is_empty() {
            json["compared"] = serde_json::to_value(&self.compared)?;
        }
        Ok(json)
    }
}

impl Asked {
    /// `why` in words and pieces, beside the hypotheses that were found.
    pub fn new(translator: &Translator, why: Why, n_best: &[Candidate]) -> anyhow::Result<Self> {
        let tokenizer = translator.tgt_tokenizer();
        let tokens: Vec<String> = why.ids.iter().map(|&id| tokenizer.piece(id).to_string()).collect();
        let text = translator.text(&why.ids)?;
        let same = |one: &Candidate| one.text == text && one.ids != why.ids;
        let same_text = n_best.iter().position(same).map(|place| place + 1);
        let winner = n_best.first();
        let mut own = cells(&tokens, &why.token_log_probs).into_iter();
        let mut other =
            winner.map_or(Vec::new(), |winner| cells(&winner.tokens, &winner.token_log_probs)).into_iter();
        let rows = own.len().max(other.len());
        let positions = (0..rows).map(|_| Position { target: own.next(), winner: other.next() }).collect();
        let mut says = vec![verdict(&why, winner, &tokens)];
        says.extend(left(&why, &tokens));
        says.extend(same_text.map(|place| {
            format!("number {place} of the list has the same text in other pieces; the pieces followed are the tokenizer's")
        }));
        Ok(Asked { text, tokens, why, says, same_text, positions })
    }
}

fn cells(tokens: &[String], log_probs: &[f32]) -> Vec<Cell> {
    let mut sum = 0.0;
    let each = tokens.iter().zip(log_probs);
    each.map(|(piece, &log_prob)| {
        sum += f64::from(log_prob);
        Cell { piece: piece.clone(), log_prob, sum }
    })
    .collect()
}

impl Compared {
    /// The best translation of the search with this record.
    pub fn new(trace: &Trace, best: Candidate, sentence: &Sentence) -> Self {
        let length_ratio = best.ids.len() as f64 / sentence.src.len() as f64;
        let Trace { beam_size, length_penalty, ref steps, .. } = *trace;
        Compared { beam_size, length_penalty, steps: steps.len(), length_ratio, is_first: false, best }
    }

    /// Says which are equal to the first.
    pub fn mark(all: &mut [Compared]) {
        let Some(first) = all.first().map(|first| first.best.ids.clone()) else { return };
        all.iter_mut().for_each(|one| one.is_first = one.best.ids == first);
    }
}

/// The verdict, in a sentence or two.
fn verdict(why: &Why, winner: Option<&Candidate>, tokens: &[String]) -> String {
    let scores = winner.map_or(String::new(), |winner| {
        let than = match why.score.total_cmp(&winner.score) {
            std::cmp::Ordering::Less => "less than",
            std::cmp::Ordering::Equal => "the same as",
            std::cmp::Ordering::Greater => "more than",
        };
        format!("it scores {:.4}, {than} the {:.4} of the winner", why.score, winner.score)
    });
    match why.verdict {
        Verdict::Winner => "it is the winner".into(),
        Verdict::Listed { place } => format!("it is number {place} of the list"),
        Verdict::ModelError => {
            format!("model error: {scores}, so no search by this score would return it")
        }
        Verdict::SearchError { found_by: Some(beam), .. } => format!(
            "search error: {scores}, but was lost; a beam of {beam} finds it, one of {} does not",
            beam - 1
        ),
        Verdict::SearchError { found_by: None, tried } => {
            format!("search error: {scores}, but was lost; no beam that was tried, up to {tried}, finds it")
        }
        Verdict::RuledOut { step } => format!(
            "ruled out: the rules of this search forbid its piece {step}, {} (what is unknown, suppressed, repeated, or not \
             the prefix or what must be said); {scores}",
            tokens.get(step - 1).map_or("", String::as_str)
        ),
        Verdict::TooLong { limit } => format!(
            "too long: its {} pieces with the end mark are more than the {limit} steps of this search (--max-length); {scores}",
            why.ids.len()
        ),
    }
}

/// Where a translation left the beam, in words; none if it came to its end.
fn left(why: &Why, tokens: &[String]) -> Option<String> {
    let left = why.left.as_ref()?;
    let piece = tokens.get(left.step - 1).map_or("", String::as_str);
    let place = match (left.rank, left.of) {
        (Some(rank), Some(of)) => format!(", number {} of {of} extensions", rank + 1),
        _ => String::new(),
    };
    let gap = left.gap.map_or(String::new(), |gap| format!(", {gap:.4} of log_prob below the last one kept"));
    let how = match left.how {
        How::Pruned => "it fell off",
        How::RuledOut => "it was ruled out",
        How::Cut => "it was cut at the limit",
        How::Stopped => "the search ended before it",
    };
    Some(format!("{how} at step {} with {piece}{place}{gap}", left.step))
}

/// What became of a candidate, in words.
pub fn fate(candidate: &tx::search::trace::Candidate) -> String {
    let fate = match (candidate.fate, candidate.gap) {
        (Fate::Live, _) => "lives".into(),
        (Fate::Finished, _) => "finished".into(),
        (Fate::Cut, _) => "cut at the limit".into(),
        (Fate::Pruned, Some(gap)) => format!("pruned: {gap:.4} below"),
        (Fate::Pruned, None) => "pruned".into(),
    };
    match candidate.bank {
        Some(bank) => format!("{fate} ({bank} said)"),
        None => fate,
    }
}

/// Why a search ended, in words.
pub fn reason(stop: Stop) -> &'static str {
    match stop {
        Stop::Bound => "no live hypothesis could still enter the list",
        Stop::Limit => "the step limit; the live hypotheses were cut there",
        Stop::NoCandidates => "nothing was left to extend",
        Stop::Eos => "greedy search chose the end mark",
        Stop::Enough => "enough hypotheses had finished",
    }
}
