//! Self-attention while decoding (paper 3.2.3): the newest token of every hypothesis looks at itself and at all before it.
//!
//! The keys and values of each step stay where they were made, one block for the rows of that step. A hypothesis that goes on
//! from another shares its past, so reordering a beam changes only [`Ancestors`], the table of which row of each block is a
//! hypothesis' own: nothing is copied.
//!
//! The bits are those of [`super::attention`] over the same keys and values one after the other, so decoding step by step
//! equals the full masked pass.

use std::cell::RefCell;

use candle_core::{Device, Tensor};

use super::fused::{SERIAL, softmax};
use super::{attention_plain, fused_applies, scale};
use crate::ops::kernel::{Matrix, Output, filled, gathered_dots, gathered_sums};
use crate::ops::lanes::LANES;
use crate::ops::rows::{Rows, in_rows};
use crate::ops::spans::{Spans, Visible};
use crate::ops::team::for_each;
use crate::{Error, Result};

/// For each hypothesis and each step, the row of that step's block that holds its key and value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ancestors {
    /// Step by step, each with a number for every row.
    table: Vec<Vec<u32>>,
    rows: usize,
}

impl Ancestors {
    /// `rows` hypotheses before their first step.
    pub fn new(rows: usize) -> Self {
        Ancestors { table: Vec::new(), rows }
    }

    /// Live hypotheses.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Steps so far.
    pub fn steps(&self) -> usize {
        self.table.len()
    }

    /// The rows of the block of `step` that belong to the hypotheses.
    pub fn of(&self, step: usize) -> &[u32] {
        &self.table[step]
    }

    /// A new step, in whose block every hypothesis has the row of its own number.
    pub fn push(&mut self) {
        self.table.push((0..self.rows as u32).collect());
    }

    /// New hypothesis i goes on from old hypothesis `rows[i]`.
    pub fn reorder(&mut self, rows: &[usize]) {
        for step in &mut self.table {
            *step = rows.iter().map(|&row| step[row]).collect();
        }
        self.rows = rows.len();
    }

    /// The rows of the block of `step` that are still somebody's, in rising order, if they are at most three quarters of the
    /// `stored` ones; from now on they are counted from 0.
    pub fn compact(&mut self, step: usize, stored: usize) -> Option<Vec<u32>> {
        let rows = &mut self.table[step];
        let mut alive = rows.clone();
        alive.sort_unstable();
        alive.dedup();
        if 4 * alive.len() > 3 * stored {
            return None;
        }
        let mut place = vec![0; stored];
        alive.iter().enumerate().for_each(|(new, &old)| place[old as usize] = new as u32);
        rows.iter_mut().for_each(|row| *row = place[*row as usize]);
        Some(alive)
    }
}

/// Queries q [rows, d], one of each hypothesis, over the keys and values side by side in the blocks [n_p, 2d] of all steps,
/// the newest included → [rows, d].
pub fn cached_attention(
    q: &Tensor,
    past: &[Tensor],
    ancestors: &Ancestors,
    n_heads: usize,
) -> Result<Tensor> {
    let (rows, d) = check(q, past, ancestors, n_heads)?;
    if q.track_op() || !fused_applies(&[q]) || !past.iter().all(|block| fused_applies(&[block])) {
        return cached_attention_plain(q, past, ancestors, n_heads);
    }
    let q = in_rows(q)?;
    let blocks = past.iter().map(in_rows).collect::<candle_core::Result<Vec<Tensor>>>()?;
    let blocks = blocks.iter().map(Rows::of).collect::<candle_core::Result<Vec<Rows>>>()?;
    let (q, blocks) =
        (Rows::of(&q)?, blocks.iter().map(Rows::matrix).collect::<candle_core::Result<Vec<_>>>()?);
    let cached = Cached { q: q.matrix()?, blocks: &blocks, ancestors, n_heads, d };
    let parallel = rows * past.len() * d >= SERIAL && rayon::current_num_threads() > 1;
    // SAFETY: every row is filled.
    let out = unsafe {
        filled(rows * d, |out| {
            let out = Output::new(out, d);
            // No two tasks have a row in common.
            let row = |row| cached.row(row, out.row(row, 0..d));
            if parallel { for_each(rows, row) } else { (0..rows).for_each(row) }
        })
    };
    Ok(Tensor::from_vec(out, (rows, d), &Device::Cpu)?)
}

