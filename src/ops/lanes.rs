//! Sixteen floats at once, for the two products that the compiler does not vectorise well by itself
//! ([`super::kernel`]): one register of AVX-512, two of AVX2, an array elsewhere.
//!
//! Every multiply-add rounds once, also where the processor has no such instruction, and sums run in one order,
//! so the three give the same bits.

use super::simd::BASELINE_FMA;

/// Floats in a vector.
pub(super) const LANES: usize = 16;

/// Sixteen floats. The functions are unsafe because they read and write through pointers, and because all but
/// [`Portable`] need a processor that has their instructions.
pub(super) trait Lanes: Copy {
    /// How many vector registers the processor has: 32, or room for eight of these.
    const REGISTERS: usize;
    /// `x` sixteen times.
    unsafe fn splat(x: f32) -> Self;
    /// The sixteen floats at `from`.
    unsafe fn load(from: *const f32) -> Self;
    /// The first `n` ≤ 16 floats at `from`, then zeros; reads no further.
    unsafe fn load_first(from: *const f32, n: usize) -> Self;
    /// Writes all sixteen to `to`.
    unsafe fn store(self, to: *mut f32);
    /// Writes the first `n` ≤ 16 to `to`.
    unsafe fn store_first(self, to: *mut f32, n: usize);
    /// All sixteen at `from` if `WHOLE`, else the first `n`, which on AVX2 takes several times as long.
    #[inline(always)]
    unsafe fn load_part<const WHOLE: bool>(from: *const f32, n: usize) -> Self {
        // SAFETY: as the caller's.
        unsafe { if WHOLE { Self::load(from) } else { Self::load_first(from, n) } }
    }
    /// Writes all sixteen to `to` if `WHOLE`, else the first `n`.
    #[inline(always)]
    unsafe fn store_part<const WHOLE: bool>(self, to: *mut f32, n: usize) {
        // SAFETY: as the caller's.
        unsafe { if WHOLE { self.store(to) } else { self.store_first(to, n) } }
    }
    /// self · x + y, rounded once.
    unsafe fn mul_add(self, x: Self, y: Self) -> Self;
    /// Lane i is the sum of the lanes of the i-th vector, added in halves: 8 pairs, 4, 2, 1.
    unsafe fn sums(vectors: [Self; LANES]) -> Self;
}

/// Any processor.
#[derive(Clone, Copy)]
pub(super) struct Portable([f32; LANES]);

impl Lanes for Portable {
    const REGISTERS: usize = 16;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Self([x; LANES])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller vouches for sixteen floats; an array of floats has their alignment.
        Self(unsafe { *from.cast() })
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, n: usize) -> Self {
        // SAFETY: the caller vouches for n floats.
        Self(std::array::from_fn(|lane| if lane < n { unsafe { *from.add(lane) } } else { 0.0 }))
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as in `load`.
        unsafe { *to.cast() = self.0 }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, n: usize) {
        for lane in 0..n {
            // SAFETY: the caller vouches for n floats.
            unsafe { *to.add(lane) = self.0[lane] };
        }
    }

    #[inline(always)]
    unsafe fn mul_add(self, x: Self, y: Self) -> Self {
        let fused = |lane: usize| {
            let (a, b, c) = (self.0[lane], x.0[lane], y.0[lane]);
            if BASELINE_FMA { a.mul_add(b, c) } else { fused_in_f64(a, b, c) }
        };
        Self(std::array::from_fn(fused))
    }

    #[inline(always)]
    unsafe fn sums(vectors: [Self; LANES]) -> Self {
        Self(std::array::from_fn(|vector| {
            let mut lanes = vectors[vector].0;
            for width in [8, 4, 2, 1] {
                for lane in 0..width {
                    lanes[lane] += lanes[lane + width];
                }
            }
            lanes[0]
        }))
    }
}

