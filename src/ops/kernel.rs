//! The two small matrix products behind attention and [`super::packed`].
//!
//! [`matmul`] is A·B for a B whose rows lie in memory as they are: each element is one chain of fused
//! multiply-adds in rising order of the inner index. [`dots`] is A·Bᵀ, rows against rows: each element has sixteen
//! such chains, one for each lane, which are added in halves at the end. So an element depends on its row and its
//! column alone, never on the size of the product, on its neighbours or on the instructions of the processor:
//! bit for bit.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

use super::lanes::{LANES, Lanes, Portable};
use super::simd::{Level, level};
use super::spans::Visible;

/// A matrix read in place: element (r, c) is `data[r * row + c * col]`.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a> {
    pub data: &'a [f32],
    pub row: usize,
    pub col: usize,
}

impl<'a> Matrix<'a> {
    /// Rows of neighbouring floats, `row` apart.
    pub fn rows(data: &'a [f32], row: usize) -> Self {
        Self { data, row, col: 1 }
    }

    /// The same matrix with rows and columns exchanged.
    pub fn transposed(self) -> Self {
        Self { row: self.col, col: self.row, ..self }
    }

    /// The part of the matrix that begins at (r, c).
    pub fn from(self, r: usize, c: usize) -> Self {
        let start = (r * self.row + c * self.col).min(self.data.len());
        Self { data: &self.data[start..], ..self }
    }

    /// Panics unless the first `rows` × `cols` elements exist: a fault of the caller in this crate.
    fn check(&self, rows: usize, cols: usize) {
        let last =
            if rows == 0 || cols == 0 { None } else { Some((rows - 1) * self.row + (cols - 1) * self.col) };
        assert!(
            last.is_none_or(|last| last < self.data.len()),
            "a matrix of {rows} x {cols} exceeds its data"
        );
    }
}

/// A matrix that several tasks fill, each its own part: rows of neighbouring floats, `row` apart.
#[derive(Clone, Copy)]
pub(super) struct Output<'a> {
    data: *mut f32,
    len: usize,
    row: usize,
    memory: PhantomData<&'a mut [f32]>,
}

// SAFETY: the functions that write through it are unsafe and ask that no two tasks share an element.
unsafe impl Send for Output<'_> {}
// SAFETY: as above.
unsafe impl Sync for Output<'_> {}

impl<'a> Output<'a> {
    /// A matrix over `data`, which need not have been written before.
    pub fn new(data: &'a mut [MaybeUninit<f32>], row: usize) -> Self {
        Self { data: data.as_mut_ptr().cast(), len: data.len(), row, memory: PhantomData }
    }

    /// The part of the matrix that begins at (r, c).
    pub fn from(self, r: usize, c: usize) -> Self {
        let start = (r * self.row + c).min(self.len);
        // SAFETY: start is at most the length.
        Self { data: unsafe { self.data.add(start) }, len: self.len - start, ..self }
    }

    /// The columns `cols` of row `r`.
    ///
    /// # Safety
    /// No other task may touch them meanwhile.
    pub unsafe fn row(self, r: usize, cols: Range<usize>) -> &'a mut [MaybeUninit<f32>] {
        let start = r * self.row + cols.start;
        assert!(start + cols.len() <= self.len, "columns {cols:?} of row {r} exceed the data");
        // SAFETY: checked to lie within the data; the rest is the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.data.add(start).cast(), cols.len()) }
    }

    /// Zeros in the first `rows` × `cols` elements.
    ///
    /// # Safety
    /// No other task may touch these elements meanwhile.
    pub unsafe fn zero(self, rows: usize, cols: usize) {
        self.check(rows, cols);
        for r in 0..rows {
            // SAFETY: checked above to lie within the data.
            unsafe { self.data.add(r * self.row).write_bytes(0, cols) };
        }
    }

    /// Panics unless the first `rows` × `cols` elements exist.
    fn check(&self, rows: usize, cols: usize) {
        let last = if rows == 0 || cols == 0 { None } else { Some((rows - 1) * self.row + cols - 1) };
        assert!(last.is_none_or(|last| last < self.len), "a matrix of {rows} x {cols} exceeds its data");
    }
}

