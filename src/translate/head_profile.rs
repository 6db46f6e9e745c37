//! What every head of a model does, over a corpus: where it looks, how sharply, and what the model loses without it.

use super::Translator;
use super::alignment::Alignment;
use super::forced::Sides;
use super::gold::{Gold, Links};
use crate::data::{Batch, Pairs};
use crate::error::{Error, Result};
use crate::model::trace::{HeadPlace, Kind};
use crate::model::{Pass, Transformer};
use candle_core::Tensor;
use serde::Serialize;

/// Means over the queries of a corpus; a query is a piece or an end mark.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeadProfile {
    /// Which head.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Of a query's weights, in bits: 0 if it looks at one place alone.
    pub entropy: f64,
    /// Weight on the end mark of the source; in the decoder's self-attention on the start mark.
    pub end_mass: f64,
    /// Key minus query, in positions; in cross-attention key minus the diagonal from the first to the last pair of positions.
    pub relative_position: f64,
    /// 1 if all weight is on the diagonal, 0 if it is as far from it as if it were spread evenly.
    pub diagonality: f64,
    /// Weight on the position before that of the query; in cross-attention before the diagonal.
    pub previous: f64,
    /// On its own.
    pub current: f64,
    /// On the one after it.
    pub next: f64,
    /// Alignment error rate of its links between words (Och and Ney 2003); cross-attention with a gold alignment only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aer: Option<f64>,
    /// By how much the negative log-likelihood per target token grows when its output is set to zero (Michel, Levy and Neubig
    /// 2019).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
}

/// All heads of a model over a corpus.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Profile {
    /// Pairs that were looked at.
    pub pairs: usize,
    /// Pairs with a blank side or more pieces than the model has positions.
    pub left_out: usize,
    /// Negative log-likelihood per target token, with all heads.
    pub nll: f64,
    /// By kind, layer and head.
    pub heads: Vec<HeadProfile>,
}

/// Sums over queries.
#[derive(Debug, Clone, Default)]
struct Sums {
    queries: f64,
    entropy: f64,
    end_mass: f64,
    relative_position: f64,
    distance: f64,
    even_distance: f64,
    neighbours: [f64; 3],
    links: Links,
}

impl Sums {
    /// Adds the weights \[query\]\[key\] of one pair.
    fn add(&mut self, kind: Kind, weights: &[Vec<f32>]) {
        for (query, row) in weights.iter().enumerate() {
            // In the decoder a query sees the keys up to its own.
            let row = if kind == Kind::DecoderSelf { &row[..=query] } else { row };
            let last = (row.len() - 1) as f64;
            let own = match kind {
                Kind::Cross if weights.len() > 1 => query as f64 * last / (weights.len() - 1) as f64,
                Kind::Cross => 0.0,
                _ => query as f64,
            };
            let end = if kind == Kind::DecoderSelf { 0 } else { row.len() - 1 };
            self.queries += 1.0;
            self.end_mass += f64::from(row[end]);
            for (key, &weight) in row.iter().enumerate() {
                let (weight, offset) = (f64::from(weight), key as f64 - own);
                self.entropy -= if weight > 0.0 { weight * weight.log2() } else { 0.0 };
                self.relative_position += weight * offset;
                self.distance += weight * offset.abs();
                self.even_distance += offset.abs() / row.len() as f64;
                if let Some(sum) = usize::try_from((key as f64 - own.round()) as i64 + 1)
                    .ok()
                    .and_then(|at| self.neighbours.get_mut(at))
                {
                    *sum += weight;
                }
            }
        }
    }

    fn merge(&mut self, other: &Sums) {
        self.queries += other.queries;
        self.entropy += other.entropy;
        self.end_mass += other.end_mass;
        self.relative_position += other.relative_position;
        self.distance += other.distance;
        self.even_distance += other.even_distance;
        self.neighbours.iter_mut().zip(other.neighbours).for_each(|(sum, more)| *sum += more);
        self.links.merge(other.links);
    }

    fn profile(&self, place: HeadPlace) -> HeadProfile {
        let mean = |sum: f64| sum / self.queries.max(1.0);
        let diagonality =
            if self.even_distance > 0.0 { 1.0 - self.distance / self.even_distance } else { 1.0 };
        let [previous, current, next] = self.neighbours.map(mean);
        HeadProfile {
            place,
            entropy: mean(self.entropy),
            end_mass: mean(self.end_mass),
            relative_position: mean(self.relative_position),
            diagonality,
            previous,
            current,
            next,
            aer: self.links.error_rate(),
            loss: None,
        }
    }
}

