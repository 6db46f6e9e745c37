//! How good translations are: BLEU, chrF, chrF++ and TER equal to sacreBLEU 2.6.0 to the last printed digit,
//! ROUGE equal to the `rouge-score` package, exact match and length ratio; likelihood and perplexity of references.
//!
//! Every metric works in two steps: each line gives a short row of numbers ([`Statistics`]), and a score is a
//! function of a sum of rows ([`Metric::score`]). The score of a corpus, of one sentence and of a random resample
//! differ only in which rows are summed. Rows are computed in parallel and summed in line order, so no result
//! depends on the number of threads.
//!
//! Departs: case and punctuation follow the Unicode version of Rust's tables, which may know a few characters more or
//! fewer than those of a given Python; lines are taken without the white space at their end, as by sacreBLEU's command
//! line.

mod bleu;
mod chrf;
mod corpus;
mod edit_table;
mod likelihood;
mod match_rate;
mod ngrams;
mod report;
mod rouge;
mod signature;
mod significance;
mod ter;
#[cfg(test)]
mod tests;
mod tokenize;

pub use bleu::{Bleu, BleuParts};
pub use chrf::Chrf;
pub use corpus::{Corpus, Statistics, notices};
pub use likelihood::{Likelihood, perplexity};
pub use match_rate::{ExactMatch, LengthRatio};
pub use report::{Parts, Score, json_text};
pub use rouge::Rouge;
pub use signature::Signature;
pub use significance::{Comparison, Interval, Test, compare};
pub use ter::Ter;
pub use tokenize::Tokenizer;

use crate::{Error, Result};

/// A metric with its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Matching word n-grams (Papineni et al. 2002).
    Bleu(Bleu),
    /// Matching character n-grams, with word n-grams in chrF++ (Popović 2015, 2017).
    Chrf(Chrf),
    /// Edits and shifts per reference word (Snover et al. 2006). Lower is better.
    Ter(Ter),
    /// Overlap as summarisation measures it (Lin 2004).
    Rouge(Rouge),
    /// Share of lines equal to a reference.
    ExactMatch(ExactMatch),
    /// Hypothesis words per reference word.
    LengthRatio(LengthRatio),
}

impl Metric {
    /// The names that [`Metric::from_name`] knows.
    pub const NAMES: [&str; 9] =
        ["bleu", "chrf", "chrf++", "ter", "rouge1", "rouge2", "rougeL", "exact", "length-ratio"];

    /// The metric called `name` (one of [`Metric::NAMES`], in any case) with sacreBLEU's defaults. `tokenizer` matters
    /// to BLEU and the length ratio; TER and ROUGE ignore case whatever `lowercase` says.
    pub fn from_name(name: &str, tokenizer: Tokenizer, lowercase: bool) -> Result<Metric> {
        Ok(match name.to_lowercase().as_str() {
            "bleu" => Metric::Bleu(Bleu { tokenizer, lowercase, effective_order: false }),
            "chrf" => Metric::Chrf(Chrf { with_words: false, lowercase }),
            "chrf++" => Metric::Chrf(Chrf { with_words: true, lowercase }),
            "ter" => Metric::Ter(Ter { case_sensitive: false }),
            "rouge1" => Metric::Rouge(Rouge::One),
            "rouge2" => Metric::Rouge(Rouge::Two),
            "rougel" => Metric::Rouge(Rouge::Longest),
            "exact" => Metric::ExactMatch(ExactMatch { lowercase }),
            "length-ratio" => Metric::LengthRatio(LengthRatio { tokenizer }),
            _ => {
                let known = Metric::NAMES.join(", ");
                return Err(Error::Config(format!("unknown metric \"{name}\": expected one of {known}")));
            }
        })
    }

    /// The same metric as sacreBLEU uses it on single sentences: BLEU leaves out orders that a sentence is too
    /// short for.
    pub fn for_sentences(self) -> Metric {
        match self {
            Metric::Bleu(bleu) => Metric::Bleu(Bleu { effective_order: true, ..bleu }),
            other => other,
        }
    }

