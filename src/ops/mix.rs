//! average ← average + share · (new - average), in place: one step of an exponential moving average.

use super::cpu::{self, numbers, numbers_mut};
use super::simd::simd;
use crate::Result;
use candle_core::{CpuStorage, InplaceOp2, Layout, Tensor, Var, bail};

/// Moves `average` towards `new`, of the same shape, by `share` of the way.
pub fn mix_in_place(average: &Var, new: &Tensor, share: f64) -> Result<()> {
    if cpu::fused(&[average, new]) {
        average.inplace_op2(new, &Mix { share: share as f32 })?;
    } else {
        let old = average.as_detached_tensor();
        average.set(&(&old + ((new.detach() - &old)? * share)?)?)?;
    }
    Ok(())
}

struct Mix {
    share: f32,
}

impl InplaceOp2 for Mix {
    fn name(&self) -> &'static str {
        "mix"
    }

    fn cpu_fwd(
        &self,
        average: &mut CpuStorage,
        average_layout: &Layout,
        new: &CpuStorage,
        new_layout: &Layout,
    ) -> candle_core::Result<()> {
        if average_layout.shape() != new_layout.shape() {
            bail!("mix: {:?} and {:?} differ in shape", average_layout.shape(), new_layout.shape());
        }
        let (average, new) = (numbers_mut(average, average_layout)?, numbers(new, new_layout)?);
        cpu::map_mut(average, cpu::CHUNK, |start, average| {
            mix(average, &new[start..start + average.len()], self.share);
        });
        Ok(())
    }
}

simd! {
    fn mix(average: &mut [f32], new: &[f32], share: f32) {
        for (average, &new) in average.iter_mut().zip(new) {
            *average += share * (new - *average);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{assert_close, flat, random};
    use super::*;

    #[test]
    fn fused_is_plain() -> Result<()> {
        for dims in [&[0, 3][..], &[1], &[131, 257]] {
            let (average, new) = (Var::from_tensor(&random(dims, 1)?)?, random(dims, 2)?);
            let old = average.copy()?;
            let expected = (&old + ((&new - &old)? * 0.25)?)?;
            mix_in_place(&average, &new, 0.25)?;
            assert_close(&flat(&average)?, &flat(&expected)?, 1e-6, "average");
        }
        assert!(mix_in_place(&Var::from_tensor(&random(&[2], 1)?)?, &random(&[3], 1)?, 0.5).is_err());
        Ok(())
    }
}
