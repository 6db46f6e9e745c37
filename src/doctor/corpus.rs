//! What may be wrong with parallel text. Unlike training, which stops at the first thing it cannot use, this goes on.

use super::checks::{self, Check, Tally};
use super::{Diagnosis, Finding, Level};
use crate::data::{Corpus, Line, Lines, OverlapCounter, Split, Text, pair_hash};
use crate::text::{Tokenizer, clean, is_blank};
use crate::{Error, Result};
use rayon::prelude::*;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Lines that are looked at together.
const CHUNK: usize = 50_000;
/// A side this many times as long as the other is odd ...
const RATIO: usize = 9;
/// ... if it is at least this long, in characters.
const LONG: usize = 20;

/// What to look at.
#[derive(Debug, Clone)]
pub enum Target {
    /// A folder of splits.
    Folder(PathBuf),
    /// Two files, line by line.
    Files(PathBuf, PathBuf),
    /// A table of two columns divided by a tab.
    Table(PathBuf),
}

/// Looks at a corpus. An error only where there is nothing to look at.
pub fn corpus(
    target: &Target,
    from: Option<&str>,
    to: Option<&str>,
    tokenizer: Option<&Tokenizer>,
) -> Result<Diagnosis> {
    let mut diagnosis = Diagnosis::default();
    let (train, rest) = match target {
        Target::Files(src, tgt) => (Split::of_files(src, tgt), vec![]),
        Target::Table(path) => (Split::of_table(path, from, to)?, vec![]),
        Target::Folder(folder) => match Corpus::find(folder, from, to) {
            Ok(corpus) => {
                diagnosis.facts.extend(corpus.notices);
                (corpus.train, corpus.dev.into_iter().chain(corpus.tests).collect())
            }
            Err(error @ (Error::Data(_) | Error::Format { .. })) => {
                diagnosis.problem("files", folder.display().to_string(), 1, error.to_string());
                return Ok(diagnosis);
            }
            Err(error) => return Err(error),
        },
    };
    let mut examination = Examination { tokenizer, diagnosis, overlap: None };
    let mut others = vec![];
    for split in &rest {
        others.push(examination.split(split)?);
    }
    let others: Vec<&Text> = others.iter().collect();
    examination.overlap = Some(OverlapCounter::new(&others));
    examination.split(&train)?;
    Ok(examination.finish(&train))
}

/// What goes on from split to split.
struct Examination<'a> {
    tokenizer: Option<&'a Tokenizer>,
    diagnosis: Diagnosis,
    /// While train is read, which comes last.
    overlap: Option<OverlapCounter>,
}

/// One line of a file, or of both.
type Both = (Option<Line>, Option<Line>);

