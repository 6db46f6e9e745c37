//! Reading both sides of a split, and the whole corpus.
//!
//! The two sides must have the same number of lines: a pair is what has the same line number, so a side
//! that is one line short would shift every pair after it.

use super::corpus::{Corpus, Files, Split};
use super::filter::{Overlap, Report};
use super::lines::Lines;
use crate::rng::Rng;
use crate::{Error, Result};
use std::collections::HashMap;
use std::path::Path;

/// Held out of train where there is no dev set: this share of the pairs, at most this many.
const HELD_OUT: (f64, usize) = (0.05, 2_000);

/// Pairs of sentences as read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text {
    /// Name of the split.
    pub name: String,
    /// Source sentences.
    pub src: Vec<String>,
    /// Target sentences, one for each of the source.
    pub tgt: Vec<String>,
    /// What was wrong with the files, a line each.
    pub notices: Vec<String>,
}

/// A corpus in memory, ready for a tokenizer.
#[derive(Debug, Clone)]
pub struct Data {
    /// Train, without pairs that have an empty side.
    pub train: Text,
    /// Dev, likewise; given or held out of train.
    pub dev: Text,
    /// Test sets, all lines: they are scored as they are.
    pub tests: Vec<Text>,
    /// What was kept of train and dev, in this order. Encoding adds to them.
    pub reports: [Report; 2],
    /// What the user should know about the files, a line each.
    pub notices: Vec<String>,
    /// Sentences of dev or test that are also in train, where there are any.
    pub overlaps: Vec<Overlap>,
}

impl Data {
    /// Reads all of `corpus`. A missing dev set is held out of train by `seed`.
    pub fn load(corpus: &Corpus, seed: u64) -> Result<Data> {
        let mut train = corpus.train.read()?;
        let mut train_report = train.drop_empty()?;
        let tests: Vec<Text> = corpus.tests.iter().map(Split::read).collect::<Result<_>>()?;
        let (dev, dev_report) = match &corpus.dev {
            Some(split) => {
                let mut dev = split.read()?;
                let report = dev.drop_empty()?;
                (dev, report)
            }
            None => {
                let dev = train.hold_out(seed)?;
                let report = Report::new(&dev.name, dev.len());
                train_report.hand_over(dev.len());
                (dev, report)
            }
        };
        let others = || [&dev].into_iter().chain(&tests);
        let overlaps = others().map(|other| Overlap::of(&train, other)).filter(|o| !o.is_empty()).collect();
        let notices = [&train].into_iter().chain(others()).flat_map(|text| text.notices.clone()).collect();
        Ok(Data { train, dev, tests, reports: [train_report, dev_report], notices, overlaps })
    }
}

impl Split {
    /// Reads both sides. An error if they differ in their number of lines or have none.
    pub fn read(&self) -> Result<Text> {
        let mut text = Text { name: self.name.clone(), ..Text::default() };
        match &self.files {
            Files::Two { src, tgt } => {
                text.src = side(src, &mut text.notices)?;
                text.tgt = side(tgt, &mut text.notices)?;
                if text.src.len() != text.tgt.len() {
                    return Err(Error::Data(format!(
                        "{} has {} lines, but {} has {}: line N of one must translate line N of the other; \
                         find where they part and add or remove lines (only a line feed ends a line)",
                        src.display(),
                        text.src.len(),
                        tgt.display(),
                        text.tgt.len()
                    )));
                }
                if text.is_empty() {
                    return Err(Error::Data(format!(
                        "{} and {} have no lines",
                        src.display(),
                        tgt.display()
                    )));
                }
            }
            Files::Table { path, src, tgt, header } => {
                for line in side(path, &mut text.notices)?.into_iter().skip(usize::from(*header)) {
                    let mut fields = line.split('\t');
                    let (first, second) = (*src.min(tgt), *src.max(tgt));
                    let a = fields.nth(first).unwrap_or_default().to_string();
                    let b = fields.nth(second - first - 1).unwrap_or_default().to_string();
                    let (a, b) = if src < tgt { (a, b) } else { (b, a) };
                    text.src.push(a);
                    text.tgt.push(b);
                }
                if text.is_empty() {
                    return Err(Error::Data(format!("{} has no lines of text", path.display())));
                }
            }
        }
        Ok(text)
    }
}

/// All lines of the file at `path`; damaged ones are noted.
fn side(path: &Path, notices: &mut Vec<String>) -> Result<Vec<String>> {
    let mut damaged = vec![];
    let mut texts = vec![];
    for line in Lines::open(path)? {
        let line = line?;
        if line.damaged {
            damaged.push(line.number);
        }
        texts.push(line.text);
    }
    if let Some(first) = damaged.first() {
        notices.push(format!(
            "{}: {} of {} lines are not UTF-8 (the first is line {first}); the bad bytes became U+FFFD",
            path.display(),
            damaged.len(),
            texts.len()
        ));
    }
    Ok(texts)
}

impl Text {
    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.src.len()
    }

    /// Whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.src.is_empty()
    }

    /// Takes pairs for a dev set out of this text: 5 %, at most 2,000, at least one. Sentences that occur
    /// once are taken first, so that other translations of a source do not stay in train.
    pub fn hold_out(&mut self, seed: u64) -> Result<Text> {
        if self.len() < 2 {
            return Err(Error::Data(format!(
                "{} has {} pair, too few to hold some out for validation; add a dev set (dev.XX and dev.YY)",
                self.name,
                self.len()
            )));
        }
        let (share, most) = HELD_OUT;
        let size = ((self.len() as f64 * share) as usize).clamp(1, most);
        let mut seen: HashMap<String, u32> = HashMap::new();
        let keys: Vec<String> = self.src.iter().map(|src| super::filter::folded(src)).collect();
        keys.iter().for_each(|key| *seen.entry(key.clone()).or_default() += 1);
        let mut order: Vec<usize> = (0..self.len()).collect();
        Rng::new(seed, "hold-out").shuffle(&mut order);
        order.sort_by_key(|&i| seen[&keys[i]] > 1);
        let mut held = vec![false; self.len()];
        order.into_iter().take(size).for_each(|i| held[i] = true);
        let dev = Text {
            name: "dev (held out of train)".into(),
            src: take(&mut self.src, &held),
            tgt: take(&mut self.tgt, &held),
            notices: vec![format!(
                "no dev set: {size} of {} pairs of train are held out (seed {seed})",
                held.len()
            )],
        };
        Ok(dev)
    }

    /// Keeps the pairs for which `keep` is true.
    pub(super) fn retain(&mut self, keep: &[bool]) {
        for side in [&mut self.src, &mut self.tgt] {
            let mut keep = keep.iter();
            side.retain(|_| keep.next() == Some(&true));
        }
    }
}

/// Moves the items whose flag is set out of `items`, keeping the order of both.
fn take(items: &mut Vec<String>, flags: &[bool]) -> Vec<String> {
    let (taken, kept): (Vec<_>, Vec<_>) =
        std::mem::take(items).into_iter().zip(flags).partition(|(_, flag)| **flag);
    *items = kept.into_iter().map(|(item, _)| item).collect();
    taken.into_iter().map(|(item, _)| item).collect()
}
