//! Dropout (Srivastava et al. 2014; section 5.4 of the paper): each element is 0 with probability p, else divided by
//! 1 - p, so that the mean stays.
//!
//! Whether an element is kept is a hash of the key and its index ([`kept`]): the backward pass computes the mask
//! again instead of keeping it, and nothing depends on the number of threads.

use super::cpu::{self, Numbers, numbers};
use super::simd::simd;
use crate::{Error, Result, rng};
use candle_core::{CpuStorage, CustomOp1, Layout, Shape, Tensor};

/// One application of dropout: the probability of 0, and the key of the mask.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dropout {
    /// Probability that an element is dropped, 0 ≤ p < 1.
    pub p: f32,
    /// Names the mask. Every application in every step has its own.
    pub key: u64,
}

impl Dropout {
    /// The threshold of [`kept`]: p · 2^32.
    pub fn threshold(self) -> u32 {
        (f64::from(self.p) * 4_294_967_296.0) as u32
    }

    /// What kept elements are multiplied by: 1 / (1 - p).
    pub fn scale(self) -> f32 {
        1.0 / (1.0 - self.p)
    }

    pub(super) fn check(self) -> Result<()> {
        if (0.0..1.0).contains(&self.p) {
            return Ok(());
        }
        Err(Error::Config(format!("dropout must be at least 0 and below 1, found {}", self.p)))
    }

    /// x ⊙ mask.
    pub(super) fn apply(self, x: &[f32]) -> Vec<f32> {
        let (out, _) = cpu::build(x.len(), cpu::CHUNK, |start, out| {
            masked(&x[start..start + out.len()], self.key, start as u64, self.threshold(), self.scale(), out);
        });
        out
    }
}

/// Whether element `index` of the mask `key` is kept: 32 bits of a hash reach the threshold. One hash serves two
/// elements, its low half the even one and its high half the odd one.
#[inline(always)]
pub fn kept(key: u64, index: u64, threshold: u32) -> bool {
    let bits = rng::hash(key, index / 2);
    let half = if index.is_multiple_of(2) { bits as u32 } else { (bits >> 32) as u32 };
    half >= threshold
}

/// x of any shape → the same shape, in ordinary tensor operations.
pub fn dropout_plain(x: &Tensor, dropout: Dropout) -> Result<Tensor> {
    dropout.check()?;
    let factor = |index| if kept(dropout.key, index, dropout.threshold()) { dropout.scale() } else { 0.0 };
    let mask: Vec<f32> = (0..x.elem_count() as u64).map(factor).collect();
    let mask = Tensor::from_vec(mask, x.shape(), x.device())?.to_dtype(x.dtype())?;
    Ok((x * mask)?)
}

/// x of any shape → the same shape. p = 0 gives x itself.
pub fn dropout(x: &Tensor, dropout: Dropout) -> Result<Tensor> {
    dropout.check()?;
    if dropout.p == 0.0 {
        Ok(x.clone())
    } else if cpu::fused(&[x]) {
        Ok(x.apply_op1(dropout)?)
    } else {
        dropout_plain(x, dropout)
    }
}

impl CustomOp1 for Dropout {
    fn name(&self) -> &'static str {
        "dropout"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> candle_core::Result<(CpuStorage, Shape)> {
        Ok(cpu::result(self.apply(numbers(x, layout)?), layout))
    }

    fn bwd(&self, x: &Tensor, _y: &Tensor, grad: &Tensor) -> candle_core::Result<Option<Tensor>> {
        let dx = self.apply(&Numbers::of(&grad.contiguous()?)?);
        Ok(Some(Tensor::from_vec(dx, x.shape(), x.device())?))
    }
}

