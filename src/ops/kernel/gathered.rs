//! Products of one row with rows that lie anywhere in memory: the past of a hypothesis.

use std::mem::MaybeUninit;

use super::super::lanes::{LANES, Lanes};
use super::at_level;
use super::dots::Block;

/// [`super::dots()`] of one row q with rows that lie anywhere, for each of `heads` blocks of `width` columns: scores[head, i] =
/// q · rows_i. The rows of `scores` are `pitch` floats, as there.
pub(in crate::ops) fn gathered_dots(
    (heads, width): (usize, usize),
    q: &[f32],
    rows: &[&[f32]],
    scores: &mut [f32],
    pitch: usize,
) {
    assert!(
        q.len() >= heads * width && rows.iter().all(|row| row.len() >= heads * width),
        "rows are too short"
    );
    assert!(
        pitch.is_multiple_of(LANES)
            && pitch >= rows.len()
            && scores.len() >= heads * pitch
            && !rows.is_empty(),
        "too little room for scores"
    );
    let shape = (heads, width);
    let scores = scores.as_mut_ptr();
    at_level!(gathered_dots_on(
        shape: (usize, usize), q: &[f32], rows: &[&[f32]], scores: *mut f32, pitch: usize,
    ));
}

#[inline(always)]
unsafe fn gathered_dots_on<L: Lanes>(
    (heads, width): (usize, usize),
    q: &[f32],
    rows: &[&[f32]],
    scores: *mut f32,
    pitch: usize,
) {
    for head in 0..heads {
        for first in (0..rows.len()).step_by(LANES) {
            // SAFETY: `gathered_dots` has checked the sizes.
            unsafe {
                let column = head * width;
                let keys = |t: usize| rows[(first + t).min(rows.len() - 1)].as_ptr().add(column);
                let block = Block { width, a: q.as_ptr().add(column), a_row: 0, keys };
                let out = scores.add(head * pitch + first);
                match L::REGISTERS == 32 {
                    true => block.run::<L, 1, 16, 16>(out, pitch),
                    false => block.run::<L, 1, 16, 4>(out, pitch),
                }
            }
        }
    }
}

/// out = Σ weights[head, i] · rows_i for each of `heads` blocks of `width` columns, which begin at `column` in the rows: each
/// element one chain in rising order, as [`super::matmul`] has them. The rows of `weights` are `pitch` floats.
pub(in crate::ops) fn gathered_sums(
    (heads, width): (usize, usize),
    weights: &[f32],
    pitch: usize,
    rows: &[&[f32]],
    column: usize,
    out: &mut [MaybeUninit<f32>],
) {
    assert!(rows.iter().all(|row| row.len() >= column + heads * width), "rows are too short");
    assert!(
        pitch >= rows.len() && weights.len() >= heads * pitch && out.len() >= heads * width,
        "too little room"
    );
    let (shape, out) = ((heads, width), out.as_mut_ptr().cast::<f32>());
    at_level!(gathered_sums_on(
        shape: (usize, usize), weights: &[f32], pitch: usize, rows: &[&[f32]], column: usize, out: *mut f32,
    ));
}

#[inline(always)]
unsafe fn gathered_sums_on<L: Lanes>(
    (heads, width): (usize, usize),
    weights: &[f32],
    pitch: usize,
    rows: &[&[f32]],
    column: usize,
    out: *mut f32,
) {
    for head in 0..heads {
        let (weights, mut c) = (&weights[head * pitch..][..rows.len()], 0);
        while c < width {
            let at = head * width + c;
            let columns = width - c;
            // SAFETY: `gathered_sums` has checked the sizes.
            unsafe {
                let sum = Columns { rows, weights, from: column + at, count: columns, out: out.add(at) };
                c += match columns / LANES {
                    0 => sum.run::<L, 1, false>(),
                    1 => sum.run::<L, 1, true>(),
                    2 | 3 => sum.run::<L, 2, true>(),
                    _ => sum.run::<L, 4, true>(),
                };
            }
        }
    }
}

/// Some columns of [`gathered_sums`].
struct Columns<'a> {
    rows: &'a [&'a [f32]],
    weights: &'a [f32],
    from: usize,
    /// How many are left.
    count: usize,
    out: *mut f32,
}

impl Columns<'_> {
    /// The next columns, in `VECTORS` vectors whose sums run side by side; says how many.
    #[inline(always)]
    unsafe fn run<L: Lanes, const VECTORS: usize, const WHOLE: bool>(self) -> usize {
        // SAFETY: as the caller's.
        unsafe {
            let mut sums = [L::splat(0.0); VECTORS];
            for (row, &weight) in self.rows.iter().zip(self.weights) {
                let x = L::splat(weight);
                for (v, sum) in sums.iter_mut().enumerate() {
                    let from = row.as_ptr().add(self.from + v * LANES);
                    *sum = x.mul_add(L::load_part::<WHOLE>(from, self.count), *sum);
                }
            }
            for (v, sum) in sums.into_iter().enumerate() {
                sum.store_part::<WHOLE>(self.out.add(v * LANES), self.count);
            }
        }
        VECTORS * LANES
    }
}