/// [`cached_attention`] in ordinary tensor operations: the past of every hypothesis is gathered first.
pub fn cached_attention_plain(
    q: &Tensor,
    past: &[Tensor],
    ancestors: &Ancestors,
    n_heads: usize,
) -> Result<Tensor> {
    let (rows, d) = check(q, past, ancestors, n_heads)?;
    let gather = |(step, block): (usize, &Tensor)| {
        block.contiguous()?.index_select(&Tensor::new(ancestors.of(step), block.device())?, 0)
    };
    let steps = past.iter().enumerate().map(gather).collect::<candle_core::Result<Vec<Tensor>>>()?;
    let kv = Tensor::stack(&steps, 1)?.reshape((rows * steps.len(), 2 * d))?;
    let spans = Spans::cached(rows, 1, steps.len() - 1);
    attention_plain(q, &kv.narrow(1, 0, d)?, &kv.narrow(1, d, d)?, &spans, n_heads, None)
}

/// The sizes rows and d, if all fit.
fn check(q: &Tensor, past: &[Tensor], ancestors: &Ancestors, n_heads: usize) -> Result<(usize, usize)> {
    let (rows, d) = q.dims2()?;
    let refused = |what: String| Err(Error::Data(format!("cached attention: {what}")));
    if n_heads == 0 || !d.is_multiple_of(n_heads) {
        return refused(format!("expected a width that {n_heads} heads divide, found {d}"));
    }
    let (own, steps) = (ancestors.rows(), ancestors.steps());
    if own != rows || steps != past.len() || steps == 0 {
        let found = past.len();
        return refused(format!(
            "{rows} queries over {found} blocks, expected {own} over {steps}, at least one"
        ));
    }
    for (step, block) in past.iter().enumerate() {
        let (n, width) = block.dims2()?;
        let most = ancestors.of(step).iter().max().map_or(0, |&row| row as usize + 1);
        if width != 2 * d || most > n {
            let expected = 2 * d;
            return refused(format!(
                "block {step} is [{n}, {width}], expected at least [{most}, {expected}]"
            ));
        }
    }
    Ok((rows, d))
}

/// All that a row needs.
struct Cached<'a> {
    q: Matrix<'a>,
    blocks: &'a [Matrix<'a>],
    ancestors: &'a Ancestors,
    n_heads: usize,
    d: usize,
}

