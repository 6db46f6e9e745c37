//! The product of two matrices in bf16, for training: each number is rounded to eight bits of mantissa, and the
//! products, which are then exact, are summed in f32. [`super::matmul`] has the same face without the rounding.
//!
//! Rounding is to the nearest, of two as near to the even one. As in the processors' own instructions, numbers and
//! (but for the plain level) sums below the normal ones (1.2e-38) count as zero, NaN stays NaN, infinity stays
//! infinity, and a number that rounds beyond the largest becomes infinity.
//!
//! The levels add in different orders, so their results differ in the last bits. At one level each element of the
//! result depends on its row and its column alone: it has the same bits at every number of threads.

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod blocks;
#[cfg(target_arch = "x86_64")]
mod pack;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use super::matmul::{self, Matrix};
use super::simd::simd;

/// How products in bf16 are computed, in rising order of speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bf16Level {
    /// On any processor: both matrices are rounded, then multiplied in f32, which gains nothing.
    Plain,
    /// x86-64 with AVX512-BF16, but not from Intel, whose f32 is faster: a dot product of pairs.
    Avx512,
    /// x86-64 with AMX, on Linux: a product of tiles.
    Amx,
}

/// The best level of this processor and system.
static DETECTED: LazyLock<Bf16Level> = LazyLock::new(|| {
    #[cfg(target_arch = "x86_64")]
    if super::amx::available() && avx512::available() {
        return Bf16Level::Amx;
    } else if avx512::gains() {
        return Bf16Level::Avx512;
    }
    Bf16Level::Plain
});

/// The level of products in bf16: the best one of this processor and system, or what a test has forced.
pub fn bf16_level() -> Bf16Level {
    #[cfg(test)]
    if let Some(level) = forced::LEVEL.get() {
        return level;
    }
    *DETECTED
}

/// a \[m,k\] · b \[k,n\] as the rows of \[m,n\], both rounded to bf16.
pub fn product(a: Matrix, b: Matrix) -> Vec<f32> {
    assert_eq!(a.cols, b.rows, "inner sizes of a matrix product");
    let (m, k, n) = (a.rows, a.cols, b.cols);
    if m == 0 || k == 0 || n == 0 {
        return vec![0.0; m * n];
    }
    match bf16_level() {
        #[cfg(target_arch = "x86_64")]
        level @ (Bf16Level::Amx | Bf16Level::Avx512) => {
            let mut out = Vec::with_capacity(m * n);
            // SAFETY: there is room for m·n numbers; all are written, none read before; the level is this processor's.
            unsafe {
                on_level(level, a, b, out.as_mut_ptr(), false);
                out.set_len(m * n);
            }
            out
        }
        _ => {
            let (a_rounded, b_rounded) = (rounded(a.numbers), rounded(b.numbers));
            matmul::product(Matrix { numbers: &a_rounded, ..a }, Matrix { numbers: &b_rounded, ..b })
        }
    }
}

/// out \[m,n\] += a \[m,k\] · b \[k,n\], both rounded to bf16.
pub fn add_product(a: Matrix, b: Matrix, out: &mut [f32]) {
    assert_eq!(a.cols, b.rows, "inner sizes of a matrix product");
    let (m, k, n) = (a.rows, a.cols, b.cols);
    assert_eq!(out.len(), m * n, "the sum of a product of {m} by {n}");
    if m == 0 || k == 0 || n == 0 {
        return;
    }
    match bf16_level() {
        #[cfg(target_arch = "x86_64")]
        level @ (Bf16Level::Amx | Bf16Level::Avx512) => {
            // SAFETY: `out` has m·n numbers and is borrowed by this call; the level is this processor's.
            unsafe { on_level(level, a, b, out.as_mut_ptr(), true) };
        }
        _ => {
            let (a_rounded, b_rounded) = (rounded(a.numbers), rounded(b.numbers));
            matmul::add_product(
                Matrix { numbers: &a_rounded, ..a },
                Matrix { numbers: &b_rounded, ..b },
                out,
            );
        }
    }
}

/// Writes a·b to `out`, or adds it; no side is empty.
///
/// # Safety
/// The processor must have `level`, which is not the plain one; `out` must be writable by this call alone for
/// m·n numbers, and readable with `add`.
#[cfg(target_arch = "x86_64")]
unsafe fn on_level(level: Bf16Level, a: Matrix, b: Matrix, out: *mut f32, add: bool) {
    let out = blocks::Target { data: out, stride: b.cols, rows: a.rows, cols: b.cols, add };
    // SAFETY: the caller's promise.
    unsafe { blocks::multiply(level, pack::Side::left(a), pack::Side::right(b), out) };
}

/// The numbers, rounded to bf16.
pub(super) fn rounded(numbers: &[f32]) -> Vec<f32> {
    let mut out = numbers.to_vec();
    round_all(&mut out);
    out
}

simd! {
    fn round_all(numbers: &mut [f32]) {
        for x in numbers {
            *x = round(*x);
        }
    }
}

/// The bits of the nearest bf16.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn bf16_bits(x: f32) -> u16 {
    (round(x).to_bits() >> 16) as u16
}

/// The nearest bf16.
#[inline(always)]
fn round(x: f32) -> f32 {
    const MAGNITUDE: u32 = 0x7fff_ffff;
    const INFINITY: u32 = 0x7f80_0000;
    const SMALLEST_NORMAL: u32 = 0x0080_0000;
    let bits = x.to_bits();
    // Half a unit of the last bit that stays, less where that bit is even.
    let nearest = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
    let magnitude = bits & MAGNITUDE;
    let bits = if magnitude < SMALLEST_NORMAL {
        bits & !MAGNITUDE
    } else if magnitude > INFINITY {
        // NaN, quiet, so that what stays of the mantissa is not zero.
        bits | 0x0040_0000
    } else {
        nearest
    };
    f32::from_bits(bits & 0xffff_0000)
}

/// Tests run a computation at a chosen level.
#[cfg(test)]
pub mod forced {
    use super::Bf16Level;
    use std::cell::Cell;

    thread_local! {
        pub(super) static LEVEL: Cell<Option<Bf16Level>> = const { Cell::new(None) };
    }

    /// The levels that this processor has, also one that is not worth its while.
    pub fn levels() -> Vec<Bf16Level> {
        let mut levels = vec![Bf16Level::Plain];
        #[cfg(target_arch = "x86_64")]
        if super::avx512::available() {
            levels.push(Bf16Level::Avx512);
        }
        levels.extend((*super::DETECTED == Bf16Level::Amx).then_some(Bf16Level::Amx));
        levels
    }

    /// `work` at `level` on a rayon pool of `threads` threads of its own.
    pub fn run<R: Send>(level: Bf16Level, threads: usize, work: impl FnOnce() -> R + Send) -> R {
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .start_handler(move |_| LEVEL.set(Some(level)))
            .build()
            .unwrap()
            .install(work)
    }
}
