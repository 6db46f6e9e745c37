//! Two plain figures beside the scores: how many lines are exactly right, and how long the output is.

use super::bleu::closest_length;
use super::tokenize::{Tokenizer, cased, words};

/// A row: a count and what it is divided by.
pub(super) const WIDTH: usize = 2;

/// Share of lines that equal one of their references, apart from white space at the ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExactMatch {
    /// Ignore case.
    pub lowercase: bool,
}

impl ExactMatch {
    /// 1 if the line is right, and 1 line.
    pub(super) fn line(&self, hypothesis: &str, references: &[&str], row: &mut [f64]) {
        let clean = |line| cased(line, self.lowercase).trim().to_string();
        let hypothesis = clean(hypothesis);
        row[0] = f64::from(u8::from(references.iter().any(|reference| clean(reference) == hypothesis)));
        row[1] = 1.0;
    }
}

/// Tokens in the hypotheses per token in the references, as BLEU counts both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LengthRatio {
    /// How lines become tokens.
    pub tokenizer: Tokenizer,
}

impl LengthRatio {
    /// Tokens of the hypothesis and of the reference closest in length.
    pub(super) fn line(&self, hypothesis: &str, references: &[&str], row: &mut [f64]) {
        let length = |line: &str| words(&self.tokenizer.tokenize(line)).count();
        let hyp_len = length(hypothesis);
        row[0] = hyp_len as f64;
        row[1] = closest_length(hyp_len, references.iter().map(|reference| length(reference))) as f64;
    }
}

/// First over second, 0 if there is no second.
pub(super) fn ratio(sum: &[f64]) -> f64 {
    if sum[1] > 0.0 { sum[0] / sum[1] } else { 0.0 }
}

/// First over second in percent.
pub(super) fn percent(sum: &[f64]) -> f64 {
    100.0 * ratio(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_reference_may_be_matched() {
        let row = |lowercase| {
            let mut row = [0.0; 2];
            ExactMatch { lowercase }.line("Yes. ", &["No.", "yes."], &mut row);
            row
        };
        assert_eq!((row(false), row(true)), ([0.0, 1.0], [1.0, 1.0]));
    }

    #[test]
    fn lengths_are_those_of_bleu() {
        let mut row = [0.0; 2];
        LengthRatio::default().line("Yes, 1.5 cm.", &["No", "Yes 1.5 cm."], &mut row);
        assert_eq!(row, [5.0, 4.0]);
        assert_eq!((ratio(&row), percent(&[1.0, 4.0]), ratio(&[1.0, 0.0])), (1.25, 25.0, 0.0));
    }
}
