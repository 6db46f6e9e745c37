//! Ids of pieces: in memory, or in a file that is mapped into memory, of which the system keeps as much as it has
//! room for. In a file an id takes two bytes if the vocabulary allows it, else four, little end first.

use crate::{Error, Result};
use memmap2::Mmap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A sequence of ids.
#[derive(Debug)]
pub(super) enum Ids {
    /// As they are.
    Memory(Vec<u32>),
    /// A file of ids below 2^16.
    Narrow(Mmap),
    /// A file of any ids.
    Wide(Mmap),
}

impl Default for Ids {
    fn default() -> Self {
        Ids::Memory(vec![])
    }
}

impl Ids {
    /// Maps the file at `path`, which must have `count` ids of a vocabulary of `vocab` pieces.
    pub(super) fn open(path: &Path, vocab: usize, count: u64) -> Result<Ids> {
        let file = File::open(path).map_err(|e| Error::io(path, e))?;
        let (found, expected) =
            (file.metadata().map_err(|e| Error::io(path, e))?.len(), count * width(vocab) as u64);
        if found != expected {
            return Err(Error::format(path, format!("has {found} bytes, expected {expected}")));
        }
        // SAFETY: the file lies in the folder of the run, which a lock keeps for this process; it is written whole before
        // it is mapped and never written again while it is.
        let map = unsafe { Mmap::map(&file) }.map_err(|e| Error::io(path, e))?;
        Ok(if width(vocab) == 2 { Ids::Narrow(map) } else { Ids::Wide(map) })
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        match self {
            Ids::Memory(ids) => ids.len(),
            Ids::Narrow(map) => map.len() / 2,
            Ids::Wide(map) => map.len() / 4,
        }
    }

    /// Adds the ids of `range` to `to`.
    pub(super) fn copy(&self, range: Range<usize>, to: &mut Vec<u32>) {
        match self {
            Ids::Memory(ids) => to.extend_from_slice(&ids[range]),
            Ids::Narrow(map) => {
                let (ids, _) = map[2 * range.start..2 * range.end].as_chunks::<2>();
                to.extend(ids.iter().map(|&id| u32::from(u16::from_le_bytes(id))));
            }
            Ids::Wide(map) => {
                let (ids, _) = map[4 * range.start..4 * range.end].as_chunks::<4>();
                to.extend(ids.iter().map(|&id| u32::from_le_bytes(id)));
            }
        }
    }

    /// Adds `more` to ids in memory; a mapped file stays as it is.
    pub(super) fn extend(&mut self, more: &[u32]) {
        if let Ids::Memory(ids) = self {
            ids.extend_from_slice(more);
        }
    }
}

/// Bytes of an id.
fn width(vocab: usize) -> usize {
    if vocab <= 1 << 16 { 2 } else { 4 }
}

/// Writes a file of ids.
pub(super) struct IdsWriter {
    path: PathBuf,
    file: BufWriter<File>,
    vocab: usize,
    count: u64,
}

impl IdsWriter {
    pub(super) fn create(path: &Path, vocab: usize) -> Result<Self> {
        let file = File::create(path).map_err(|e| Error::io(path, e))?;
        let file = BufWriter::with_capacity(1 << 18, file);
        Ok(IdsWriter { path: path.to_path_buf(), file, vocab, count: 0 })
    }

    pub(super) fn push(&mut self, ids: &[u32]) -> Result<()> {
        self.count += ids.len() as u64;
        let width = width(self.vocab);
        ids.iter()
            .try_for_each(|id| self.file.write_all(&id.to_le_bytes()[..width]))
            .map_err(|e| Error::io(&self.path, e))
    }

    /// The file, mapped.
    pub(super) fn finish(mut self) -> Result<Ids> {
        self.file.flush().map_err(|e| Error::io(&self.path, e))?;
        Ids::open(&self.path, self.vocab, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_back_from_both_widths() {
        let dir = tempfile::tempdir().unwrap();
        for (vocab, ids, size) in [(1 << 16, [3, 65_535, 0, 7], 8), ((1 << 16) + 1, [3, 65_536, 0, 7], 16)] {
            let path = dir.path().join(vocab.to_string());
            let mut writer = IdsWriter::create(&path, vocab).unwrap();
            writer.push(&ids[..3]).unwrap();
            writer.push(&ids[3..]).unwrap();
            let read = writer.finish().unwrap();
            let mut found = vec![9];
            read.copy(1..4, &mut found);
            assert_eq!((found, read.len()), ([&[9], &ids[1..]].concat(), 4));
            assert_eq!(std::fs::metadata(&path).unwrap().len(), size);
            std::fs::write(&path, [0; 5]).unwrap();
            let message = Ids::open(&path, vocab, 4).unwrap_err().to_string();
            assert!(message.contains(&format!("has 5 bytes, expected {size}")), "{message}");
        }
    }
}
