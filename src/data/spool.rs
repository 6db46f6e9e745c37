//! Pairs on disk between reading and encoding, so that a corpus need not fit into memory: source and target,
//! a line each.

use crate::rng::Rng;
use crate::{Error, Result};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Pairs that are handled at a time.
pub(super) const CHUNK: usize = 50_000;

/// A file of pairs.
#[derive(Debug, Clone)]
pub struct Spool {
    path: PathBuf,
    len: usize,
    /// Positions that were taken out, in order.
    held: Vec<u32>,
}

/// Writes a [`Spool`].
pub(super) struct SpoolWriter {
    path: PathBuf,
    file: BufWriter<File>,
    len: usize,
}

impl SpoolWriter {
    pub(super) fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).map_err(|e| Error::io(path, e))?;
        Ok(SpoolWriter { path: path.to_path_buf(), file: BufWriter::with_capacity(1 << 18, file), len: 0 })
    }

    pub(super) fn push(&mut self, src: &str, tgt: &str) -> Result<()> {
        self.len += 1;
        let parts = [src, "\n", tgt, "\n"];
        parts
            .iter()
            .try_for_each(|part| self.file.write_all(part.as_bytes()))
            .map_err(|e| Error::io(&self.path, e))
    }

    pub(super) fn finish(mut self) -> Result<Spool> {
        self.file.flush().map_err(|e| Error::io(&self.path, e))?;
        Ok(Spool { path: self.path, len: self.len, held: vec![] })
    }
}

impl Spool {
    /// A file that was written before and has `len` pairs.
    pub(super) fn open(path: &Path, len: usize) -> Self {
        Spool { path: path.to_path_buf(), len, held: vec![] }
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.len - self.held.len()
    }

    /// Whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes out the pairs at these positions, which are in order, and gives them.
    pub(super) fn take(&mut self, positions: Vec<u32>) -> Result<Vec<(String, String)>> {
        let mut taken = vec![];
        let mut wanted = positions.iter().peekable();
        let mut at = 0u32;
        for chunk in self.chunks()? {
            for pair in chunk? {
                if wanted.next_if(|&&position| position == at).is_some() {
                    taken.push(pair);
                }
                at += 1;
            }
            if wanted.peek().is_none() {
                break;
            }
        }
        self.held = positions;
        Ok(taken)
    }

    /// `size` of the pairs, each set of so many equally likely (Knuth's algorithm S), or all if there are no more.
    pub fn sample(&self, size: usize, seed: u64) -> Result<Vec<(String, String)>> {
        let mut rng = Rng::new(seed, "sample of pairs");
        let (mut sample, mut left) = (vec![], self.len());
        for chunk in self.chunks()? {
            for pair in chunk? {
                if rng.below(left) < size.saturating_sub(sample.len()) {
                    sample.push(pair);
                }
                left -= 1;
            }
        }
        Ok(sample)
    }

    /// The pairs from the first, [`CHUNK`] at a time.
    pub(super) fn chunks(&self) -> Result<Chunks<'_>> {
        let file = File::open(&self.path).map_err(|e| Error::io(&self.path, e))?;
        Ok(Chunks { spool: self, file: BufReader::with_capacity(1 << 18, file), at: 0, held: 0 })
    }

    /// Removes the file.
    pub(super) fn remove(self) -> Result<()> {
        std::fs::remove_file(&self.path).map_err(|e| Error::io(&self.path, e))
    }
}

/// An iterator over the pairs of a [`Spool`].
pub(super) struct Chunks<'a> {
    spool: &'a Spool,
    file: BufReader<File>,
    at: usize,
    held: usize,
}

impl Chunks<'_> {
    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.file.read_line(&mut line).map_err(|e| Error::io(&self.spool.path, e))?;
        if line.pop() != Some('\n') {
            return Err(Error::format(&self.spool.path, "cut short while it was in use"));
        }
        Ok(line)
    }

    fn read(&mut self) -> Result<Vec<(String, String)>> {
        let mut chunk = vec![];
        while chunk.len() < CHUNK && self.at < self.spool.len {
            let pair = (self.line()?, self.line()?);
            if self.spool.held.get(self.held) == Some(&(self.at as u32)) {
                self.held += 1;
            } else {
                chunk.push(pair);
            }
            self.at += 1;
        }
        Ok(chunk)
    }
}

impl Iterator for Chunks<'_> {
    type Item = Result<Vec<(String, String)>>;

    fn next(&mut self) -> Option<Self::Item> {
        (self.at < self.spool.len).then(|| self.read())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_back_without_those_taken_out() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = SpoolWriter::create(&dir.path().join("spool")).unwrap();
        for i in 0..5 {
            writer.push(&format!("s{i}\r"), &format!("t{i}\u{2028}")).unwrap();
        }
        let mut spool = writer.finish().unwrap();
        let pair = |i: u32| (format!("s{i}\r"), format!("t{i}\u{2028}"));
        assert_eq!(spool.take(vec![0, 3]).unwrap(), [pair(0), pair(3)]);
        assert_eq!(spool.len(), 3);
        let rest: Vec<_> = spool.chunks().unwrap().flat_map(|chunk| chunk.unwrap()).collect();
        assert_eq!(rest, [pair(1), pair(2), pair(4)]);
    }

    #[test]
    fn a_sample_follows_the_seed_and_favours_no_pair() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = SpoolWriter::create(&dir.path().join("spool")).unwrap();
        (0..10).for_each(|i| writer.push(&i.to_string(), "x").unwrap());
        let spool = writer.finish().unwrap();
        let sample = |size, seed| spool.sample(size, seed).unwrap();
        assert_eq!((sample(3, 1), sample(3, 1).len()), (sample(3, 1), 3));
        assert_eq!(sample(20, 1).len(), 10);
        let mut seen = [0; 10];
        for seed in 0..1000 {
            sample(3, seed).iter().for_each(|(src, _)| seen[src.parse::<usize>().unwrap()] += 1);
        }
        assert!(seen.iter().all(|n| (240..360).contains(n)), "{seen:?}");
    }
}
