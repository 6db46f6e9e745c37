//! The pairs of a split, one after another: both files side by side, or the columns of a table. No more than
//! one pair is in memory.

use super::corpus::{Files, Split};
use super::hashing::Digest;
use super::lines::{Line, Lines};
use super::names::file_name;
use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// One pair as it stands in the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its line, from 1.
    pub number: usize,
    /// Source sentence.
    pub src: String,
    /// Target sentence; where a column is missing, empty.
    pub tgt: String,
    /// How many columns it has, if not as many as the table.
    pub odd_columns: Option<usize>,
}

/// The rows of a split. After the last one [`Rows::finish`] tells about the files.
pub struct Rows {
    sides: Vec<Side>,
    /// Of a table; none for two files.
    columns: Option<Columns>,
    rows: usize,
}

/// Which columns of a table are meant, from 0.
#[derive(Debug, Clone, Copy)]
struct Columns {
    src: usize,
    tgt: usize,
    expected: usize,
    header: bool,
}

impl Columns {
    /// Source, target and number of columns of a line; a missing column is empty.
    fn cut(&self, line: &str) -> (String, String, usize) {
        let (mut src, mut tgt, mut found) = (String::new(), String::new(), 0);
        for field in line.split('\t') {
            if found == self.src {
                src = field.to_string();
            } else if found == self.tgt {
                tgt = field.to_string();
            }
            found += 1;
        }
        (src, tgt, found)
    }
}

/// One file as it is read.
struct Side {
    lines: Lines,
    path: PathBuf,
    digest: Digest,
    read: usize,
    damaged: Damaged,
}

/// Lines that are not UTF-8.
#[derive(Default)]
struct Damaged {
    first: usize,
    count: usize,
}

/// What was seen of the files of a split.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Name and SHA-256 of every file.
    pub hashes: Vec<(String, String)>,
    /// What was wrong with them, a line each.
    pub notices: Vec<String>,
}

impl Side {
    fn open(path: &Path) -> Result<Self> {
        let (lines, digest) = Lines::open_hashed(path)?;
        Ok(Side::new(lines, path, digest))
    }

    fn new(lines: Lines, path: &Path, digest: Digest) -> Self {
        Side { lines, path: path.to_path_buf(), digest, read: 0, damaged: Damaged::default() }
    }

    fn next(&mut self) -> Result<Option<Line>> {
        let line = self.lines.next().transpose()?;
        if let Some(line) = &line {
            self.read += 1;
            if line.damaged {
                self.damaged.count += 1;
                self.damaged.first = if self.damaged.count == 1 { line.number } else { self.damaged.first };
            }
        }
        Ok(line)
    }

    fn notice(&self) -> Option<String> {
        let Damaged { first, count } = self.damaged;
        (count > 0).then(|| {
            format!(
                "{}: {count} of {} lines are not UTF-8 (the first is line {first}); the bad bytes became U+FFFD",
                self.path.display(),
                self.read
            )
        })
    }
}

impl Split {
    /// The pairs of this split, from the first.
    pub fn rows(&self) -> Result<Rows> {
        let (sides, columns) = match &self.files {
            Files::Two { src, tgt } => (vec![Side::open(src)?, Side::open(tgt)?], None),
            &Files::Table { ref path, src, tgt, expected, header } => {
                (vec![Side::open(path)?], Some(Columns { src, tgt, expected, header }))
            }
            Files::Stdin => {
                let (path, digest) = (Path::new("standard input"), Digest::default());
                let lines = Lines::new(digest.reader(std::io::stdin()), path)?;
                let columns = Columns { src: 0, tgt: 1, expected: 2, header: false };
                (vec![Side::new(lines, path, digest)], Some(columns))
            }
        };
        Ok(Rows { sides, columns, rows: 0 })
    }
}

impl Split {
    /// A line of a table as a pair, and whether it has too few or too many columns; none for the line of headings.
    pub fn cut(&self, line: &Line) -> Option<((String, String), bool)> {
        let &Files::Table { src, tgt, expected, header, .. } = &self.files else { return None };
        if header && line.number == 1 {
            return None;
        }
        let (src, tgt, found) = Columns { src, tgt, expected, header }.cut(&line.text);
        Some(((src, tgt), found != expected))
    }
}

impl Rows {
    /// The next pair. An error where one of two files ends before the other, or nothing was there.
    pub fn next_row(&mut self) -> Result<Option<Row>> {
        let row = match self.columns {
            None => self.side_by_side()?,
            Some(columns) => self.cut(columns)?,
        };
        match row {
            Some(row) => {
                self.rows += 1;
                Ok(Some(row))
            }
            None if self.rows == 0 => Err(self.nothing()),
            None => Ok(None),
        }
    }

    fn side_by_side(&mut self) -> Result<Option<Row>> {
        let [src, tgt] = &mut self.sides[..] else { return Ok(None) };
        match (src.next()?, tgt.next()?) {
            (Some(a), Some(b)) => {
                Ok(Some(Row { number: a.number, src: a.text, tgt: b.text, odd_columns: None }))
            }
            (None, None) => Ok(None),
            (a, _) => {
                let longer = if a.is_some() { &mut *src } else { &mut *tgt };
                while longer.next()?.is_some() {}
                Err(Error::Data(format!(
                    "{} has {} lines, but {} has {}: line N of one must translate line N of the other; \
                     find where they part and add or remove lines (only a line feed ends a line)",
                    src.path.display(),
                    src.read,
                    tgt.path.display(),
                    tgt.read
                )))
            }
        }
    }

    fn cut(&mut self, columns: Columns) -> Result<Option<Row>> {
        let [table] = &mut self.sides[..] else { return Ok(None) };
        if columns.header && table.read == 0 {
            table.next()?;
        }
        let Some(line) = table.next()? else { return Ok(None) };
        let (src, tgt, found) = columns.cut(&line.text);
        let odd_columns = Some(found).filter(|&found| found != columns.expected);
        Ok(Some(Row { number: line.number, src, tgt, odd_columns }))
    }

    fn nothing(&self) -> Error {
        let names: Vec<String> = self.sides.iter().map(|side| side.path.display().to_string()).collect();
        Error::Data(match &names[..] {
            [one] => format!("{one} has no lines of text"),
            names => format!("{} have no lines", names.join(" and ")),
        })
    }

    /// Hashes and notices of the files, once all rows were read.
    pub fn finish(self) -> Seen {
        Seen {
            hashes: self.sides.iter().map(|side| (file_name(&side.path), side.digest.hex())).collect(),
            notices: self.sides.iter().filter_map(Side::notice).collect(),
        }
    }
}
