//! The two small matrix products behind attention and [`super::packed`].
//!
//! [`matmul`] is A·B for a B whose rows lie in memory as they are: each element is one chain of fused
//! multiply-adds in rising order of the inner index. [`dots()`] is A·Bᵀ, rows against rows: each element has sixteen
//! such chains, one for each lane, which are added in halves at the end. So an element depends on its row and its
//! column alone, never on the size of the product, on its neighbours or on the instructions of the processor:
//! bit for bit.

mod dots;
mod gathered;
mod tiles;

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

pub(super) use dots::dots;
pub(super) use gathered::{gathered_dots, gathered_sums};
pub(super) use tiles::{Start, matmul};

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

/// Asks for the line of the cache with the byte at `address`, which need not exist.
#[inline(always)]
pub(super) fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction has no effect but on the caches.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Compiles a product for each level and picks the one of this processor.
macro_rules! at_level {
    ($on:ident($($arg:ident: $ty:ty),* $(,)?)) => {{
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        unsafe fn avx512($($arg: $ty),*) {
            // SAFETY: as the caller's.
            unsafe { $on::<$crate::ops::lanes::Avx512>($($arg),*) }
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        unsafe fn avx2($($arg: $ty),*) {
            // SAFETY: as the caller's.
            unsafe { $on::<$crate::ops::lanes::Avx2>($($arg),*) }
        }
        // SAFETY: `level` names instructions that the processor has; the sizes are checked by the caller.
        unsafe {
            match $crate::ops::simd::level() {
                #[cfg(target_arch = "x86_64")]
                $crate::ops::simd::Level::Avx512 => avx512($($arg),*),
                #[cfg(target_arch = "x86_64")]
                $crate::ops::simd::Level::Avx2 => avx2($($arg),*),
                $crate::ops::simd::Level::Baseline => $on::<$crate::ops::lanes::Portable>($($arg),*),
            }
        }
    }};
}
use at_level;