impl Examination<'_> {
    /// Looks at a split, and gives its text unless it is train.
    fn split(&mut self, split: &Split) -> Result<Text> {
        let mut text = Text { name: split.name.clone(), ..Text::default() };
        let paths = split.paths();
        let mut files: Vec<Tally> = paths.iter().map(|path| Tally::new(path.display().to_string())).collect();
        let mut pairs = Tally::new(files_name(&paths));
        let mut lines: Vec<Lines> = paths.iter().map(Lines::open).collect::<Result<_>>()?;
        let mut seen = HashSet::new();
        loop {
            let chunk = match self.chunk(&mut lines) {
                Ok(chunk) => chunk,
                Err(error @ Error::Format { .. }) => {
                    self.diagnosis.problem("format", files_name(&paths), 1, error.to_string());
                    break;
                }
                Err(error) => return Err(error),
            };
            if chunk.is_empty() {
                break;
            }
            let looks: Vec<Look> =
                chunk.par_iter().map(|lines| self.look(split, lines)).collect::<Result<_>>()?;
            for (both, look) in chunk.iter().zip(&looks) {
                tally(&mut files, both, look);
                let line = both.0.as_ref().map_or(0, |line| line.number);
                look.of_pair.iter().for_each(|check| pairs.add(*check, line));
                let Some((src, tgt)) = &look.pair else { continue };
                pairs.count_line();
                let is_empty = is_blank(src) && is_blank(tgt);
                if !is_empty && !seen.insert(pair_hash(src, tgt)) {
                    pairs.add(checks::DUPLICATE, line);
                }
            }
            let kept = looks.into_iter().filter_map(|look| look.pair);
            match &mut self.overlap {
                Some(overlap) => overlap.see(&kept.collect::<Vec<_>>()),
                None => kept.for_each(|(src, tgt)| {
                    text.src.push(src);
                    text.tgt.push(tgt);
                }),
            }
        }
        self.report(split, files, pairs);
        Ok(text)
    }

    /// The next lines of all files; of one file alone where the other has ended.
    fn chunk(&self, lines: &mut [Lines]) -> Result<Vec<Both>> {
        let mut chunk = vec![];
        while chunk.len() < CHUNK {
            let mut next = lines.iter_mut().map(|lines| lines.next().transpose());
            let both = (next.next().transpose()?.flatten(), next.next().transpose()?.flatten());
            if both.0.is_none() && both.1.is_none() {
                break;
            }
            chunk.push(both);
        }
        Ok(chunk)
    }

    fn look(&self, split: &Split, (first, second): &Both) -> Result<Look> {
        let mut look = Look::default();
        for (side, line) in [first, second].into_iter().enumerate() {
            if let Some(line) = line {
                look.of_side[side] = of_line(line);
            }
        }
        look.pair = match (first, second) {
            (Some(src), Some(tgt)) => Some((src.text.clone(), tgt.text.clone())),
            (Some(row), None) => match split.cut(row) {
                Some((pair, is_odd)) => {
                    look.of_pair.extend(is_odd.then_some(checks::COLUMNS));
                    Some(pair).filter(|_| !is_odd)
                }
                None => None,
            },
            _ => None,
        };
        if let Some((src, tgt)) = &look.pair {
            look.of_pair.extend(of_pair(src, tgt));
            if let Some(tokenizer) = self.tokenizer {
                // The sides of a table are in one file.
                let places = if second.is_some() { [0, 1] } else { [0, 0] };
                let sides = [(tokenizer, src), (tokenizer.tgt(), tgt)];
                for (place, (tokenizer, text)) in places.into_iter().zip(sides) {
                    look.of_side[place].extend(of_pieces(tokenizer, text)?);
                }
            }
        }
        Ok(look)
    }

    fn report(&mut self, split: &Split, files: Vec<Tally>, pairs: Tally) {
        let counts: Vec<usize> = files.iter().map(Tally::lines).collect();
        let paths = split.paths();
        let name = &split.name;
        self.diagnosis.facts.push(format!("{name}: {} pairs in {}", pairs.lines(), files_name(&paths)));
        if let [src, tgt] = counts[..]
            && src != tgt
        {
            let what = format!("{src} and {tgt} lines: line N of one must translate line N of the other");
            self.diagnosis.problem("line-count", files_name(&paths), src.abs_diff(tgt), what);
        }
        if counts.contains(&0) {
            self.diagnosis.problem("no-lines", files_name(&paths), 1, "a file has no lines");
        }
        files.into_iter().for_each(|file| file.report(&mut self.diagnosis));
        pairs.report(&mut self.diagnosis);
    }

    fn finish(self, train: &Split) -> Diagnosis {
        let Examination { mut diagnosis, overlap, .. } = self;
        let overlaps = overlap.map(OverlapCounter::finish).unwrap_or_default();
        for overlap in overlaps.iter().filter(|overlap| !overlap.is_empty()) {
            let what = overlap.to_string();
            let what = what.strip_prefix("warning: ").unwrap_or(&what);
            let count = overlap.folded_pair.max(overlap.folded_src);
            diagnosis.problem("overlap", files_name(&train.paths()), count, what);
        }
        // Sorted by weight, in the order of the splits.
        diagnosis.findings.sort_by_key(|finding: &Finding| finding.level == Level::Note);
        diagnosis
    }
}

/// What was found in one line of both files.
#[derive(Default)]
struct Look {
    of_side: [Vec<Check>; 2],
    of_pair: Vec<Check>,
    pair: Option<(String, String)>,
}

fn tally(files: &mut [Tally], both: &Both, look: &Look) {
    for ((file, line), found) in files.iter_mut().zip([&both.0, &both.1]).zip(&look.of_side) {
        if let Some(line) = line {
            file.count_line();
            found.iter().for_each(|check| file.add(*check, line.number));
        }
    }
}

/// What can be seen of a line alone.
fn of_line(line: &Line) -> Vec<Check> {
    let has = |any: &[char]| line.text.contains(any);
    let found = [
        (line.damaged, checks::BAD_UTF8),
        (line.ends_in_cr, checks::CRLF),
        (has(&['\r']), checks::CARRIAGE_RETURN),
        (has(&['\u{2028}', '\u{2029}', '\u{85}', '\u{B}', '\u{C}']), checks::LINE_BREAK),
        (line.had_bom || has(&['\u{FEFF}']), checks::BOM),
    ];
    found.into_iter().filter_map(|(is_found, check)| is_found.then_some(check)).collect()
}

/// What can be seen of a pair.
fn of_pair(src: &str, tgt: &str) -> Option<Check> {
    match (is_blank(src), is_blank(tgt)) {
        (true, true) => return Some(checks::EMPTY_BOTH),
        (true, false) => return Some(checks::EMPTY_SOURCE),
        (false, true) => return Some(checks::EMPTY_TARGET),
        _ => {}
    }
    let (n, m) = (src.chars().count(), tgt.chars().count());
    if n.max(m) >= LONG && n.max(m) > RATIO * n.min(m) {
        return Some(checks::RATIO);
    }
    (clean(src) == clean(tgt)).then_some(checks::COPIED)
}

/// What the tokenizer makes of a side.
fn of_pieces(tokenizer: &Tokenizer, text: &str) -> Result<Option<Check>> {
    let ids = tokenizer.encode(text)?;
    let is_byte = |&id: &u32| tokenizer.piece(id).starts_with("<0x");
    Ok(match tokenizer.count_unknown(&ids) {
        0 => ids.iter().any(is_byte).then_some(checks::BYTES),
        _ => Some(checks::UNKNOWN),
    })
}

fn files_name(paths: &[&Path]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" and ")
}
