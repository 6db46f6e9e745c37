//! The whole corpus: train on disk, dev and tests in memory.
//!
//! The two sides must have the same number of lines: a pair is what has the same line number, so a side
//! that is one line short would shift every pair after it.

use super::corpus::Split;
use super::filter::{Filters, Overlap, Report};
use super::intake::{Intake, intake};
use super::rows::Seen;
use super::sources::Corpora;
use super::spool::Spool;
use crate::rng::Rng;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Held out of train where there is no dev set: this share of the pairs, at most this many.
const HELD_OUT: (f64, usize) = (0.05, 2_000);

/// Pairs of sentences as read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// A corpus ready for a tokenizer.
#[derive(Debug, Clone)]
pub struct Data {
    /// Train, without pairs that are dropped for what they are as text; on disk.
    pub train: Spool,
    /// What was kept of each part of train, in their order. Encoding adds to them.
    pub reports: Vec<Report>,
    /// The other splits.
    pub rest: Rest,
    /// Name and SHA-256 of every file, in the order train, dev, tests.
    pub hashes: Vec<(String, String)>,
    /// Pairs of dev or test that are also in train, where there are any.
    pub overlaps: Vec<Overlap>,
}

/// What is not learnt from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rest {
    /// Dev, without pairs that have an empty side; given or held out of train.
    pub dev: Text,
    /// What was kept of it.
    pub report: Report,
    /// Whether dev was held out of train.
    pub is_held_out: bool,
    /// Test sets, all lines: they are scored as they are.
    pub tests: Vec<Text>,
    /// Name and SHA-256 of their files.
    hashes: Vec<(String, String)>,
}

impl Data {
    /// Reads all of `corpora`; train goes to a file at `path`. A missing dev set is held out of the first train by
    /// `seed`.
    pub fn load(corpora: &Corpora, filters: &Filters, seed: u64, path: &Path) -> Result<Data> {
        let hold_out = corpora.first.dev.is_none();
        let Intake { spool: mut train, mut reports, seen, sources } =
            intake(&corpora.parts, filters, hold_out, path)?;
        let held = match hold_out {
            true => {
                let dev = hold_out_of(&mut train, &sources, &corpora.parts[0].name, seed)?;
                reports[0].hand_over(dev.len());
                Some(dev)
            }
            false => None,
        };
        let mut rest = Rest::read(corpora, held)?;
        let of_train: Vec<String> = seen.iter().flat_map(|seen: &Seen| seen.notices.clone()).collect();
        rest.dev.notices.splice(0..0, of_train);
        let others: Vec<&Text> = [&rest.dev].into_iter().chain(&rest.tests).collect();
        let overlaps = Overlap::of(&train, &others)?.into_iter().filter(|o| !o.is_empty()).collect();
        let hashes = seen.into_iter().flat_map(|seen| seen.hashes).chain(rest.hashes.clone()).collect();
        Ok(Data { train, reports, rest, hashes, overlaps })
    }
}

impl Rest {
    /// Reads dev, unless it was `held` out of train, and the tests.
    pub fn read(corpora: &Corpora, held: Option<Text>) -> Result<Rest> {
        let (mut hashes, is_held_out) = (vec![], held.is_some());
        let (dev, report) = match (&corpora.first.dev, held) {
            (_, Some(dev)) => {
                let report = Report::new(&dev.name, dev.len());
                (dev, report)
            }
            (Some(split), None) => {
                let mut dev = split.read(&mut hashes)?;
                let report = dev.drop_empty()?;
                (dev, report)
            }
            (None, None) => return Err(Error::Data("no dev set".into())),
        };
        let tests = corpora.first.tests.iter().map(|split| split.read(&mut hashes)).collect::<Result<_>>()?;
        Ok(Rest { dev, report, is_held_out, tests, hashes })
    }

    /// What the user should know about the files, a line each.
    pub fn notices(&self) -> impl Iterator<Item = &String> {
        [&self.dev].into_iter().chain(&self.tests).flat_map(|text| &text.notices)
    }
}

impl Split {
    /// Reads all of it, and adds its files to `hashes`. An error if its sides differ in their number of lines or have
    /// none.
    pub fn read(&self, hashes: &mut Vec<(String, String)>) -> Result<Text> {
        let mut text = Text { name: self.name.clone(), ..Text::default() };
        let mut rows = self.rows()?;
        while let Some(row) = rows.next_row()? {
            text.src.push(row.src);
            text.tgt.push(row.tgt);
        }
        let seen = rows.finish();
        text.notices = seen.notices;
        hashes.extend(seen.hashes);
        Ok(text)
    }
}

/// Takes pairs for a dev set out of `train`, of the first of its parts, `name`, whose `sources` are given as hashes:
/// 5 %, at most 2,000, at least one. Sentences that occur once are taken first, so that other translations of a
/// source do not stay in train.
fn hold_out_of(train: &mut Spool, sources: &[u64], name: &str, seed: u64) -> Result<Text> {
    let n = sources.len();
    if n < 2 {
        return Err(Error::Data(format!(
            "{name} has {n} pair, too few to hold some out for validation; add a dev set (dev.XX and dev.YY)"
        )));
    }
    let (share, most) = HELD_OUT;
    let size = ((n as f64 * share) as usize).clamp(1, most);
    let held = train.take(held_out(sources, size, seed))?;
    let (src, tgt) = held.into_iter().unzip();
    let notice = format!("no dev set: {size} of {n} pairs of train are held out (seed {seed})");
    Ok(Text { name: "dev (held out of train)".into(), src, tgt, notices: vec![notice] })
}

/// Positions of `size` of the `sources`, in order.
fn held_out(sources: &[u64], size: usize, seed: u64) -> Vec<u32> {
    let mut sorted = sources.to_vec();
    sorted.sort_unstable();
    let is_alone = |&&position: &&u32| {
        let source = sources[position as usize];
        let first = sorted.partition_point(|&other| other < source);
        sorted.get(first + 1) != Some(&source)
    };
    let mut order: Vec<u32> = (0..sources.len() as u32).collect();
    Rng::new(seed, "hold-out").shuffle(&mut order);
    let alone = order.iter().filter(is_alone);
    let others = order.iter().filter(|position| !is_alone(position));
    let mut held: Vec<u32> = alone.chain(others).take(size).copied().collect();
    held.sort_unstable();
    held
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

    /// Keeps the pairs for which `keep` is true.
    pub(super) fn retain(&mut self, keep: &[bool]) {
        for side in [&mut self.src, &mut self.tgt] {
            let mut keep = keep.iter();
            side.retain(|_| keep.next() == Some(&true));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sentences with several translations stay in train, where they belong together.
    #[test]
    fn held_out_sources_are_those_that_occur_once() {
        let mut sources: Vec<u64> = (0..60).map(|i| i / 2).collect();
        (sources[58], sources[59]) = (1000, 1001);
        let held = held_out(&sources, 3, 3);
        assert_eq!(held.len(), 3);
        assert_eq!(held.iter().filter(|&&position| position >= 58).count(), 2);
    }
}
