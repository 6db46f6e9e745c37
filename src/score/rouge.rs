//! ROUGE (Lin 2004) equal to the `rouge-score` package without stemming. A corpus scores the mean F of its lines; with
//! several references a line takes the one with the highest F (the first of equals).

use super::ngrams::{Ngrams, Vocabulary};
use super::report::Parts;

/// A row: 1 line, precision, recall, F.
pub(super) const WIDTH: usize = 4;

/// Which ROUGE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rouge {
    /// ROUGE-1: words.
    One,
    /// ROUGE-2: pairs of words.
    Two,
    /// ROUGE-L: longest common subsequence.
    Longest,
}

impl Rouge {
    /// Precision, recall and F of one line.
    pub(super) fn line(&self, hypothesis: &str, references: &[&str], row: &mut [f64]) {
        let hypothesis = hypothesis.to_lowercase();
        let references: Vec<String> = references.iter().map(|line| line.to_lowercase()).collect();
        let mut vocabulary = Vocabulary::default();
        let hypothesis = vocabulary.ids(words(&hypothesis));
        let mut best = -1.0;
        row[0] = 1.0;
        for reference in &references {
            let reference = vocabulary.ids(words(reference));
            let (overlap, n_hyp, n_ref) = self.overlap(&hypothesis, &reference);
            let precision = overlap as f64 / n_hyp.max(1) as f64;
            let recall = overlap as f64 / n_ref.max(1) as f64;
            let f = f_measure(precision, recall);
            if f > best {
                best = f;
                row[1..].copy_from_slice(&[precision, recall, f]);
            }
        }
    }

    /// What both sides share, and how much each has.
    fn overlap(&self, hypothesis: &[u32], reference: &[u32]) -> (usize, usize, usize) {
        let n = match self {
            Rouge::One => 1,
            Rouge::Two => 2,
            Rouge::Longest => {
                return (longest_common(hypothesis, reference), hypothesis.len(), reference.len());
            }
        };
        let (hypothesis, reference) = (Ngrams::of_words(hypothesis), [Ngrams::of_words(reference)]);
        (hypothesis.matches(&reference, n), hypothesis.count(n), reference[0].count(n))
    }
}

/// The words ROUGE sees: runs of a-z and 0-9 in a line in lower case. All other letters only separate.
fn words(lower: &str) -> impl Iterator<Item = &str> {
    lower.split(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit()).filter(|word| !word.is_empty())
}

/// F = 2PR / (P + R).
fn f_measure(precision: f64, recall: f64) -> f64 {
    if precision + recall > 0.0 { 2.0 * precision * recall / (precision + recall) } else { 0.0 }
}

/// Length of the longest common subsequence.
fn longest_common(a: &[u32], b: &[u32]) -> usize {
    // best[j] belongs to the prefix of `a` seen so far and the first j of `b`.
    let mut best = vec![0; b.len() + 1];
    for x in a {
        let mut diagonal = 0;
        for (j, y) in b.iter().enumerate() {
            let above = best[j + 1];
            best[j + 1] = if x == y { diagonal + 1 } else { above.max(best[j]) };
            diagonal = above;
        }
    }
    best[b.len()]
}

/// Mean F in percent.
pub(super) fn mean_f(sum: &[f64]) -> f64 {
    100.0 * sum[3] / sum[0].max(1.0)
}

/// Mean precision and recall in percent.
pub(super) fn parts(sum: &[f64]) -> Parts {
    let lines = sum[0].max(1.0);
    Parts::Rouge { precision: 100.0 * sum[1] / lines, recall: 100.0 * sum[2] / lines }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of Lin 2004, section 3.1: one candidate keeps three words of the reference in order, one only two.
    #[test]
    fn longest_common_keeps_order() {
        let f = |line| {
            let mut row = [0.0; WIDTH];
            Rouge::Longest.line(line, &["police killed the gunman"], &mut row);
            row[3]
        };
        assert_eq!((f("police kill the gunman"), f("the gunman kill police")), (0.75, 0.5));
    }

    #[test]
    fn words_are_ascii_only() {
        assert_eq!(words("l'été, 1.5-fold").collect::<Vec<_>>(), ["l", "t", "1", "5", "fold"]);
    }

    #[test]
    fn f_is_the_harmonic_mean() {
        assert_eq!((f_measure(0.5, 1.0), f_measure(0.0, 0.0)), (2.0 / 3.0, 0.0));
    }

    #[test]
    fn bigrams_are_clipped() {
        let mut row = [0.0; WIDTH];
        Rouge::Two.line("a b a b", &["", "a b c"], &mut row);
        assert_eq!(row, [1.0, 1.0 / 3.0, 0.5, 0.4]);
    }
}