simd! {
    /// `out` = x ⊙ the mask from index `start` on, which must be even.
    pub(super) fn masked(x: &[f32], key: u64, start: u64, threshold: u32, scale: f32, out: &mut [f32]) {
        /// The hashes of a block are made in a loop of their own: half the time of one mixed loop.
        const PAIRS: usize = 64;
        for (block, (x, out)) in x.chunks(2 * PAIRS).zip(out.chunks_mut(2 * PAIRS)).enumerate() {
            let first = start / 2 + (block * PAIRS) as u64;
            let mut halves = [0; 2 * PAIRS];
            for (pair, halves) in halves.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                let bits = rng::hash(key, first + pair as u64);
                *halves = [bits as u32, (bits >> 32) as u32];
            }
            for ((out, &x), &half) in out.iter_mut().zip(x).zip(&halves) {
                *out = if half >= threshold { x * scale } else { 0.0 };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{assert_parity, flat, random};
    use super::super::simd::forced;
    use super::*;
    use candle_core::{DType, Device};

    #[test]
    fn kept_is_a_half_of_the_hash() {
        let bits = rng::hash(7, 3);
        let (low, high) = (bits as u32, (bits >> 32) as u32);
        assert!(kept(7, 6, low) && !kept(7, 6, low + 1));
        assert!(kept(7, 7, high) && !kept(7, 7, high + 1));
        assert_eq!(Dropout { p: 0.25, key: 0 }.threshold(), 1 << 30);
    }

    #[test]
    fn fused_is_plain() -> Result<()> {
        for dims in [&[0, 3][..], &[1, 1], &[5, 7], &[131, 257]] {
            let dropped = Dropout { p: 0.3, key: 5 };
            let (fused, plain) =
                (|v: &[Tensor]| dropout(&v[0], dropped), |v: &[Tensor]| dropout_plain(&v[0], dropped));
            assert_parity(&[random(dims, 1)?], fused, plain, 0.0)?;
        }
        Ok(())
    }

    #[test]
    fn same_bits_on_every_path() -> Result<()> {
        let x: Vec<f32> = flat(&random(&[50_001], 1)?)?.into_iter().map(|x| x as f32).collect();
        forced::same_everywhere(|| Dropout { p: 0.1, key: 3 }.apply(&x));
        Ok(())
    }

    /// The share of kept elements and the mean are within five standard deviations, for both halves of the hash.
    #[test]
    fn share_and_mean() -> Result<()> {
        let n = 400_000;
        let ones = Tensor::ones(n, DType::F32, &Device::Cpu)?;
        for p in [0.1f32, 0.5, 0.9] {
            let y = flat(&dropout(&ones, Dropout { p, key: 11 })?)?;
            let p = f64::from(p);
            for half in 0..2 {
                let (half, count) = (y.iter().skip(half).step_by(2), (n / 2) as f64);
                let kept = half.clone().filter(|&&y| y != 0.0).count() as f64 / count;
                let five_deviations = 5.0 * (p * (1.0 - p) / count).sqrt();
                assert!((kept - (1.0 - p)).abs() < five_deviations, "p {p}: {kept}");
                let mean = half.sum::<f64>() / count;
                assert!((mean - 1.0).abs() < five_deviations / (1.0 - p), "p {p}: mean {mean}");
            }
        }
        Ok(())
    }

    /// Under two keys at p = 1/2, all four combinations are equally frequent.
    #[test]
    fn keys_are_independent() {
        let n = 100_000;
        let both = (0..n).filter(|&i| kept(1, i, 1 << 31) && kept(2, i, 1 << 31)).count() as f64;
        let neighbours = (1..n).filter(|&i| kept(1, i, 1 << 31) && kept(1, i - 1, 1 << 31)).count() as f64;
        let five_deviations = 5.0 * (n as f64 * 0.25 * 0.75).sqrt();
        for count in [both, neighbours] {
            assert!((count - n as f64 / 4.0).abs() < five_deviations, "{count}");
        }
    }

    #[test]
    fn edges_of_p() -> Result<()> {
        let x = random(&[3, 5], 1)?;
        assert_eq!(flat(&dropout(&x, Dropout { p: 0.0, key: 1 })?)?, flat(&x)?);
        assert_eq!(flat(&dropout_plain(&x, Dropout { p: 0.0, key: 1 })?)?, flat(&x)?);
        for p in [-0.1, 1.0, f32::NAN] {
            assert!(matches!(dropout(&x, Dropout { p, key: 1 }), Err(Error::Config(_))), "{p}");
        }
        Ok(())
    }
}
