//! What is looked for in the lines and pairs of a corpus, and how it is counted.

use super::{Diagnosis, Finding, Level};

/// How much a check matters, given what share of the lines it concerns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Weight {
    /// Always a problem.
    Problem,
    /// Never more than a note.
    Note,
    /// Natural while it is rare: a problem from [`MUCH`] on.
    Share,
}

/// From this share of lines on, what is natural while it is rare becomes a problem.
const MUCH: f64 = 0.01;

/// One thing to look for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Check {
    pub name: &'static str,
    weight: Weight,
    what: &'static str,
}

const fn check(name: &'static str, weight: Weight, what: &'static str) -> Check {
    Check { name, weight, what }
}

pub(super) const BAD_UTF8: Check =
    check("bad-utf8", Weight::Problem, "not UTF-8: the bad bytes become U+FFFD; another encoding?");
pub(super) const CRLF: Check = check("crlf", Weight::Note, "end in CR LF (the CR is dropped on reading)");
pub(super) const CARRIAGE_RETURN: Check = check(
    "carriage-return",
    Weight::Problem,
    "a carriage return inside: for tx white space, for other programs the end of a line",
);
pub(super) const LINE_BREAK: Check = check(
    "line-break",
    Weight::Problem,
    "U+2028, U+2029, U+0085, VT or FF inside: for tx white space, for other programs the end of a line",
);
pub(super) const BOM: Check = check("bom", Weight::Note, "a byte order mark (dropped on reading)");
pub(super) const EMPTY_SOURCE: Check = check("empty-source", Weight::Problem, "an empty source");
pub(super) const EMPTY_TARGET: Check = check("empty-target", Weight::Problem, "an empty target");
pub(super) const EMPTY_BOTH: Check = check("empty-both", Weight::Share, "both sides empty");
pub(super) const COLUMNS: Check =
    check("columns", Weight::Problem, "too few or too many columns for the table");
pub(super) const DUPLICATE: Check =
    check("duplicate", Weight::Share, "a pair that was there before (--drop-duplicates leaves it out)");
pub(super) const COPIED: Check =
    check("copied", Weight::Share, "both sides the same: not translated? (--drop-identical leaves it out)");
pub(super) const RATIO: Check = check(
    "ratio",
    Weight::Share,
    "one side over 9 times as long as the other, in characters (--max-ratio leaves such out)",
);
pub(super) const UNKNOWN: Check =
    check("unknown", Weight::Problem, "characters outside the vocabulary of the tokenizer");
pub(super) const BYTES: Check =
    check("bytes", Weight::Share, "characters without a piece of their own, spelt in bytes");

/// How often a check has found something, and where first.
pub(super) struct Tally {
    file: String,
    lines: usize,
    found: Vec<(Check, usize, usize)>,
}

impl Tally {
    /// Nothing yet in `file`.
    pub(super) fn new(file: impl Into<String>) -> Self {
        Tally { file: file.into(), lines: 0, found: vec![] }
    }

    /// Counts a line.
    pub(super) fn count_line(&mut self) {
        self.lines += 1;
    }

    /// Lines so far.
    pub(super) fn lines(&self) -> usize {
        self.lines
    }

    /// `check` has found something in `line`.
    pub(super) fn add(&mut self, check: Check, line: usize) {
        match self.found.iter_mut().find(|(known, ..)| known.name == check.name) {
            Some((_, count, _)) => *count += 1,
            None => self.found.push((check, 1, line)),
        }
    }

    /// The findings, by their first line.
    pub(super) fn report(mut self, diagnosis: &mut Diagnosis) {
        self.found.sort_by_key(|&(_, _, line)| line);
        for (check, count, line) in self.found {
            let is_much = count as f64 > MUCH * self.lines as f64;
            let level = match check.weight {
                Weight::Problem => Level::Problem,
                Weight::Share if is_much => Level::Problem,
                _ => Level::Note,
            };
            let (file, what) = (self.file.clone(), check.what.to_string());
            diagnosis.findings.push(Finding {
                level,
                check: check.name,
                file,
                line: Some(line),
                count,
                what,
            });
        }
    }
}
