//! The non-linearity of the feed-forward layer (section 3.3 of the paper: max(0, x); the others are options).
//!
//! relu(x) = max(0, x), with derivative 0 at 0 as in PyTorch (candle's own has 1 there).
//! gelu(x) = x·Φ(x) with Φ the normal distribution function (Hendrycks and Gimpel 2016, the form with erf).
//! swish(x) = x·σ(x) with σ the logistic function, also called silu.

use super::cpu::{self, Numbers, numbers};
use super::simd::{exp, simd};
use crate::Result;
use crate::config::Activation;
use candle_core::{CpuStorage, CustomOp1, Layout, Shape, Tensor};

/// x of any shape → the same shape, in ordinary tensor operations.
pub fn activation_plain(x: &Tensor, activation: Activation) -> Result<Tensor> {
    Ok(match activation {
        Activation::Relu => x.le(0.0)?.where_cond(&x.zeros_like()?, x)?,
        // Not candle's `gelu_erf`, whose backward pass has φ to six digits only.
        Activation::Gelu => (x * (((x / std::f64::consts::SQRT_2)?.erf()? + 1.0)? * 0.5)?)?,
        Activation::Swish => x.silu()?,
    })
}

/// x of any shape → the same shape.
pub fn activation(x: &Tensor, activation: Activation) -> Result<Tensor> {
    if cpu::fused(&[x]) { Ok(x.apply_op1(activation)?) } else { activation_plain(x, activation) }
}

impl CustomOp1 for Activation {
    fn name(&self) -> &'static str {
        "activation"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> candle_core::Result<(CpuStorage, Shape)> {
        let x = numbers(x, layout)?;
        let (y, _) =
            cpu::build(x.len(), cpu::CHUNK, |start, y| forward(*self, &x[start..start + y.len()], y));
        Ok(cpu::result(y, layout))
    }

    fn bwd(&self, x: &Tensor, _y: &Tensor, grad: &Tensor) -> candle_core::Result<Option<Tensor>> {
        let grad = grad.contiguous()?;
        let (xs, grads) = (Numbers::of(x)?, Numbers::of(&grad)?);
        let (xs, grads): (&[f32], &[f32]) = (&xs, &grads);
        let (dx, _) = cpu::build(xs.len(), cpu::CHUNK, |start, dx| {
            let piece = start..start + dx.len();
            backward(*self, &xs[piece.clone()], &grads[piece], dx);
        });
        Ok(Some(Tensor::from_vec(dx, x.shape(), x.device())?))
    }
}

simd! {
    fn forward(activation: Activation, x: &[f32], y: &mut [f32]) {
        match activation {
            Activation::Relu => map(x, y, |x| if x <= 0.0 { 0.0 } else { x }),
            Activation::Gelu => map(x, y, |x| x * normal_cdf(x).0),
            Activation::Swish => map(x, y, |x| x * logistic(x)),
        }
    }
}

simd! {
    fn backward(activation: Activation, x: &[f32], grad: &[f32], dx: &mut [f32]) {
        match activation {
            Activation::Relu => map2(x, grad, dx, |x, g| if x <= 0.0 { 0.0 } else { g }),
            Activation::Gelu => map2(x, grad, dx, |x, g| {
                let (cdf, density) = normal_cdf(x);
                g * (cdf + x * density)
            }),
            Activation::Swish => map2(x, grad, dx, |x, g| {
                let s = logistic(x);
                g * (s * (1.0 + x * (1.0 - s)))
            }),
        }
    }
}

#[inline(always)]
fn map(x: &[f32], y: &mut [f32], f: impl Fn(f32) -> f32) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y = f(x);
    }
}

#[inline(always)]
fn map2(x: &[f32], g: &[f32], dx: &mut [f32], f: impl Fn(f32, f32) -> f32) {
    for ((dx, &x), &g) in dx.iter_mut().zip(x).zip(g) {
        *dx = f(x, g);
    }
}

