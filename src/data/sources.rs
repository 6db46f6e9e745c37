//! What to train on: one corpus, or several with weights. Direction, dev and test are those of the first; the
//! others add to train.

use super::corpus::{Corpus, Files, Split};
use super::names::file_name;
use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// A corpus as the user names it: a folder or `-`, and how often each of its pairs is seen in an epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// The folder; `-` is standard input.
    pub path: PathBuf,
    /// Times that each pair is seen per epoch, on average.
    pub weight: f64,
}

impl Source {
    /// `path` with weight 1.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Source { path: path.as_ref().to_path_buf(), weight: 1.0 }
    }

    /// Whether this is standard input.
    pub fn is_stdin(&self) -> bool {
        self.path == Path::new("-")
    }
}

impl std::str::FromStr for Source {
    type Err = String;

    /// `DIR` or `DIR=WEIGHT`; a folder of that very name wins.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.rsplit_once('=') {
            Some((path, weight)) if !Path::new(text).exists() => {
                let weight: f64 =
                    weight.parse().map_err(|_| format!("the weight {weight:?} is not a number"))?;
                if !(weight.is_finite() && weight > 0.0 && weight <= 1000.0) {
                    return Err(format!("the weight is {weight}: it must be above 0 and at most 1000"));
                }
                Ok(Source { weight, ..Source::new(path) })
            }
            _ => Ok(Source::new(text)),
        }
    }
}

/// One train split among others.
#[derive(Debug, Clone)]
pub struct Part {
    /// Its name in reports.
    pub name: String,
    /// Where it lies.
    pub split: Split,
    /// Times that each pair is seen per epoch.
    pub weight: f64,
}

/// All corpora of a run.
#[derive(Debug, Clone)]
pub struct Corpora {
    /// The first: it has direction, dev and tests.
    pub first: Corpus,
    /// What to learn from, the first one's train first.
    pub parts: Vec<Part>,
    /// The choices made, a line each.
    pub notices: Vec<String>,
}

impl Corpora {
    /// Finds the corpora of `sources`; `from` and `to` name the languages where the files leave a choice.
    pub fn find(sources: &[Source], from: Option<&str>, to: Option<&str>) -> Result<Corpora> {
        let find = |source: &Source, from, to| match source.is_stdin() {
            true => Ok(stdin(from, to)),
            false => Corpus::find(&source.path, from, to),
        };
        if sources.iter().filter(|source| source.is_stdin()).count() > 1 {
            return Err(Error::Config("standard input (-) can be read once only".into()));
        }
        let Some((main, others)) = sources.split_first() else {
            return Err(Error::Config("nothing to train on: name a folder".into()));
        };
        let first = find(main, from, to)?;
        let mut notices = first.notices.clone();
        let mut parts = vec![Part { name: "train".into(), split: first.train.clone(), weight: main.weight }];
        for source in others {
            let corpus = find(source, Some(&first.from), Some(&first.to))?;
            let name = if source.is_stdin() { "standard input".into() } else { file_name(&source.path) };
            notices.push(format!(
                "also train: {} of {}, each pair {} times an epoch",
                corpus.train.file_names(),
                source.path.display(),
                source.weight
            ));
            if corpus.dev.is_some() || !corpus.tests.is_empty() {
                notices.push(format!(
                    "not used: dev and test of {} (those of the first are)",
                    source.path.display()
                ));
            }
            parts.push(Part { name: format!("train of {name}"), split: corpus.train, weight: source.weight });
        }
        if main.weight != 1.0 {
            notices.push(format!("each pair of {} {} times an epoch", main.path.display(), main.weight));
        }
        Ok(Corpora { first, parts, notices })
    }

    /// Whether a part of it can be read only once.
    pub fn has_stdin(&self) -> bool {
        self.parts.iter().any(|part| part.split.paths().is_empty())
    }

    /// SHA-256 of every file, by name, in the order train, dev, tests.
    pub fn hashes(&self) -> Result<Vec<(String, String)>> {
        let splits = self.parts.iter().map(|part| &part.split);
        let hashes = splits.chain(&self.first.dev).chain(&self.first.tests).map(Split::hashes);
        Ok(hashes.collect::<Result<Vec<_>>>()?.concat())
    }
}

/// Train alone, from standard input, with nothing beside it.
fn stdin(from: Option<&str>, to: Option<&str>) -> Corpus {
    let mut corpus = Corpus {
        from: from.unwrap_or("src").into(),
        to: to.unwrap_or("tgt").into(),
        train: Split { name: "train".into(), files: Files::Stdin },
        dev: None,
        tests: vec![],
        notices: vec![],
    };
    corpus.describe();
    corpus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_follows_the_folder() {
        let source = |text: &str| text.parse::<Source>();
        assert_eq!(source("data"), Ok(Source::new("data")));
        assert_eq!(source("a=b/c=0.5"), Ok(Source { weight: 0.5, ..Source::new("a=b/c") }));
        assert!(source("data=x").unwrap_err().contains("\"x\" is not a number"));
        for bad in ["data=0", "data=-1", "data=inf", "data=nan", "data=1e9"] {
            assert!(source(bad).unwrap_err().contains("must be above 0"), "{bad}");
        }
        let dir = tempfile::tempdir().unwrap();
        let named = dir.path().join("x=2");
        std::fs::create_dir(&named).unwrap();
        assert_eq!(source(named.to_str().unwrap()), Ok(Source::new(&named)));
    }
}
