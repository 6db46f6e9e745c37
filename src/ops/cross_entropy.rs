//! The training loss (section 5.4 of the paper): cross-entropy of the output projection (section 3.4) against smoothed
//! targets (Szegedy et al. 2016), summed over rows.
//!
//! With z = x·Wᵀ a row of logits, p = softmax(z) and q the smoothed target distribution:
//! loss = Σ_rows -Σ_j q_j·log p_j, its gradient by z is p - q, so dx = (p - q)·W and dW = (p - q)ᵀ·x. The sum, not a mean:
//! whoever calls divides once by the number of target tokens of the whole step. There is no padding to leave out: rows are
//! real tokens.
//!
//! The fused form takes [`ROWS`] rows at a time from x to both gradients while it computes the loss, so that logits,
//! by far the largest activation, are never stored.
//!
//! Departs: the smoothed mass goes to the other v - 1 classes, not to all v.

use super::compute::Compute;
use super::cpu::{self, Numbers};
use super::linear::{finish, linear_plain};
use super::matmul::Matrix;
use super::simd::{self, exp, simd};
use crate::{Error, Result};
use candle_core::{CpuStorage, CustomOp2, D, DType, Layout, Shape, Tensor, bail};
use std::sync::Mutex;

/// Rows of logits that exist at a time.
const ROWS: usize = 512;

/// What [`cross_entropy`] returns, both summed over rows.
#[derive(Debug, Clone)]
pub struct Loss {
    /// The smoothed loss, a scalar that can be differentiated.
    pub loss: Tensor,
    /// The plain negative log-likelihood of the targets.
    pub nll: f64,
}

/// The probability of the target and of each other class: 1 - ε and ε/(v - 1).
fn smoothing(v: usize, epsilon: f64) -> (f64, f64) {
    if v > 1 { (1.0 - epsilon, epsilon / (v - 1) as f64) } else { (1.0, 0.0) }
}

/// The distribution that is learned for `target`: 1 - ε there, ε/(v - 1) at every other of the v classes.
pub fn smoothed_targets(v: usize, epsilon: f64, target: u32) -> Vec<f64> {
    let (on, off) = smoothing(v, epsilon);
    (0..v).map(|class| if class == target as usize { on } else { off }).collect()
}

/// logits \[n,v\], n targets → the loss, in ordinary tensor operations.
pub fn cross_entropy_plain(logits: &Tensor, targets: &[u32], label_smoothing: f64) -> Result<Loss> {
    let (n, v) = logits.dims2()?;
    check(n, v, targets, label_smoothing)?;
    let shifted = logits.broadcast_sub(&logits.max_keepdim(D::Minus1)?.detach())?;
    let log_probs = shifted.broadcast_sub(&shifted.exp()?.sum_keepdim(D::Minus1)?.log()?)?;
    let q: Vec<f64> =
        targets.iter().flat_map(|&target| smoothed_targets(v, label_smoothing, target)).collect();
    let q = Tensor::from_vec(q, (n, v), logits.device())?.to_dtype(logits.dtype())?;
    let loss = (log_probs.clone() * q)?.sum_all()?.neg()?;
    let ids = Tensor::from_slice(targets, (n, 1), logits.device())?;
    let nll =
        log_probs.detach().gather(&ids, D::Minus1)?.to_dtype(DType::F64)?.sum_all()?.neg()?.to_scalar()?;
    Ok(Loss { loss, nll })
}

/// x \[n,d\], weight \[v,d\] and bias \[v\] of the output projection, n targets → the loss. A target outside the vocabulary
/// is an error that names its row.
pub fn cross_entropy(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    targets: &[u32],
    label_smoothing: f64,
    compute: Compute,
) -> Result<Loss> {
    let ((n, d), (v, _)) = (x.dims2()?, weight.dims2()?);
    check(n, v, targets, label_smoothing)?;
    let fused = cpu::fused(&[x, weight]) && bias.is_none_or(|bias| cpu::fused(&[bias]) && !bias.track_op());
    if !fused {
        return cross_entropy_plain(&linear_plain(x, weight, bias)?, targets, label_smoothing);
    }
    let sums = {
        let bias = bias.map(Numbers::of).transpose()?;
        let (xs, weights) = (Numbers::of(x)?, Numbers::of(weight)?);
        let projection = Projection {
            weight: Matrix::new(&weights, v, d),
            bias: bias.as_deref().unwrap_or(&[]),
            smoothing: smoothing(v, label_smoothing),
            compute,
            needs_gradient: x.track_op() || weight.track_op(),
        };
        projection.sums(&xs, targets)
    };
    let op = CrossEntropy { loss: sums.loss, gradient: Mutex::new(Some([sums.dx, sums.dweight])) };
    Ok(Loss { loss: x.apply_op2(weight, op)?, nll: sums.nll })
}

