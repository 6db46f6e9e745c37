//! Terminology: which words of the source have a translation that must be used.

use super::segments::is_unspaced;
use crate::data::Lines;
use crate::error::{Error, Result};
use crate::text;
use aho_corasick::AhoCorasick;
use std::path::Path;

/// Phrases of the source, and what their translations must contain.
#[derive(Debug)]
pub struct Terms {
    sources: AhoCorasick,
    targets: Vec<String>,
}

impl Terms {
    /// Reads files of lines `SOURCE`, tab, `TARGET`. Blank lines are nothing.
    pub fn read<P: AsRef<Path>>(paths: &[P]) -> Result<Self> {
        let (mut sources, mut targets) = (Vec::new(), Vec::new());
        for path in paths.iter().map(AsRef::as_ref) {
            Self::read_one(path, &mut sources, &mut targets)?;
        }
        let sources =
            AhoCorasick::new(sources).map_err(|error| Error::Data(format!("too many terms: {error}")))?;
        Ok(Terms { sources, targets })
    }

    fn read_one(path: &Path, sources: &mut Vec<String>, targets: &mut Vec<String>) -> Result<()> {
        for (number, line) in (1..).zip(Lines::open(path)?) {
            let line = line?;
            if line.damaged {
                return Err(Error::format(path, format!("line {number} is not valid UTF-8")));
            }
            let line = line.text;
            if text::is_blank(&line) {
                continue;
            }
            let sides: Vec<String> = line.split('\t').map(text::clean).collect();
            match sides.as_slice() {
                [source, target] if !source.is_empty() && !target.is_empty() => {
                    sources.push(source.clone());
                    targets.push(target.clone());
                }
                _ => return Err(wrong(path, number, &line)),
            }
        }
        Ok(())
    }

    /// What the translation of `line`, which is [clean](text::clean), must contain: the targets of the terms that it has as
    /// whole words. Where terms overlap the first, and of these the longest, counts.
    pub fn of(&self, line: &str) -> Vec<&str> {
        let mut found: Vec<_> = self
            .sources
            .find_overlapping_iter(line)
            .filter(|found| is_edge(line, found.start()) && is_edge(line, found.end()))
            .collect();
        found.sort_by_key(|found| (found.start(), std::cmp::Reverse(found.end())));
        let (mut end, mut targets) = (0, Vec::new());
        for found in found {
            if found.start() >= end {
                end = found.end();
                targets.push(self.targets[found.pattern().as_usize()].as_str());
            }
        }
        targets
    }
}

fn wrong(path: &Path, number: u64, line: &str) -> Error {
    Error::format(
        path,
        format!("line {number}: expected a source phrase, a tab and a target phrase, found {line:?}"),
    )
}

/// Whether a word can begin or end at byte `at`: not between two letters or digits, but in scripts without blanks.
fn is_edge(line: &str, at: usize) -> bool {
    let inside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() && !is_unspaced(c));
    !(inside(line[..at].chars().next_back()) && inside(line[at..].chars().next()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn terms(content: &str) -> Result<Terms> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content.as_bytes()).unwrap();
        Terms::read(&[file.path()])
    }

    #[test]
    fn whole_words_and_the_longest() {
        let terms =
            terms("cat\tKatze\n\nmachine learning\tLernen\nmachine\tMaschine\nmachine le\tX\n猫\tChat\n")
                .unwrap();
        assert_eq!(terms.of("The cat, the cats."), ["Katze"]);
        assert_eq!(terms.of("machine learning of a machine"), ["Lernen", "Maschine"]);
        assert_eq!(terms.of("machine lean"), ["Maschine"]);
        assert_eq!(terms.of("黒猫です"), ["Chat"]);
        assert!(terms.of("Nothing").is_empty());
    }

    #[test]
    fn a_line_that_is_no_term_is_named() {
        for bad in ["cat\tKatze\ndog", "a\tb\tc", "\tx", "a\t "] {
            let message = terms(bad).unwrap_err().to_string();
            assert!(message.contains("expected a source phrase, a tab and a target phrase"), "{message}");
        }
        assert!(terms("cat\tKatze\ndog").unwrap_err().to_string().contains("line 2"));
    }
}
