//! A·Bᵀ, rows against rows, in blocks of sixteen products.

use super::super::lanes::{LANES, Lanes};
use super::super::spans::Visible;
use super::{Matrix, at_level};

/// scores[i, j] = a_i · b_j over `width` columns, for the rows of a and for each the rows of b that it sees. The rows
/// of `scores` are `pitch` floats, a multiple of 16; past the visible ones they hold nothing of meaning.
pub(in crate::ops) fn dots(
    visible: Visible,
    width: usize,
    a: Matrix<'_>,
    b: Matrix<'_>,
    scores: &mut [f32],
    pitch: usize,
) {
    let Visible { rows: m, cols: n, .. } = visible;
    a.check(m, width);
    b.check(n, width);
    assert!(a.col == 1 && b.col == 1, "rows must be contiguous");
    assert!(
        pitch.is_multiple_of(LANES) && pitch >= n && scores.len() >= m * pitch,
        "too little room for scores"
    );
    let scores = scores.as_mut_ptr();
    at_level!(dots_on(
        visible: Visible, width: usize, a: Matrix<'_>, b: Matrix<'_>, scores: *mut f32, pitch: usize,
    ));
}

/// [`dots`] in blocks of sixteen products: 4 × 4, or 1 × 16 where fewer than four rows are left.
#[inline(always)]
unsafe fn dots_on<L: Lanes>(
    visible: Visible,
    width: usize,
    a: Matrix<'_>,
    b: Matrix<'_>,
    scores: *mut f32,
    pitch: usize,
) {
    let mut i = 0;
    while i < visible.rows {
        let rows = if visible.rows - i >= 4 { 4 } else { 1 };
        for j in (0..visible.of(i + rows - 1)).step_by(LANES / rows) {
            // SAFETY: `dots` has checked the sizes; `pitch` leaves room for the last block of a row.
            unsafe {
                let a_start = a.data.as_ptr().add(i * a.row);
                let (b, last) = (b, visible.cols - 1);
                let keys = |t: usize| b.data.as_ptr().add((j + t).min(last) * b.row);
                let block = Block { width, a: a_start, a_row: a.row, keys };
                let out = scores.add(i * pitch + j);
                match (rows, L::REGISTERS == 32) {
                    (4, true) => block.run::<L, 4, 4, 4>(out, pitch),
                    (4, false) => block.run::<L, 4, 4, 1>(out, pitch),
                    (_, true) => block.run::<L, 1, 16, 16>(out, pitch),
                    (_, false) => block.run::<L, 1, 16, 4>(out, pitch),
                }
            }
        }
        i += rows;
    }
}

/// Sixteen products of [`dots`]: ROWS rows of a with COLS rows of b, which `keys` gives by their number. Where b has no more
/// rows another stands in, and the products are not used.
pub(super) struct Block<K> {
    pub width: usize,
    pub a: *const f32,
    pub a_row: usize,
    pub keys: K,
}

impl<K: Fn(usize) -> *const f32> Block<K> {
    /// TOGETHER rows of b at a time, as many as there are registers for.
    #[inline(always)]
    pub unsafe fn run<L: Lanes, const ROWS: usize, const COLS: usize, const TOGETHER: usize>(
        &self,
        out: *mut f32,
        pitch: usize,
    ) {
        // SAFETY: the caller has checked the sizes; rows of b are at most the last.
        unsafe {
            let mut sums = [L::splat(0.0); LANES];
            for c in (0..COLS).step_by(TOGETHER) {
                let part = self.products::<L, ROWS, TOGETHER>(std::array::from_fn(|t| (self.keys)(c + t)));
                for (r, part) in part.iter().enumerate() {
                    sums[r * COLS + c..][..TOGETHER].copy_from_slice(part);
                }
            }
            let mut products = [0.0; LANES];
            L::sums(sums).store(products.as_mut_ptr());
            for r in 0..ROWS {
                std::ptr::copy_nonoverlapping(products.as_ptr().add(r * COLS), out.add(r * pitch), COLS);
            }
        }
    }

    /// The products by lanes, before the lanes are added.
    #[inline(always)]
    unsafe fn products<L: Lanes, const ROWS: usize, const TOGETHER: usize>(
        &self,
        b: [*const f32; TOGETHER],
    ) -> [[L; TOGETHER]; ROWS] {
        // SAFETY: as the caller's; the last columns are cut to the width.
        unsafe {
            let mut sums = [[L::splat(0.0); TOGETHER]; ROWS];
            let whole = self.width / LANES * LANES;
            for x in (0..whole).step_by(LANES) {
                self.add::<L, ROWS, TOGETHER, true>(b, x, LANES, &mut sums);
            }
            if whole < self.width {
                self.add::<L, ROWS, TOGETHER, false>(b, whole, self.width - whole, &mut sums);
            }
            sums
        }
    }

    /// Adds the products of `count` columns from `x` on.
    #[inline(always)]
    unsafe fn add<L: Lanes, const ROWS: usize, const TOGETHER: usize, const WHOLE: bool>(
        &self,
        b: [*const f32; TOGETHER],
        x: usize,
        count: usize,
        sums: &mut [[L; TOGETHER]; ROWS],
    ) {
        // SAFETY: as the caller's.
        unsafe {
            let mut columns = [L::splat(0.0); TOGETHER];
            for (column, b) in columns.iter_mut().zip(b) {
                *column = L::load_part::<WHOLE>(b.add(x), count);
            }
            for (r, row) in sums.iter_mut().enumerate() {
                let a = L::load_part::<WHOLE>(self.a.add(r * self.a_row + x), count);
                for (sum, &column) in row.iter_mut().zip(&columns) {
                    *sum = a.mul_add(column, *sum);
                }
            }
        }
    }
}