fn check(n: usize, v: usize, targets: &[u32], label_smoothing: f64) -> Result<()> {
    if targets.len() != n {
        return Err(Error::Data(format!("{n} rows of logits need as many targets, found {}", targets.len())));
    }
    if let Some(row) = targets.iter().position(|&target| target as usize >= v) {
        let target = targets[row];
        return Err(Error::Data(format!(
            "row {row}: target id {target} is outside the vocabulary of {v}; was the data encoded with another tokenizer?"
        )));
    }
    if !(0.0..=1.0).contains(&label_smoothing) {
        return Err(Error::Config(format!("label smoothing must lie in 0..=1, found {label_smoothing}")));
    }
    Ok(())
}

/// The output projection and what is asked of it.
struct Projection<'a> {
    weight: Matrix<'a>,
    /// Empty for none.
    bias: &'a [f32],
    /// The probability of the target and of each other class.
    smoothing: (f64, f64),
    compute: Compute,
    needs_gradient: bool,
}

/// Sums over rows; the gradients are empty where none is needed.
#[derive(Default)]
struct Sums {
    loss: f64,
    nll: f64,
    dx: Vec<f32>,
    dweight: Vec<f32>,
}

impl Projection<'_> {
    /// Loss and gradients of the rows x \[n,d\].
    fn sums(&self, x: &[f32], targets: &[u32]) -> Sums {
        let [v, d] = self.weight.dims();
        let mut sums = Sums::default();
        if self.needs_gradient {
            (sums.dx, sums.dweight) = (Vec::with_capacity(x.len()), vec![0.0; v * d]);
        }
        for (x, targets) in x.chunks((ROWS * d).max(1)).zip(targets.chunks(ROWS)) {
            let x = Matrix::new(x, targets.len(), d);
            let mut z = self.compute.product(x, self.weight.t());
            let per_piece = cpu::rows_per_chunk(v);
            let losses = cpu::map_mut(&mut z, per_piece * v, |start, z| {
                finish(z, self.bias, false);
                let rows = z.chunks_exact_mut(v).zip(&targets[start / v..]);
                rows.map(|(z, &target)| self.row(z, target)).collect::<Vec<_>>()
            });
            for (loss, nll) in losses.into_iter().flatten() {
                (sums.loss, sums.nll) = (sums.loss + loss, sums.nll + nll);
            }
            if self.needs_gradient {
                let z = Matrix::new(&z, targets.len(), v);
                sums.dx.extend(self.compute.product(z, self.weight));
                self.compute.add_product(z.t(), x, &mut sums.dweight);
            }
        }
        sums
    }

    /// -Σ_j q_j·log p_j and -log p_target of a row of logits, which become p - q if that is needed.
    fn row(&self, z: &mut [f32], target: u32) -> (f64, f64) {
        let (on, off) = self.smoothing;
        let max = row_max(z);
        let at_target = f64::from(z[target as usize] - max);
        let (sum, shifted) = exponentials(z, max);
        if self.needs_gradient {
            scale_and_shift(z, 1.0 / sum, off as f32);
            z[target as usize] -= (on - off) as f32;
        }
        // log p_j = z_j - max - log sum, and Σ_j q_j = 1. Without smoothing the other classes do not count, even at -∞.
        let log_sum = f64::from(sum).ln();
        let others = if off == 0.0 { 0.0 } else { off * f64::from(shifted) };
        (log_sum - (on - off) * at_target - others, log_sum - at_target)
    }
}

simd! {
    fn row_max(z: &[f32]) -> f32 {
        simd::max(z)
    }
}

simd! {
    /// z ← e^(z - max); Σ e^(z - max) and Σ (z - max).
    fn exponentials(z: &mut [f32], max: f32) -> (f32, f32) {
        for z in z.iter_mut() {
            *z -= max;
        }
        let shifted = simd::sum(z, |z| z);
        for z in z.iter_mut() {
            *z = exp(*z);
        }
        (simd::sum(z, |z| z), shifted)
    }
}