/// σ(x) = 1 / (1 + e^-x).
#[inline(always)]
fn logistic(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Φ(x) within 2e-7, and the density φ(x) = e^(-x²/2) / √(2π), which it needs on the way: Abramowitz and Stegun
/// 7.1.26 for erfc(|x|/√2), which loses nothing to cancellation where Φ is small.
#[inline(always)]
fn normal_cdf(x: f32) -> (f32, f32) {
    const ONE_OVER_ROOT_TWO_PI: f32 = 0.398_942_3;
    let t = 1.0 / (1.0 + 0.327_591_1 * std::f32::consts::FRAC_1_SQRT_2 * x.abs());
    let mut p = 1.061_405_4f32;
    p = p * t - 1.453_152;
    p = p * t + 1.421_413_7;
    p = p * t - 0.284_496_74;
    p = p * t + 0.254_829_6;
    let e = exp(-0.5 * x * x);
    let tail = 0.5 * p * t * e;
    (if x > 0.0 { 1.0 - tail } else { tail }, e * ONE_OVER_ROOT_TWO_PI)
}

#[cfg(test)]
mod tests {
    use super::super::check::{
        assert_close, assert_gradients, assert_parity, flat, random, value_and_gradients,
    };
    use super::super::simd::forced;
    use super::*;
    use candle_core::{Device, Var};

    const ALL: [Activation; 3] = [Activation::Relu, Activation::Gelu, Activation::Swish];

    /// Φ(1) = 0.8413447461, σ(1) = 0.7310585786 from tables; derivatives: Φ(1) + φ(1) with φ(1) = 0.2419707245;
    /// σ(1)·(1 + 1 - σ(1)) = 0.9276705119.
    #[test]
    fn by_hand() -> Result<()> {
        let cases = [
            (Activation::Relu, [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]),
            (
                Activation::Gelu,
                [-0.158_655_253_9, 0.0, 0.841_344_746_1],
                [-0.083_315_470_6, 0.5, 1.083_315_470_6],
            ),
            (
                Activation::Swish,
                [-0.268_941_421_4, 0.0, 0.731_058_578_6],
                [0.072_329_488_1, 0.5, 0.927_670_511_9],
            ),
        ];
        for (kind, values, slopes) in cases {
            for op in [activation, activation_plain] {
                let x = Var::new(&[-1f32, 0., 1.], &Device::Cpu)?;
                let y = op(&x, kind)?;
                assert_close(&flat(&y)?, &values, 2e-7, "value");
                let grads = y.sum_all()?.backward()?;
                assert_close(&flat(grads.get(&x).unwrap())?, &slopes, 3e-7, "slope");
            }
        }
        Ok(())
    }

    #[test]
    fn fused_is_plain() -> Result<()> {
        for kind in ALL {
            for dims in [&[0, 3][..], &[1, 1], &[5, 7], &[131, 257]] {
                let (fused, plain) =
                    (|v: &[Tensor]| activation(&v[0], kind), |v: &[Tensor]| activation_plain(&v[0], kind));
                assert_parity(&[(random(dims, 1)? * 3.0)?], fused, plain, 5e-7)?;
            }
        }
        Ok(())
    }

    #[test]
    fn gradients_are_finite_differences() -> Result<()> {
        ALL.iter()
            .try_for_each(|&kind| assert_gradients(&[random(&[4, 5], 1)?], |v| activation_plain(&v[0], kind)))
    }

    #[test]
    fn same_bits_on_every_path() -> Result<()> {
        let x = random(&[130, 257], 1)?;
        for kind in ALL {
            forced::same_everywhere(|| {
                value_and_gradients(std::slice::from_ref(&x), |v| activation(&v[0], kind)).unwrap()
            });
        }
        Ok(())
    }

    /// Far out: 0 on the left, x on the right, and NaN is not hidden.
    #[test]
    fn edges() -> Result<()> {
        for kind in ALL {
            let x = Tensor::new(&[-1e30f32, -200., 200., f32::NAN], &Device::Cpu)?;
            let y = activation(&x, kind)?.to_vec1::<f32>()?;
            assert_eq!((y[0], y[1], y[2], y[3].is_nan()), (0.0, 0.0, 200.0, true), "{kind:?}");
            let grads = value_and_gradients(&[x.narrow(0, 0, 3)?], |v| activation(&v[0], kind))?;
            assert!(grads[1].iter().all(|g| g.is_finite()), "{kind:?}: {grads:?}");
        }
        Ok(())
    }
}
