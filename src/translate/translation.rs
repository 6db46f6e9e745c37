//! What goes in and what comes out: lines, their translations, and what the user should know of them.

use super::alignment::Alignment;
use crate::search::{self, Finish};
use serde::Serialize;

/// A line to translate.
#[derive(Debug, Clone)]
pub struct Line {
    /// Its number, from 1.
    pub number: u64,
    /// What it says.
    pub text: String,
    /// What its translation begins with.
    pub prefix: Option<String>,
}

impl From<(u64, String)> for Line {
    fn from((number, text): (u64, String)) -> Self {
        Line { number, text, prefix: None }
    }
}

/// One line's translation.
#[derive(Debug, Clone, Serialize)]
pub struct Translation {
    /// Number of the line, from 1.
    pub line: u64,
    /// The line as it was read.
    pub src: String,
    /// Best first, at least one; a blank line has one that is empty.
    pub hypotheses: Vec<Candidate>,
    /// Ids of the source without end marks.
    #[serde(skip)]
    pub src_ids: Vec<u32>,
    /// Pieces of the source with the end marks of its parts; 0 of a blank line.
    #[serde(skip)]
    pub src_tokens: usize,
    /// Sentences that were translated, or parts of them; 0 of a blank line.
    #[serde(skip)]
    pub sentences: usize,
    /// What the user should know of this line.
    #[serde(skip)]
    pub notices: Vec<Notice>,
}

impl Translation {
    /// The text of the best hypothesis.
    pub fn into_text(mut self) -> String {
        self.hypotheses.swap_remove(0).text
    }
}

/// `lines` with their numbers from 1, as [`super::Translator::translate`] takes them.
pub fn numbered(lines: &[String]) -> Vec<(u64, String)> {
    (1..).zip(lines.iter().cloned()).collect()
}

/// One hypothesis as text.
#[derive(Debug, Clone, Serialize)]
pub struct Candidate {
    /// What is printed.
    pub text: String,
    /// Its pieces, with the end mark if it was produced.
    pub tokens: Vec<String>,
    /// Their ids.
    pub ids: Vec<u32>,
    /// Natural logarithm of its probability, the sum of `token_log_probs`.
    pub log_prob: f64,
    /// `log_prob` under the length penalty.
    pub score: f64,
    /// Of each piece, given those before it.
    pub token_log_probs: Vec<f32>,
    /// Whether it ended itself or was cut.
    pub finish: Finish,
    /// Which source unit each of its units comes from, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alignment: Option<Alignment>,
}

/// Something about a line that the user should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// It has more pieces than the model has positions, and was translated in parts.
    Split {
        /// Of the whole line, end mark included.
        pieces: usize,
        /// Of the model.
        limit: usize,
        /// That were translated.
        parts: usize,
    },
    /// Some of its text is outside the vocabulary, so the model did not see it.
    Unknown {
        /// How many pieces.
        pieces: usize,
    },
    /// The best hypothesis has unknown pieces in it.
    UnknownSaid {
        /// How many.
        pieces: usize,
    },
    /// Its translation does not contain what it must.
    Missing {
        /// What.
        text: String,
        /// And why not.
        why: String,
    },
    /// The best hypothesis did not end within the limit.
    Cut {
        /// The limit.
        steps: usize,
    },
    /// The best hypothesis says the same several times in a row, and the line does not.
    Loop {
        /// How often.
        rounds: usize,
    },
    /// It could not be translated; its hypothesis is empty.
    Failed(String),
}

impl Candidate {
    /// Has its pieces for a text, without end marks.
    pub(super) fn show_pieces(&mut self, eos: u32) {
        self.text = self.pieces(eos).join(" ");
    }

    /// Its pieces without end marks, of which each part of a line has one.
    pub fn pieces(&self, eos: u32) -> Vec<&str> {
        let each = self.tokens.iter().zip(&self.ids).filter(|(_, id)| **id != eos);
        each.map(|(piece, _)| piece.as_str()).collect()
    }

    /// The hypotheses of a line's parts as one: texts joined by a blank, log_probs added. No part is the empty
    /// hypothesis.
    pub(super) fn join<'a>(
        parts: impl IntoIterator<Item = &'a Candidate> + Clone,
        search: &search::Options,
    ) -> Candidate {
        let mut whole = Candidate {
            text: String::new(),
            tokens: Vec::new(),
            ids: Vec::new(),
            log_prob: 0.0,
            score: 0.0,
            token_log_probs: Vec::new(),
            finish: Finish::Eos,
            alignment: None,
        };
        let alignments: Option<Vec<&Alignment>> =
            parts.clone().into_iter().map(|part| part.alignment.as_ref()).collect();
        whole.alignment = alignments.filter(|parts| !parts.is_empty()).map(Alignment::join);
        for part in parts {
            if !whole.text.is_empty() && !part.text.is_empty() {
                whole.text.push(' ');
            }
            whole.text.push_str(&part.text);
            whole.tokens.extend_from_slice(&part.tokens);
            whole.ids.extend_from_slice(&part.ids);
            whole.log_prob += part.log_prob;
            whole.token_log_probs.extend_from_slice(&part.token_log_probs);
            if part.finish == Finish::Cut {
                whole.finish = Finish::Cut;
            }
        }
        if !whole.ids.is_empty() {
            whole.score = search.score(whole.log_prob, whole.ids.len());
        }
        whole
    }
}
