//! TER (Snover et al. 2006) as sacreBLEU 2.6.0 computes it, which follows Tercom: blocks of words are shifted greedily
//! as long as that lowers the edit distance; a shift costs one edit, as do insertion, deletion and substitution.
//! The heuristics (which shifts are tried, which wins, when to give up) decide the score, so they are kept one by one.

use std::cmp::Reverse;

use super::edit_table::{Alignment, EditTable};
use super::ngrams::Vocabulary;
use super::tokenize::{cased, words};

/// A row: edits against the closest reference, mean reference length.
pub(super) const WIDTH: usize = 2;

const MAX_SHIFT_SIZE: usize = 10;
const MAX_SHIFT_DISTANCE: usize = 50;
const MAX_CANDIDATES: usize = 1000;

/// TER's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ter {
    /// Tell upper from lower case; by default TER does not.
    pub case_sensitive: bool,
}

impl Ter {
    /// Edits and words of one line.
    pub(super) fn line(&self, hypothesis: &str, references: &[&str], row: &mut [f64]) {
        let hypothesis = cased(hypothesis, !self.case_sensitive);
        let references: Vec<_> = references.iter().map(|line| cased(line, !self.case_sensitive)).collect();
        let mut vocabulary = Vocabulary::default();
        let hypothesis = vocabulary.ids(words(&hypothesis));
        let references: Vec<Vec<u32>> = references.iter().map(|line| vocabulary.ids(words(line))).collect();

        let edits = references.iter().map(|reference| count_edits(&hypothesis, reference)).min();
        let ref_words: usize = references.iter().map(Vec::len).sum();
        row[0] = edits.unwrap_or(0) as f64;
        row[1] = ref_words as f64 / references.len().max(1) as f64;
    }
}

/// TER in percent: edits / reference words. Words against nothing are 100.
pub(super) fn edit_rate(sum: &[f64]) -> f64 {
    let (edits, ref_words) = (sum[0], sum[1]);
    if ref_words > 0.0 {
        100.0 * (edits / ref_words)
    } else if edits > 0.0 {
        100.0
    } else {
        0.0
    }
}

/// Shifts plus the edit distance that remains after them.
fn count_edits(hypothesis: &[u32], reference: &[u32]) -> usize {
    if reference.is_empty() {
        return hypothesis.len();
    }
    let mut table = EditTable::new(hypothesis, reference);
    let mut candidates_left = MAX_CANDIDATES;
    let mut shifts = 0;
    while let Some(shifted) = best_shift(&mut table, &mut candidates_left) {
        table.replace_hypothesis(shifted);
        shifts += 1;
    }
    shifts + table.distance() as usize
}

/// A block of words of the hypothesis and the place it is put at.
#[derive(Debug, Clone, Copy)]
struct Shift {
    start: usize,
    len: usize,
    target: usize,
}

impl Shift {
    /// `words` with the block moved. A target inside the block is counted in the words that remain.
    fn apply(self, words: &[u32]) -> Vec<u32> {
        let Shift { start, len, target } = self;
        let end = start + len;
        let (block, pieces) = (&words[start..end], words.len());
        if target < start {
            [&words[..target], block, &words[target..start], &words[end..]].concat()
        } else if target > end {
            [&words[..start], &words[end..target], block, &words[target..]].concat()
        } else {
            let after = (len + target).min(pieces);
            [&words[..start], &words[end..after], block, &words[after..]].concat()
        }
    }
}

/// How good a shift is: edits saved, then the longest block, then the earliest, then the earliest place.
type Rank = (i64, usize, Reverse<usize>, Reverse<usize>);

