//! Which word of the source each word of a translation comes from, read from the cross-attention of one head (section
//! 3.2.3): the translation is fed to the decoder as a whole, and a target piece belongs to the source piece that its
//! query, which is the one that had to answer it, looks at most.
//!
//! End marks are left out on both sides and the rows renormalised. A word's row is the mean of its pieces' rows, in
//! which the pieces of a source word are added up.

use super::Translator;
use super::forced::BATCH_TOKENS;
use crate::checkpoint::AlignmentHead;
use crate::data::{Batch, Pairs, batches};
use crate::error::{Error, Result};
use crate::model::Transformer;
use crate::model::trace::Kind;
use candle_core::Tensor;
use serde::Serialize;
use std::collections::HashMap;
use std::fmt;

/// What is aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// What stands between blanks.
    Words,
    /// The pieces of the tokenizer.
    Pieces,
}

/// How the units of a translation belong to those of its source.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Alignment {
    /// Source and target unit, from 0, by source: for each target unit the largest weight of its row.
    pub links: Vec<(usize, usize)>,
    /// \[target\]\[source\], rows sum to 1; a row whose head looked at the end mark alone is zero and has no link.
    pub weights: Vec<Vec<f32>>,
    /// Number of source units.
    #[serde(skip)]
    src_len: usize,
}

impl Alignment {
    /// With `weights` of so many source units.
    pub(super) fn new(weights: Vec<Vec<f32>>, src_len: usize) -> Self {
        let link = |(tgt, row): (usize, &Vec<f32>)| largest(row).map(|src| (src, tgt));
        let mut links: Vec<(usize, usize)> = weights.iter().enumerate().filter_map(link).collect();
        links.sort_unstable();
        Alignment { links, weights, src_len }
    }

    /// Without the first `src` source and `tgt` target units.
    pub(super) fn without_first(mut self, src: usize, tgt: usize) -> Self {
        if src + tgt == 0 {
            return self;
        }
        self.weights.drain(..tgt.min(self.weights.len()));
        for row in &mut self.weights {
            row.drain(..src.min(row.len()));
            normalize(row);
        }
        Alignment::new(self.weights, self.src_len.saturating_sub(src))
    }

    /// The same between larger units, of which `src` and `tgt` give that of each unit: 0, 0, 1, ...
    pub(super) fn grouped(&self, src: &[usize], tgt: &[usize]) -> Self {
        let count = |groups: &[usize]| groups.last().map_or(0, |last| last + 1);
        let mut weights = vec![vec![0.0; count(src)]; count(tgt)];
        for (row, &group) in self.weights.iter().zip(tgt) {
            for (weight, &column) in row.iter().zip(src) {
                weights[group][column] += weight;
            }
        }
        weights.iter_mut().for_each(|row| normalize(row));
        Alignment::new(weights, count(src))
    }

    /// Of parts of a line that follow each other, as one.
    pub(super) fn join<'a>(parts: impl IntoIterator<Item = &'a Alignment> + Clone) -> Self {
        let src_len = parts.clone().into_iter().map(|part| part.src_len).sum();
        let (mut weights, mut start) = (Vec::new(), 0);
        for part in parts {
            for row in &part.weights {
                let mut whole = vec![0.0; src_len];
                whole[start..start + row.len()].copy_from_slice(row);
                weights.push(whole);
            }
            start += part.src_len;
        }
        Alignment::new(weights, src_len)
    }
}

