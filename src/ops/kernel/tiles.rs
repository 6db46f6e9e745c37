//! A·B in tiles: rows of A by vectors of columns of B whose sums stay in registers while the inner index runs.

use super::super::lanes::{LANES, Lanes};
use super::{Matrix, Output, at_level, prefetch};

/// What the chains of a product start from.
#[derive(Clone, Copy)]
pub(in crate::ops) enum Start<'a> {
    Zero,
    /// A number for each column.
    Bias(&'a [f32]),
    /// What is in `out`: the chain over the inner indices before these.
    Out,
}

/// out[m, n] = start + a[m, k] · b[k, n]. The rows of b must be contiguous.
///
/// # Safety
/// No other task may touch these m × n elements of `out` meanwhile; they must have been written where the chains start from
/// them.
pub(in crate::ops) unsafe fn matmul(
    (m, n, k): (usize, usize, usize),
    a: Matrix<'_>,
    b: Matrix<'_>,
    start: Start<'_>,
    out: Output<'_>,
) {
    a.check(m, k);
    b.check(k, n);
    out.check(m, n);
    assert!(b.col == 1, "the rows of b must be contiguous");
    assert!(!matches!(start, Start::Bias(bias) if bias.len() < n), "a bias for every column");
    let size = Size { m, n, k };
    at_level!(matmul_on(size: Size, a: Matrix<'_>, b: Matrix<'_>, start: Start<'_>, out: Output<'_>));
}

/// The sizes of a product: a is [m, k], b is [k, n].
#[derive(Clone, Copy)]
struct Size {
    m: usize,
    n: usize,
    k: usize,
}

/// [`matmul`] in tiles that fit the registers; the columns after the last whole vector have tiles of their own.
#[inline(always)]
unsafe fn matmul_on<L: Lanes>(size: Size, a: Matrix<'_>, b: Matrix<'_>, start: Start<'_>, out: Output<'_>) {
    let Size { m, n, k } = size;
    let whole = n / LANES;
    let (rows, vectors) = tile_shape::<L>(m, whole.max(1));
    let tile = |r: usize, c: usize| Tile {
        k,
        a: a.data.as_ptr().wrapping_add(r * a.row),
        a_row: a.row,
        a_col: a.col,
        b: b.data.as_ptr().wrapping_add(c),
        b_row: b.row,
        start: match start {
            Start::Zero => std::ptr::null(),
            Start::Bias(bias) => bias.as_ptr().wrapping_add(c),
            Start::Out => out.data.wrapping_add(r * out.row + c),
        },
        start_row: if matches!(start, Start::Out) { out.row } else { 0 },
        out: out.data.wrapping_add(r * out.row + c),
        out_row: out.row,
        tail: n - whole * LANES,
    };
    for first in (0..whole).step_by(vectors) {
        for r in (0..m).step_by(rows) {
            // SAFETY: within the matrices, whose sizes `matmul` has checked.
            unsafe { tile(r, first * LANES).run::<L>((m - r).min(rows), (whole - first).min(vectors)) };
        }
    }
    if n > whole * LANES {
        for r in (0..m).step_by(rows) {
            // SAFETY: as above.
            unsafe { tile(r, whole * LANES).run_tail::<L>((m - r).min(rows)) };
        }
    }
}

/// Rows and vectors of a tile for a product of m rows and `vectors` vectors: as many accumulators as there are
/// registers, evenly cut.
#[inline(always)]
fn tile_shape<L: Lanes>(m: usize, vectors: usize) -> (usize, usize) {
    let most_vectors = if L::REGISTERS == 32 {
        if m <= 6 { 4 } else { 3 }
    } else {
        match m {
            0 | 1 => 4,
            2 | 3 => 2,
            _ => 1,
        }
    };
    let most_rows = if L::REGISTERS == 32 { 8 } else { 6 };
    let even = |whole: usize, most: usize| whole.div_ceil(whole.div_ceil(most).max(1)).max(1);
    (even(m, most_rows), even(vectors, most_vectors))
}

