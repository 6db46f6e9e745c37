//! What is scored: hypotheses with their references, checked once; the rows of numbers every metric draws from
//! them; and the warnings that look at text rather than at a score.

use rayon::prelude::*;

use super::tokenize::{is_east_asian, is_space, trim_end};
use super::{Metric, Tokenizer};
use crate::{Error, Result};

/// Hypotheses and one or more reference translations of each, line by line.
#[derive(Debug, Clone)]
pub struct Corpus<'a> {
    hypotheses: Vec<&'a str>,
    /// By reference file, then by line.
    references: Vec<Vec<&'a str>>,
}

impl<'a> Corpus<'a> {
    /// Lines of one system and lines of each reference file. All counts must be equal and above zero.
    pub fn new<H, F, R>(hypotheses: &'a [H], references: &'a [F]) -> Result<Self>
    where
        H: AsRef<str>,
        F: AsRef<[R]>,
        R: AsRef<str> + 'a,
    {
        let hypotheses: Vec<&str> = hypotheses.iter().map(|line| trim_end(line.as_ref())).collect();
        let references: Vec<Vec<&str>> = references
            .iter()
            .map(|file| file.as_ref().iter().map(|line| trim_end(line.as_ref())).collect())
            .collect();
        let n = hypotheses.len();
        if references.is_empty() {
            return Err(Error::Data("nothing to score against: give at least one reference file".into()));
        }
        if n == 0 && references.iter().all(Vec::is_empty) {
            return Err(Error::Data("nothing to score: hypotheses and references have no lines".into()));
        }
        if let Some((file, lines)) = references.iter().enumerate().find(|(_, lines)| lines.len() != n) {
            let (which, m) = (file + 1, lines.len());
            return Err(Error::Data(format!(
                "hypotheses have {n} lines but reference {which} has {m}: line N of each must belong together, \
                 check that both files are complete"
            )));
        }
        Ok(Corpus { hypotheses, references })
    }

    /// Number of lines.
    pub fn n_lines(&self) -> usize {
        self.hypotheses.len()
    }

    /// Number of references of each line.
    pub fn n_refs(&self) -> usize {
        self.references.len()
    }

    /// `fill` applied to every line with a row of `width` zeros.
    pub(super) fn statistics(
        &self,
        width: usize,
        fill: impl Fn(&str, &[&str], &mut [f64]) + Sync,
    ) -> Statistics {
        let mut values = vec![0.0; width * self.n_lines()];
        values.par_chunks_mut(width).enumerate().for_each(|(line, row)| {
            let references: Vec<&str> = self.references.iter().map(|file| file[line]).collect();
            fill(self.hypotheses[line], &references, row);
        });
        Statistics { width, values }
    }
}

/// One row of numbers per line. Nearly all are counts, whose sums are exact in any order (an f64 holds whole numbers up
/// to 2^53); the fractions of ROUGE, and of TER with several references, are summed in line order.
#[derive(Debug, Clone, PartialEq)]
pub struct Statistics {
    width: usize,
    values: Vec<f64>,
}

impl Statistics {
    /// The rows in line order.
    pub fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.values.chunks_exact(self.width)
    }

    /// Numbers in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Number of rows.
    pub fn n_lines(&self) -> usize {
        self.values.len() / self.width
    }

    /// The sum over all lines.
    pub fn sum(&self) -> Vec<f64> {
        let mut sum = vec![0.0; self.width];
        for row in self.rows() {
            add(&mut sum, row);
        }
        sum
    }
}

/// `sum += row`, element by element.
pub(super) fn add(sum: &mut [f64], row: &[f64]) {
    for (sum, value) in sum.iter_mut().zip(row) {
        *sum += value;
    }
}

/// Warnings that belong beside the scores of `corpus`; none if all seems well.
pub fn notices(corpus: &Corpus, metrics: &[Metric]) -> Vec<String> {
    let tokenizers = || {
        metrics.iter().filter_map(|metric| match metric {
            Metric::Bleu(bleu) => Some(bleu.tokenizer),
            _ => None,
        })
    };
    let mut notices = Vec::new();
    if tokenizers().next().is_some() && looks_tokenized(&corpus.hypotheses) {
        notices.push(
            "That's 100 lines that end in a tokenized period ('.')\n\
             It looks like you forgot to detokenize your test data, which may hurt your score."
                .to_string(),
        );
    }
    let by_space = |tokenizer: &Tokenizer| !matches!(tokenizer, Tokenizer::Zh | Tokenizer::Char);
    if let Some(tokenizer) = tokenizers().find(by_space)
        && corpus.references.iter().any(|lines| mostly_east_asian(lines))
    {
        let name = tokenizer.name();
        notices.push(format!(
            "The references look Chinese or Japanese, but BLEU's tokenizer {name} splits at spaces: \
             use zh for Chinese or char for either, or read chrF."
        ));
    }
    notices
}

/// sacreBLEU's test: a hundred lines end in a full stop with a space before it.
fn looks_tokenized(hypotheses: &[&str]) -> bool {
    hypotheses.iter().filter(|line| line.ends_with(" .")).count() >= 100
}

/// More than half of the characters are Han, Kana or their punctuation.
fn mostly_east_asian(lines: &[&str]) -> bool {
    let (mut all, mut east_asian) = (0, 0);
    for c in lines.iter().flat_map(|line| line.chars()).filter(|&c| !is_space(c)) {
        all += 1;
        east_asian += usize::from(is_east_asian(c));
    }
    2 * east_asian > all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::Bleu;

    const BLEU: Metric =
        Metric::Bleu(Bleu { tokenizer: Tokenizer::V13a, lowercase: false, effective_order: false });

    #[test]
    fn unequal_counts_are_named() {
        let error = Corpus::new(&["a", "b"], &[vec!["a", "b"], vec!["a"]]).unwrap_err().to_string();
        assert!(error.starts_with("hypotheses have 2 lines but reference 2 has 1:"), "{error}");
    }

    #[test]
    fn nothing_to_score_is_an_error() {
        let none: [&str; 0] = [];
        assert!(Corpus::new(&none, &[none]).unwrap_err().to_string().starts_with("nothing to score:"));
        assert!(Corpus::new(&none, &[["a"]]).unwrap_err().to_string().contains("have 0 lines"));
        let no_files: [Vec<&str>; 0] = [];
        assert!(Corpus::new(&["a"], &no_files).unwrap_err().to_string().contains("at least one reference"));
    }

    #[test]
    fn a_hundred_tokenized_lines_give_a_notice() {
        let count = |n: usize| {
            let lines: Vec<&str> = (0..120).map(|i| if i < n { "Yes ." } else { "Yes." }).collect();
            let references = [lines.clone()];
            notices(&Corpus::new(&lines, &references).unwrap(), &[BLEU])
        };
        assert!(count(99).is_empty());
        assert!(count(100)[0].starts_with("That's 100 lines that end in a tokenized period ('.')"));
    }

    #[test]
    fn text_without_spaces_needs_a_tokenizer_for_it() {
        let lines = ["猫はベッドの下にいる。"];
        let references = [lines];
        let corpus = Corpus::new(&lines, &references).unwrap();
        assert_eq!(notices(&corpus, &[BLEU]).len(), 1);
        let zh = Metric::from_name("bleu", Tokenizer::Zh, false).unwrap();
        assert!(notices(&corpus, &[zh]).is_empty());
    }
}
