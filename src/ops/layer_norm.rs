//! LayerNorm(x) = (x - μ) / √(σ² + ε) · w + b over each row, σ² being the biased variance (Ba, Kiros and Hinton
//! 2016; section 3.1 of the paper).
//!
//! Backward, with x̂ the normalised row, r = 1/√(σ² + ε) and a = g·w:
//! dx = r·(a - mean(a) - x̂·mean(a·x̂)), dw = Σ over the rows of g·x̂, db = Σ over the rows of g.
//! μ and r are computed again instead of kept: the row has to be read anyway.

use super::cpu::{self, Numbers, numbers};
use super::simd::{self, simd};
use crate::Result;
use candle_core::{CpuStorage, CustomOp3, D, Layout, Shape, Tensor, bail};

/// x \[n,d\], weight \[d\], bias \[d\] → \[n,d\], in ordinary tensor operations.
pub fn layer_norm_plain(x: &Tensor, weight: &Tensor, bias: &Tensor, eps: f64) -> Result<Tensor> {
    let centred = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
    let variance = centred.sqr()?.mean_keepdim(D::Minus1)?;
    let normalised = centred.broadcast_div(&(variance + eps)?.sqrt()?)?;
    Ok(normalised.broadcast_mul(weight)?.broadcast_add(bias)?)
}

/// x \[n,d\], weight \[d\], bias \[d\] → \[n,d\].
pub fn layer_norm(x: &Tensor, weight: &Tensor, bias: &Tensor, eps: f64) -> Result<Tensor> {
    if cpu::fused(&[x, weight, bias]) {
        Ok(x.apply_op3(weight, bias, LayerNorm { eps: eps as f32 })?)
    } else {
        layer_norm_plain(x, weight, bias, eps)
    }
}

struct LayerNorm {
    eps: f32,
}

impl CustomOp3 for LayerNorm {
    fn name(&self) -> &'static str {
        "layer_norm"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
        bias: &CpuStorage,
        bias_layout: &Layout,
    ) -> candle_core::Result<(CpuStorage, Shape)> {
        let (n, d) = x_layout.shape().dims2()?;
        let x = numbers(x, x_layout)?;
        let (weight, bias) = (numbers(weight, weight_layout)?, numbers(bias, bias_layout)?);
        if weight.len() != d || bias.len() != d {
            bail!(
                "layer_norm: x [{n}, {d}] needs {d} weights and biases, found {} and {}",
                weight.len(),
                bias.len()
            );
        }
        let (y, _) = cpu::build(n * d, d * cpu::rows_per_chunk(d), |start, y| {
            normalise(&x[start..start + y.len()], weight, bias, self.eps, y);
        });
        Ok(cpu::result(y, x_layout))
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        bias: &Tensor,
        _y: &Tensor,
        grad: &Tensor,
    ) -> candle_core::Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let (n, d) = x.dims2()?;
        let grad = grad.contiguous()?;
        let (xs, weights, grads) = (Numbers::of(x)?, Numbers::of(weight)?, Numbers::of(&grad)?);
        let (xs, weights, grads): (&[f32], &[f32], &[f32]) = (&xs, &weights, &grads);
        let (dx, partial) = cpu::build(n * d, d * cpu::ROWS, |start, dx| {
            let rows = start..start + dx.len();
            let mut sums = vec![0.0; 2 * d];
            let (dweight, dbias) = sums.split_at_mut(d);
            normalise_backward(&xs[rows.clone()], weights, &grads[rows], self.eps, dx, dweight, dbias);
            sums
        });
        let mut dweight = cpu::sum_in_order(&partial, 2 * d);
        let dbias = dweight.split_off(d);
        Ok((
            Some(Tensor::from_vec(dx, x.shape(), x.device())?),
            Some(Tensor::from_vec(dweight, weight.shape(), x.device())?),
            Some(Tensor::from_vec(dbias, bias.shape(), x.device())?),
        ))
    }
}

/// μ and 1/√(σ² + ε) of a row, in two passes over numbers that are in the cache.
#[inline(always)]
fn moments(row: &[f32], eps: f32) -> (f32, f32) {
    let count = row.len() as f32;
    let mean = simd::sum(row, |x| x) / count;
    let variance = simd::sum(row, |x| (x - mean) * (x - mean)) / count;
    (mean, 1.0 / (variance + eps).sqrt())
}