/// The hypothesis after the best shift; none if no shift lowers it or the limit of candidates is reached.
fn best_shift(table: &mut EditTable, candidates_left: &mut usize) -> Option<Vec<u32>> {
    let (hypothesis, alignment) = (table.hypothesis.clone(), table.alignment());
    let distance = i64::from(table.distance());
    let mut best: Option<(Rank, Vec<u32>)> = None;
    for (start, ref_start, len) in matching_blocks(&hypothesis, table.reference) {
        for target in alignment.targets(start, ref_start, len) {
            let shifted = Shift { start, len, target }.apply(&hypothesis);
            let gain = distance - i64::from(table.distance_of(&shifted, start.min(target)));
            let rank = (gain, len, Reverse(start), Reverse(target));
            *candidates_left = candidates_left.saturating_sub(1);
            if best.as_ref().is_none_or(|(best, _)| rank > *best) {
                best = Some((rank, shifted));
            }
        }
        if *candidates_left == 0 {
            return None;
        }
    }
    best.filter(|((gain, ..), _)| *gain > 0).map(|(_, shifted)| shifted)
}

/// All (start in hypothesis, start in reference, length) of equal runs of words that are not too far apart.
fn matching_blocks<'a>(
    hypothesis: &'a [u32],
    reference: &'a [u32],
) -> impl Iterator<Item = (usize, usize, usize)> + 'a {
    (0..hypothesis.len()).flat_map(move |start| {
        let first = start.saturating_sub(MAX_SHIFT_DISTANCE);
        let last = reference.len().min(start + MAX_SHIFT_DISTANCE + 1);
        (first..last).flat_map(move |ref_start| {
            let pairs = hypothesis[start..].iter().zip(&reference[ref_start..]);
            let longest = pairs.take(MAX_SHIFT_SIZE).take_while(|(a, b)| a == b).count();
            (1..=longest).map(move |len| (start, ref_start, len))
        })
    })
}

impl Alignment {
    /// The places worth moving a block to: before its reference, and behind each of its words. None if one side is right
    /// already or the place lies within the block.
    fn targets(&self, start: usize, ref_start: usize, len: usize) -> Vec<usize> {
        let all_right = |wrong: &[bool], start: usize| !wrong[start..start + len].contains(&true);
        let inside = start < self.after[ref_start] && self.after[ref_start] <= start + len;
        if all_right(&self.hyp_wrong, start) || all_right(&self.ref_wrong, ref_start) || inside {
            return Vec::new();
        }
        let before = if ref_start == 0 { 0 } else { self.after[ref_start - 1] };
        let mut targets = vec![before];
        targets.extend(&self.after[ref_start..ref_start + len]);
        targets.dedup();
        targets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edits(hypothesis: &str, reference: &str) -> f64 {
        let mut row = [0.0; WIDTH];
        Ter::default().line(hypothesis, &[reference], &mut row);
        row[0]
    }

    /// Snover et al. 2006, section 2: one shift, two substitutions and one insertion.
    #[test]
    fn example_of_the_paper() {
        let reference = "SAUDI ARABIA denied THIS WEEK information published in the AMERICAN new york times";
        let hypothesis = "THIS WEEK THE SAUDIS denied information published in the new york times";
        assert_eq!(edits(hypothesis, reference), 4.0);
    }

    #[test]
    fn a_moved_block_is_one_edit() {
        assert_eq!(edits("d e f a b c", "a b c d e f"), 1.0);
        assert_eq!(edits("A b", "a B"), 0.0);
    }

    #[test]
    fn empty_sides() {
        assert_eq!((edits("", "a b"), edits("a b", ""), edits("", "")), (2.0, 2.0, 0.0));
        let rates = [[3.0, 4.0], [2.0, 0.0], [0.0, 0.0]].map(|sum| edit_rate(&sum));
        assert_eq!(rates, [75.0, 100.0, 0.0]);
    }

    #[test]
    fn shifts_to_all_sides_of_the_block() {
        let words = [0, 1, 2, 3, 4];
        let moved = |start, len, target| Shift { start, len, target }.apply(&words);
        assert_eq!(moved(2, 2, 0), [2, 3, 0, 1, 4]);
        assert_eq!(moved(1, 2, 5), [0, 3, 4, 1, 2]);
        assert_eq!(moved(1, 2, 2), [0, 3, 1, 2, 4]);
    }

    /// Very unequal lengths leave the beam a path to the end.
    #[test]
    fn beam_reaches_the_end() {
        let many = "a ".repeat(400);
        assert_eq!((edits("a", &many), edits(&many, "a")), (399.0, 399.0));
    }
}
