//! The likelihood of references under a model, over a corpus: NLL and perplexity.
//!
//! NLL per token compares models of one vocabulary only: another cuts the same text into other tokens. NLL per word and
//! per character of the text compares any.

use crate::text::clean;

/// Perplexity = e^NLL, for an NLL per target token; infinite where that overflows.
pub fn perplexity(nll: f64) -> f64 {
    nll.exp()
}

/// Sums over references. Of no reference, all means are NaN.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Likelihood {
    /// Negative log-likelihood of all tokens.
    pub nll: f64,
    /// References.
    pub lines: usize,
    /// Their tokens, end marks included.
    pub tokens: usize,
    /// Their words, as white space parts them.
    pub words: usize,
    /// Their characters; a run of white space is one.
    pub chars: usize,
}

impl Likelihood {
    /// Adds a reference of `tokens` tokens whose log-probabilities sum to `log_prob`.
    pub fn add(&mut self, reference: &str, tokens: usize, log_prob: f64) {
        let text = clean(reference);
        self.nll -= log_prob;
        self.lines += 1;
        self.tokens += tokens;
        self.words += text.split_whitespace().count();
        self.chars += text.chars().count();
    }

    /// NLL per token.
    pub fn per_token(&self) -> f64 {
        self.nll / self.tokens as f64
    }

    /// NLL per word.
    pub fn per_word(&self) -> f64 {
        self.nll / self.words as f64
    }

    /// NLL per character.
    pub fn per_char(&self) -> f64 {
        self.nll / self.chars as f64
    }

    /// e^NLL per token.
    pub fn perplexity(&self) -> f64 {
        perplexity(self.per_token())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model that hesitates evenly between 10 words has perplexity 10; overflow is infinite, not an error.
    #[test]
    fn perplexity_by_hand() {
        assert!((perplexity(10f64.ln()) - 10.0).abs() < 1e-12);
        assert_eq!(perplexity(800.0), f64::INFINITY);
    }

    #[test]
    fn sums_are_divided_once() {
        let mut sums = Likelihood::default();
        assert!(sums.per_token().is_nan());
        sums.add("a  cat", 3, -6.0);
        sums.add("yes", 1, -6.0);
        assert_eq!((sums.lines, sums.per_token(), sums.per_word()), (2, 3.0, 4.0));
        assert_eq!((sums.chars, sums.per_char()), (8, 1.5));
    }
}
