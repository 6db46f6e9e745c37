//! One mechanism for the choice of instructions at run time, and the small pieces that the kernels share.
//!
//! A kernel is plain Rust that the compiler vectorises. The macro [`simd!`] compiles it for AVX-512, for
//! AVX2 with FMA and for the baseline of the target (SSE2 on x86-64, NEON on aarch64), and picks the best that
//! the processor has. Rust neither reorders nor fuses float operations, and sums here have [`LANES`] fixed
//! accumulators, so every path gives the same bits.

#[cfg(target_arch = "x86_64")]
use std::sync::LazyLock;

/// The sets of instructions that a kernel is compiled for, in rising order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// What every processor of the target has.
    Baseline,
    /// x86-64: AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// x86-64: AVX-512 F, BW, DQ and VL, and FMA.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// Whether the baseline of the target has a fused multiply-add.
pub const BASELINE_FMA: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));

/// The best level of this processor.
#[cfg(target_arch = "x86_64")]
static DETECTED: LazyLock<Level> = LazyLock::new(|| {
    let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    let avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    match (avx2, avx512) {
        (true, true) => Level::Avx512,
        (true, false) => Level::Avx2,
        _ => Level::Baseline,
    }
});

/// The level that kernels run at: the best one of this processor, or what a test has forced.
#[inline]
pub fn level() -> Level {
    #[cfg(test)]
    if let Some(level) = forced::LEVEL.get() {
        return level;
    }
    #[cfg(target_arch = "x86_64")]
    return *DETECTED;
    #[cfg(not(target_arch = "x86_64"))]
    Level::Baseline
}

