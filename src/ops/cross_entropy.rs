//! The training loss (section 5.4 of the paper): cross-entropy against smoothed targets (Szegedy et al. 2016), summed
//! over rows.
//!
//! With z a row of logits, p = softmax(z) and q the smoothed target distribution:
//! loss = Σ_rows -Σ_j q_j·log p_j, and its gradient is p - q. The sum, not a mean: whoever calls divides once by the
//! number of target tokens of the whole step. There is no padding to leave out: rows are real tokens.
//!
//! Departs: the smoothed mass goes to the other v - 1 classes, not to all v.

use super::cpu::{self, Numbers};
use super::simd::{self, exp, simd};
use crate::{Error, Result};
use candle_core::{CpuStorage, CustomOp1, D, DType, Layout, Shape, Tensor};

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
    let (n, v) = check(logits, targets, label_smoothing)?;
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

/// logits \[n,v\], n targets → the loss. A target outside the vocabulary is an error that names its row.
pub fn cross_entropy(logits: &Tensor, targets: &[u32], label_smoothing: f64) -> Result<Loss> {
    let (n, v) = check(logits, targets, label_smoothing)?;
    if !cpu::fused(&[logits]) {
        return cross_entropy_plain(logits, targets, label_smoothing);
    }
    let (on, off) = smoothing(v, label_smoothing);
    let op = {
        let z = Numbers::of(logits)?;
        let z: &[f32] = &z;
        let per_chunk = cpu::rows_per_chunk(v);
        let chunks = cpu::map(n.div_ceil(per_chunk), z.len(), |chunk| {
            let rows = chunk * per_chunk..n.min((chunk + 1) * per_chunk);
            rows.map(|row| Row::of(&z[row * v..(row + 1) * v], targets[row])).collect::<Vec<_>>()
        });
        CrossEntropy { rows: chunks.concat(), on, off }
    };
    let nll = op.rows.iter().map(Row::nll).sum();
    Ok(Loss { loss: logits.apply_op1(op)?, nll })
}

fn check(logits: &Tensor, targets: &[u32], label_smoothing: f64) -> Result<(usize, usize)> {
    let (n, v) = logits.dims2()?;
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
    Ok((n, v))
}

/// What the forward pass keeps of a row: softmax(z)_j = e^(z_j - max) / sum.
#[derive(Debug, Clone, Copy)]
struct Row {
    target: u32,
    max: f32,
    /// Σ_j e^(z_j - max).
    sum: f32,
    /// Σ_j (z_j - max).
    shifted: f32,
    /// z_target - max.
    at_target: f32,
}

impl Row {
    fn of(z: &[f32], target: u32) -> Self {
        let (max, sum, shifted) = row_sums(z);
        Row { target, max, sum, shifted, at_target: z[target as usize] - max }
    }

    /// -log p_target.
    fn nll(&self) -> f64 {
        f64::from(self.sum).ln() - f64::from(self.at_target)
    }

    /// -Σ_j q_j·log p_j, where log p_j = z_j - max - log sum and Σ_j q_j = 1.
    fn loss(&self, on: f64, off: f64) -> f64 {
        // Without smoothing the other classes do not count, even at -∞.
        let others = if off == 0.0 { 0.0 } else { off * f64::from(self.shifted) };
        f64::from(self.sum).ln() - (on - off) * f64::from(self.at_target) - others
    }
}

simd! {
    /// max, Σ e^(z - max) and Σ (z - max) of a row.
    fn row_sums(z: &[f32]) -> (f32, f32, f32) {
        let max = simd::max(z);
        (max, simd::sum(z, |z| exp(z - max)), simd::sum(z, |z| z - max))
    }
}

/// The loss as a function of the logits, whose rows have been read already.
struct CrossEntropy {
    rows: Vec<Row>,
    on: f64,
    off: f64,
}

impl CustomOp1 for CrossEntropy {
    fn name(&self) -> &'static str {
        "cross_entropy"
    }

    fn cpu_fwd(&self, _logits: &CpuStorage, _layout: &Layout) -> candle_core::Result<(CpuStorage, Shape)> {
        let loss: f64 = self.rows.iter().map(|row| row.loss(self.on, self.off)).sum();
        Ok((CpuStorage::F32(vec![loss as f32]), Shape::from(())))
    }

    fn bwd(&self, logits: &Tensor, _loss: &Tensor, grad: &Tensor) -> candle_core::Result<Option<Tensor>> {
        let (n, v) = logits.dims2()?;
        let g = f64::from(grad.to_scalar::<f32>()?);
        let z = Numbers::of(logits)?;
        let z: &[f32] = &z;
        let (dz, _) = cpu::build(n * v, v * cpu::rows_per_chunk(v), |start, dz| {
            let pieces = dz.chunks_exact_mut(v).zip(z[start..].chunks_exact(v)).zip(&self.rows[start / v..]);
            for ((dz, z), row) in pieces {
                row_gradient(z, row.max, (g / f64::from(row.sum)) as f32, (g * self.off) as f32, dz);
                dz[row.target as usize] -= (g * (self.on - self.off)) as f32;
            }
        });
        Ok(Some(Tensor::from_vec(dz, logits.shape(), logits.device())?))
    }
}

