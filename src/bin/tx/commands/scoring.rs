//! What `tx score` and `tx evaluate` share: which metrics, reading whole files, and the checks before anything is
//! computed.

use super::usage_error;
use crate::cli::Scoring;
use std::path::{Path, PathBuf};
use tx::data::Lines;
use tx::score::{Corpus, Metric, Tokenizer, notices};

/// The metrics that the flags name; wrong names end the program as wrong usage.
pub fn metrics(scoring: &Scoring) -> Vec<Metric> {
    scoring.metrics.iter().map(|name| metric(scoring, name)).collect()
}

/// The metric called `name` with the settings of the flags.
pub fn metric(scoring: &Scoring, name: &str) -> Metric {
    let Some(tokenizer) = Tokenizer::from_name(&scoring.tokenize) else {
        let message = format!("--tokenize {}: expected 13a, intl, char, zh or none", scoring.tokenize);
        usage_error(message);
    };
    Metric::from_name(name, tokenizer, scoring.lowercase).unwrap_or_else(|error| usage_error(error))
}

/// All lines of a file, at least one; a score over replaced bytes would be a score of another text.
pub fn read(path: &Path) -> anyhow::Result<Vec<String>> {
    let mut lines = Vec::new();
    for line in Lines::open(path)? {
        let line = line?;
        anyhow::ensure!(!line.damaged, "{}: line {} is not valid UTF-8", path.display(), line.number);
        lines.push(line.text);
    }
    anyhow::ensure!(!lines.is_empty(), "{}: nothing to score: the file has no lines", path.display());
    Ok(lines)
}

/// All lines of every reference file, each of which must have as many as `lines`, which came from `path`.
pub fn read_references(
    path: &Path,
    lines: &[String],
    references: &[PathBuf],
) -> anyhow::Result<Vec<Vec<String>>> {
    let read_one = |reference: &PathBuf| {
        let found = read(reference)?;
        same_count(path, lines, reference, &found)?;
        Ok(found)
    };
    references.iter().map(read_one).collect()
}

/// Refuses two files that cannot belong together line by line.
pub fn same_count(path: &Path, lines: &[String], other: &Path, others: &[String]) -> anyhow::Result<()> {
    let count = |lines: &[String]| format!("{} line{}", lines.len(), if lines.len() == 1 { "" } else { "s" });
    anyhow::ensure!(
        lines.len() == others.len(),
        "{} has {} but {} has {}: line N of each must belong together, check that both files are complete",
        path.display(),
        count(lines),
        other.display(),
        count(others)
    );
    Ok(())
}

/// Warns of text that the metrics were not made for.
pub fn warn_of(corpus: &Corpus, metrics: &[Metric]) {
    notices(corpus, metrics).iter().for_each(|notice| say!("tx: warning: {notice}"));
}
