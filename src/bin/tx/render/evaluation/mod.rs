//! What `tx evaluate` found, as text, as JSON lines and as a page of HTML.

pub mod html;
pub mod jsonl;
pub mod text;

use super::comparison::Compared;
use crate::cli::Measure;
use std::cmp::Ordering;
use tx::score::{Likelihood, Score};
use tx::text::is_blank;
use tx::translate::forced::{Forced, LeftOut, Likely};

/// A test set, what one model or two made of it, and the lines to show.
pub struct Evaluation {
    pub src_name: String,
    pub reference_names: Vec<String>,
    pub src: Vec<String>,
    /// By file, then by line.
    pub references: Vec<Vec<String>>,
    /// What makes a line bad.
    pub by: Measure,
    /// Decimals of a score.
    pub width: usize,
    /// The model, and the one it is compared with.
    pub systems: Vec<System>,
    /// Of two systems, under every metric.
    pub compared: Vec<Compared>,
    /// Whether both cut text into the same pieces.
    pub same_tokenizer: bool,
    /// Indices of the lines to show, the most telling first.
    pub shown: Vec<usize>,
}

/// What one model made of the test set.
pub struct System {
    pub name: String,
    pub scores: Vec<Score>,
    /// The translation of each line.
    pub texts: Vec<String>,
    /// Of each translation.
    pub log_probs: Vec<f64>,
    /// chrF, BLEU and TER of each line.
    pub by_line: [Vec<f64>; 3],
    /// The probability of each line's first reference.
    pub likely: Vec<Likely>,
    /// The sum over lines that all systems give a probability.
    pub likelihood: Likelihood,
    pub max_positions: usize,
    /// Whether a line could not be translated or scored.
    pub failed: bool,
}

/// How many lines the first system does better and worse on than the second, and equally well.
pub struct Tally {
    pub better: usize,
    pub worse: usize,
    pub equal: usize,
}

impl Measure {
    /// In the order of the columns.
    pub const ALL: [Measure; 4] = [Measure::Chrf, Measure::Bleu, Measure::Ter, Measure::Nll];

    /// As printed.
    pub fn label(self) -> &'static str {
        match self {
            Measure::Chrf => "chrF2",
            Measure::Bleu => "BLEU",
            Measure::Ter => "TER",
            Measure::Nll => "NLL",
        }
    }

    /// As a key of JSON.
    pub fn key(self) -> &'static str {
        match self {
            Measure::Chrf => "chrf",
            Measure::Bleu => "bleu",
            Measure::Ter => "ter",
            Measure::Nll => "nll",
        }
    }

    fn higher_is_better(self) -> bool {
        matches!(self, Measure::Chrf | Measure::Bleu)
    }
}

impl System {
    /// A number of a line; NLL is per piece of the reference, and not every line has one.
    pub fn value(&self, measure: Measure, line: usize) -> Option<f64> {
        let scores = match measure {
            Measure::Chrf => &self.by_line[0],
            Measure::Bleu => &self.by_line[1],
            Measure::Ter => &self.by_line[2],
            Measure::Nll => return self.likely[line].as_ref().ok().map(Forced::nll),
        };
        Some(scores[line])
    }

    /// [`System::value`] for comparing systems whose pieces may differ: NLL is that of the whole reference.
    fn comparable(&self, measure: Measure, line: usize) -> Option<f64> {
        match measure {
            Measure::Nll => self.likely[line].as_ref().ok().map(|forced| -forced.log_prob),
            _ => self.value(measure, line),
        }
    }

    /// References without a probability, for the three reasons there are.
    pub fn left_out(&self) -> [(LeftOut, usize); 3] {
        [LeftOut::Blank, LeftOut::TooLong, LeftOut::NotFinite]
            .map(|why| (why, self.likely.iter().filter(|likely| **likely == Err(why)).count()))
    }
}

impl Evaluation {
    /// The system that the first is compared with.
    pub fn against(&self) -> Option<&System> {
        self.systems.get(1)
    }

