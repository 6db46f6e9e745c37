//! What is not learnt from, and what should not be measured on: every dropped pair is counted with its
//! reason, always as a pair, and sentences that train shares with dev or test are counted before training.

use super::intake::{pair_hash, text_hash};
use super::spool::Spool;
use super::text::Text;
use crate::text::is_blank;
use crate::{Error, Result};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;

/// From this share of dropped pairs on, the report warns.
const LOUD: f64 = 0.05;

/// Which pairs are not learnt from, besides those with an empty side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Filters {
    /// Drop a pair that was read before, to the letter.
    pub drop_duplicates: bool,
    /// Drop a pair whose sides are the same but for spaces.
    pub drop_identical: bool,
    /// Longest side in pieces, end mark included.
    pub max_len: usize,
    /// Most pieces of the longer side for each of the shorter one.
    pub max_ratio: Option<f64>,
}

impl Filters {
    /// Drops pairs with more than `max_len` pieces on a side, and nothing else.
    pub fn new(max_len: usize) -> Self {
        Filters { drop_duplicates: false, drop_identical: false, max_len, max_ratio: None }
    }

    /// Why a pair with these numbers of pieces is dropped, if it is: too long (0) or too unequal (1).
    pub(super) fn refuse(&self, src: usize, tgt: usize) -> Option<usize> {
        let ratio = src.max(tgt) as f64 / src.min(tgt).max(1) as f64;
        match self.max_ratio {
            _ if src.max(tgt) > self.max_len => Some(0),
            Some(most) if ratio > most => Some(1),
            _ => None,
        }
    }

    /// Notes the pairs refused for either reason.
    pub(super) fn note(&self, report: &mut Report, refused: [usize; 2]) -> Result<()> {
        report.note_dropped(&format!("longer than {} pieces", self.max_len), refused[0])?;
        let most = self.max_ratio.unwrap_or_default();
        report.note_dropped(&format!("with one side over {most} times as long as the other"), refused[1])
    }
}

/// How many pairs of a split were kept, and why the others were dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

/// The hashes of a pair under which it may occur elsewhere: the pair and its source, to the letter and folded.
fn keys((src, tgt): &(String, String)) -> [u64; 4] {
    let (folded_src, folded_tgt) = (folded(src), folded(tgt));
    [pair_hash(src, tgt), pair_hash(&folded_src, &folded_tgt), text_hash(src), text_hash(&folded_src)]
}

impl Overlap {
    /// For each of `others`, counts its pairs that are also in `train`.
    pub fn of(train: &Spool, others: &[&Text]) -> Result<Vec<Self>> {
        let mut counter = OverlapCounter::new(others);
        for chunk in train.chunks()? {
            counter.see(&chunk?);
        }
        Ok(counter.finish())
    }

    /// Whether the splits share nothing.
    pub fn is_empty(&self) -> bool {
        self.folded_src == 0 && self.folded_pair == 0
    }
}

/// Counts overlaps while train goes by. Only hashes of the other splits are in memory.
#[derive(Debug)]
pub struct OverlapCounter {
    others: Vec<(String, Vec<[u64; 4]>)>,
    wanted: HashSet<u64>,
    found: HashSet<u64>,
}

impl OverlapCounter {
    /// To count pairs of `others`.
    pub fn new(others: &[&Text]) -> Self {
        let keys = |text: &&Text| -> Vec<[u64; 4]> {
            let pairs = text.src.iter().zip(&text.tgt).map(|(src, tgt)| (src.clone(), tgt.clone()));
            pairs.map(|pair| keys(&pair)).collect()
        };
        let others: Vec<(String, Vec<[u64; 4]>)> =
            others.iter().map(|text| (text.name.clone(), keys(text))).collect();
        let wanted = others.iter().flat_map(|(_, keys)| keys).flatten().copied().collect();
        OverlapCounter { others, wanted, found: HashSet::new() }
    }

    /// These pairs are in train.
    pub fn see(&mut self, pairs: &[(String, String)]) {
        if self.wanted.is_empty() {
            return;
        }
        let wanted = &self.wanted;
        let hits: Vec<u64> =
            pairs.par_iter().flat_map_iter(keys).filter(|key| wanted.contains(key)).collect();
        self.found.extend(hits);
    }

    /// What all that was seen shares with each of the others.
    pub fn finish(self) -> Vec<Overlap> {
        let overlap = |(name, keys): &(String, Vec<[u64; 4]>)| {
            let count = |which: usize| keys.iter().filter(|keys| self.found.contains(&keys[which])).count();
            Overlap {
                name: name.clone(),
                pairs: keys.len(),
                same_pair: count(0),
                folded_pair: count(1),
                same_src: count(2),
                folded_src: count(3),
            }
        };
        self.others.iter().map(overlap).collect()
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

/// Without case, and with single blanks.
pub(crate) fn folded(text: &str) -> String {
    text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")
}
