//! LayerNorm(x + Dropout(Sublayer(x))), the "Add & Norm" of Figure 1 (sections 3.1 and 5.4 of the paper), where
//! LayerNorm(z) = (z - μ) / √(σ² + ε) · w + b over each row, σ² being the biased variance (Ba, Kiros and Hinton 2016).
//!
//! Backward, with z = x + mask ⊙ sublayer, ẑ the normalised row, r = 1/√(σ² + ε) and a = g·w:
//! dz = r·(a - mean(a) - ẑ·mean(a·ẑ)), dx = dz, dsublayer = mask ⊙ dz, dw = Σ over the rows of g·ẑ, db = Σ over the rows
//! of g. z, μ, r and the mask are computed again instead of kept: the rows have to be read anyway.

use super::cpu::{self, Numbers, numbers};
use super::dropout::{Dropout, dropout_plain, masked};
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

/// [`add_norm`] in ordinary tensor operations.
pub fn add_norm_plain(
    x: &Tensor,
    sublayer: &Tensor,
    weight: &Tensor,
    bias: &Tensor,
    eps: f64,
    dropout: Option<Dropout>,
) -> Result<Tensor> {
    let sum = match dropout {
        Some(dropout) => (x + dropout_plain(sublayer, dropout)?)?,
        None => (x + sublayer)?,
    };
    layer_norm_plain(&sum, weight, bias, eps)
}

/// x \[n,d\], the sublayer's output \[n,d\], weight \[d\], bias \[d\] → \[n,d\].
pub fn add_norm(
    x: &Tensor,
    sublayer: &Tensor,
    weight: &Tensor,
    bias: &Tensor,
    eps: f64,
    dropout: Option<Dropout>,
) -> Result<Tensor> {
    if !cpu::fused(&[x, sublayer, weight, bias]) {
        return add_norm_plain(x, sublayer, weight, bias, eps, dropout);
    }
    dropout.map_or(Ok(()), Dropout::check)?;
    let weight_and_bias = Tensor::stack(&[weight, bias], 0)?;
    Ok(x.apply_op3(sublayer, &weight_and_bias, AddNorm { eps: eps as f32, dropout })?)
}

struct AddNorm {
    eps: f32,
    dropout: Option<Dropout>,
}

impl AddNorm {
    /// z = x + mask ⊙ sublayer for the numbers from `start` on.
    fn add(&self, x: &[f32], sublayer: &[f32], start: usize, z: &mut [f32]) {
        let range = start..start + z.len();
        let (x, sublayer) = (&x[range.clone()], &sublayer[range]);
        match self.dropout {
            Some(dropout) => {
                masked(sublayer, dropout.key, start as u64, dropout.threshold(), dropout.scale(), z);
                add(x, z);
            }
            None => {
                z.copy_from_slice(sublayer);
                add(x, z);
            }
        }
    }

    /// Rows in one piece of work: an even number, so that a piece begins at the first of two dropout decisions.
    fn rows(d: usize) -> usize {
        cpu::rows_per_chunk(d).next_multiple_of(2)
    }
}

impl CustomOp3 for AddNorm {
    fn name(&self) -> &'static str {
        "add_norm"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        sublayer: &CpuStorage,
        sublayer_layout: &Layout,
        weight_and_bias: &CpuStorage,
        weight_layout: &Layout,
    ) -> candle_core::Result<(CpuStorage, Shape)> {
        let (n, d) = x_layout.shape().dims2()?;
        let (x, sublayer) = (numbers(x, x_layout)?, numbers(sublayer, sublayer_layout)?);
        let weight_and_bias = numbers(weight_and_bias, weight_layout)?;
        if weight_and_bias.len() != 2 * d || sublayer.len() != x.len() {
            bail!(
                "add_norm: x [{n}, {d}] needs a sublayer of its shape and {d} weights and biases, found {:?} and {:?}",
                sublayer_layout.shape(),
                weight_layout.shape()
            );
        }
        let (weight, bias) = weight_and_bias.split_at(d);
        let (y, _) = cpu::build(n * d, d * Self::rows(d), |start, y| {
            self.add(x, sublayer, start, y);
            normalise(weight, bias, self.eps, y);
        });
        Ok(cpu::result(y, x_layout))
    }

    fn bwd(
        &self,
        x: &Tensor,
        sublayer: &Tensor,
        weight_and_bias: &Tensor,
        _y: &Tensor,
        grad: &Tensor,
    ) -> candle_core::Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let (n, d) = x.dims2()?;
        let grad = grad.contiguous()?;
        let [xs, sublayers, weights, grads] =
            [Numbers::of(x)?, Numbers::of(sublayer)?, Numbers::of(weight_and_bias)?, Numbers::of(&grad)?];
        let (xs, sublayers, weight, grads): (&[f32], &[f32], &[f32], &[f32]) =
            (&xs, &sublayers, &weights[..d], &grads);
        let (dx, partial) = cpu::build(n * d, d * cpu::ROWS, |start, dx| {
            let mut z = vec![0.0; dx.len()];
            self.add(xs, sublayers, start, &mut z);
            let mut sums = vec![0.0; 2 * d];
            let (dweight, dbias) = sums.split_at_mut(d);
            let grads = &grads[start..start + dx.len()];
            normalise_backward(&z, weight, grads, self.eps, dx, dweight, dbias);
            sums
        });
        let dweight = Tensor::from_vec(cpu::sum_in_order(&partial, 2 * d), (2, d), x.device())?;
        let dropped = self.dropout.map(|dropout| dropout.apply(&dx));
        let dx = Tensor::from_vec(dx, (n, d), x.device())?;
        let dsublayer = match dropped {
            Some(dropped) => Tensor::from_vec(dropped, (n, d), x.device())?,
            None => dx.clone(),
        };
        Ok((Some(dx), Some(dsublayer), Some(dweight)))
    }
}

