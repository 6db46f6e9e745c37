//! Alignments by people, and how far from them others are.

use super::alignment::Alignment;
use std::collections::HashSet;

/// A gold alignment of one pair, words from 0: `0-0` is sure, `0p1` (or `0?1`) possible.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Gold {
    sure: HashSet<(usize, usize)>,
    /// The sure ones too.
    pub(super) possible: HashSet<(usize, usize)>,
}

impl std::str::FromStr for Gold {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let mut gold = Gold::default();
        for link in line.split_whitespace() {
            let parts = link.split_once('-').or_else(|| link.split_once(['p', '?']));
            let numbers = parts.and_then(|(src, tgt)| Some((src.parse().ok()?, tgt.parse().ok()?)));
            let words = numbers
                .ok_or_else(|| format!("{link:?} is no link: expected 0-1, or 0p1 for a possible one"))?;
            if link.contains('-') {
                gold.sure.insert(words);
            }
            gold.possible.insert(words);
        }
        Ok(gold)
    }
}

/// Counts of links for the alignment error rate.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Links {
    found: usize,
    sure: usize,
    found_sure: usize,
    found_possible: usize,
}

impl Links {
    pub fn add(&mut self, found: &Alignment, gold: &Gold) {
        let count = |set: &HashSet<_>| found.links.iter().filter(|&link| set.contains(link)).count();
        self.found += found.links.len();
        self.sure += gold.sure.len();
        self.found_sure += count(&gold.sure);
        self.found_possible += count(&gold.possible);
    }

    pub fn merge(&mut self, other: Links) {
        self.found += other.found;
        self.sure += other.sure;
        self.found_sure += other.found_sure;
        self.found_possible += other.found_possible;
    }

    /// 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|)
    pub fn error_rate(self) -> Option<f64> {
        let all = self.found + self.sure;
        (all > 0).then(|| 1.0 - (self.found_sure + self.found_possible) as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Och and Ney: A = {0-0, 1-1, 2-2}, S = {0-0, 1-2}, P = S and 1-1: 1 − (1 + 2) / (3 + 2).
    #[test]
    fn alignment_error_rate_by_hand() {
        let gold: Gold = "0-0 1-2 1p1".parse().unwrap();
        let identity = vec![vec![1.0, 0.0, 0.0], vec![0.0, 1.0, 0.0], vec![0.0, 0.0, 1.0]];
        let mut links = Links::default();
        links.add(&Alignment::new(identity, 3), &gold);
        assert!((links.error_rate().unwrap() - 0.4).abs() < 1e-12);
        assert_eq!(Links::default().error_rate(), None);
        assert!("0-a".parse::<Gold>().unwrap_err().contains("\"0-a\" is no link"));
        assert!("3".parse::<Gold>().is_err());
    }
}