/// A vector of `len` floats that `fill` writes.
///
/// # Safety
/// `fill` must write every element.
pub(super) unsafe fn filled(len: usize, fill: impl FnOnce(&mut [MaybeUninit<f32>])) -> Vec<f32> {
    let mut data = Vec::with_capacity(len);
    fill(&mut data.spare_capacity_mut()[..len]);
    // SAFETY: the caller vouches that all of them are written.
    unsafe { data.set_len(len) };
    data
}

/// Compiles a product for each level and picks the one of this processor.
macro_rules! at_level {
    ($on:ident($($arg:ident: $ty:ty),* $(,)?)) => {{
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        unsafe fn avx512($($arg: $ty),*) {
            // SAFETY: as the caller's.
            unsafe { $on::<super::lanes::Avx512>($($arg),*) }
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        unsafe fn avx2($($arg: $ty),*) {
            // SAFETY: as the caller's.
            unsafe { $on::<super::lanes::Avx2>($($arg),*) }
        }
        // SAFETY: `level` names instructions that the processor has; the sizes are checked by the caller.
        unsafe {
            match level() {
                #[cfg(target_arch = "x86_64")]
                Level::Avx512 => avx512($($arg),*),
                #[cfg(target_arch = "x86_64")]
                Level::Avx2 => avx2($($arg),*),
                Level::Baseline => $on::<Portable>($($arg),*),
            }
        }
    }};
}

/// What the chains of a product start from.
#[derive(Clone, Copy)]
pub(super) enum Start<'a> {
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
pub(super) unsafe fn matmul(
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

/// [`matmul`] in tiles that fit the registers.
#[inline(always)]
unsafe fn matmul_on<L: Lanes>(size: Size, a: Matrix<'_>, b: Matrix<'_>, start: Start<'_>, out: Output<'_>) {
    let Size { m, n, k } = size;
    let (rows, vectors) = tile_shape::<L>(m, n.div_ceil(LANES));
    for c in (0..n).step_by(vectors * LANES) {
        let width = (n - c).min(vectors * LANES);
        for r in (0..m).step_by(rows) {
            // SAFETY: within the matrices, whose sizes `matmul` has checked.
            unsafe {
                let job = Tile {
                    k,
                    a: a.data.as_ptr().wrapping_add(r * a.row),
                    a_row: a.row,
                    a_col: a.col,
                    b: b.data.as_ptr().wrapping_add(c),
                    b_row: b.row,
                    start: match start {
                        Start::Zero => std::ptr::null(),
                        Start::Bias(bias) => bias.as_ptr().add(c),
                        Start::Out => out.data.wrapping_add(r * out.row + c),
                    },
                    start_row: if matches!(start, Start::Out) { out.row } else { 0 },
                    out: out.data.wrapping_add(r * out.row + c),
                    out_row: out.row,
                    tail: width - (width.div_ceil(LANES) - 1) * LANES,
                };
                job.run::<L>((m - r).min(rows), width.div_ceil(LANES));
            }
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
    /// Columns in the last vector, 1 to 16.
    tail: usize,
}

impl Tile {
    /// Computes `rows` × `vectors`, as [`tile_shape`] hands them out.
    #[inline(always)]
    unsafe fn run<L: Lanes>(&self, rows: usize, vectors: usize) {
        macro_rules! shapes {
            ($($rows:literal $vectors:literal),*) => {
                // SAFETY: as the caller's.
                unsafe {
                    match (rows, vectors) {
                        $(($rows, $vectors) => self.sized::<L, $rows, $vectors>(),)*
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

    #[inline(always)]
    unsafe fn sized<L: Lanes, const ROWS: usize, const VECTORS: usize>(&self) {
        // SAFETY: the caller has checked the sizes; the last vector is cut to `tail` columns.
        unsafe {
            let count = |v: usize| if v + 1 == VECTORS { self.tail } else { LANES };
            let mut sums = [[L::splat(0.0); VECTORS]; ROWS];
            if !self.start.is_null() {
                for (r, row) in sums.iter_mut().enumerate() {
                    for (v, sum) in row.iter_mut().enumerate() {
                        *sum = L::load_first(self.start.add(r * self.start_row + v * LANES), count(v));
                    }
                }
            }
            let (mut a, mut b) = (self.a, self.b);
            for _ in 0..self.k {
                let mut columns = [L::splat(0.0); VECTORS];
                for (v, column) in columns.iter_mut().enumerate() {
                    *column = L::load_first(b.add(v * LANES), count(v));
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
                    sum.store_first(self.out.add(r * self.out_row + v * LANES), count(v));
                }
            }
        }
    }
}

/// scores[i, j] = a_i · b_j over `width` columns, for the rows of a and for each the rows of b that it sees. The rows
/// of `scores` are `pitch` floats, a multiple of 16; past the visible ones they hold nothing of meaning.
pub(super) fn dots(
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
struct Block<K> {
    width: usize,
    a: *const f32,
    a_row: usize,
    keys: K,
}

impl<K: Fn(usize) -> *const f32> Block<K> {
    /// TOGETHER rows of b at a time, as many as there are registers for.
    #[inline(always)]
    unsafe fn run<L: Lanes, const ROWS: usize, const COLS: usize, const TOGETHER: usize>(
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
            L::sums(sums).store_first(products.as_mut_ptr(), LANES);
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
        // SAFETY: as the caller's; the last load is cut to the width.
        unsafe {
            let mut sums = [[L::splat(0.0); TOGETHER]; ROWS];
            for x in (0..self.width).step_by(LANES) {
                let count = (self.width - x).min(LANES);
                let mut columns = [L::splat(0.0); TOGETHER];
                for (column, b) in columns.iter_mut().zip(b) {
                    *column = L::load_first(b.add(x), count);
                }
                for (r, row) in sums.iter_mut().enumerate() {
                    let a = L::load_first(self.a.add(r * self.a_row + x), count);
                    for (sum, &column) in row.iter_mut().zip(&columns) {
                        *sum = a.mul_add(column, *sum);
                    }
                }
            }
            sums
        }
    }
}

/// [`dots`] of one row q with rows that lie anywhere, for each of `heads` blocks of `width` columns: scores[head, i] =
/// q · rows_i. The rows of `scores` are `pitch` floats, as there.
pub(super) fn gathered_dots(
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
/// element one chain in rising order, as [`matmul`] has them. The rows of `weights` are `pitch` floats.
pub(super) fn gathered_sums(
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
    /// Vectors whose sums run side by side.
    const VECTORS: usize = 4;
    for head in 0..heads {
        for c in (0..width).step_by(VECTORS * LANES) {
            // The columns of each vector, 0 where there are no more.
            let counts: [usize; VECTORS] =
                std::array::from_fn(|v| width.saturating_sub(c + v * LANES).min(LANES));
            let at = head * width + c;
            // SAFETY: `gathered_sums` has checked the sizes; no vector reaches over the width.
            unsafe {
                let mut sums = [L::splat(0.0); VECTORS];
                for (row, &weight) in rows.iter().zip(&weights[head * pitch..]) {
                    let x = L::splat(weight);
                    for (v, sum) in sums.iter_mut().enumerate() {
                        let from = row.as_ptr().wrapping_add(column + at + v * LANES);
                        *sum = x.mul_add(L::load_first(from, counts[v]), *sum);
                    }
                }
                for (v, sum) in sums.into_iter().enumerate() {
                    sum.store_first(out.wrapping_add(at + v * LANES), counts[v]);
                }
            }
        }
    }
}
