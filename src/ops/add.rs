//! total ← total + part, in place: the sum of the workers' gradients.

use super::cpu::{self, numbers, numbers_mut};
use super::simd::simd;
use crate::Result;
use candle_core::{CpuStorage, InplaceOp2, Layout, Tensor, bail};

/// Adds `part` to `total`, of the same shape. On the CPU `total` is changed where it lies: nobody else may hold it.
pub fn add_in_place(total: &mut Tensor, part: &Tensor) -> Result<()> {
    if cpu::fused(&[total, part]) {
        total.inplace_op2(part, &Add)?;
    } else {
        *total = (&*total + part)?;
    }
    Ok(())
}

struct Add;

impl InplaceOp2 for Add {
    fn name(&self) -> &'static str {
        "add"
    }

    fn cpu_fwd(
        &self,
        total: &mut CpuStorage,
        total_layout: &Layout,
        part: &CpuStorage,
        part_layout: &Layout,
    ) -> candle_core::Result<()> {
        if total_layout.shape() != part_layout.shape() {
            bail!("add: {:?} and {:?} differ in shape", total_layout.shape(), part_layout.shape());
        }
        let (total, part) = (numbers_mut(total, total_layout)?, numbers(part, part_layout)?);
        cpu::map_mut(total, cpu::CHUNK, |start, total| add(total, &part[start..start + total.len()]));
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

#[cfg(test)]
mod tests {
    use super::super::check::{flat, random};
    use super::*;

    #[test]
    fn is_the_sum() -> Result<()> {
        for dims in [&[0, 3][..], &[1], &[131, 257]] {
            let (mut total, part) = (random(dims, 1)?, random(dims, 2)?);
            let expected = flat(&(&total + &part)?)?;
            add_in_place(&mut total, &part)?;
            assert_eq!(flat(&total)?, expected);
        }
        assert!(add_in_place(&mut random(&[2], 1)?, &random(&[3], 1)?).is_err());
        Ok(())
    }
}