/// Pharaoh's form: `0-0 1-2`, source first.
impl fmt::Display for Alignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (src, tgt)) in self.links.iter().enumerate() {
            write!(f, "{}{src}-{tgt}", if index == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

/// The place of the largest number, of equal ones the first; none if none is above 0.
pub(super) fn largest(row: &[f32]) -> Option<usize> {
    let mut best = None;
    for (index, &weight) in row.iter().enumerate() {
        if weight > best.map_or(0.0, |(_, most)| most) {
            best = Some((index, weight));
        }
    }
    best.map(|(index, _)| index)
}

fn normalize(row: &mut [f32]) {
    let sum: f32 = row.iter().sum();
    if sum > 0.0 {
        row.iter_mut().for_each(|weight| *weight /= sum);
    }
}

/// Pairs that the search for a head looks at.
const ENOUGH: usize = 2000;

/// The cross-attention of a batch: of each layer that of each pair, [h, q, k].
fn cross_attention(model: &Transformer, batch: &Batch) -> Result<Vec<Vec<Tensor>>> {
    let (src, tgt) = ((&batch.src[..], &batch.src_lengths[..]), (&batch.tgt_in[..], &batch.tgt_lengths[..]));
    Ok(model.trace(&[Kind::Cross], src, tgt)?.cross)
}

impl Translator {
    /// The head that alignments are read from: the one of `options`, or that of the model, or else the mean of all heads of the
    /// last layer but one, which has been found to align best where nothing is known (Garg et al. 2019).
    pub fn alignment_head(&self, asked: Option<AlignmentHead>) -> Result<AlignmentHead> {
        let stack = &self.model().config().decoder;
        let usual = AlignmentHead { layer: stack.layers.saturating_sub(2), head: None };
        let chosen = asked.or(self.stored_alignment_head()).unwrap_or(usual);
        let (layers, heads) = (stack.layers - 1, stack.heads - 1);
        if chosen.layer > layers || chosen.head.is_some_and(|head| head > heads) {
            return Err(Error::Config(format!(
                "alignment head {} of layer {}: the decoder has the layers 0 to {layers}, each with the heads 0 to {heads}",
                chosen.head.map_or("mean".into(), |head| head.to_string()),
                chosen.layer
            )));
        }
        Ok(chosen)
    }

    /// The alignment head that the model names.
    pub fn stored_alignment_head(&self) -> Option<AlignmentHead> {
        self.info.as_ref()?.alignment_head
    }

    /// The alignment of pieces for each of `pairs`, source ids with their end mark and target ids.
    pub(super) fn align(&self, pairs: &[(&[u32], &[u32])], from: AlignmentHead) -> Result<Vec<Alignment>> {
        let mut encoded = Pairs::default();
        pairs.iter().for_each(|(src, tgt)| encoded.push(src, tgt));
        let found = self.over_batches(&encoded, |batch| {
            let layers = cross_attention(self.model(), batch)?;
            let sentences = layers.get(from.layer).map_or(&[][..], Vec::as_slice);
            let weights = |sentence: &Tensor| match from.head {
                Some(head) => Ok(sentence.get(head)?.to_vec2()?),
                None => Ok(sentence.mean(0)?.to_vec2()?),
            };
            sentences.iter().map(weights).collect::<Result<Vec<Vec<Vec<f32>>>>>()
        })?;
        let eos = self.model().config().special.eos;
        let mut alignments = Vec::with_capacity(pairs.len());
        for ((src, tgt), mut weights) in pairs.iter().zip(found) {
            weights.truncate(tgt.len() - usize::from(tgt.last() == Some(&eos)));
            for row in &mut weights {
                row.truncate(src.len() - 1);
                normalize(row);
            }
            alignments.push(Alignment::new(weights, src.len() - 1));
        }
        Ok(alignments)
    }
}

impl Translator {
    /// [`find_head`] by `pairs` (source, target); those that the model cannot be given are passed over.
    pub fn find_alignment_head<S: AsRef<str>>(&self, pairs: &[(S, S)]) -> Result<Option<AlignmentHead>> {
        let mut encoded = Pairs::default();
        for (src, tgt) in pairs {
            if let Ok((src, tgt)) = self.sides(src.as_ref(), tgt.as_ref())? {
                encoded.push(&src, &tgt);
            }
        }
        find_head(self.model(), &encoded)
    }
}

/// The head whose links say most about the translation: those of half of `pairs` give the probability of a target piece after
/// the source piece that it is linked to, and the head counts by how probable they make the other half. None without pairs.
pub fn find_head(model: &Transformer, pairs: &Pairs) -> Result<Option<AlignmentHead>> {
    let config = model.config();
    let mut links: Vec<Halves> = vec![Halves::default(); config.decoder.layers * config.decoder.heads];
    for rows in batches(&pairs.lengths()[..pairs.len().min(ENOUGH)], BATCH_TOKENS, 0, 0) {
        let batch = pairs.batch(&rows, config.special.bos);
        for (layer, sentences) in cross_attention(model, &batch)?.iter().enumerate() {
            let (mut src_start, mut tgt_start) = (0, 0);
            for (sentence, &pair) in sentences.iter().zip(&rows) {
                let heads: Vec<Vec<Vec<f32>>> = sentence.to_vec3()?;
                let (_, tgt_len, src_len) = sentence.dims3()?;
                for (head, weights) in heads.iter().enumerate() {
                    for (row, tgt) in weights[..tgt_len - 1].iter().zip(&batch.tgt_out[tgt_start..]) {
                        if let Some(src) = largest(&row[..src_len - 1]) {
                            let half = &mut links[layer * config.decoder.heads + head][pair as usize % 2];
                            half.push((batch.src[src_start + src], *tgt));
                        }
                    }
                }
                (src_start, tgt_start) = (src_start + src_len, tgt_start + tgt_len);
            }
        }
    }
    let scores = links.iter().map(likelihood).enumerate();
    let best =
        scores.filter(|(_, score)| score.is_finite()).max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
    Ok(best.map(|(index, _)| AlignmentHead {
        layer: index / config.decoder.heads,
        head: Some(index % config.decoder.heads),
    }))
}

/// Linked source and target ids of the pairs with even and with odd numbers.
type Halves = [Vec<(u32, u32)>; 2];

/// The mean log-probability of the target of a link given its source, each half by the counts of the other: counted once more
/// than it was is what all targets together say. NaN without links.
fn likelihood(halves: &Halves) -> f64 {
    let total = halves.iter().map(Vec::len).sum::<usize>() as f64;
    let mut targets: HashMap<u32, f64> = HashMap::new();
    halves.iter().flatten().for_each(|&(_, tgt)| *targets.entry(tgt).or_default() += 1.0 / total);
    let mut sum = 0.0;
    for (counted, judged) in [(&halves[0], &halves[1]), (&halves[1], &halves[0])] {
        let (mut sources, mut pairs) = (HashMap::new(), HashMap::new());
        for &(src, tgt) in counted {
            *sources.entry(src).or_insert(0.0) += 1.0;
            *pairs.entry((src, tgt)).or_insert(0.0) += 1.0;
        }
        for link in judged {
            let (all, both) = (sources.get(&link.0).unwrap_or(&0.0), pairs.get(link).unwrap_or(&0.0));
            sum += ((both + targets[&link.1]) / (all + 1.0)).ln();
        }
    }
    sum / total
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two source words of pieces 0, 1 | 2, two target words of 0 | 1, 2.
    #[test]
    fn words_by_hand() {
        let pieces = Alignment::new(vec![vec![0.2, 0.3, 0.5], vec![0.1, 0.0, 0.9], vec![0.8, 0.1, 0.1]], 3);
        assert_eq!(pieces.to_string(), "0-2 2-0 2-1");
        let words = pieces.grouped(&[0, 0, 1], &[0, 1, 1]);
        let expected = [[0.5, 0.5], [0.5, 0.5]];
        for (row, expected) in words.weights.iter().zip(expected) {
            assert!(row.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{row:?}");
        }
        assert_eq!(words.weights.len(), 2);
    }

    #[test]
    fn parts_follow_each_other() {
        let one = Alignment::new(vec![vec![0.0, 1.0], vec![1.0, 0.0]], 2);
        let none = Alignment::new(vec![vec![0.0]], 1);
        let joined = Alignment::join([&one, &none, &one]);
        assert_eq!(joined.to_string(), "0-1 1-0 3-4 4-3");
        assert_eq!(joined.weights[3], [0.0, 0.0, 0.0, 0.0, 1.0]);
        assert_eq!(joined.weights[2], [0.0; 5]);
        assert_eq!(Alignment::join([]).to_string(), "");
    }

    /// In the source are words 1 to 6, in the target their translations 11 to 16. A head that finds them is better than one
    /// that is a word behind, and this than one that looks at the same place always.
    #[test]
    fn the_better_head_predicts_the_target() {
        let word = |i: usize| (i * i * 7 / 3 % 6) as u32 + 1;
        let halves = |source: fn(usize) -> usize| -> Halves {
            [0, 1]
                .map(|half| (0..60).map(|i| half + 2 * i).map(|i| (word(source(i)), word(i) + 10)).collect())
        };
        let [right, late, fixed] =
            [|i| i, |i: usize| i.saturating_sub(1), |_| 0].map(|source| likelihood(&halves(source)));
        assert!(right > late && late > fixed, "{right} {late} {fixed}");
        assert!(likelihood(&[vec![], vec![]]).is_nan());
    }
}