simd! {
    /// Adds `x` to `z`.
    fn add(x: &[f32], z: &mut [f32]) {
        for (z, &x) in z.iter_mut().zip(x) {
            *z += x;
        }
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
    /// Layer norm of the rows `y`, in place.
    pub(super) fn normalise(weight: &[f32], bias: &[f32], eps: f32, y: &mut [f32]) {
        for y in y.chunks_exact_mut(weight.len()) {
            let (mean, scale) = moments(y, eps);
            for ((y, &weight), &bias) in y.iter_mut().zip(weight).zip(bias) {
                *y = (*y - mean) * scale * weight + bias;
            }
        }
    }
}

simd! {
    /// The gradient of the rows `x` → `dx`; what the gain and the bias get is added to `dweight` and `dbias`.
    pub(super) fn normalise_backward(
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

    const DROPOUT: Option<Dropout> = Some(Dropout { p: 0.3, key: 5 });

    /// x + sublayer has mean 3 and variance 4 in the first row; a constant row has ẑ = 0.
    #[test]
    fn by_hand() -> Result<()> {
        let x = Tensor::new(&[[1f32, 2., 0., 4.], [7., 6., 5., 4.]], &Device::Cpu)?;
        let sublayer = Tensor::new(&[[0f32, 3., 1., 1.], [0., 1., 2., 3.]], &Device::Cpu)?;
        let weight = Tensor::new(&[1f32, 1., 2., 3.], &Device::Cpu)?;
        let bias = Tensor::new(&[0f32, 10., 0., 1.], &Device::Cpu)?;
        let expected = [[-1f32, 11., -2., 4.], [0., 10., 0., 1.]];
        let norm = |eps| add_norm(&x, &sublayer, &weight, &bias, eps, None);
        assert_eq!(norm(1e-12)?.to_vec2::<f32>()?, expected);
        // ε inside the root: variance 4, ε = 5 → (z - 3) / 3.
        assert!((flat(&norm(5.0)?)?[0] + 2.0 / 3.0).abs() < 1e-6);
        Ok(())
    }

    #[test]
    fn fused_is_plain() -> Result<()> {
        for (n, d) in [(1, 1), (1, 5), (3, 1), (5, 33), (200, 64), (65, 257)] {
            let args =
                [(random(&[n, d], 1)? * 3.0)?, random(&[n, d], 4)?, random(&[d], 2)?, random(&[d], 3)?];
            for dropout in [None, DROPOUT] {
                let fused = |v: &[Tensor]| add_norm(&v[0], &v[1], &v[2], &v[3], 1e-5, dropout);
                let plain = |v: &[Tensor]| add_norm_plain(&v[0], &v[1], &v[2], &v[3], 1e-5, dropout);
                assert_parity(&args, fused, plain, 1e-5)?;
            }
        }
        Ok(())
    }

    #[test]
    fn gradients_are_finite_differences() -> Result<()> {
        let args = [random(&[3, 5], 1)?, random(&[3, 5], 4)?, random(&[5], 2)?, random(&[5], 3)?];
        assert_gradients(&args, |v| add_norm_plain(&v[0], &v[1], &v[2], &v[3], 1e-5, DROPOUT))
    }

    #[test]
    fn same_bits_on_every_path() -> Result<()> {
        let args = [random(&[301, 77], 1)?, random(&[301, 77], 4)?, random(&[77], 2)?, random(&[77], 3)?];
        forced::same_everywhere(|| {
            value_and_gradients(&args, |v| add_norm(&v[0], &v[1], &v[2], &v[3], 1e-5, DROPOUT)).unwrap()
        });
        Ok(())
    }

    #[test]
    fn no_rows() -> Result<()> {
        let (x, weight) = (Var::from_tensor(&random(&[0, 3], 1)?)?, Var::from_tensor(&random(&[3], 2)?)?);
        let y = add_norm(&x, &x, &weight, &weight, 1e-5, DROPOUT)?;
        assert_eq!(y.dims(), [0, 3]);
        assert_eq!(y.sum_all()?.backward()?.get(&weight).unwrap().to_vec1::<f32>()?, [0.; 3]);
        Ok(())
    }

    #[test]
    fn wrong_dropout_is_refused() -> Result<()> {
        let (x, w) = (random(&[2, 3], 1)?, random(&[3], 2)?);
        let error = add_norm(&x, &x, &w, &w, 1e-5, Some(Dropout { p: 1.0, key: 1 })).unwrap_err();
        assert!(error.to_string().contains("below 1"), "{error}");
        Ok(())
    }
}