    /// Numbers in a row of statistics.
    fn width(&self) -> usize {
        match self {
            Metric::Bleu(_) => bleu::WIDTH,
            Metric::Chrf(chrf) => chrf.width(),
            Metric::Ter(_) => ter::WIDTH,
            Metric::Rouge(_) => rouge::WIDTH,
            Metric::ExactMatch(_) | Metric::LengthRatio(_) => match_rate::WIDTH,
        }
    }

    /// Writes the statistics of one line into `row`, which has [`Metric::width`] zeros.
    fn line(&self, hypothesis: &str, references: &[&str], row: &mut [f64]) {
        match self {
            Metric::Bleu(bleu) => bleu.line(hypothesis, references, row),
            Metric::Chrf(chrf) => chrf.line(hypothesis, references, row),
            Metric::Ter(ter) => ter.line(hypothesis, references, row),
            Metric::Rouge(rouge) => rouge.line(hypothesis, references, row),
            Metric::ExactMatch(exact) => exact.line(hypothesis, references, row),
            Metric::LengthRatio(ratio) => ratio.line(hypothesis, references, row),
        }
    }

    /// The statistics of every line of `corpus`, computed in parallel.
    pub fn statistics(&self, corpus: &Corpus) -> Statistics {
        corpus.statistics(self.width(), |hypothesis, references, row| self.line(hypothesis, references, row))
    }

    /// The number that a sum of rows amounts to.
    pub fn value(&self, sum: &[f64]) -> f64 {
        match self {
            Metric::Bleu(bleu) => bleu.parts(sum).score,
            Metric::Chrf(_) => chrf::f_score(sum),
            Metric::Ter(_) => ter::edit_rate(sum),
            Metric::Rouge(_) => rouge::mean_f(sum),
            Metric::ExactMatch(_) => match_rate::percent(sum),
            Metric::LengthRatio(_) => match_rate::ratio(sum),
        }
    }

    /// The full score of a sum of rows, of lines with `n_refs` references each.
    pub fn score(&self, sum: &[f64], n_refs: usize) -> Score {
        let parts = match self {
            Metric::Bleu(bleu) => Parts::Bleu(bleu.parts(sum)),
            Metric::Chrf(_) => Parts::Chrf,
            Metric::Ter(_) => Parts::Ter { num_edits: sum[0] as u64, ref_length: sum[1] },
            Metric::Rouge(_) => rouge::parts(sum),
            Metric::ExactMatch(_) => Parts::ExactMatch { matches: sum[0] as u64, lines: sum[1] as u64 },
            Metric::LengthRatio(_) => Parts::LengthRatio { hyp_len: sum[0] as u64, ref_len: sum[1] as u64 },
        };
        Score { name: self.label(), score: self.value(sum), parts, signature: self.signature(n_refs) }
    }

    /// The score of the whole corpus.
    pub fn corpus_score(&self, corpus: &Corpus) -> Score {
        self.score(&self.statistics(corpus).sum(), corpus.n_refs())
    }

    /// The score of every line by itself, with the settings of [`Metric::for_sentences`].
    pub fn sentence_scores(&self, corpus: &Corpus) -> Vec<Score> {
        let metric = self.for_sentences();
        metric.statistics(corpus).rows().map(|row| metric.score(row, corpus.n_refs())).collect()
    }

    /// The name printed in front of a score, as sacreBLEU and ROUGE write it.
    pub fn label(&self) -> &'static str {
        match self {
            Metric::Bleu(_) => "BLEU",
            Metric::Chrf(Chrf { with_words: false, .. }) => "chrF2",
            Metric::Chrf(_) => "chrF2++",
            Metric::Ter(_) => "TER",
            Metric::Rouge(Rouge::One) => "ROUGE-1",
            Metric::Rouge(Rouge::Two) => "ROUGE-2",
            Metric::Rouge(Rouge::Longest) => "ROUGE-L",
            Metric::ExactMatch(_) => "exact match",
            Metric::LengthRatio(_) => "length ratio",
        }
    }
}