/// Every head of `model`, by kind, layer and head.
fn places(model: &Transformer) -> Vec<HeadPlace> {
    let config = model.config();
    let heads = |kind, stack: crate::config::Stack| {
        (0..stack.layers)
            .flat_map(move |layer| (0..stack.heads).map(move |head| HeadPlace { kind, layer, head }))
    };
    heads(Kind::EncoderSelf, config.encoder)
        .chain(heads(Kind::DecoderSelf, config.decoder))
        .chain(heads(Kind::Cross, config.decoder))
        .collect()
}

impl Translator {
    /// Looks at every head over `pairs` (source, target), with the alignments `gold` of them if there are any. With `losses` the
    /// model is run once for each head without it; `tell` hears how many of how many runs are done.
    pub fn profile_heads(
        &self,
        pairs: &[(String, String)],
        gold: Option<&[Gold]>,
        losses: bool,
        tell: &mut dyn FnMut(usize, usize),
    ) -> Result<Profile> {
        let [model] = self.models() else {
            return Err(Error::Config("heads are those of one model: look at the models one by one".into()));
        };
        let (mut encoded, mut gold_of) = (Pairs::default(), Vec::new());
        for (index, (src, tgt)) in pairs.iter().enumerate() {
            if let Ok(sides) = self.sides(src, tgt)? {
                encoded.push(&sides.0, &sides.1);
                if let Some(gold) = gold.and_then(|gold| gold.get(index)) {
                    self.check_gold(gold, &sides, index + 1)?;
                    gold_of.push(gold);
                }
            }
        }
        if encoded.is_empty() {
            return Err(Error::Data(format!(
                "none of the {} pairs can be looked at: each has a blank side or is too long for the model",
                pairs.len()
            )));
        }
        let places = places(model);
        let runs = 1 + if losses { places.len() } else { 0 };
        let mut sums = vec![Sums::default(); places.len()];
        for of_batch in self.by_batch(&encoded, |rows, batch| self.sums(rows, batch, &places, &gold_of))? {
            sums.iter_mut().zip(&of_batch).for_each(|(sum, more)| sum.merge(more));
        }
        let nll = self.nll(&encoded, Pass::inference)?;
        tell(1, runs);
        let mut heads: Vec<HeadProfile> =
            sums.iter().zip(&places).map(|(sums, &place)| sums.profile(place)).collect();
        for (done, head) in heads.iter_mut().enumerate().take(runs - 1) {
            head.loss = Some(self.nll(&encoded, || Pass::without(head.place))? - nll);
            tell(done + 2, runs);
        }
        Ok(Profile { pairs: encoded.len(), left_out: pairs.len() - encoded.len(), nll, heads })
    }

    /// Negative log-likelihood per target token.
    fn nll(&self, pairs: &Pairs, pass: impl Fn() -> Pass + Sync) -> Result<f64> {
        let model = self.model();
        let of_batch = |_: &[u32], batch: &Batch| {
            let mut pass = pass();
            let memory = model.encode(&batch.src, &batch.src_lengths, &mut pass)?;
            let sides = (&batch.tgt_in[..], &batch.tgt_out[..]);
            Ok(model.loss(sides, &batch.tgt_lengths, &memory, 0.0, &mut pass)?.nll)
        };
        let tokens: u64 = pairs.lengths().iter().map(|(_, tgt)| u64::from(*tgt)).sum();
        Ok(self.by_batch(pairs, of_batch)?.iter().sum::<f64>() / tokens as f64)
    }

    /// The sums of one batch for each of `places`; `gold` is by the numbers of the pairs, `rows`, or empty.
    fn sums(&self, rows: &[u32], batch: &Batch, places: &[HeadPlace], gold: &[&Gold]) -> Result<Vec<Sums>> {
        let (src, tgt) =
            ((&batch.src[..], &batch.src_lengths[..]), (&batch.tgt_in[..], &batch.tgt_lengths[..]));
        let trace = self.model().trace(Kind::ALL, src, tgt)?;
        let mut all = vec![Sums::default(); places.len()];
        let (mut src_start, mut tgt_start) = (0, 0);
        for (pair, row) in rows.iter().enumerate() {
            let (src_len, tgt_len) = (batch.src_lengths[pair], batch.tgt_lengths[pair]);
            let src = &batch.src[src_start..src_start + src_len - 1];
            let tgt = &batch.tgt_out[tgt_start..tgt_start + tgt_len - 1];
            for (place, sums) in places.iter().zip(&mut all) {
                let layers: &[Vec<Tensor>] = match place.kind {
                    Kind::EncoderSelf => &trace.encoder_self,
                    Kind::DecoderSelf => &trace.decoder_self,
                    Kind::Cross => &trace.cross,
                };
                let weights: Vec<Vec<f32>> = layers[place.layer][pair].get(place.head)?.to_vec2()?;
                sums.add(place.kind, &weights);
                if let (Kind::Cross, Some(gold)) = (place.kind, gold.get(*row as usize)) {
                    sums.links.add(&self.words_aligned(src, tgt, weights), gold);
                }
            }
            (src_start, tgt_start) = (src_start + src_len, tgt_start + tgt_len);
        }
        Ok(all)
    }

