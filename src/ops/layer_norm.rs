//! LayerNorm(x) = (x - μ) / √(σ² + ε) · w + b over each row, alone: where pre-norm models have it (Ba, Kiros and Hinton 2016).
//! Mathematics, kernels and plain form are those of [`super::add_norm()`], without the sum before it.

use super::add_norm::{layer_norm_plain, normalise, normalise_backward};
use super::cpu::{self, Numbers, numbers};
use crate::Result;
use candle_core::{CpuStorage, CustomOp2, Layout, Shape, Tensor, bail};

/// x \[n,d\], weight \[d\], bias \[d\] → \[n,d\].
pub fn layer_norm(x: &Tensor, weight: &Tensor, bias: &Tensor, eps: f64) -> Result<Tensor> {
    if !cpu::fused(&[x, weight, bias]) {
        return layer_norm_plain(x, weight, bias, eps);
    }
    let weight_and_bias = Tensor::stack(&[weight, bias], 0)?;
    Ok(x.apply_op2(&weight_and_bias, LayerNorm { eps: eps as f32 })?)
}

struct LayerNorm {
    eps: f32,
}

impl CustomOp2 for LayerNorm {
    fn name(&self) -> &'static str {
        "layer_norm"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight_and_bias: &CpuStorage,
        weight_layout: &Layout,
    ) -> candle_core::Result<(CpuStorage, Shape)> {
        let (n, d) = x_layout.shape().dims2()?;
        let (x, weight_and_bias) = (numbers(x, x_layout)?, numbers(weight_and_bias, weight_layout)?);
        if weight_and_bias.len() != 2 * d {
            bail!("layer_norm: x [{n}, {d}] needs {d} weights and biases, found {:?}", weight_layout.shape());
        }
        let (weight, bias) = weight_and_bias.split_at(d);
        let (y, _) = cpu::build(n * d, d * cpu::rows_per_chunk(d), |start, y| {
            y.copy_from_slice(&x[start..start + y.len()]);
            normalise(weight, bias, self.eps, y);
        });
        Ok(cpu::result(y, x_layout))
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight_and_bias: &Tensor,
        _y: &Tensor,
        grad: &Tensor,
    ) -> candle_core::Result<(Option<Tensor>, Option<Tensor>)> {
        let (n, d) = x.dims2()?;
        let grad = grad.contiguous()?;
        let [xs, weights, grads] = [Numbers::of(x)?, Numbers::of(weight_and_bias)?, Numbers::of(&grad)?];
        let (xs, weight, grads): (&[f32], &[f32], &[f32]) = (&xs, &weights[..d], &grads);
        let (dx, partial) = cpu::build(n * d, d * cpu::ROWS, |start, dx| {
            let mut sums = vec![0.0; 2 * d];
            let (dweight, dbias) = sums.split_at_mut(d);
            let range = start..start + dx.len();
            normalise_backward(&xs[range.clone()], weight, &grads[range], self.eps, dx, dweight, dbias);
            sums
        });
        let dweight = Tensor::from_vec(cpu::sum_in_order(&partial, 2 * d), (2, d), x.device())?;
        Ok((Some(Tensor::from_vec(dx, (n, d), x.device())?), Some(dweight)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{assert_gradients, assert_parity, random, value_and_gradients};
    use super::super::simd::forced;
    use super::*;

    fn args(n: usize, d: usize) -> Result<[Tensor; 3]> {
        Ok([(random(&[n, d], 1)? * 3.0)?, random(&[d], 2)?, random(&[d], 3)?])
    }

    #[test]
    fn fused_is_plain() -> Result<()> {
        for (n, d) in [(1, 1), (1, 5), (3, 1), (5, 33), (200, 64), (65, 257)] {
            let fused = |v: &[Tensor]| layer_norm(&v[0], &v[1], &v[2], 1e-5);
            let plain = |v: &[Tensor]| layer_norm_plain(&v[0], &v[1], &v[2], 1e-5);
            assert_parity(&args(n, d)?, fused, plain, 1e-5)?;
        }
        Ok(())
    }

    #[test]
    fn gradients_are_finite_differences() -> Result<()> {
        assert_gradients(&args(3, 5)?, |v| layer_norm_plain(&v[0], &v[1], &v[2], 1e-5))
    }

    #[test]
    fn same_bits_on_every_path() -> Result<()> {
        let args = args(301, 77)?;
        forced::same_everywhere(|| {
            value_and_gradients(&args, |v| layer_norm(&v[0], &v[1], &v[2], 1e-5)).unwrap()
        });
        Ok(())
    }
}