/// a·b + c rounded once, without the instruction. The product is exact in f64; the sum is rounded to odd there (an
/// inexact result whose last bit is even moves towards the lost part), so that rounding it to f32 is right
/// (Boldo and Melquiond 2008). `f32::mul_add` would call a library function for each number.
#[inline(always)]
fn fused_in_f64(a: f32, b: f32, c: f32) -> f32 {
    let (product, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + c;
    let addend = sum - product;
    let lost = (product - (sum - addend)) + (c - addend);
    let bits = sum.to_bits();
    // Infinity and NaN have a lost part of NaN, for which both comparisons are false.
    let inexact = (lost > 0.0) | (lost < 0.0);
    let away = (lost > 0.0) == (sum > 0.0);
    let odd = if away { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    f64::from_bits(if inexact && bits & 1 == 0 { odd } else { bits }) as f32
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{LANES, Lanes};
    use std::arch::x86_64::*;

    /// AVX-512 F.
    #[derive(Clone, Copy)]
    pub(in crate::ops) struct Avx512(__m512);

    // SAFETY (all functions): the caller vouches for the processor and for the floats behind the pointers; a mask
    // keeps masked-out lanes from being touched.
    impl Lanes for Avx512 {
        const REGISTERS: usize = 32;

        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            unsafe { Self(_mm512_set1_ps(x)) }
        }

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            unsafe { Self(_mm512_loadu_ps(from)) }
        }

        #[inline(always)]
        unsafe fn load_first(from: *const f32, n: usize) -> Self {
            unsafe { Self(_mm512_maskz_loadu_ps(((1u32 << n) - 1) as __mmask16, from)) }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe { _mm512_storeu_ps(to, self.0) }
        }

        #[inline(always)]
        unsafe fn store_first(self, to: *mut f32, n: usize) {
            unsafe { _mm512_mask_storeu_ps(to, ((1u32 << n) - 1) as __mmask16, self.0) }
        }

        #[inline(always)]
        unsafe fn mul_add(self, x: Self, y: Self) -> Self {
            unsafe { Self(_mm512_fmadd_ps(self.0, x.0, y.0)) }
        }

        #[inline(always)]
        unsafe fn sums(vectors: [Self; LANES]) -> Self {
            /// Where each sum starts so that the halvings below leave lane i with vector i.
            const ORDER: [usize; LANES] = [0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7, 12, 14, 13, 15];
            unsafe {
                let mut v = [_mm512_setzero_ps(); LANES];
                for (v, slot) in v.iter_mut().zip(ORDER) {
                    *v = vectors[slot].0;
                }
                for i in 0..8 {
                    let (x, y) = (v[i], v[i + 8]);
                    v[i] =
                        _mm512_add_ps(_mm512_shuffle_f32x4::<0x44>(x, y), _mm512_shuffle_f32x4::<0xEE>(x, y));
                }
                for i in 0..4 {
                    let (x, y) = (v[i], v[i + 4]);
                    v[i] =
                        _mm512_add_ps(_mm512_shuffle_f32x4::<0x88>(x, y), _mm512_shuffle_f32x4::<0xDD>(x, y));
                }
                for i in 0..2 {
                    let (x, y) = (v[i], v[i + 2]);
                    v[i] = _mm512_add_ps(_mm512_shuffle_ps::<0x44>(x, y), _mm512_shuffle_ps::<0xEE>(x, y));
                }
                let (x, y) = (v[0], v[1]);
                Self(_mm512_add_ps(_mm512_shuffle_ps::<0x88>(x, y), _mm512_shuffle_ps::<0xDD>(x, y)))
            }
        }
    }

    /// AVX2 and FMA.
    #[derive(Clone, Copy)]
    pub(in crate::ops) struct Avx2([__m256; 2]);

    /// -1 in the first n of eight lanes.
    #[inline(always)]
    unsafe fn first(n: usize) -> __m256i {
        // SAFETY: the caller vouches for AVX2.
        unsafe {
            let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), lanes)
        }
    }

    // SAFETY (all functions): as for AVX-512.
    impl Lanes for Avx2 {
        const REGISTERS: usize = 16;

        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            unsafe { Self([_mm256_set1_ps(x); 2]) }
        }

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            unsafe { Self([_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))]) }
        }

        #[inline(always)]
        unsafe fn load_first(from: *const f32, n: usize) -> Self {
            unsafe {
                let (low, high) = (first(n), first(n.saturating_sub(8)));
                // Not `add`: with n < 8 the second half may begin outside of the allocation.
                Self([_mm256_maskload_ps(from, low), _mm256_maskload_ps(from.wrapping_add(8), high)])
            }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe {
                _mm256_storeu_ps(to, self.0[0]);
                _mm256_storeu_ps(to.add(8), self.0[1]);
            }
        }

        #[inline(always)]
        unsafe fn store_first(self, to: *mut f32, n: usize) {
            unsafe {
                _mm256_maskstore_ps(to, first(n), self.0[0]);
                _mm256_maskstore_ps(to.wrapping_add(8), first(n.saturating_sub(8)), self.0[1]);
            }
        }

        #[inline(always)]
        unsafe fn mul_add(self, x: Self, y: Self) -> Self {
            unsafe {
                let ([a, b], [x, z], [y, w]) = (self.0, x.0, y.0);
                Self([_mm256_fmadd_ps(a, x, y), _mm256_fmadd_ps(b, z, w)])
            }
        }

        #[inline(always)]
        unsafe fn sums(vectors: [Self; LANES]) -> Self {
            /// Where each sum starts so that the halvings below leave lane i with vector i.
            const ORDER: [usize; LANES] = [0, 8, 2, 10, 1, 9, 3, 11, 4, 12, 6, 14, 5, 13, 7, 15];
            unsafe {
                let mut v = [_mm256_setzero_ps(); LANES];
                for (v, slot) in v.iter_mut().zip(ORDER) {
                    *v = _mm256_add_ps(vectors[slot].0[0], vectors[slot].0[1]);
                }
                for i in 0..8 {
                    let (x, y) = (v[i], v[i + 8]);
                    v[i] = _mm256_add_ps(
                        _mm256_permute2f128_ps::<0x20>(x, y),
                        _mm256_permute2f128_ps::<0x31>(x, y),
                    );
                }
                for i in 0..4 {
                    let (x, y) = (v[i], v[i + 4]);
                    v[i] = _mm256_add_ps(_mm256_shuffle_ps::<0x44>(x, y), _mm256_shuffle_ps::<0xEE>(x, y));
                }
                for i in 0..2 {
                    let (x, y) = (v[i], v[i + 2]);
                    v[i] = _mm256_add_ps(_mm256_shuffle_ps::<0x88>(x, y), _mm256_shuffle_ps::<0xDD>(x, y));
                }
                Self([v[0], v[1]])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// Against the library's own fused multiply-add, over ordinary numbers, near cancellations, subnormal results
    /// and the edges.
    #[test]
    fn fused_in_f64_rounds_once() {
        let mut rng = Rng::new(7, "lanes");
        let check = |a: f32, b: f32, c: f32| {
            let (expected, found) = (a.mul_add(b, c), fused_in_f64(a, b, c));
            let same = expected.to_bits() == found.to_bits() || (expected.is_nan() && found.is_nan());
            assert!(same, "{a:e} * {b:e} + {c:e}: expected {expected:e}, found {found:e}");
        };
        for _ in 0..200_000 {
            let (a, b) = (rng.normal() as f32, rng.normal() as f32);
            check(a, b, rng.normal() as f32);
            check(a, b, -(a * b));
            check(a, b, (a * b) * 2f32.powi(rng.below(60) as i32 - 30));
            check(a * 1e-20, b * 1e-20, a * 1e-40);
        }
        let edges = [0.0, -0.0, 1.0, -1.0, f32::MAX, f32::MIN_POSITIVE, 1e-45, f32::INFINITY, f32::NAN];
        for a in edges {
            for b in edges {
                edges.iter().for_each(|&c| check(a, b, c));
            }
        }
        // Twice rounded, these give 1 + 2^-23: the sum lies just below the middle of two floats.
        let (a, b, c) = (1.0 + 2f32.powi(-12), 2f32.powi(-24) * (1.0 - 2f32.powi(-12)), 1.0);
        check(a, b, c);
    }

    /// Loads and stores of every length touch nothing else, and the other functions are those of [`Portable`].
    fn is_portable<L: Lanes>() {
        let mut rng = Rng::new(8, "lanes");
        let numbers: Vec<f32> = (0..LANES * LANES).map(|_| rng.normal() as f32).collect();
        let bits = |x: [f32; LANES]| x.map(f32::to_bits);
        // SAFETY: the caller has asked the processor; all pointers are to whole vectors or cut by `n`.
        unsafe {
            let out = |vector: L| {
                let mut out = [0.0; LANES];
                vector.store(out.as_mut_ptr());
                out
            };
            let load = |i: usize| L::load(numbers.as_ptr().add(i * LANES));
            let portable = |i: usize| Portable::load(numbers.as_ptr().add(i * LANES));
            for n in 0..=LANES {
                let exact = numbers[..n].to_vec();
                let loaded = out(L::load_first(exact.as_ptr(), n));
                assert!(loaded[..n] == exact[..] && loaded[n..].iter().all(|&x| x == 0.0), "{n}");
                let mut stored = vec![7.0; n + 1];
                load(1).store_first(stored.as_mut_ptr(), n);
                assert!(stored[..n] == numbers[LANES..][..n] && stored[n] == 7.0, "{n}");
            }
            assert_eq!(out(L::splat(2.5)), [2.5; LANES]);
            let fused = portable(0).mul_add(portable(1), portable(2)).0;
            assert_eq!(bits(out(load(0).mul_add(load(1), load(2)))), bits(fused));
            let sums = Portable::sums(std::array::from_fn(portable)).0;
            assert_eq!(bits(out(L::sums(std::array::from_fn(load)))), bits(sums));
        }
    }

    #[test]
    fn all_vectors_compute_the_same() {
        is_portable::<Portable>();
        #[cfg(target_arch = "x86_64")]
        for level in super::super::simd::forced::levels() {
            use super::super::simd::Level;
            match level {
                Level::Avx512 => is_portable::<Avx512>(),
                Level::Avx2 => is_portable::<Avx2>(),
                Level::Baseline => {}
            }
        }
    }

    /// Sixteen ones, then vectors with one number each: a sum counts every lane of its own vector once.
    #[test]
    fn sums_by_hand() {
        // SAFETY: any processor has these.
        unsafe {
            let vectors = std::array::from_fn(|i| {
                Portable(std::array::from_fn(|lane| if i == 0 || lane == i { 1.0 + i as f32 } else { 0.0 }))
            });
            let expected: [f32; LANES] = std::array::from_fn(|i| if i == 0 { 16.0 } else { 1.0 + i as f32 });
            assert_eq!(Portable::sums(vectors).0, expected);
        }
    }
}
