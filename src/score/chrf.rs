//! chrF (Popović 2015) and chrF++ (Popović 2017) as sacreBLEU 2.6.0 computes them: character n-grams up to 6 without
//! white space, word n-grams up to 2 in chrF++, recall weighted β² = 4 times as much as precision.

use super::ngrams::{Ngrams, Vocabulary};
use super::tokenize::{cased, is_space, words};

const CHAR_ORDER: usize = 6;
const WORD_ORDER: usize = 2;
const BETA: f64 = 2.0;

/// chrF's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Chrf {
    /// Count words and pairs of words too: chrF++.
    pub with_words: bool,
    /// Ignore case.
    pub lowercase: bool,
}

/// The n-grams of one line.
struct Line {
    chars: Ngrams,
    words: Ngrams,
}

impl Chrf {
    /// A row has for each order: n-grams of the hypothesis, of the reference, and matches.
    pub(super) fn width(&self) -> usize {
        3 * if self.with_words { CHAR_ORDER + WORD_ORDER } else { CHAR_ORDER }
    }

    /// Counts of one line against the reference that it scores best with (the first of equals).
    pub(super) fn line(&self, hypothesis: &str, references: &[&str], row: &mut [f64]) {
        let hypothesis = cased(hypothesis, self.lowercase);
        let references: Vec<_> = references.iter().map(|line| cased(line, self.lowercase)).collect();
        let mut vocabulary = Vocabulary::default();
        let hypothesis = self.ngrams(&hypothesis, &mut vocabulary);
        let mut best = -1.0;
        let mut candidate = vec![0.0; self.width()];
        for reference in &references {
            let reference = self.ngrams(reference, &mut vocabulary);
            count_matches(&hypothesis, &reference, &mut candidate);
            let score = f_score(&candidate);
            if score > best {
                best = score;
                row.copy_from_slice(&candidate);
            }
        }
    }

    fn ngrams<'a>(&self, line: &'a str, vocabulary: &mut Vocabulary<'a>) -> Line {
        let chars: Vec<char> = line.chars().filter(|&c| !is_space(c)).collect();
        let ids = if self.with_words {
            vocabulary.ids(words(line).flat_map(split_punctuation).filter(|word| !word.is_empty()))
        } else {
            Vec::new()
        };
        Line { chars: Ngrams::of_chars(&chars), words: Ngrams::of_words(&ids) }
    }
}

/// Fills `row` with the counts of `hypothesis` against one reference. An order that the reference lacks counts for
/// neither.
fn count_matches(hypothesis: &Line, reference: &Line, row: &mut [f64]) {
    for (order, row) in row.chunks_exact_mut(3).enumerate() {
        let (ours, theirs, n) = if order < CHAR_ORDER {
            (&hypothesis.chars, &reference.chars, order + 1)
        } else {
            (&hypothesis.words, &reference.words, order - CHAR_ORDER + 1)
        };
        let n_ref = theirs.count(n);
        row[0] = if n_ref > 0 { ours.count(n) as f64 } else { 0.0 };
        row[1] = n_ref as f64;
        row[2] = ours.matches(std::slice::from_ref(theirs), n) as f64;
    }
}

/// The word as chrF++ sees it: one punctuation mark is taken off, at the end if there is one, else at the beginning.
fn split_punctuation(word: &str) -> [&str; 2] {
    let first = word.chars().next().map_or(0, char::len_utf8);
    if first == word.len() {
        [word, ""]
    } else if word.ends_with(|c: char| c.is_ascii_punctuation()) {
        word.split_at(word.len() - 1).into()
    } else if word.starts_with(|c: char| c.is_ascii_punctuation()) {
        word.split_at(1).into()
    } else {
        [word, ""]
    }
}

/// chrF in percent: F_β = (1 + β²) P R / (β² P + R), where P and R are means over the orders that both sides have.
pub(super) fn f_score(sum: &[f64]) -> f64 {
    const FACTOR: f64 = BETA * BETA;
    let (mut precision, mut recall, mut orders) = (0.0, 0.0, 0.0);
    for counts in sum.chunks_exact(3) {
        let (n_hyp, n_ref, n_match) = (counts[0], counts[1], counts[2]);
        if n_hyp > 0.0 && n_ref > 0.0 {
            precision += n_match / n_hyp;
            recall += n_match / n_ref;
            orders += 1.0;
        }
    }
    if precision + recall == 0.0 {
        return 0.0;
    }
    let (precision, recall) = (precision / orders, recall / orders);
    100.0 * ((1.0 + FACTOR) * precision * recall / (FACTOR * precision + recall))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One order: P = 1/2, R = 1/4, so F_2 = 5/8 / (2 + 1/4) = 5/18.
    #[test]
    fn recall_weighs_four_times() {
        assert!((f_score(&[4.0, 8.0, 2.0]) - 100.0 * 5.0 / 18.0).abs() < 1e-12);
        assert_eq!(f_score(&[0.0, 8.0, 0.0]), 0.0);
    }

    #[test]
    fn one_mark_is_taken_off_a_word() {
        assert_eq!(split_punctuation("(hi)"), ["(hi", ")"]);
        assert_eq!(split_punctuation("'tis"), ["'", "tis"]);
        assert_eq!(split_punctuation("…"), ["…", ""]);
        assert_eq!(split_punctuation("été"), ["été", ""]);
    }

    #[test]
    fn the_better_reference_counts() {
        let chrf = Chrf { with_words: true, lowercase: true };
        let mut row = vec![0.0; chrf.width()];
        chrf.line("Hello there!", &["Goodbye.", "hello there!"], &mut row);
        assert!((f_score(&row) - 100.0).abs() < 1e-12);
        assert_eq!(row[18..24], [3.0, 3.0, 3.0, 2.0, 2.0, 2.0]);
    }
}
