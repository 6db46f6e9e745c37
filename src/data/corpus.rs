//! Finding parallel text in a folder: which files are train, dev and test, and which language is the source.
//!
//! A split is two files `SPLIT.LANGUAGE`, or one `SPLIT.tsv` with a column for each language; `names` says
//! what may stand there. Every choice made here is a notice, meant to be printed.

use super::lines::Lines;
use super::names::{self, DEV_NAMES, file_name, is_language, is_test, shortened};
use crate::{Error, Result};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The files of one parallel corpus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corpus {
    /// Source language, as the files name it.
    pub from: String,
    /// Target language, as the files name it.
    pub to: String,
    /// What to learn from.
    pub train: Split,
    /// What to measure progress on; without it a part of train is held out.
    pub dev: Option<Split>,
    /// What to score at the end, by name.
    pub tests: Vec<Split>,
    /// The choices made, a line each.
    pub notices: Vec<String>,
}

/// Where one part of a corpus lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// `train`, `dev`, `test_2016`: the file name up to the language.
    pub name: String,
    pub(super) files: Files,
}

/// The two sides of a split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Files {
    /// Line N of one file belongs to line N of the other.
    Two { src: PathBuf, tgt: PathBuf },
    /// Columns of one tab-separated file of `expected` columns, counted from 0, under a line of headings if `header`.
    Table { path: PathBuf, src: usize, tgt: usize, expected: usize, header: bool },
    /// Two columns from standard input.
    Stdin,
}

impl Split {
    /// Two files, line by line.
    pub fn of_files(src: &Path, tgt: &Path) -> Split {
        let files = Files::Two { src: src.to_path_buf(), tgt: tgt.to_path_buf() };
        Split { name: "pairs".into(), files }
    }

    /// A table; `from` and `to` name its columns if it has headings.
    pub fn of_table(path: &Path, from: Option<&str>, to: Option<&str>) -> Result<Split> {
        Ok(Split { name: "pairs".into(), files: table(path, from, to)?.2 })
    }

    /// Its files; none for standard input.
    pub fn paths(&self) -> Vec<&Path> {
        match &self.files {
            Files::Two { src, tgt } => vec![src, tgt],
            Files::Table { path, .. } => vec![path],
            Files::Stdin => vec![],
        }
    }

    /// SHA-256 of every file, by name.
    pub fn hashes(&self) -> Result<Vec<(String, String)>> {
        let hash = |path: &Path| {
            let mut sha = Sha256::new();
            let mut file = std::fs::File::open(path).map_err(|e| Error::io(path, e))?;
            std::io::copy(&mut file, &mut sha).map_err(|e| Error::io(path, e))?;
            Ok((file_name(path), format!("{:x}", sha.finalize())))
        };
        self.paths().into_iter().map(hash).collect()
    }

    pub(super) fn file_names(&self) -> String {
        match self.files {
            Files::Stdin => "standard input, two columns divided by a tab".into(),
            _ => self.paths().into_iter().map(file_name).collect::<Vec<_>>().join(" and "),
        }
    }
}

impl Corpus {
    /// Finds the corpus in `dir`; `from` and `to` name the languages where the files leave a choice.
    pub fn find(dir: impl AsRef<Path>, from: Option<&str>, to: Option<&str>) -> Result<Corpus> {
        if let (Some(from), Some(to)) = (from, to)
            && from == to
        {
            return Err(Error::Config(format!("--from and --to are both {from}; name two languages")));
        }
        let folder = Folder::read(dir.as_ref(), from, to)?;
        let languages = folder.languages("train");
        let (from, to, train) = if languages.len() < 2
            && let Some(path) = folder.file("train", "tsv")
        {
            let (from, to, files) = table(path, from, to)?;
            (from, to, Split { name: "train".into(), files })
        } else {
            let (from, to) = folder.direction(&languages, from, to)?;
            let train = folder.split("train", &from, &to)?.ok_or_else(|| folder.nothing_for("train"))?;
            (from, to, train)
        };
        let dev = folder.dev(&from, &to)?;
        let (tests, incomplete) = folder.tests(&from, &to)?;
        let mut corpus = Corpus { from, to, train, dev, tests, notices: vec![] };
        corpus.describe();
        corpus.notices.extend(incomplete);
        corpus.notices.extend(folder.left_over(&corpus));
        Ok(corpus)
    }