simd! {
    /// z ← z·scale - off.
    fn scale_and_shift(z: &mut [f32], scale: f32, off: f32) {
        for z in z.iter_mut() {
            *z = *z * scale - off;
        }
    }
}

simd! {
    fn scale(x: &mut [f32], factor: f32) {
        for x in x.iter_mut() {
            *x *= factor;
        }
    }
}

/// The loss as a function of x and the weight; loss and gradients are known already.
struct CrossEntropy {
    loss: f64,
    /// Of x and of the weight, until the backward pass takes them.
    gradient: Mutex<Option<[Vec<f32>; 2]>>,
}

impl CustomOp2 for CrossEntropy {
    fn name(&self) -> &'static str {
        "cross_entropy"
    }

    fn cpu_fwd(
        &self,
        _x: &CpuStorage,
        _x_layout: &Layout,
        _weight: &CpuStorage,
        _weight_layout: &Layout,
    ) -> candle_core::Result<(CpuStorage, Shape)> {
        Ok((CpuStorage::F32(vec![self.loss as f32]), Shape::from(())))
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        _loss: &Tensor,
        grad: &Tensor,
    ) -> candle_core::Result<(Option<Tensor>, Option<Tensor>)> {
        let factor = grad.to_scalar::<f32>()?;
        let kept = self.gradient.lock().map_or(None, |mut kept| kept.take());
        let Some(mut gradients) = kept else { bail!("cross_entropy: its gradient was taken before") };
        for gradient in &mut gradients {
            cpu::map_mut(gradient, cpu::CHUNK, |_, piece| scale(piece, factor));
        }
        let [dx, dweight] = gradients;
        let dx = Tensor::from_vec(dx, x.shape(), x.device())?;
        Ok((Some(dx), Some(Tensor::from_vec(dweight, weight.shape(), x.device())?)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{assert_close, assert_gradients, assert_parity, flat, random};
    use super::super::simd::forced;
    use super::*;
    use Compute::F32;
    use candle_core::{Device, Var};

    #[test]
    fn smoothed_targets_of_ten_thousand() {
        let q = smoothed_targets(10_000, 0.1, 3);
        assert_eq!((q[3], q[0], q[9_999]), (0.9, 0.1 / 9_999.0, 0.1 / 9_999.0));
        assert!((q.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert_eq!(smoothed_targets(3, 0.0, 1), [0.0, 1.0, 0.0]);
        assert_eq!(smoothed_targets(1, 0.1, 0), [1.0]);
    }

    /// Logits ln 1, ln 2, ln 5 are the probabilities 1/8, 1/4, 5/8. With ε = 0.2 and target 2, q = (0.1, 0.1, 0.8).
    #[test]
    fn by_hand() -> Result<()> {
        let z = Var::new(&[[0f32, 2f32.ln(), 5f32.ln()]], &Device::Cpu)?;
        let one = Tensor::new(&[[1f32, 0., 0.], [0., 1., 0.], [0., 0., 1.]], &Device::Cpu)?;
        for Loss { loss, nll } in
            [cross_entropy(&z, &one, None, &[2], 0.2, F32)?, cross_entropy_plain(&z, &[2], 0.2)?]
        {
            assert!((nll - 1.6f64.ln()).abs() < 1e-6);
            let expected = 0.1 * 8f64.ln() + 0.1 * 4f64.ln() + 0.8 * 1.6f64.ln();
            assert_close(&flat(&loss)?, &[expected], 1e-6, "loss");
            // The incoming gradient scales the result.
            let grads = (loss * 3.0)?.backward()?;
            assert_close(&flat(grads.get(&z).unwrap())?, &[0.075, 0.45, -0.525], 1e-6, "gradient");
        }
        Ok(())
    }

    fn targets(n: usize, v: usize) -> Vec<u32> {
        (0..n).map(|row| (row * 7 % v) as u32).collect()
    }

    /// Below, at and above a chunk of rows, and with the constant bias of foreign models.
    #[test]
    fn fused_is_plain() -> Result<()> {
        for (n, d, v) in [(1, 1, 1), (1, 3, 5), (4, 2, 1), (7, 8, 33), (130, 16, 257), (ROWS + 70, 5, 19)] {
            for (epsilon, bias) in [(0.0, None), (0.1, None), (0.1, Some(random(&[v], 3)?))] {
                let args = [(random(&[n, d], 1)? * 3.0)?, random(&[v, d], 2)?];
                let (targets, bias) = (targets(n, v), bias.as_ref());
                let fused = |a: &[Tensor]| cross_entropy(&a[0], &a[1], bias, &targets, epsilon, F32);
                let plain =
                    |a: &[Tensor]| cross_entropy_plain(&linear_plain(&a[0], &a[1], bias)?, &targets, epsilon);
                assert_parity(&args, |a| Ok(fused(a)?.loss), |a| Ok(plain(a)?.loss), 3e-6)?;
                let (fused, plain) = (fused(&args)?, plain(&args)?);
                assert_close(&[fused.nll], &[plain.nll], 1e-6, "nll");
                assert_close(&flat(&fused.loss)?, &flat(&plain.loss)?, 1e-6, "loss without gradient");
            }
        }
        Ok(())
    }

    #[test]
    fn gradients_are_finite_differences() -> Result<()> {
        assert_gradients(&[random(&[3, 4], 1)?], |v| Ok(cross_entropy_plain(&v[0], &[0, 3, 1], 0.1)?.loss))
    }

    #[test]
    fn rows_have_the_same_bits_on_every_path() -> Result<()> {
        let (logits, targets) = (random(&[70, 1003], 1)?.flatten_all()?.to_vec1::<f32>()?, targets(70, 1003));
        let weight = Matrix::new(&[], 0, 0);
        let projection = Projection {
            weight,
            bias: &[],
            smoothing: smoothing(1003, 0.1),
            compute: F32,
            needs_gradient: true,
        };
        forced::same_everywhere(|| {
            let mut z = logits.clone();
            let rows = z.chunks_exact_mut(1003).zip(&targets);
            (rows.map(|(z, &target)| projection.row(z, target)).collect::<Vec<_>>(), z)
        });
        Ok(())
    }

    #[test]
    fn extreme_logits() -> Result<()> {
        let z = Var::new(&[[1e30f32, 0.], [-1e30, 0.], [f32::NEG_INFINITY, 0.]], &Device::Cpu)?;
        let Loss { loss, nll } = cross_entropy_plain(&z, &[0, 1, 1], 0.0)?;
        assert!(loss.to_scalar::<f32>()?.is_nan() || loss.to_scalar::<f32>()? == 0.0);
        assert_eq!(nll, 0.0);
        let x = Var::new(&[[1f32], [-1.]], &Device::Cpu)?;
        let weight = Tensor::new(&[[1e30f32], [0.]], &Device::Cpu)?;
        let Loss { loss, nll } = cross_entropy(&x, &weight, None, &[0, 1], 0.0, F32)?;
        assert_eq!((loss.to_scalar::<f32>()?, nll), (0.0, 0.0));
        assert_eq!(loss.backward()?.get(&x).unwrap().to_vec2::<f32>()?, [[0.]; 2]);
        let nan = Tensor::new(&[[f32::NAN]], &Device::Cpu)?;
        assert!(cross_entropy(&nan, &weight, None, &[1], 0.1, F32)?.nll.is_nan());
        Ok(())
    }

    #[test]
    fn no_rows() -> Result<()> {
        let (x, weight) =
            (Var::zeros((0, 2), DType::F32, &Device::Cpu)?, Var::from_tensor(&random(&[3, 2], 1)?)?);
        let Loss { loss, nll } = cross_entropy(&x, &weight, None, &[], 0.1, F32)?;
        assert_eq!((loss.to_scalar::<f32>()?, nll), (0.0, 0.0));
        let grads = loss.backward()?;
        assert_eq!(grads.get(&x).unwrap().dims(), [0, 2]);
        assert_eq!(grads.get(&weight).unwrap().to_vec2::<f32>()?, [[0.; 2]; 3]);
        Ok(())
    }

    #[test]
    fn what_cannot_be_scored_is_named() -> Result<()> {
        let (x, weight) = (random(&[3, 2], 1)?, random(&[4, 2], 2)?);
        let message = |targets: &[u32], epsilon| {
            cross_entropy(&x, &weight, None, targets, epsilon, F32).unwrap_err().to_string()
        };
        let outside = message(&[0, 4, 1], 0.1);
        assert!(
            outside.contains("row 1") && outside.contains("id 4") && outside.contains("of 4"),
            "{outside}"
        );
        assert!(message(&[0, 1], 0.1).contains("found 2"));
        assert!(message(&[0, 1, 2], 1.5).contains("1.5"));
        Ok(())
    }
}