/// Wraps a function and compiles its body once per [`Level`]. Helpers that the body calls must be
/// `#[inline(always)]`, else they stay at the baseline.
macro_rules! simd {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            fn body($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
            fn avx512($($arg: $ty),*) $(-> $ret)? {
                body($($arg),*)
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2($($arg: $ty),*) $(-> $ret)? {
                body($($arg),*)
            }

            match $crate::ops::simd::level() {
                // SAFETY: `level` returns this only on a processor that has these instructions.
                #[cfg(target_arch = "x86_64")]
                $crate::ops::simd::Level::Avx512 => unsafe { avx512($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::ops::simd::Level::Avx2 => unsafe { avx2($($arg),*) },
                $crate::ops::simd::Level::Baseline => body($($arg),*),
            }
        }
    };
}
pub(crate) use simd;

/// e^x with a relative error below 2e-7 where the result is normal. Overflow gives infinity, -∞ gives 0, NaN gives NaN.
///
/// x = n·ln 2 + f with |f| ≤ ln 2 / 2 (Cody and Waite: ln 2 in two parts, the first with few bits, so that n times
/// it is exact), then e^x = 2^n · e^f with the polynomial of Cephes' `expf`.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    /// Adding this leaves the rounded integer in the low bits of the mantissa.
    const ROUND: f32 = 12_582_912.0;
    /// 355/512.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // Beyond these bounds the result is 0 or infinite; NaN passes both comparisons.
    let x = if x < -104.5 { -104.5 } else { x };
    let x = if x > 89.0 { 89.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let f = (x - n * LN2_HIGH) - n * LN2_LOW;
    let mut p = 1.987_569_1e-4;
    p = p * f + 1.398_199_9e-3;
    p = p * f + 8.333_452e-3;
    p = p * f + 4.166_579_6e-2;
    p = p * f + 1.666_666_5e-1;
    p = p * f + 0.5;
    p = p * (f * f) + f + 1.0;
    // 2^n in two factors, since n runs from -151 to 128 and a float's exponent does not.
    let n = (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    let half = n >> 1;
    p * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

/// 2^n for -126 ≤ n ≤ 127.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// Accumulators of a reduction. Fixed, so that the order of a sum is the same on every machine; 32, because the
/// compiler unrolls a loop over 16 before it looks for vectors and then finds none (five times slower).
pub const LANES: usize = 32;

/// Σ term(x_i), in a fixed order.
#[inline(always)]
pub fn sum(x: &[f32], term: impl Fn(f32) -> f32) -> f32 {
    let mut total = [0.0; LANES];
    let (blocks, rest) = x.as_chunks::<LANES>();
    for x in blocks {
        for (total, &x) in total.iter_mut().zip(x) {
            *total += term(x);
        }
    }
    for (total, &x) in total.iter_mut().zip(rest) {
        *total += term(x);
    }
    fold(total, |a, b| a + b)
}

/// Σ term(x_i, y_i), in a fixed order.
#[inline(always)]
pub fn sum2(x: &[f32], y: &[f32], term: impl Fn(f32, f32) -> f32) -> f32 {
    debug_assert_eq!(x.len(), y.len());
    let mut total = [0.0; LANES];
    let (x_blocks, x_rest) = x.as_chunks::<LANES>();
    let (y_blocks, y_rest) = y.as_chunks::<LANES>();
    for (x, y) in x_blocks.iter().zip(y_blocks) {
        for ((total, &x), &y) in total.iter_mut().zip(x).zip(y) {
            *total += term(x, y);
        }
    }
    for ((total, &x), &y) in total.iter_mut().zip(x_rest).zip(y_rest) {
        *total += term(x, y);
    }
    fold(total, |a, b| a + b)
}

/// The largest of `x`, -∞ if there is none. NaN is passed over (it shows in the sum of exponentials).
#[inline(always)]
pub fn max(x: &[f32]) -> f32 {
    max_of(x, |x| x)
}

/// The largest term(x_i), as [`max`].
#[inline(always)]
pub fn max_of(x: &[f32], term: impl Fn(f32) -> f32) -> f32 {
    let mut best = [f32::NEG_INFINITY; LANES];
    let (blocks, rest) = x.as_chunks::<LANES>();
    for x in blocks {
        for (best, &x) in best.iter_mut().zip(x) {
            *best = larger(term(x), *best);
        }
    }
    for (best, &x) in best.iter_mut().zip(rest) {
        *best = larger(term(x), *best);
    }
    fold(best, larger)
}

/// The larger of two, `b` if `a` is NaN: one instruction, where `f32::max` takes three.
#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// The lanes combined in halves: 16 pairs, 8, 4, 2, 1.
#[inline(always)]
fn fold(mut lanes: [f32; LANES], combine: impl Fn(f32, f32) -> f32) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        let (low, high) = lanes.split_at_mut(width);
        for (low, &high) in low.iter_mut().zip(high.iter()) {
            *low = combine(*low, high);
        }
        width /= 2;
    }
    lanes[0]
}

/// Tests run a computation at a chosen level.
#[cfg(test)]
pub mod forced {
    use super::Level;
    use std::cell::Cell;

    thread_local! {
        pub(super) static LEVEL: Cell<Option<Level>> = const { Cell::new(None) };
    }

    /// The levels that this processor has.
    pub fn levels() -> Vec<Level> {
        let mut levels = vec![Level::Baseline];
        #[cfg(target_arch = "x86_64")]
        levels.extend([Level::Avx2, Level::Avx512].into_iter().filter(|&level| level <= super::level()));
        levels
    }

    /// `work` at `level` on a rayon pool of `threads` threads of its own.
    pub fn run<R: Send>(level: Level, threads: usize, work: impl FnOnce() -> R + Send) -> R {
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .start_handler(move |_| LEVEL.set(Some(level)))
            .build()
            .unwrap()
            .install(work)
    }

    /// Asserts that `work` has the same result at every level and at 1, 2 and 3 threads, and returns it.
    pub fn same_everywhere<R: Send + PartialEq + std::fmt::Debug>(work: impl Fn() -> R + Sync) -> R {
        let expected = run(Level::Baseline, 1, &work);
        for level in levels() {
            for threads in 1..=3 {
                assert_eq!(run(level, threads, &work), expected, "{level:?}, {threads} threads");
            }
        }
        expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    simd! {
        fn exp_all(x: &[f32], out: &mut [f32]) {
            for (out, &x) in out.iter_mut().zip(x) {
                *out = exp(x);
            }
        }
    }

    simd! {
        fn reductions(x: &[f32], y: &[f32]) -> [f32; 3] {
            [sum(x, |x| x * x), sum2(x, y, |x, y| x * y), max(x)]
        }
    }

    fn exp_at_every_level(x: &[f32]) -> Vec<f32> {
        let bits = forced::same_everywhere(|| {
            let mut out = vec![0.0; x.len()];
            exp_all(x, &mut out);
            out.into_iter().map(f32::to_bits).collect::<Vec<_>>()
        });
        bits.into_iter().map(f32::from_bits).collect()
    }

    #[test]
    fn exp_is_close_to_f64_over_the_whole_range() {
        let x: Vec<f32> = (0..400_000).map(|i| -87.3 + i as f32 * (176.0 / 400_000.0)).collect();
        let worst = x.iter().zip(exp_at_every_level(&x)).map(|(&x, y)| {
            let exact = f64::from(x).exp();
            if exact > f64::from(f32::MAX) { 0.0 } else { (f64::from(y) / exact - 1.0).abs() }
        });
        let worst = worst.fold(0.0, f64::max);
        assert!(worst < 2e-7, "relative error {worst:e}");
    }

    #[test]
    fn exp_at_the_edges() {
        let x = [0.0, -0.0, f32::NEG_INFINITY, f32::INFINITY, -103.0, -1e30, 88.73, 1e30, f32::NAN];
        let y = exp_at_every_level(&x);
        assert_eq!(y[..4], [1.0, 1.0, 0.0, f32::INFINITY]);
        assert_eq!(y[4..8], [1e-45, 0.0, f32::INFINITY, f32::INFINITY]);
        assert!(y[8].is_nan());
        // Subnormal results are within one step (2^-149).
        let x: Vec<f32> = (0..1000).map(|i| -104.0 + i as f32 * 0.0167).collect();
        for (x, y) in x.iter().zip(exp_at_every_level(&x)) {
            assert!((f64::from(y) - f64::from(*x).exp()).abs() < 1.5e-45, "{x}");
        }
    }

    #[test]
    fn reductions_count_every_element_at_every_length() {
        for n in [0, 1, 31, 32, 33, 100] {
            let x: Vec<f32> = (0..n).map(|i| i as f32 - 20.0).collect();
            let y: Vec<f32> = (0..n).map(|i| 2.0 * i as f32).collect();
            let [squares, product, largest] = forced::same_everywhere(|| reductions(&x, &y));
            // Whole numbers below 2^24 are exact in any order.
            assert_eq!(squares, x.iter().map(|x| x * x).sum::<f32>());
            assert_eq!(product, x.iter().zip(&y).map(|(x, y)| x * y).sum::<f32>());
            assert_eq!(largest, if n == 0 { f32::NEG_INFINITY } else { n as f32 - 21.0 });
        }
    }

    #[test]
    fn every_level_up_to_the_best_is_tested() {
        assert_eq!(forced::levels().last(), Some(&level()));
    }
}
