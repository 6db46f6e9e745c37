//! The global norm of gradients, √(Σ over all tensors and elements of g²), for clipping (Pascanu, Mikolov and Bengio
//! 2013) and for the log.

use super::cpu::{self, Numbers};
use super::simd::{LANES, simd};
use crate::Result;
use candle_core::{DType, Tensor};

/// The L2 norm of all `grads` together, in ordinary tensor operations.
pub fn grad_norm_plain(grads: &[Tensor]) -> Result<f64> {
    let mut squares = 0.0;
    for grad in grads {
        squares += grad.to_dtype(DType::F64)?.sqr()?.sum_all()?.to_scalar::<f64>()?;
    }
    Ok(squares.sqrt())
}

/// The L2 norm of all `grads` together, summed in f64 in the order given. NaN and infinity show in the result.
pub fn grad_norm(grads: &[Tensor]) -> Result<f64> {
    let mut squares = 0.0;
    for grad in grads {
        let grad = grad.contiguous()?;
        if !cpu::fused(&[&grad]) {
            squares += grad_norm_plain(std::slice::from_ref(&grad))?.powi(2);
            continue;
        }
        let numbers = Numbers::of(&grad)?;
        let chunks: Vec<&[f32]> = numbers.chunks(cpu::CHUNK).collect();
        let partial = cpu::map(chunks.len(), numbers.len(), |chunk| sum_of_squares(chunks[chunk]));
        squares += partial.into_iter().sum::<f64>();
    }
    Ok(squares.sqrt())
}

simd! {
    fn sum_of_squares(x: &[f32]) -> f64 {
        let mut total = [0f64; LANES];
        let (blocks, rest) = x.as_chunks::<LANES>();
        for x in blocks {
            for (total, &x) in total.iter_mut().zip(x) {
                *total += f64::from(x) * f64::from(x);
            }
        }
        for (total, &x) in total.iter_mut().zip(rest) {
            *total += f64::from(x) * f64::from(x);
        }
        total.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::random;
    use super::super::simd::forced;
    use super::*;
    use candle_core::Device;

    #[test]
    fn by_hand() -> Result<()> {
        let grads =
            [Tensor::new(&[[2f32, 3.], [6., 0.]], &Device::Cpu)?.t()?, Tensor::new(&[-24f32], &Device::Cpu)?];
        // 4 + 9 + 36 + 576 = 625.
        assert_eq!((grad_norm(&grads)?, grad_norm_plain(&grads)?), (25.0, 25.0));
        assert_eq!(grad_norm(&[])?, 0.0);
        // The square of 1e30 is beyond f32.
        assert!((grad_norm(&[Tensor::new(&[1e30f32], &Device::Cpu)?])? / 1e30 - 1.0).abs() < 1e-6);
        assert!(grad_norm(&[Tensor::new(&[f32::NAN], &Device::Cpu)?])?.is_nan());
        Ok(())
    }

    #[test]
    fn same_bits_on_every_path_and_equal_to_plain() -> Result<()> {
        let grads = [random(&[301, 257], 1)?, random(&[1], 2)?, random(&[33], 3)?];
        let norm = forced::same_everywhere(|| grad_norm(&grads).unwrap());
        assert!((norm / grad_norm_plain(&grads)? - 1.0).abs() < 1e-12);
        let doubles = [grads[0].to_dtype(DType::F64)?];
        assert_eq!(grad_norm(&doubles)?, grad_norm_plain(&doubles)?);
        Ok(())
    }
}
