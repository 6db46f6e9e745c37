//! The token cache of a run: train as ids in a file, so that a corpus of any size trains in little memory and a resumed
//! run need not encode again. Next to the ids lies the text if pieces are sampled anew in each epoch.
//!
//! `ids` and `lengths` are written first and `cache.json` last, so that a cache without it counts as none. It belongs to
//! the key in `cache.json`: a hash of text, tokenizer and filters.

use super::filter::{Filters, Overlap, Report};
use super::ids::{Ids, IdsWriter};
use super::pairs::Pairs;
use super::spool::{Spool, SpoolWriter};
use super::text::{Data, Text};
use super::train_set::TrainSet;
use crate::text::Tokenizer;
use crate::{Error, Result};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// What is known of a cache besides its ids.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Meta {
    /// Of what it was made.
    pub key: String,
    /// Pairs of each part of train.
    pub parts: Vec<usize>,
    /// What was kept of each part.
    pub reports: Vec<Report>,
    /// Dev, if it was held out of train.
    pub held_out: Option<Text>,
    /// Pairs of dev or test that are also in train.
    pub overlaps: Vec<Overlap>,
    /// Whether the text is here too.
    pub has_text: bool,
}

/// The folder of a cache.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// The cache in `folder`, which may not be there yet.
    pub fn new(folder: PathBuf) -> Self {
        Cache { folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Where the text goes while it is read, in a fresh folder.
    pub fn begin(&self) -> Result<PathBuf> {
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder).map_err(|e| Error::io(&self.folder, e))?;
        }
        fs::create_dir_all(&self.folder).map_err(|e| Error::io(&self.folder, e))?;
        Ok(self.file("spool"))
    }

    /// What was written for `key`; none if that is not here.
    pub fn meta(&self, key: &str) -> Option<Meta> {
        let meta: Meta = serde_json::from_slice(&fs::read(self.file("cache.json")).ok()?).ok()?;
        (meta.key == key).then_some(meta)
    }

    /// Opens what [`Cache::meta`] has found; an error if it is damaged.
    pub fn open(&self, meta: &Meta, tokenizer: &Tokenizer) -> Result<TrainSet> {
        let path = self.file("lengths");
        let bytes = fs::read(&path).map_err(|e| Error::io(&path, e))?;
        let numbers: Vec<u32> = bytes.as_chunks::<4>().0.iter().map(|&n| u32::from_le_bytes(n)).collect();
        let lengths: Vec<(u32, u32)> = numbers.as_chunks::<2>().0.iter().map(|&[s, t]| (s, t)).collect();
        let count = meta.parts.iter().sum::<usize>();
        if lengths.len() != count || bytes.len() != 8 * count {
            return Err(Error::format(&path, format!("has {} bytes, expected {}", bytes.len(), 8 * count)));
        }
        let ids = numbers.iter().map(|&n| u64::from(n)).sum();
        let ids = Ids::open(&self.file("ids"), larger(tokenizer), ids)?;
        let text = meta.has_text.then(|| Spool::open(&self.file("text"), count));
        Ok(TrainSet::new(Pairs::of(ids, lengths), text, self.folder.clone()))
    }

    /// Encodes the train text of `data` on all threads, drops what `filters` refuses, and keeps the text if asked.
    pub fn encode(
        &self,
        data: Data,
        tokenizer: &Tokenizer,
        filters: &Filters,
        keep_text: bool,
        key: String,
    ) -> Result<(Meta, TrainSet)> {
        let Data { train, mut reports, rest, overlaps, .. } = data;
        let mut writer = Writer {
            ids: IdsWriter::create(&self.file("ids"), larger(tokenizer))?,
            text: if keep_text { Some(SpoolWriter::create(&self.file("text"))?) } else { None },
            lengths: vec![],
        };
        let mut parts = Parts::new(&reports);
        for chunk in train.chunks()? {
            let encode = |(src, tgt): &(String, String)| -> Result<_> {
                Ok((tokenizer.encode(src)?, tokenizer.tgt().encode(tgt)?))
            };
            let chunk = chunk?;
            let encoded: Vec<(Vec<u32>, Vec<u32>)> = chunk.par_iter().map(encode).collect::<Result<_>>()?;
            for (pair, (src, tgt)) in chunk.iter().zip(&encoded) {
                let refused = filters.refuse(src.len(), tgt.len());
                parts.note(refused);
                if refused.is_none() {
                    writer.push(pair, src, tgt)?;
                }
            }
        }
        train.remove()?;
        for (report, refused) in reports.iter_mut().zip(&parts.refused) {
            filters.note(report, *refused)?;
        }
        let held_out = Some(rest.dev).filter(|_| rest.is_held_out);
        let parts = reports.iter().map(Report::kept).collect();
        let meta = Meta { key, parts, reports, held_out, overlaps, has_text: keep_text };
        let set = writer.finish(&self.folder)?;
        let json = serde_json::json!(meta).to_string();
        crate::checkpoint::files::write_atomically(&self.file("cache.json"), json.as_bytes())?;
        Ok((meta, set))
    }
}

/// Pieces of the larger vocabulary.
fn larger(tokenizer: &Tokenizer) -> usize {
    let [src, tgt] = tokenizer.vocab_sizes();
    src.max(tgt)
}

/// The files of a cache as they grow.
struct Writer {
    ids: IdsWriter,
    text: Option<SpoolWriter>,
    lengths: Vec<(u32, u32)>,
}

impl Writer {
    fn push(&mut self, (src_text, tgt_text): &(String, String), src: &[u32], tgt: &[u32]) -> Result<()> {
        self.ids.push(src)?;
        self.ids.push(tgt)?;
        self.lengths.push((src.len() as u32, tgt.len() as u32));
        self.text.as_mut().map_or(Ok(()), |text| text.push(src_text, tgt_text))
    }

    fn finish(self, folder: &Path) -> Result<TrainSet> {
        let path = folder.join("lengths");
        let bytes: Vec<u8> =
            self.lengths.iter().flat_map(|&(src, tgt)| [src, tgt]).flat_map(u32::to_le_bytes).collect();
        fs::write(&path, bytes).map_err(|e| Error::io(&path, e))?;
        let text = self.text.map(SpoolWriter::finish).transpose()?;
        let ids = self.ids.finish()?;
        // What `cache.json` vouches for must have reached the disk before it.
        for name in ["ids", "lengths", "text"].into_iter().filter(|&name| name != "text" || text.is_some()) {
            let path = folder.join(name);
            fs::File::open(&path).and_then(|file| file.sync_all()).map_err(|e| Error::io(&path, e))?;
        }
        Ok(TrainSet::new(Pairs::of(ids, self.lengths), text, folder.to_path_buf()))
    }
}

/// Which part the next pair belongs to, and what was refused of each.
struct Parts {
    left: Vec<usize>,
    at: usize,
    refused: Vec<[usize; 2]>,
}

impl Parts {
    fn new(reports: &[Report]) -> Self {
        let left: Vec<usize> = reports.iter().map(Report::kept).collect();
        Parts { at: 0, refused: vec![[0; 2]; left.len()], left }
    }

    /// Takes note of the next pair.
    fn note(&mut self, refused: Option<usize>) {
        while self.left[self.at] == 0 && self.at + 1 < self.left.len() {
            self.at += 1;
        }
        self.left[self.at] -= 1;
        if let Some(reason) = refused {
            self.refused[self.at][reason] += 1;
        }
    }
}