thread_local! {
    /// The weights of a row, by head, kept for the next one.
    static WEIGHTS: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

impl Cached<'_> {
    /// Writes the output of one hypothesis.
    fn row(&self, row: usize, out: &mut [std::mem::MaybeUninit<f32>]) {
        let Cached { q, blocks, ancestors, n_heads, d } = *self;
        let (steps, width) = (blocks.len(), d / n_heads);
        let pitch = steps.next_multiple_of(LANES);
        let rows: Vec<&[f32]> = (0..steps)
            .map(|step| &blocks[step].data[ancestors.of(step)[row] as usize * blocks[step].row..][..2 * d])
            .collect();
        WEIGHTS.with_borrow_mut(|weights| {
            weights.resize(n_heads * pitch, 0.0);
            gathered_dots((n_heads, width), &q.data[row * q.row..][..d], &rows, weights, pitch);
            let visible = Visible { rows: n_heads, cols: steps, causal: false };
            softmax(weights, pitch, visible, scale(width) as f32);
            gathered_sums((n_heads, width), weights, pitch, &rows, d, out);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::attention;
    use super::*;
    use crate::ops::check::{assert_close, flat, random};
    use crate::ops::simd::forced::same_everywhere;
    use crate::rng::Rng;

    fn bits(x: &Tensor) -> Vec<u32> {
        x.flatten_all().unwrap().to_vec1::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
    }

    /// Random blocks and ancestors: `rows` hypotheses after `steps` steps, of a width d that `heads` divide.
    fn case(rng: &mut Rng, rows: usize, steps: usize, d: usize) -> (Tensor, Vec<Tensor>, Ancestors) {
        let mut ancestors = Ancestors::new(rows);
        let mut blocks = Vec::new();
        for step in 0..steps {
            let n = if step + 1 == steps { rows } else { 1 + rng.below(2 * rows + 1) };
            // Part of wider rows, as in the product of queries, keys and values.
            blocks.push(random(&[n, 3 * d], 10 + step as u64).unwrap().narrow(1, d, 2 * d).unwrap());
            ancestors.push();
            ancestors.table[step] = (0..rows).map(|_| rng.below(n) as u32).collect();
        }
        (random(&[rows, 3 * d], 1).unwrap().narrow(1, 0, d).unwrap(), blocks, ancestors)
    }

    #[test]
    fn equals_the_plain_twin_and_the_bits_of_attention() -> Result<()> {
        let mut rng = Rng::new(1, "cached");
        for (rows, steps, d, heads) in
            [(1, 1, 1, 1), (1, 20, 64, 4), (3, 5, 20, 2), (4, 17, 48, 3), (9, 33, 128, 1)]
        {
            let (q, blocks, ancestors) = case(&mut rng, rows, steps, d);
            let plain = flat(&cached_attention_plain(&q, &blocks, &ancestors, heads)?)?;
            let found = cached_attention(&q, &blocks, &ancestors, heads)?;
            assert_close(&flat(&found)?, &plain, 1e-6, "output");
            let gather = |step: usize| -> Result<Tensor> {
                let rows = Tensor::new(ancestors.of(step), &Device::Cpu)?;
                Ok(blocks[step].contiguous()?.index_select(&rows, 0)?)
            };
            let steps = (0..steps).map(gather).collect::<Result<Vec<_>>>()?;
            let kv = Tensor::stack(&steps, 1)?.reshape((rows * steps.len(), 2 * d))?;
            let spans = Arc::new(Spans::cached(rows, 1, steps.len() - 1));
            let expected = bits(&attention(&q, &kv, &spans, heads, None)?);
            let found = same_everywhere(|| bits(&cached_attention(&q, &blocks, &ancestors, heads).unwrap()));
            assert_eq!(found, expected, "rows {rows}, d {d}");
        }
        Ok(())
    }

    /// Three hypotheses of one step; the second and third go on from the first, then the second alone.
    #[test]
    fn ancestors_by_hand() {
        let mut ancestors = Ancestors::new(3);
        ancestors.push();
        ancestors.reorder(&[2, 0, 0]);
        ancestors.push();
        assert_eq!((ancestors.of(0), ancestors.of(1)), ([2, 0, 0].as_slice(), [0, 1, 2].as_slice()));
        ancestors.reorder(&[2]);
        assert_eq!((ancestors.rows(), ancestors.of(0), ancestors.of(1)), (1, [0].as_slice(), [2].as_slice()));
        assert_eq!(ancestors.compact(1, 3), Some(vec![2]));
        assert_eq!(ancestors.of(1), [0]);
        assert_eq!(ancestors.compact(1, 1), None);
    }

    #[test]
    fn no_rows_give_no_rows_and_mistakes_are_named() -> Result<()> {
        let (q, blocks, mut ancestors) = case(&mut Rng::new(2, "cached"), 2, 3, 8);
        let message = |result: Result<Tensor>| result.unwrap_err().to_string();
        assert!(message(cached_attention(&q, &blocks, &ancestors, 3)).contains("3 heads divide, found 8"));
        assert!(message(cached_attention(&q, &blocks[1..], &ancestors, 2)).contains("2 over 3"));
        ancestors.reorder(&[]);
        let mut blocks = blocks;
        // The newest block has no rows either.
        blocks[2] = random(&[2, 24], 1)?.narrow(0, 0, 0)?.contiguous()?.narrow(1, 8, 16)?;
        assert_eq!(cached_attention(&q.narrow(0, 0, 0)?, &blocks, &ancestors, 2)?.dims(), [0, 8]);
        Ok(())
    }
}
