//! Tokenised pairs, and the batch the model sees.
//!
//! Paper section 3.1: the decoder reads the target shifted right by one, so that position i predicts
//! from what is before it: `tgt_in` = BOS y, `tgt_out` = y EOS. Departs from the usual padded rectangle:
//! sentences lie one after another without padding, with their lengths beside them, so no position is
//! computed in vain.

use super::filter::{Filters, Report};
use super::ids::Ids;
use super::spool::CHUNK;
use super::text::Text;
use crate::Result;
use crate::text::Tokenizer;

/// Pairs of sentences as ids; both sides end with EOS.
#[derive(Debug, Default)]
pub struct Pairs {
    /// Source and target of every pair, one after another.
    ids: Ids,
    /// Their lengths.
    lengths: Vec<(u32, u32)>,
    /// Where each pair begins among the ids.
    starts: Vec<u64>,
}

impl Pairs {
    /// Encodes `text` into memory. A pair with a side of more than `max_len` ids (EOS included) is dropped, which goes
    /// into `report`; an error if none is left.
    pub fn encode(tokenizer: &Tokenizer, text: &Text, max_len: usize, report: &mut Report) -> Result<Pairs> {
        let (mut pairs, filters) = (Pairs::default(), Filters::new(max_len));
        for (src_lines, tgt_lines) in text.src.chunks(CHUNK).zip(text.tgt.chunks(CHUNK)) {
            let (src_ids, tgt_ids) =
                (tokenizer.encode_batch(src_lines)?, tokenizer.tgt().encode_batch(tgt_lines)?);
            for (src, tgt) in src_ids.iter().zip(&tgt_ids) {
                if filters.refuse(src.len(), tgt.len()).is_none() {
                    pairs.push(src, tgt);
                }
            }
        }
        filters.note(report, [text.len() - pairs.len(), 0])?;
        Ok(pairs)
    }

    /// Pairs of these lengths, one after another in `ids`.
    pub(super) fn of(ids: Ids, lengths: Vec<(u32, u32)>) -> Pairs {
        let mut end = 0;
        let start = |&(src, tgt): &(u32, u32)| {
            end += u64::from(src) + u64::from(tgt);
            end - u64::from(src) - u64::from(tgt)
        };
        let starts = lengths.iter().map(start).collect();
        Pairs { ids, lengths, starts }
    }

    /// Adds a pair of ids, both sides with their EOS, to those in memory.
    pub fn push(&mut self, src: &[u32], tgt: &[u32]) {
        self.starts.push(self.ids.len() as u64);
        self.lengths.push((src.len() as u32, tgt.len() as u32));
        self.ids.extend(src);
        self.ids.extend(tgt);
    }

    /// Keeps the first `len` pairs.
    pub fn truncate(&mut self, len: usize) {
        self.lengths.truncate(len);
        self.starts.truncate(len);
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Source and target length of every pair, EOS included; that of `tgt_in` is the same as that of `tgt_out`.
    pub fn lengths(&self) -> &[(u32, u32)] {
        &self.lengths
    }

    /// The pairs `rows` as `count` batches of about the same size: they are dealt like cards, and since pairs of like length
    /// are neighbours, each gets its share of the long ones.
    pub fn shards(&self, rows: &[u32], count: usize, bos: u32) -> Vec<Batch> {
        let shard = |first: usize| rows.iter().skip(first).step_by(count).copied().collect::<Vec<_>>();
        (0..count).map(|first| self.batch(&shard(first), bos)).collect()
    }

    /// The pairs `rows` as one batch.
    pub fn batch(&self, rows: &[u32], bos: u32) -> Batch {
        let mut batch = Batch::default();
        for &row in rows {
            let (src, tgt) = self.lengths[row as usize];
            let start = self.starts[row as usize] as usize;
            let middle = start + src as usize;
            let end = middle + tgt as usize;
            self.ids.copy(start..middle, &mut batch.src);
            batch.src_lengths.push(src as usize);
            batch.tgt_in.push(bos);
            self.ids.copy(middle..end.saturating_sub(1).max(middle), &mut batch.tgt_in);
            self.ids.copy(middle..end, &mut batch.tgt_out);
            batch.tgt_lengths.push(tgt as usize);
        }
        batch
    }
}

/// Pairs that go through the model together, without padding: n sentences, their ids one after another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// Source ids, each sentence ended by EOS: [sum of src_lengths].
    pub src: Vec<u32>,
    /// Source length of each sentence: \[n\].
    pub src_lengths: Vec<usize>,
    /// What the decoder reads, BOS y: [sum of tgt_lengths].
    pub tgt_in: Vec<u32>,
    /// What it is to predict, y EOS: [sum of tgt_lengths].
    pub tgt_out: Vec<u32>,
    /// Target length of each sentence, the same for tgt_in and tgt_out: \[n\].
    pub tgt_lengths: Vec<usize>,
}

impl Batch {
    /// Number of tokens to predict, by which the loss is divided.
    pub fn tgt_tokens(&self) -> usize {
        self.tgt_out.len()
    }
}
