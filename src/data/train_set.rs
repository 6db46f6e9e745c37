//! What is learnt from: the pairs of train, and which of them make the batches of an epoch.

use super::batches::{occurrences, plan};
use super::ids::IdsWriter;
use super::pairs::{Batch, Pairs};
use super::spool::Spool;
use crate::Result;
use crate::rng::hash;
use crate::text::Sampler;
use rayon::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

/// Train, encoded.
#[derive(Debug)]
pub struct TrainSet {
    pairs: Arc<Pairs>,
    /// How many pairs follow one another with which weight.
    parts: Vec<(usize, f64)>,
    text: Option<Spool>,
    folder: PathBuf,
    /// Of source and target.
    samplers: Option<[Arc<Sampler>; 2]>,
    max_len: usize,
}

/// One pass over train.
#[derive(Debug)]
pub struct Epoch {
    pairs: Arc<Pairs>,
    order: Vec<Vec<u32>>,
}

impl TrainSet {
    pub(super) fn new(pairs: Pairs, text: Option<Spool>, folder: PathBuf) -> Self {
        let parts = vec![(pairs.len(), 1.0)];
        TrainSet { pairs: Arc::new(pairs), parts, text, folder, samplers: None, max_len: 0 }
    }

    /// Sees the pairs of the parts, which follow one another, as often as these weights say.
    pub fn with_weights(mut self, parts: Vec<(usize, f64)>) -> Self {
        self.parts = parts;
        self
    }

    /// Cuts the text anew in every epoch, as long as no side gets longer than `max_len`.
    pub fn with_samplers(mut self, samplers: Option<[Arc<Sampler>; 2]>, max_len: usize) -> Self {
        (self.samplers, self.max_len) = (samplers, max_len);
        self
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The batches of epoch `epoch`, from 0: a function of the pairs, the weights and these numbers.
    pub fn epoch(&self, epoch: u64, batch_tokens: usize, seed: u64) -> Result<Epoch> {
        let pairs = match (&self.samplers, &self.text) {
            (Some(samplers), Some(text)) => Arc::new(self.sample(samplers, text, epoch, seed)?),
            _ => self.pairs.clone(),
        };
        let order = occurrences(&self.parts, seed, epoch as usize);
        let order = plan(pairs.lengths(), order, batch_tokens, seed, epoch as usize);
        Ok(Epoch { pairs, order })
    }

    /// All pairs, each side cut by a stream of random numbers of its own. The file of the epoch before may still be
    /// mapped, so two take turns.
    fn sample(
        &self,
        [of_src, of_tgt]: &[Arc<Sampler>; 2],
        text: &Spool,
        epoch: u64,
        seed: u64,
    ) -> Result<Pairs> {
        let key = hash(seed, epoch);
        let path = self.folder.join(format!("sampled-{}", epoch % 2));
        let mut ids = IdsWriter::create(&path, of_src.vocab_size().max(of_tgt.vocab_size()))?;
        let mut lengths = Vec::with_capacity(self.len());
        for chunk in text.chunks()? {
            let first = lengths.len() as u64;
            let side = |sampler: &Sampler, text: &str, place: u64| -> Result<Vec<u32>> {
                let sampled = sampler.encode(text, hash(key, place))?;
                if sampled.len() > self.max_len { sampler.tokenizer().encode(text) } else { Ok(sampled) }
            };
            let sample = |(at, (src, tgt)): (usize, &(String, String))| -> Result<_> {
                let place = 2 * (first + at as u64);
                Ok((side(of_src, src, place)?, side(of_tgt, tgt, place + 1)?))
            };
            let sampled: Vec<(Vec<u32>, Vec<u32>)> =
                chunk?.par_iter().enumerate().map(sample).collect::<Result<_>>()?;
            for (src, tgt) in &sampled {
                ids.push(src)?;
                ids.push(tgt)?;
                lengths.push((src.len() as u32, tgt.len() as u32));
            }
        }
        Ok(Pairs::of(ids.finish()?, lengths))
    }
}

impl Epoch {
    /// Number of batches.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there are no batches.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Number of pairs, counted as often as they occur.
    pub fn pairs(&self) -> usize {
        self.order.iter().map(Vec::len).sum()
    }

    /// Source and target tokens of all batches, end marks included.
    pub fn tokens(&self) -> [u64; 2] {
        let lengths = self.order.iter().flatten().map(|&pair| self.pairs.lengths()[pair as usize]);
        lengths.fold([0, 0], |[a, b], (src, tgt)| [a + u64::from(src), b + u64::from(tgt)])
    }

    /// Batch `index` as `count` shards.
    pub fn shards(&self, index: usize, count: usize, bos: u32) -> Vec<Batch> {
        self.pairs.shards(&self.order[index], count, bos)
    }
}
