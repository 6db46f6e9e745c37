//! BLEU (Papineni et al. 2002) as sacreBLEU 2.6.0 computes it, with its default smoothing `exp`: the k-th order without
//! a match counts as 1/2^k of one.

use super::ngrams::{Ngrams, Vocabulary};
use super::tokenize::{Tokenizer, cased, words};

const MAX_ORDER: usize = 4;

/// A row: hypothesis length, reference length, matches of order 1 to 4, n-grams of order 1 to 4.
pub(super) const WIDTH: usize = 2 + 2 * MAX_ORDER;

/// BLEU's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bleu {
    /// How lines become tokens.
    pub tokenizer: Tokenizer,
    /// Ignore case.
    pub lowercase: bool,
    /// Use only the orders the hypothesis is long enough for: for single sentences.
    pub effective_order: bool,
}

/// The score and what it is made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BleuParts {
    /// BLEU in percent.
    pub score: f64,
    /// Smoothed precision of each order in percent.
    pub precisions: [f64; MAX_ORDER],
    /// Brevity penalty.
    pub bp: f64,
    /// Hypothesis length / reference length.
    pub ratio: f64,
    /// Tokens in the hypotheses.
    pub hyp_len: u64,
    /// Tokens in the references closest in length.
    pub ref_len: u64,
}

impl Bleu {
    /// Counts of one line.
    pub(super) fn line(&self, hypothesis: &str, references: &[&str], row: &mut [f64]) {
        let tokenize = |line: &str| self.tokenizer.tokenize(&cased(line, self.lowercase)).into_owned();
        let hypothesis = tokenize(hypothesis);
        let references: Vec<String> = references.iter().map(|reference| tokenize(reference)).collect();
        let mut vocabulary = Vocabulary::default();
        let mut ngrams = |line| Ngrams::of_words(&vocabulary.ids(words(line)));
        let hypothesis = ngrams(&hypothesis);
        let references: Vec<Ngrams> = references.iter().map(|reference| ngrams(reference)).collect();

        row[0] = hypothesis.count(1) as f64;
        row[1] = closest_length(hypothesis.count(1), references.iter().map(|r| r.count(1))) as f64;
        for n in 1..=MAX_ORDER {
            row[1 + n] = hypothesis.matches(&references, n) as f64;
            row[1 + MAX_ORDER + n] = hypothesis.count(n) as f64;
        }
    }

    /// Score and parts of a sum of rows.
    pub(super) fn parts(&self, sum: &[f64]) -> BleuParts {
        let (lengths, counts) = sum.split_at(2);
        let (hyp_len, ref_len) = (lengths[0], lengths[1]);
        let (matches, totals) = counts.split_at(MAX_ORDER);
        let bp = brevity_penalty(hyp_len, ref_len);
        let (precisions, usable) = smoothed_precisions(matches, totals);
        let orders = if self.effective_order { usable } else { MAX_ORDER };
        let score =
            if matches.iter().all(|&m| m == 0.0) { 0.0 } else { bp * geometric_mean(&precisions[..orders]) };
        let ratio = if ref_len > 0.0 { hyp_len / ref_len } else { 0.0 };
        BleuParts { score, precisions, bp, ratio, hyp_len: hyp_len as u64, ref_len: ref_len as u64 }
    }
}

/// The reference length nearest to that of the hypothesis; of two equally near ones the shorter.
pub(super) fn closest_length(hyp_len: usize, ref_lens: impl Iterator<Item = usize>) -> usize {
    ref_lens.min_by_key(|&len| (hyp_len.abs_diff(len), len)).unwrap_or(0)
}

/// BP = exp(1 - r/c) if the hypotheses (c) are shorter than the references (r), else 1.
fn brevity_penalty(hyp_len: f64, ref_len: f64) -> f64 {
    if hyp_len >= ref_len {
        1.0
    } else if hyp_len > 0.0 {
        (1.0 - ref_len / hyp_len).exp()
    } else {
        0.0
    }
}

/// Precision of each order in percent, and how many orders have n-grams at all. Without a single match all are 0.
fn smoothed_precisions(matches: &[f64], totals: &[f64]) -> ([f64; MAX_ORDER], usize) {
    let mut precisions = [0.0; MAX_ORDER];
    let usable = totals.iter().take_while(|&&total| total > 0.0).count();
    if matches.iter().any(|&m| m > 0.0) {
        let mut smooth = 1.0;
        for n in 0..usable {
            precisions[n] = if matches[n] > 0.0 {
                100.0 * matches[n] / totals[n]
            } else {
                smooth *= 2.0;
                100.0 / (smooth * totals[n])
            };
        }
    }
    (precisions, usable)
}

/// exp of the mean logarithm. A precision of 0 makes the mean 0.
fn geometric_mean(precisions: &[f64]) -> f64 {
    (precisions.iter().map(|p| p.ln()).sum::<f64>() / precisions.len() as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorter_output_is_penalised() {
        assert_eq!(brevity_penalty(10.0, 9.0), 1.0);
        assert!((brevity_penalty(10.0, 15.0) - (-0.5f64).exp()).abs() < 1e-15);
        assert_eq!((brevity_penalty(0.0, 3.0), brevity_penalty(0.0, 0.0)), (0.0, 1.0));
    }

    #[test]
    fn closest_length_prefers_the_shorter_of_two_as_near() {
        assert_eq!(closest_length(10, [13, 8, 12].into_iter()), 8);
        assert_eq!(closest_length(10, [7, 11, 9].into_iter()), 9);
    }

    /// Orders 3 and 4 have no match: 1/2 of 2 trigrams, 1/4 of 1 four-gram.
    #[test]
    fn orders_without_match_are_halved_again_and_again() {
        let found = smoothed_precisions(&[3.0, 1.0, 0.0, 0.0], &[4.0, 3.0, 2.0, 1.0]);
        assert_eq!(found, ([75.0, 100.0 / 3.0, 25.0, 25.0], 4));
        assert_eq!(smoothed_precisions(&[0.0; 4], &[4.0, 3.0, 2.0, 1.0]), ([0.0; 4], 4));
    }

    #[test]
    fn geometric_mean_of_powers_of_two() {
        assert!((geometric_mean(&[2.0, 8.0]) - 4.0).abs() < 1e-14);
        assert_eq!(geometric_mean(&[50.0, 0.0]), 0.0);
    }

    /// A perfect line of two words is 100 only if the orders it cannot have are left out.
    #[test]
    fn effective_order_makes_short_lines_whole() {
        let bleu = |effective_order| {
            let metric = Bleu { effective_order, ..Bleu::default() };
            let mut row = [0.0; WIDTH];
            metric.line("Good morning", &["Good morning"], &mut row);
            metric.parts(&row).score
        };
        assert_eq!(bleu(false), 0.0);
        assert!((bleu(true) - 100.0).abs() < 1e-10);
    }
}
