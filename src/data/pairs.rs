//! Tokenised pairs, and the batch the model sees.
//!
//! Paper section 3.1: the decoder reads the target shifted right by one, so that position i predicts
//! from what is before it: `tgt_in` = BOS y, `tgt_out` = y EOS. Departs from the usual padded rectangle:
//! sentences lie one after another without padding, with their lengths beside them, so no position is
//! computed in vain.

use super::filter::Report;
use super::text::Text;
use crate::Result;
use crate::text::Tokenizer;

/// Lines that are encoded at a time.
const CHUNK: usize = 50_000;

/// Sentences of ids, one after another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Side {
    ids: Vec<u32>,
    ends: Vec<usize>,
}

impl Side {
    fn push(&mut self, sentence: &[u32]) {
        self.ids.extend_from_slice(sentence);
        self.ends.push(self.ids.len());
    }

    fn get(&self, i: usize) -> &[u32] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.ids[start..self.ends[i]]
    }
}

/// Pairs of sentences as ids; both sides end with EOS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pairs {
    src: Side,
    tgt: Side,
}

impl Pairs {
    /// Encodes `text`. A pair with a side of more than `max_len` ids (EOS included) is dropped, which goes
    /// into `report`; an error if none is left.
    pub fn encode(
        src: &Tokenizer,
        tgt: &Tokenizer,
        text: &Text,
        max_len: usize,
        report: &mut Report,
    ) -> Result<Pairs> {
        let mut pairs = Pairs::default();
        for (src_lines, tgt_lines) in text.src.chunks(CHUNK).zip(text.tgt.chunks(CHUNK)) {
            let (src_ids, tgt_ids) = (src.encode_batch(src_lines)?, tgt.encode_batch(tgt_lines)?);
            for (src, tgt) in src_ids.iter().zip(&tgt_ids).filter(|(s, t)| s.len().max(t.len()) <= max_len) {
                pairs.push(src, tgt);
            }
        }
        report.note_dropped(&format!("longer than {max_len} pieces"), text.len() - pairs.len())?;
        Ok(pairs)
    }

    /// Adds a pair of ids, both sides with their EOS.
    pub fn push(&mut self, src: &[u32], tgt: &[u32]) {
        self.src.push(src);
        self.tgt.push(tgt);
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.src.ends.len()
    }

    /// Whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.src.ends.is_empty()
    }

    /// The source of pair `i`: pieces and EOS.
    pub fn src(&self, i: usize) -> &[u32] {
        self.src.get(i)
    }

    /// The target of pair `i`: pieces and EOS.
    pub fn tgt(&self, i: usize) -> &[u32] {
        self.tgt.get(i)
    }

    /// Source and target length of every pair, EOS included; that of `tgt_in` is the same as that of `tgt_out`.
    pub fn lengths(&self) -> Vec<(usize, usize)> {
        (0..self.len()).map(|i| (self.src(i).len(), self.tgt(i).len())).collect()
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
            let (src, tgt) = (self.src(row as usize), self.tgt(row as usize));
            batch.src.extend_from_slice(src);
            batch.src_lengths.push(src.len());
            batch.tgt_in.push(bos);
            batch.tgt_in.extend(tgt.split_last().map_or(&[][..], |(_eos, y)| y));
            batch.tgt_out.extend_from_slice(tgt);
            batch.tgt_lengths.push(tgt.len());
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