    /// Writes the notices about what was found.
    pub(super) fn describe(&mut self) {
        let (from, to) = (&self.from, &self.to);
        let names = |splits: &[Split]| splits.iter().map(Split::file_names).collect::<Vec<_>>().join(", ");
        let dev = self.dev.as_ref().map_or_else(
            || {
                format!(
                    "none found (looked for {}): pairs of train will be held out",
                    DEV_NAMES.map(|n| format!("{n}.{from}")).join(", ")
                )
            },
            Split::file_names,
        );
        self.notices = vec![
            format!("direction: {from} to {to} (--from and --to choose another)"),
            format!("train: {}", self.train.file_names()),
            format!("dev: {dev}"),
        ];
        if !self.tests.is_empty() {
            self.notices.push(format!("test: {}", names(&self.tests)));
        }
    }
}

/// The files of a folder whose names are `STEM.SUFFIX` of some split, packed or not.
struct Folder {
    dir: PathBuf,
    /// Stem, suffix, path; sorted, so that a plain file comes before its packed twin.
    files: Vec<(String, String, PathBuf)>,
    /// All names, for messages.
    names: Vec<String>,
    /// Languages named by the caller.
    asked: Vec<String>,
}

impl Folder {
    fn read(dir: &Path, from: Option<&str>, to: Option<&str>) -> Result<Folder> {
        let entries = std::fs::read_dir(dir).map_err(|e| Error::io(dir, e))?;
        let mut paths = vec![];
        for entry in entries {
            let path = entry.map_err(|e| Error::io(dir, e))?.path();
            if !path.is_dir() {
                paths.push(path);
            }
        }
        paths.sort();
        let parse = |path: &PathBuf| {
            names::parse(&file_name(path)).map(|(stem, suffix)| (stem, suffix, path.clone()))
        };
        Ok(Folder {
            dir: dir.to_path_buf(),
            files: paths.iter().filter_map(parse).collect(),
            names: paths.iter().map(|path| file_name(path)).collect(),
            asked: [from, to].into_iter().flatten().map(String::from).collect(),
        })
    }

    fn file(&self, stem: &str, suffix: &str) -> Option<&Path> {
        self.files.iter().find(|(a, b, _)| a == stem && b == suffix).map(|(_, _, path)| path.as_path())
    }

    fn languages(&self, stem: &str) -> BTreeSet<&str> {
        let suffixes = self.files.iter().filter(|(a, _, _)| a == stem).map(|(_, suffix, _)| suffix.as_str());
        suffixes.filter(|&suffix| suffix != "tsv" && self.is_language(suffix)).collect()
    }

    fn is_language(&self, suffix: &str) -> bool {
        self.asked.iter().any(|asked| asked == suffix) || is_language(suffix)
    }

