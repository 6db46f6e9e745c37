//! The product of two panels with AVX512-BF16, whose one instruction adds a pair of products to each of 16 sums.

use std::arch::x86_64::*;

use super::blocks::Target;
use super::pack::{DEPTH, SIDE, Tile};

/// Rows whose sums are in registers at a time: 16 registers of 32.
const ROWS: usize = 8;

/// Whether the processor has AVX-512 with bf16.
pub fn available() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512bf16")
}

/// Whether it gains over f32. Intel's processors (measured on Sapphire Rapids: 87 GFLOP/s at the peak of the
/// instruction alone, where f32 reaches 160) take two cycles for it, and do two f32 multiply-adds in each.
pub fn gains() -> bool {
    /// "Genu" of "GenuineIntel".
    const INTEL: u32 = u32::from_le_bytes(*b"Genu");
    available() && __cpuid(0).ebx != INTEL
}

/// Writes the product of a panel of rows and a panel of columns to `c`, or adds it.
///
/// # Safety
/// AVX512-BF16 must be [`available`]; `c` must be writable, and readable where it adds.
#[target_feature(enable = "avx512f,avx512bf16")]
pub unsafe fn block(a: &[Tile], b: &[Tile], c: Target) {
    for first in (0..c.rows).step_by(ROWS) {
        let part =
            Target { data: c.data.wrapping_add(first * c.stride), rows: (c.rows - first).min(ROWS), ..c };
        // SAFETY: the rows are some of those of `c`.
        unsafe { rows(a, first, b, part) };
    }
}

/// The rows from `first` of the panel `a` on, at most [`ROWS`].
///
/// # Safety
/// As [`block`].
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn rows(a: &[Tile], first: usize, b: &[Tile], c: Target) {
    let (half, row) = (first / SIDE, first % SIDE);
    let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
    let masks = [mask(c.cols), mask(c.cols.saturating_sub(SIDE))];
    let at = |row: usize, half: usize| c.data.wrapping_add(row * c.stride + half * SIDE);
    if c.add {
        for (row, sums) in sums.iter_mut().enumerate().take(c.rows) {
            for (half, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the rows and columns are those of `c`.
                *sum = unsafe { _mm512_maskz_loadu_ps(masks[half], at(row, half)) };
            }
        }
    }
    for (a, b) in a.as_chunks::<2>().0.iter().zip(b.as_chunks::<2>().0) {
        let a = &a[half].0.as_chunks::<SIDE>().0[row..row + ROWS];
        let b = b.each_ref().map(|half| half.0.as_chunks::<SIDE>().0);
        for pair in 0..DEPTH / 2 {
            // SAFETY: a row of a tile has 64 bytes.
            let b = b.map(|half| unsafe { _mm512_load_si512(half[pair].as_ptr().cast()) });
            for (row, sums) in sums.iter_mut().enumerate() {
                let a = pairs(_mm512_set1_epi32(a[row][pair] as i32));
                for (sum, b) in sums.iter_mut().zip(b) {
                    *sum = _mm512_dpbf16_ps(*sum, a, pairs(b));
                }
            }
        }
    }
    for (row, sums) in sums.into_iter().enumerate().take(c.rows) {
        for (half, sum) in sums.into_iter().enumerate() {
            // SAFETY: as above.
            unsafe { _mm512_mask_storeu_ps(at(row, half), masks[half], sum) };
        }
    }
}

/// A mask of the first `n` of sixteen, of all if there are more.
#[inline(always)]
fn mask(n: usize) -> __mmask16 {
    ((1u32 << n.min(SIDE)) - 1) as __mmask16
}

/// The bits as pairs of bf16.
#[inline(always)]
fn pairs(bits: __m512i) -> __m512bh {
    // SAFETY: 64 bytes without invalid values.
    unsafe { std::mem::transmute::<__m512i, __m512bh>(bits) }
}