    /// A number of a line with as many decimals as asked for; NLL with four, a dash where there is none.
    pub fn number(&self, system: &System, measure: Measure, line: usize) -> String {
        let width = if measure == Measure::Nll { 4 } else { self.width };
        system.value(measure, line).map_or("-".to_string(), |value| format!("{value:.width$}"))
    }

    /// How much better the first system does on a line than the second.
    fn advantage(&self, line: usize) -> Option<f64> {
        let first = self.systems[0].comparable(self.by, line)?;
        let second = self.against()?.comparable(self.by, line)?;
        let by = if self.by == Measure::Nll {
            // Per character: else long lines would come first.
            self.references[0][line].chars().count().max(1) as f64
        } else {
            1.0
        };
        let difference = (first - second) / by;
        Some(if self.by.higher_is_better() { difference } else { -difference })
    }

    /// Lines on which each of two systems does better; lines that one of them has no number for do not count.
    pub fn tally(&self) -> Tally {
        let mut tally = Tally { better: 0, worse: 0, equal: 0 };
        for line in 0..self.src.len() {
            match self.advantage(line).and_then(|advantage| advantage.partial_cmp(&0.0)) {
                Some(Ordering::Greater) => tally.better += 1,
                Some(Ordering::Less) => tally.worse += 1,
                Some(Ordering::Equal) => tally.equal += 1,
                None => {}
            }
        }
        tally
    }

    /// Of one system its `k` worst lines, of two those that differ most in either direction; the most telling first.
    pub fn most_telling(&self, k: usize) -> Vec<usize> {
        let weight = |line: usize| match self.against() {
            Some(_) => self.advantage(line).map(f64::abs).filter(|&difference| difference > 0.0),
            None => self.systems[0]
                .value(self.by, line)
                .map(|value| if self.by.higher_is_better() { -value } else { value })
                .filter(|_| !self.is_blank(line)),
        };
        let mut lines: Vec<(usize, f64)> =
            (0..self.src.len()).filter_map(|line| Some((line, weight(line)?))).collect();
        lines.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        lines.into_iter().take(k).map(|(line, _)| line).collect()
    }

    /// Nothing in, nothing expected, nothing out: no translation to be called bad.
    fn is_blank(&self, line: usize) -> bool {
        let references = self.references.iter().map(|file| &file[line]);
        references.chain([&self.src[line], &self.systems[0].texts[line]]).all(|text| is_blank(text))
    }

    /// What the list of lines is.
    pub fn heading(&self) -> String {
        let (n, by) = (self.shown.len(), self.by.label());
        let lines = if n == 1 { "line" } else { "lines" };
        match self.against() {
            Some(_) => format!("{n} {lines} that differ most by {by}"),
            None => format!("{n} worst {lines} by {by}"),
        }
    }

    /// Remarks that belong beside the likelihoods.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        for (index, system) in self.systems.iter().enumerate() {
            let reasons: Vec<String> = (system.left_out().into_iter())
                .filter(|(_, count)| *count > 0)
                .map(|(why, count)| match why {
                    LeftOut::Blank => format!("{count} blank"),
                    LeftOut::TooLong => {
                        format!("{count} longer than the model's {} positions", system.max_positions)
                    }
                    LeftOut::NotFinite => format!("{count} without a finite probability"),
                })
                .collect();
            let whose =
                if self.against().is_some() { format!(" of {}", SIDES[index]) } else { String::new() };
            if !reasons.is_empty() {
                remarks.push(format!("left out of NLL and perplexity{whose}: {}", reasons.join(", ")));
            }
        }
        if !self.same_tokenizer {
            remarks.push(
                "the tokenizers differ: NLL per token and perplexity cannot be compared, NLL per word and per character can"
                    .to_string(),
            );
        }
        remarks
    }
}

/// The flags that two systems are called by.
pub const SIDES: [&str; 2] = ["--model", "--against"];

/// The four numbers of a likelihood with their names.
pub fn likelihood_rows(likelihood: &Likelihood) -> [(&'static str, f64); 4] {
    [
        ("NLL/token", likelihood.per_token()),
        ("NLL/word", likelihood.per_word()),
        ("NLL/char", likelihood.per_char()),
        ("perplexity", likelihood.perplexity()),
    ]
}
