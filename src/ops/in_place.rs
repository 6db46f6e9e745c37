//! Two sums that change their first operand where it lies: total ← total + part (the workers' gradients), and
//! average ← average + share · (new - average) (a step of an exponential moving average).

use super::cpu::{self, numbers, numbers_mut};
use super::simd::simd;
use crate::Result;
use candle_core::{CpuStorage, InplaceOp2, Layout, Tensor, Var, bail};

/// Adds `part` to `total`, of the same shape. On the CPU `total` is changed where it lies: nobody else may hold it.
pub fn add_in_place(total: &mut Tensor, part: &Tensor) -> Result<()> {
    if cpu::fused(&[total, part]) {
        total.inplace_op2(part, &Update { name: "add", work: add })?;
    } else {
        *total = (&*total + part)?;
    }
    Ok(())
}

/// Moves `average` towards `new`, of the same shape, by `share` of the way.
pub fn mix_in_place(average: &Var, new: &Tensor, share: f64) -> Result<()> {
    if cpu::fused(&[average, new]) {
        let work = |average: &mut [f32], new: &[f32]| mix(average, new, share as f32);
        average.inplace_op2(new, &Update { name: "mix", work })?;
    } else {
        let old = average.as_detached_tensor();
        average.set(&(&old + ((new.detach() - &old)? * share)?)?)?;
    }
    Ok(())
}

/// `work` on pieces of a tensor that changes and of one of the same shape.
struct Update<F> {
    name: &'static str,
    work: F,
}

impl<F: Fn(&mut [f32], &[f32]) + Sync + Send> InplaceOp2 for Update<F> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn cpu_fwd(
        &self,
        changed: &mut CpuStorage,
        changed_layout: &Layout,
        other: &CpuStorage,
        other_layout: &Layout,
    ) -> candle_core::Result<()> {
        let (shape, other_shape) = (changed_layout.shape(), other_layout.shape());
        if shape != other_shape {
            bail!("{}: {shape:?} and {other_shape:?} differ in shape", self.name);
        }
        let (changed, other) = (numbers_mut(changed, changed_layout)?, numbers(other, other_layout)?);
        cpu::map_mut(changed, cpu::CHUNK, |start, changed| {
            (self.work)(changed, &other[start..start + changed.len()]);
        });
        Ok(())
    }
}

simd! {
    fn add(total: &mut [f32], part: &[f32]) {
        for (total, &part) in total.iter_mut().zip(part) {
            *total += part;
        }
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
    fn add_is_the_sum() -> Result<()> {
        for dims in [&[0, 3][..], &[1], &[131, 257]] {
            let (mut total, part) = (random(dims, 1)?, random(dims, 2)?);
            let expected = flat(&(&total + &part)?)?;
            add_in_place(&mut total, &part)?;
            assert_eq!(flat(&total)?, expected);
        }
        assert!(add_in_place(&mut random(&[2], 1)?, &random(&[3], 1)?).is_err());
        Ok(())
    }

    #[test]
    fn mix_is_plain() -> Result<()> {
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
