//! A look at a corpus or a model directory before anyone relies on it: what is wrong, where first, and how often.

mod checks;
mod corpus;
mod model;
#[cfg(test)]
mod tests;

pub use corpus::{Target, corpus};
pub use model::model;
use serde::Serialize;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// It will do harm.
    Problem,
    /// Good to know; `tx` copes with it.
    Note,
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How much it matters.
    pub level: Level,
    /// Its name, the same in every version.
    pub check: &'static str,
    /// Where.
    pub file: String,
    /// The first line that has it.
    pub line: Option<usize>,
    /// How many lines, pairs or tensors have it.
    pub count: usize,
    /// In words.
    pub what: String,
}

/// All that was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// What was looked at, with its numbers, a line each.
    pub facts: Vec<String>,
    /// What was found there.
    pub findings: Vec<Finding>,
}

impl Diagnosis {
    /// Number of findings of `level`.
    pub fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }

    fn problem(
        &mut self,
        check: &'static str,
        file: impl Into<String>,
        count: usize,
        what: impl Into<String>,
    ) {
        let (file, what) = (file.into(), what.into());
        self.findings.push(Finding { level: Level::Problem, check, file, line: None, count, what });
    }
}