simd! {
    /// dz_j = e^(z_j - max)·scale - off.
    fn row_gradient(z: &[f32], max: f32, scale: f32, off: f32, dz: &mut [f32]) {
        for (dz, &z) in dz.iter_mut().zip(z) {
            *dz = exp(z - max) * scale - off;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{
        assert_close, assert_gradients, assert_parity, flat, random, value_and_gradients,
    };
    use super::super::simd::forced;
    use super::*;
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
        for op in [cross_entropy, cross_entropy_plain] {
            let z = Var::new(&[[0f32, 2f32.ln(), 5f32.ln()]], &Device::Cpu)?;
            let Loss { loss, nll } = op(&z, &[2], 0.2)?;
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

    #[test]
    fn fused_is_plain() -> Result<()> {
        for (n, v) in [(1, 1), (1, 5), (4, 1), (7, 33), (130, 257)] {
            for epsilon in [0.0, 0.1] {
                let (logits, targets) = ((random(&[n, v], 1)? * 5.0)?, targets(n, v));
                let fused = |v: &[Tensor]| Ok(cross_entropy(&v[0], &targets, epsilon)?.loss);
                let plain = |v: &[Tensor]| Ok(cross_entropy_plain(&v[0], &targets, epsilon)?.loss);
                assert_parity(std::slice::from_ref(&logits), fused, plain, 1e-6)?;
                let nll = [
                    cross_entropy(&logits, &targets, epsilon)?.nll,
                    cross_entropy_plain(&logits, &targets, epsilon)?.nll,
                ];
                assert_close(&nll[..1], &nll[1..], 1e-6, "nll");
            }
        }
        Ok(())
    }

    #[test]
    fn gradients_are_finite_differences() -> Result<()> {
        assert_gradients(&[random(&[3, 4], 1)?], |v| Ok(cross_entropy_plain(&v[0], &[0, 3, 1], 0.1)?.loss))
    }

    #[test]
    fn same_bits_on_every_path() -> Result<()> {
        let (logits, targets) = (random(&[70, 1003], 1)?, targets(70, 1003));
        forced::same_everywhere(|| {
            let op = |v: &[Tensor]| Ok(cross_entropy(&v[0], &targets, 0.1)?.loss);
            (
                value_and_gradients(std::slice::from_ref(&logits), op).unwrap(),
                cross_entropy(&logits, &targets, 0.1).unwrap().nll,
            )
        });
        Ok(())
    }

    #[test]
    fn extreme_logits() -> Result<()> {
        let z = Var::new(&[[1e30f32, 0.], [-1e30, 0.], [f32::NEG_INFINITY, 0.]], &Device::Cpu)?;
        let Loss { loss, nll } = cross_entropy(&z, &[0, 1, 1], 0.0)?;
        assert_eq!((loss.to_scalar::<f32>()?, nll), (0.0, 0.0));
        assert_eq!(loss.backward()?.get(&z).unwrap().to_vec2::<f32>()?, [[0.; 2]; 3]);
        let nan = Tensor::new(&[[f32::NAN, 0.]], &Device::Cpu)?;
        assert!(cross_entropy(&nan, &[1], 0.1)?.nll.is_nan());
        Ok(())
    }

    #[test]
    fn no_rows() -> Result<()> {
        let z = Var::zeros((0, 3), DType::F32, &Device::Cpu)?;
        let Loss { loss, nll } = cross_entropy(&z, &[], 0.1)?;
        assert_eq!((loss.to_scalar::<f32>()?, nll), (0.0, 0.0));
        assert_eq!(loss.backward()?.get(&z).unwrap().dims(), [0, 3]);
        Ok(())
    }

    #[test]
    fn what_cannot_be_scored_is_named() -> Result<()> {
        let z = random(&[3, 4], 1)?;
        let message = |targets: &[u32], epsilon| cross_entropy(&z, targets, epsilon).unwrap_err().to_string();
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