simd! {
    fn normalise(x: &[f32], weight: &[f32], bias: &[f32], eps: f32, y: &mut [f32]) {
        let d = weight.len();
        for (x, y) in x.chunks_exact(d).zip(y.chunks_exact_mut(d)) {
            let (mean, scale) = moments(x, eps);
            for (((y, &x), &weight), &bias) in y.iter_mut().zip(x).zip(weight).zip(bias) {
                *y = (x - mean) * scale * weight + bias;
            }
        }
    }
}

simd! {
    fn normalise_backward(
        x: &[f32], weight: &[f32], grad: &[f32], eps: f32, dx: &mut [f32], dweight: &mut [f32], dbias: &mut [f32],
    ) {
        let d = weight.len();
        for ((x, g), dx) in x.chunks_exact(d).zip(grad.chunks_exact(d)).zip(dx.chunks_exact_mut(d)) {
            let (mean, scale) = moments(x, eps);
            for ((a, &g), &weight) in dx.iter_mut().zip(g).zip(weight) {
                *a = g * weight;
            }
            let a_mean = simd::sum(dx, |a| a) / d as f32;
            let along = simd::sum2(dx, x, |a, x| a * ((x - mean) * scale)) / d as f32;
            for ((dx, &x), (&g, (dweight, dbias))) in
                dx.iter_mut().zip(x).zip(g.iter().zip(dweight.iter_mut().zip(dbias.iter_mut())))
            {
                let normalised = (x - mean) * scale;
                *dx = scale * (*dx - a_mean - normalised * along);
                *dweight += g * normalised;
                *dbias += g;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{assert_gradients, assert_parity, flat, random, value_and_gradients};
    use super::super::simd::forced;
    use super::*;
    use candle_core::{Device, Var};

    /// Mean 3 and variance 4 in the first row; a constant row has x̂ = 0.
    #[test]
    fn by_hand() -> Result<()> {
        let x = Tensor::new(&[[1f32, 5., 1., 5.], [7., 7., 7., 7.]], &Device::Cpu)?;
        let weight = Tensor::new(&[1f32, 1., 2., 3.], &Device::Cpu)?;
        let bias = Tensor::new(&[0f32, 10., 0., 1.], &Device::Cpu)?;
        let expected = [[-1f32, 11., -2., 4.], [0., 10., 0., 1.]];
        assert_eq!(layer_norm(&x, &weight, &bias, 0.0)?.narrow(0, 0, 1)?.to_vec2::<f32>()?, expected[..1]);
        assert_eq!(layer_norm(&x, &weight, &bias, 1e-12)?.to_vec2::<f32>()?, expected);
        // ε inside the root: variance 4, ε = 5 → (x - 3) / 3.
        let y = flat(&layer_norm(&x, &weight, &bias, 5.0)?)?;
        assert!((y[0] + 2.0 / 3.0).abs() < 1e-6);
        Ok(())
    }

    #[test]
    fn fused_is_plain() -> Result<()> {
        for (n, d) in [(1, 1), (1, 5), (3, 1), (5, 33), (200, 64), (65, 257)] {
            let args = [(random(&[n, d], 1)? * 3.0)?, random(&[d], 2)?, random(&[d], 3)?];
            let fused = |v: &[Tensor]| layer_norm(&v[0], &v[1], &v[2], 1e-5);
            let plain = |v: &[Tensor]| layer_norm_plain(&v[0], &v[1], &v[2], 1e-5);
            assert_parity(&args, fused, plain, 1e-5)?;
        }
        Ok(())
    }

    #[test]
    fn gradients_are_finite_differences() -> Result<()> {
        let args = [random(&[3, 5], 1)?, random(&[5], 2)?, random(&[5], 3)?];
        assert_gradients(&args, |v| layer_norm_plain(&v[0], &v[1], &v[2], 1e-5))
    }

    #[test]
    fn same_bits_on_every_path() -> Result<()> {
        let args = [random(&[300, 77], 1)?, random(&[77], 2)?, random(&[77], 3)?];
        forced::same_everywhere(|| {
            value_and_gradients(&args, |v| layer_norm(&v[0], &v[1], &v[2], 1e-5)).unwrap()
        });
        Ok(())
    }

    #[test]
    fn no_rows() -> Result<()> {
        let (x, weight) = (Var::from_tensor(&random(&[0, 3], 1)?)?, Var::from_tensor(&random(&[3], 2)?)?);
        let y = layer_norm(&x, &weight, &weight, 1e-5)?;
        assert_eq!(y.dims(), [0, 3]);
        assert_eq!(y.sum_all()?.backward()?.get(&weight).unwrap().to_vec1::<f32>()?, [0.; 3]);
        Ok(())
    }
}
