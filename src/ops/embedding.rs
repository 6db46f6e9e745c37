//! Rows of the embedding, scaled, with positions added and dropout on the sum (sections 3.4, 3.5 and 5.4 of the paper):
//! y_i = mask ⊙ (E\[id_i\]·scale + PE\[position_i\]).
//!
//! Backward: dE\[id_i\] += scale · mask ⊙ g_i, in the order of the rows.

use super::cpu::{self, Numbers, numbers};
use super::dropout::{Dropout, dropout_plain, masked};
use super::simd::simd;
use crate::{Error, Result};
use candle_core::{CpuStorage, CustomOp1, Layout, Shape, Tensor};

/// What is looked up: `ids[i]` at position `positions[i]` of its sentence.
#[derive(Debug, Clone)]
pub struct Lookup<'a> {
    /// Rows of the embedding.
    pub ids: &'a [u32],
    /// Rows of the positional encoding.
    pub positions: &'a [u32],
    /// What embeddings are multiplied by.
    pub scale: f64,
    /// On the sum.
    pub dropout: Option<Dropout>,
}

/// table \[v,d\], encoding \[p,d\] → \[n,d\], in ordinary tensor operations.
pub fn embedding_plain(table: &Tensor, encoding: &Tensor, lookup: &Lookup) -> Result<Tensor> {
    let rows = |ids: &[u32]| Tensor::new(ids, table.device());
    let tokens = table.index_select(&rows(lookup.ids)?, 0)?;
    let positions = encoding.index_select(&rows(lookup.positions)?, 0)?;
    let sum = ((tokens * lookup.scale)? + positions)?;
    lookup.dropout.map_or(Ok(sum.clone()), |dropout| dropout_plain(&sum, dropout))
}

/// table \[v,d\], positional encoding \[p,d\] → \[n,d\]. An id or a position outside of its table is an error.
pub fn embedding(table: &Tensor, encoding: &Tensor, lookup: &Lookup) -> Result<Tensor> {
    let ((vocab, _), (limit, _)) = (table.dims2()?, encoding.dims2()?);
    check_ids(lookup.ids, vocab)?;
    if let Some(position) = lookup.positions.iter().find(|&&position| position as usize >= limit) {
        return Err(Error::Data(format!(
            "position {position} lies outside the model's {limit} positions: the sentence is too long for it"
        )));
    }
    lookup.dropout.map_or(Ok(()), Dropout::check)?;
    if !cpu::fused(&[table, encoding]) {
        return embedding_plain(table, encoding, lookup);
    }
    let places =
        lookup.ids.iter().zip(lookup.positions).map(|(&id, &position)| (id as usize, position as usize));
    let op = Embed {
        places: places.collect(),
        encoding: encoding.clone(),
        scale: lookup.scale as f32,
        dropout: lookup.dropout,
    };
    Ok(table.apply_op1(op)?)
}

/// Refuses an id that has no row among `vocab`.
pub(super) fn check_ids(ids: &[u32], vocab: usize) -> Result<()> {
    match ids.iter().find(|&&id| id as usize >= vocab) {
        Some(id) => Err(Error::Data(format!(
            "token id {id} lies outside the embedding of {vocab} rows: tokenizer and weights do not belong together"
        ))),
        None => Ok(()),
    }
}

struct Embed {
    /// Id and position of each row.
    places: Vec<(usize, usize)>,
    encoding: Tensor,
    scale: f32,
    dropout: Option<Dropout>,
}

impl CustomOp1 for Embed {
    fn name(&self) -> &'static str {
        "embedding"
    }

    fn cpu_fwd(&self, table: &CpuStorage, layout: &Layout) -> candle_core::Result<(CpuStorage, Shape)> {
        let (_, d) = layout.shape().dims2()?;
        let (table, encoding) = (numbers(table, layout)?, Numbers::of(&self.encoding)?);
        let encoding: &[f32] = &encoding;
        // An even number of rows, so that a piece begins at the first of two dropout decisions.
        let rows = cpu::rows_per_chunk(d).next_multiple_of(2);
        let (y, _) = cpu::build(self.places.len() * d, d * rows, |start, y| {
            for (y, &(id, position)) in y.chunks_exact_mut(d).zip(&self.places[start / d..]) {
                scale_and_add(&table[id * d..][..d], self.scale, &encoding[position * d..][..d], y);
            }
            if let Some(dropout) = self.dropout {
                let sum = y.to_vec();
                masked(&sum, dropout.key, start as u64, dropout.threshold(), dropout.scale(), y);
            }
        });
        Ok((CpuStorage::F32(y), (self.places.len(), d).into()))
    }

    fn bwd(&self, table: &Tensor, _y: &Tensor, grad: &Tensor) -> candle_core::Result<Option<Tensor>> {
        let (vocab, d) = table.dims2()?;
        let grad = grad.contiguous()?;
        let grad = Numbers::of(&grad)?;
        let dropped = self.dropout.map(|dropout| dropout.apply(&grad));
        let grad: &[f32] = dropped.as_deref().unwrap_or(&grad);
        let mut dtable = vec![0.0; vocab * d];
        for (grad, &(id, _)) in grad.chunks_exact(d).zip(&self.places) {
            add_scaled(grad, self.scale, &mut dtable[id * d..][..d]);
        }
        Tensor::from_vec(dtable, (vocab, d), table.device()).map(Some)
    }
}

simd! {
    /// y = x·scale + position.
    fn scale_and_add(x: &[f32], scale: f32, position: &[f32], y: &mut [f32]) {
        for ((y, &x), &position) in y.iter_mut().zip(x).zip(position) {
            *y = x * scale + position;
        }
    }
}

simd! {
    /// total += x·scale.
    fn add_scaled(x: &[f32], scale: f32, total: &mut [f32]) {
        for (total, &x) in total.iter_mut().zip(x) {
            *total += x * scale;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{assert_parity, random, value_and_gradients};
    use super::super::simd::forced;
    use super::*;

    const DROPOUT: Option<Dropout> = Some(Dropout { p: 0.3, key: 5 });

    /// Ids that come back, so that their gradients add up.
    fn places(n: usize, v: usize) -> (Vec<u32>, Vec<u32>) {
        ((0..n).map(|i| (i * 7 % v) as u32).collect(), (0..n).map(|i| (i % 3) as u32).collect())
    }

    #[test]
    fn fused_is_plain() -> Result<()> {
        for (n, v, d) in [(0, 2, 3), (1, 1, 1), (9, 4, 5), (200, 30, 33)] {
            let (table, encoding, (ids, positions)) =
                (random(&[v, d], 1)?, random(&[3, d], 2)?, places(n, v));
            for dropout in [None, DROPOUT] {
                let lookup = Lookup { ids: &ids, positions: &positions, scale: 2.5, dropout };
                let fused = |a: &[Tensor]| embedding(&a[0], &encoding, &lookup);
                let plain = |a: &[Tensor]| embedding_plain(&a[0], &encoding, &lookup);
                assert_parity(std::slice::from_ref(&table), fused, plain, 1e-6)?;
            }
        }
        Ok(())
    }

    #[test]
    fn same_bits_on_every_path() -> Result<()> {
        let (table, encoding, (ids, positions)) =
            (random(&[50, 77], 1)?, random(&[3, 77], 2)?, places(301, 50));
        let lookup = Lookup { ids: &ids, positions: &positions, scale: 2.5, dropout: DROPOUT };
        forced::same_everywhere(|| {
            value_and_gradients(std::slice::from_ref(&table), |a| embedding(&a[0], &encoding, &lookup))
                .unwrap()
        });
        Ok(())
    }
}