/// A tile of [`matmul`]: its accumulators stay in registers while the inner index runs.
struct Tile {
    k: usize,
    a: *const f32,
    a_row: usize,
    a_col: usize,
    b: *const f32,
    b_row: usize,
    start: *const f32,
    start_row: usize,
    out: *mut f32,
    out_row: usize,
    /// Columns after the last whole vector, 0 to 15.
    tail: usize,
}

/// Rows of b that are asked for before they are read.
const AHEAD: usize = 32;

impl Tile {
    /// Computes `rows` × `vectors`, as [`tile_shape`] hands them out.
    #[inline(always)]
    unsafe fn run<L: Lanes>(&self, rows: usize, vectors: usize) {
        macro_rules! shapes {
            ($($rows:literal $vectors:literal),*) => {
                // SAFETY: as the caller's.
                unsafe {
                    match (rows, vectors) {
                        $(($rows, $vectors) => self.sized::<L, $rows, $vectors, true>(),)*
                        _ => unreachable!("no tile of {rows} rows and {vectors} vectors"),
                    }
                }
            };
        }
        if L::REGISTERS == 32 {
            shapes!(
                1 1, 2 1, 3 1, 4 1, 5 1, 6 1, 7 1, 8 1, 1 2, 2 2, 3 2, 4 2, 5 2, 6 2, 7 2, 8 2,
                1 3, 2 3, 3 3, 4 3, 5 3, 6 3, 7 3, 8 3, 1 4, 2 4, 3 4, 4 4, 5 4, 6 4
            );
        } else {
            shapes!(1 1, 2 1, 3 1, 4 1, 5 1, 6 1, 1 2, 2 2, 3 2, 1 3, 1 4);
        }
    }

    /// Computes `rows` rows of the tail.
    #[inline(always)]
    unsafe fn run_tail<L: Lanes>(&self, rows: usize) {
        // SAFETY: as the caller's.
        unsafe {
            match rows {
                1 => self.sized::<L, 1, 1, false>(),
                2 => self.sized::<L, 2, 1, false>(),
                3 => self.sized::<L, 3, 1, false>(),
                4 => self.sized::<L, 4, 1, false>(),
                5 => self.sized::<L, 5, 1, false>(),
                6 => self.sized::<L, 6, 1, false>(),
                7 => self.sized::<L, 7, 1, false>(),
                _ => self.sized::<L, 8, 1, false>(),
            }
        }
    }

    #[inline(always)]
    unsafe fn sized<L: Lanes, const ROWS: usize, const VECTORS: usize, const WHOLE: bool>(&self) {
        // SAFETY: the caller has checked the sizes; what is not whole is cut to `tail` columns.
        unsafe {
            let mut sums = [[L::splat(0.0); VECTORS]; ROWS];
            if !self.start.is_null() {
                for (r, row) in sums.iter_mut().enumerate() {
                    for (v, sum) in row.iter_mut().enumerate() {
                        let from = self.start.add(r * self.start_row + v * LANES);
                        *sum = L::load_part::<WHOLE>(from, self.tail);
                    }
                }
            }
            let (mut a, mut b) = (self.a, self.b);
            for _ in 0..self.k {
                for v in 0..VECTORS {
                    prefetch(b.wrapping_add(AHEAD * self.b_row + v * LANES).cast());
                }
                let mut columns = [L::splat(0.0); VECTORS];
                for (v, column) in columns.iter_mut().enumerate() {
                    *column = L::load_part::<WHOLE>(b.add(v * LANES), self.tail);
                }
                for (r, row) in sums.iter_mut().enumerate() {
                    let x = L::splat(*a.add(r * self.a_row));
                    for (sum, &column) in row.iter_mut().zip(&columns) {
                        *sum = x.mul_add(column, *sum);
                    }
                }
                a = a.wrapping_add(self.a_col);
                b = b.wrapping_add(self.b_row);
            }
            for (r, row) in sums.iter().enumerate() {
                for (v, &sum) in row.iter().enumerate() {
                    sum.store_part::<WHOLE>(self.out.add(r * self.out_row + v * LANES), self.tail);
                }
            }
        }
    }
}