    /// The alignment of words that the weights \[target\]\[source\] say of the pieces `src` and `tgt`, end marks left out.
    fn words_aligned(&self, src: &[u32], tgt: &[u32], mut weights: Vec<Vec<f32>>) -> Alignment {
        weights.truncate(tgt.len());
        weights.iter_mut().for_each(|row| row.truncate(src.len()));
        Alignment::new(weights, src.len())
            .grouped(&self.tokenizer().words(src), &self.tgt_tokenizer().words(tgt))
    }

    /// Refuses links of words that line `number` does not have.
    fn check_gold(&self, gold: &Gold, (src, tgt): &Sides, number: usize) -> Result<()> {
        let count = |words: Vec<usize>| words.last().map_or(0, |last| last + 1);
        let (src, tgt) = (
            count(self.tokenizer().words(&src[..src.len() - 1])),
            count(self.tgt_tokenizer().words(&tgt[..tgt.len() - 1])),
        );
        match gold.possible.iter().find(|link| link.0 >= src || link.1 >= tgt) {
            Some((a, b)) => Err(Error::Data(format!(
                "line {number}: the gold alignment links the words {a} and {b}, counted from 0, but the source has {src} words and the target {tgt}"
            ))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(kind: Kind, weights: &[&[f32]]) -> HeadProfile {
        let weights: Vec<Vec<f32>> = weights.iter().map(|row| row.to_vec()).collect();
        let mut sums = Sums::default();
        sums.add(kind, &weights);
        sums.profile(HeadPlace { kind, layer: 0, head: 0 })
    }

    /// Two queries: one looks evenly at two of three keys, the other at the end mark alone.
    #[test]
    fn encoder_by_hand() {
        let found = profile(Kind::EncoderSelf, &[&[0.5, 0.5, 0.0], &[0.0, 0.0, 1.0], &[0.0, 0.0, 1.0]]);
        assert_eq!((found.entropy, found.end_mass), (1.0 / 3.0, 2.0 / 3.0));
        // Offsets: 0 and 1 by halves; 1; 0.
        assert_eq!((found.relative_position, found.current), (0.5, 0.5));
        assert_eq!((found.previous, found.next), (0.0, 0.5));
        // Distances 0.5 + 1 + 0 of, evenly spread, (0+1+2)/3 + (1+0+1)/3 + (2+1+0)/3 = 8/3.
        assert!((found.diagonality - (1.0 - 1.5 / (8.0 / 3.0))).abs() < 1e-12);
    }

    /// A query sees the keys up to its own; the first is the start mark.
    #[test]
    fn decoder_by_hand() {
        let found = profile(Kind::DecoderSelf, &[&[1.0, 0.0], &[1.0, 0.0]]);
        assert_eq!((found.end_mass, found.previous, found.current), (1.0, 0.5, 0.5));
        assert_eq!((found.relative_position, found.entropy), (-0.5, 0.0));
        // Distances 0 and 1 of 0 and 1/2.
        assert_eq!(found.diagonality, -1.0);
    }

    /// The diagonal of 2 queries and 5 keys goes from (0, 0) to (1, 4).
    #[test]
    fn cross_by_hand() {
        let found = profile(Kind::Cross, &[&[0.0, 1.0, 0.0, 0.0, 0.0], &[0.0, 0.0, 0.0, 0.0, 1.0]]);
        assert_eq!(
            (found.next, found.current, found.end_mass, found.relative_position),
            (0.5, 0.5, 0.5, 0.5)
        );
        let one = profile(Kind::Cross, &[&[1.0, 0.0]]);
        assert_eq!((one.current, one.diagonality), (1.0, 1.0));
    }
}