    /// Source and target among the `languages` that have a train file.
    fn direction(
        &self,
        languages: &BTreeSet<&str>,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Result<(String, String)> {
        if let Some(missing) = self.asked.iter().find(|asked| !languages.contains(asked.as_str())) {
            return Err(Error::Data(format!("{}: no train.{missing}; {}", self.dir.display(), self.found())));
        }
        let list: Vec<&str> = languages.iter().copied().collect();
        if list.len() < 2 {
            return Err(self.nothing_for("train"));
        }
        choose(&list, from, to).map_err(|what| Error::Data(format!("{}: {what}", self.dir.display())))
    }

    /// The split `stem` in the two languages; none if neither side exists, an error if only one does.
    fn split(&self, stem: &str, from: &str, to: &str) -> Result<Option<Split>> {
        let name = stem.to_string();
        match (self.file(stem, from), self.file(stem, to)) {
            (Some(src), Some(tgt)) => {
                let files = Files::Two { src: src.to_path_buf(), tgt: tgt.to_path_buf() };
                Ok(Some(Split { name, files }))
            }
            (None, None) => self
                .file(stem, "tsv")
                .map(|path| Ok(Split { name, files: table(path, Some(from), Some(to))?.2 }))
                .transpose(),
            (src, tgt) => {
                let there = src.or(tgt).map(file_name).unwrap_or_default();
                let lacks = if src.is_some() { to } else { from };
                Err(Error::Data(format!(
                    "{}: {there} has no partner {stem}.{lacks}; {}",
                    self.dir.display(),
                    self.found()
                )))
            }
        }
    }

    fn dev(&self, from: &str, to: &str) -> Result<Option<Split>> {
        let found: Vec<_> = DEV_NAMES.iter().map(|stem| self.split(stem, from, to)).collect();
        match found.iter().position(|split| matches!(split, Ok(Some(_)))) {
            Some(complete) => found.into_iter().nth(complete).unwrap_or(Ok(None)),
            None => found.into_iter().find(Result::is_err).unwrap_or(Ok(None)),
        }
    }

    /// The complete test sets, and a notice for each that lacks a side.
    fn tests(&self, from: &str, to: &str) -> Result<(Vec<Split>, Vec<String>)> {
        let stems: BTreeSet<&str> =
            self.files.iter().map(|(stem, _, _)| stem.as_str()).filter(|stem| is_test(stem)).collect();
        let (mut tests, mut notices) = (vec![], vec![]);
        for stem in stems {
            match self.split(stem, from, to) {
                Ok(split) => tests.extend(split),
                Err(Error::Data(_)) => notices.push(format!("{stem} lacks {from} or {to}, left out")),
                Err(e) => return Err(e),
            }
        }
        Ok((tests, notices))
    }

    /// Notices about files that look like parts of the corpus and are not used.
    fn left_over(&self, corpus: &Corpus) -> Vec<String> {
        let splits = [&corpus.train].into_iter().chain(&corpus.dev).chain(&corpus.tests);
        let used: Vec<&Path> = splits.flat_map(|split| split.paths()).collect();
        let mut other = vec![];
        let mut odd = vec![];
        for (_, suffix, path) in self.files.iter().filter(|(_, _, path)| !used.contains(&path.as_path())) {
            if [&corpus.from, &corpus.to].contains(&suffix) || suffix == "tsv" {
                other.push(file_name(path));
            } else if !self.is_language(suffix) {
                odd.push(file_name(path));
            }
        }
        let notice = |names: Vec<String>, why: &str| {
            (!names.is_empty()).then(|| format!("not used: {} ({why})", shortened(&names)))
        };
        let other = notice(other, "another file was chosen or its partner is missing");
        let odd = notice(odd, "the ending is no language code; --from and --to may name it");
        other.into_iter().chain(odd).collect()
    }

    fn nothing_for(&self, stem: &str) -> Error {
        Error::Data(format!(
            "{}: no parallel text: looked for two files {stem}.XX and {stem}.YY, XX and YY two language codes \
             or src and tgt, or for {stem}.tsv (each also with .gz or .zst); {}",
            self.dir.display(),
            self.found()
        ))
    }

    fn found(&self) -> String {
        if self.names.is_empty() {
            return "the folder has no files".into();
        }
        format!("found {}", shortened(&self.names))
    }
}

/// Source and target of `languages`: as asked; src before tgt, English before others, else by alphabet.
fn choose(languages: &[&str], from: Option<&str>, to: Option<&str>) -> Result<(String, String), String> {
    let rest = |taken: &str| languages.iter().copied().filter(|&l| l != taken).collect::<Vec<_>>();
    let pair = match (from, to) {
        (Some(from), Some(to)) => Some((from, to)),
        (Some(from), None) if languages.len() == 2 => Some((from, rest(from)[0])),
        (None, Some(to)) if languages.len() == 2 => Some((rest(to)[0], to)),
        (None, None) if languages.len() == 2 => {
            let (a, b) = (languages[0], languages[1]);
            let first =
                |l: &str| l == "src" || ["en", "eng"].contains(&l.split(['_', '-']).next().unwrap_or(l));
            Some(if first(b) && !first(a) { (b, a) } else { (a, b) })
        }
        _ => None,
    };
    pair.map(|(from, to)| (from.to_string(), to.to_string())).ok_or_else(|| {
        format!(
            "found the languages {}; choose two with --from and --to, such as --from {} --to {}",
            languages.join(", "),
            languages[0],
            languages[1]
        )
    })
}

/// The columns of a tab-separated file. Its first line is a header if it holds the languages asked for, or
/// if its fields are language codes; without a header the first column is the source.
fn table(path: &Path, from: Option<&str>, to: Option<&str>) -> Result<(String, String, Files)> {
    let first = Lines::open(path)?.next().transpose()?.map(|line| line.text).unwrap_or_default();
    let fields: Vec<&str> = first.split('\t').map(str::trim).collect();
    if fields.len() < 2 {
        return Err(Error::format(path, "line 1: expected two columns divided by a tab, found none"));
    }
    let asked: Vec<&str> = from.into_iter().chain(to).collect();
    // In a header a code starts small; "Hi" and "No" are sentences.
    let is_code = |f: &&str| asked.contains(f) || (is_language(f) && f.starts_with(char::is_lowercase));
    let languages: Vec<&str> = fields.iter().copied().filter(is_code).collect();
    let header =
        languages.len() >= 2 && asked.iter().all(|l| languages.contains(l)) && languages[0] != languages[1];
    let (from, to) = if header {
        choose(&languages, from, to).map_err(|what| Error::format(path, what))?
    } else {
        (from.unwrap_or("src").to_string(), to.unwrap_or("tgt").to_string())
    };
    let column =
        |language: &str, or: usize| fields.iter().position(|f| header && *f == language).unwrap_or(or);
    let (src, tgt) = (column(&from, 0), column(&to, 1));
    let files = Files::Table { path: path.to_path_buf(), src, tgt, expected: fields.len(), header };
    Ok((from, to, files))
}
