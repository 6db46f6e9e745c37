//! What is not learnt from, and what should not be measured on: every dropped pair is counted with its
//! reason, always as a pair, and sentences that train shares with dev or test are counted before training.

use super::text::Text;
use crate::text::is_blank;
use crate::{Error, Result};
use std::collections::HashMap;
use std::fmt;

/// From this share of dropped pairs on, the report warns.
const LOUD: f64 = 0.05;

/// How many pairs of a split were kept, and why the others were dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    name: String,
    read: usize,
    dropped: Vec<(String, usize)>,
}

impl Report {
    /// All `read` pairs of the split `name` are kept so far.
    pub fn new(name: &str, read: usize) -> Self {
        Report { name: name.into(), read, dropped: vec![] }
    }

    /// Notes that `count` pairs were dropped for `reason`; an error if none is left.
    pub fn note_dropped(&mut self, reason: &str, count: usize) -> Result<()> {
        if count > 0 {
            self.dropped.push((reason.into(), count));
        }
        if self.kept() == 0 {
            return Err(Error::Data(format!("nothing is left of {self}")));
        }
        Ok(())
    }

    /// `count` of the kept pairs went to another split.
    pub fn hand_over(&mut self, count: usize) {
        self.read -= count;
    }

    /// Pairs that are left.
    pub fn kept(&self) -> usize {
        self.read - self.dropped.iter().map(|(_, count)| count).sum::<usize>()
    }

    /// Whether so many pairs were dropped that something is probably wrong.
    pub fn is_loud(&self) -> bool {
        (self.read - self.kept()) as f64 > LOUD * self.read as f64
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: {} of {} pairs kept", self.name, self.kept(), self.read)?;
        let reasons: Vec<String> =
            self.dropped.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        if !reasons.is_empty() {
            write!(f, "; dropped: {}", reasons.join(", "))?;
        }
        if self.is_loud() {
            let share = 100.0 * (self.read - self.kept()) as f64 / self.read as f64;
            write!(f, ". WARNING: that is {share:.1} % of the pairs")?;
        }
        Ok(())
    }
}

impl Text {
    /// Drops the pairs of which a side is blank, both sides together.
    pub fn drop_empty(&mut self) -> Result<Report> {
        let mut report = Report::new(&self.name, self.len());
        let blank: Vec<(bool, bool)> =
            self.src.iter().zip(&self.tgt).map(|(s, t)| (is_blank(s), is_blank(t))).collect();
        self.retain(&blank.iter().map(|&(src, tgt)| !src && !tgt).collect::<Vec<_>>());
        let count = |which| blank.iter().filter(|&&b| b == which).count();
        report.note_dropped("with an empty source", count((true, false)))?;
        report.note_dropped("with an empty target", count((false, true)))?;
        report.note_dropped("with both sides empty", count((true, true)))?;
        Ok(report)
    }
}

/// How many pairs of another split occur in train.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlap {
    /// Name of the other split.
    pub name: String,
    /// Its number of pairs.
    pub pairs: usize,
    /// Pairs that are in train to the letter.
    pub same_pair: usize,
    /// Pairs that are in train when case and spaces are ignored, the former included.
    pub folded_pair: usize,
    /// Sources that are in train to the letter, with any target.
    pub same_src: usize,
    /// Sources that are in train when case and spaces are ignored, the former included.
    pub folded_src: usize,
}

impl Overlap {
    /// Counts the pairs of `other` that are also in `train`.
    pub fn of(train: &Text, other: &Text) -> Self {
        let found = |key: &dyn Fn(&str, &str) -> String| {
            // Only the smaller split is held in memory.
            let mut seen: HashMap<String, bool> = HashMap::new();
            let keys: Vec<String> = pairs(other).map(|(src, tgt)| key(src, tgt)).collect();
            for k in &keys {
                seen.insert(k.clone(), false);
            }
            for (src, tgt) in pairs(train) {
                if let Some(seen) = seen.get_mut(&key(src, tgt)) {
                    *seen = true;
                }
            }
            keys.iter().filter(|&k| seen[k]).count()
        };
        Overlap {
            name: other.name.clone(),
            pairs: other.len(),
            same_pair: found(&|src, tgt| format!("{src}\n{tgt}")),
            folded_pair: found(&|src, tgt| format!("{}\n{}", folded(src), folded(tgt))),
            same_src: found(&|src, _| src.to_string()),
            folded_src: found(&|src, _| folded(src)),
        }
    }

    /// Whether the splits share nothing.
    pub fn is_empty(&self) -> bool {
        self.folded_src == 0 && self.folded_pair == 0
    }
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Overlap { name, pairs, same_pair, folded_pair, same_src, folded_src } = self;
        write!(
            f,
            "warning: {name} shares sentences with train: {folded_pair} of {pairs} whole pairs ({same_pair} to the \
             letter, the others but for case and spaces) and {folded_src} sources ({same_src} to the letter); scores \
             on it are too high"
        )
    }
}

fn pairs(text: &Text) -> impl Iterator<Item = (&str, &str)> {
    text.src.iter().zip(&text.tgt).map(|(src, tgt)| (src.as_str(), tgt.as_str()))
}

/// Without case, and with single blanks.
pub(super) fn folded(text: &str) -> String {
    text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")
}
