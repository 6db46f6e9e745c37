//! The one pass over the files of train: read, hash, filter, and write what is kept to a [`Spool`]. What is held of
//! each pair in memory are hashes of 8 bytes (that two sentences of ten million share one by chance: 3 in a million).

use super::filter::{Filters, Report};
use super::rows::{Row, Rows, Seen};
use super::sources::Part;
use super::spool::{CHUNK, Spool, SpoolWriter};
use crate::Result;
use crate::rng::hash;
use crate::text::{clean, is_blank};
use rayon::prelude::*;
use std::collections::HashSet;
use std::path::Path;

/// What the pass found.
pub(super) struct Intake {
    /// The pairs that were kept.
    pub spool: Spool,
    /// How many of each part, and why not the others.
    pub reports: Vec<Report>,
    /// Of the files.
    pub seen: Vec<Seen>,
    /// A hash of the folded source of each kept pair of the first part, if it was asked for.
    pub sources: Vec<u64>,
}

/// Why a pair is dropped, in the order of the report.
const REASONS: [&str; 5] = [
    "with an empty source",
    "with an empty target",
    "with both sides empty",
    "with identical sides",
    "seen before",
];
const IDENTICAL: usize = 3;
const DUPLICATE: usize = 4;

/// What one look at a pair gives.
struct Look {
    reason: Option<usize>,
    pair: u64,
    source: u64,
}

/// Reads all `parts` into a file at `path`. `sources` asks for the hashes from which a dev set is held out.
pub(super) fn intake(parts: &[Part], filters: &Filters, sources: bool, path: &Path) -> Result<Intake> {
    let mut spool = SpoolWriter::create(path)?;
    let (mut reports, mut seen, mut keys) = (vec![], vec![], vec![]);
    let mut known = HashSet::new();
    for (index, part) in parts.iter().enumerate() {
        let mut rows = part.split.rows()?;
        let sources = sources && index == 0;
        let mut counts = Counts::default();
        loop {
            let chunk = next_chunk(&mut rows, &mut counts)?;
            if chunk.is_empty() {
                break;
            }
            let look = |row: &Row| look(row, filters, sources);
            let looks: Vec<Look> = chunk.par_iter().map(look).collect();
            for (row, look) in chunk.iter().zip(looks) {
                let mut reason = look.reason;
                if reason.is_none() && filters.drop_duplicates && !known.insert(look.pair) {
                    reason = Some(DUPLICATE);
                }
                match reason {
                    Some(reason) => counts.dropped[reason] += 1,
                    None => {
                        spool.push(&row.src, &row.tgt)?;
                        if sources {
                            keys.push(look.source);
                        }
                    }
                }
            }
        }
        reports.push(counts.report(&part.name)?);
        seen.push(rows.finish());
    }
    Ok(Intake { spool: spool.finish()?, reports, seen, sources: keys })
}

/// Rows of a part, and how many were dropped for what.
#[derive(Default)]
struct Counts {
    read: usize,
    dropped: [usize; REASONS.len()],
    odd_columns: usize,
    /// Line and number of columns of the first of them.
    first_odd: (usize, usize),
}

impl Counts {
    fn report(self, name: &str) -> Result<Report> {
        let mut report = Report::new(name, self.read);
        let (line, columns) = self.first_odd;
        let odd = format!("with too few or too many columns (the first is line {line}, with {columns})");
        report.note_dropped(&odd, self.odd_columns)?;
        REASONS
            .iter()
            .zip(self.dropped)
            .try_for_each(|(reason, count)| report.note_dropped(reason, count))?;
        Ok(report)
    }
}

/// The next rows that have their columns; empty at the end.
fn next_chunk(rows: &mut Rows, counts: &mut Counts) -> Result<Vec<Row>> {
    let mut chunk = vec![];
    while chunk.len() < CHUNK
        && let Some(row) = rows.next_row()?
    {
        counts.read += 1;
        match row.odd_columns {
            None => chunk.push(row),
            Some(columns) => {
                if counts.odd_columns == 0 {
                    counts.first_odd = (row.number, columns);
                }
                counts.odd_columns += 1;
            }
        }
    }
    Ok(chunk)
}

fn look(row: &Row, filters: &Filters, source: bool) -> Look {
    let reason = match (is_blank(&row.src), is_blank(&row.tgt)) {
        (true, false) => Some(0),
        (false, true) => Some(1),
        (true, true) => Some(2),
        _ if filters.drop_identical && clean(&row.src) == clean(&row.tgt) => Some(IDENTICAL),
        _ => None,
    };
    let pair = if filters.drop_duplicates { pair_hash(&row.src, &row.tgt) } else { 0 };
    let source = if source { text_hash(&super::filter::folded(&row.src)) } else { 0 };
    Look { reason, pair, source }
}

/// 64 bits of a text.
pub(crate) fn text_hash(text: &str) -> u64 {
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    text.as_bytes().chunks(8).fold(text.len() as u64, |key, bytes| hash(key, word(bytes)))
}

/// 64 bits of a pair.
pub(crate) fn pair_hash(src: &str, tgt: &str) -> u64 {
    hash(text_hash(src), text_hash(tgt))
}
