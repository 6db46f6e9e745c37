//! Adam (Kingma and Ba 2015, algorithm 1; section 5.3 of the paper), in place.
//!
//! m ← β1·m + (1 - β1)·g, v ← β2·v + (1 - β2)·g², θ ← θ - lr · m̂ / (√v̂ + ε) with m̂ = m / (1 - β1^t) and
//! v̂ = v / (1 - β2^t). ε stands outside the root and v̂ is corrected before ε is added, as in PyTorch.

use super::cpu::{self, numbers, numbers_mut};
use super::simd::simd;
use crate::{Error, Result};
use candle_core::{CpuStorage, InplaceOp2, InplaceOp3, Layout, Tensor, Var, bail};

/// Settings of one step of Adam.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamOptions {
    /// The learning rate of this step.
    pub lr: f64,
    /// Decay of the mean of gradients.
    pub beta1: f64,
    /// Decay of the mean of squared gradients.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// What gradients are multiplied by first: 1 / target tokens, and the factor of clipping.
    pub grad_scale: f64,
}

impl Default for AdamOptions {
    /// The paper's β1 = 0.9, β2 = 0.98, ε = 1e-9, at rate 0: the schedule sets it.
    fn default() -> Self {
        AdamOptions { lr: 0.0, beta1: 0.9, beta2: 0.98, eps: 1e-9, grad_scale: 1.0 }
    }
}

impl AdamOptions {
    /// lr / (1 - β1^t) and 1 / (1 - β2^t): the corrections for moments that start at 0.
    fn corrections(&self, step: u64) -> (f64, f64) {
        let t = step as f64;
        (self.lr / (1.0 - self.beta1.powf(t)), 1.0 / (1.0 - self.beta2.powf(t)))
    }
}

/// One step of `param`, its first moment `m` and second moment `v` (all of one shape), in ordinary tensor operations.
pub fn adam_step_plain(
    param: &Var,
    grad: &Tensor,
    m: &Var,
    v: &Var,
    step: u64,
    options: &AdamOptions,
) -> Result<()> {
    check(param, grad, m, v, step)?;
    if param.elem_count() == 0 {
        return Ok(());
    }
    let AdamOptions { beta1, beta2, eps, grad_scale, .. } = *options;
    let grad = (grad.detach() * grad_scale)?;
    m.set(&((m.as_detached_tensor() * beta1)? + (&grad * (1.0 - beta1))?)?)?;
    v.set(&((v.as_detached_tensor() * beta2)? + (grad.sqr()? * (1.0 - beta2))?)?)?;
    let (rate, correction) = options.corrections(step);
    let root = ((v.as_detached_tensor() * correction)?.sqrt()? + eps)?;
    let change = (m.as_detached_tensor() / root)?;
    Ok(param.set(&(param.as_detached_tensor() - (change * rate)?)?)?)
}

/// One step of `param`, its first moment `m` and second moment `v` (all of one shape). `step` counts from 1.
pub fn adam_step(
    param: &Var,
    grad: &Tensor,
    m: &Var,
    v: &Var,
    step: u64,
    options: &AdamOptions,
) -> Result<()> {
    if !cpu::fused(&[param, grad, m, v]) {
        return adam_step_plain(param, grad, m, v, step, options);
    }
    check(param, grad, m, v, step)?;
    // One pass over all four would need an operation that writes three tensors; three passes read the gradient and the moments twice.
    let scale = options.grad_scale as f32;
    m.inplace_op2(
        grad,
        &FirstMoment { beta: options.beta1 as f32, rest: (1.0 - options.beta1) as f32, scale },
    )?;
    v.inplace_op2(
        grad,
        &SecondMoment { beta: options.beta2 as f32, rest: (1.0 - options.beta2) as f32, scale },
    )?;
    let (rate, correction) = options.corrections(step);
    let update = Update { rate: rate as f32, correction: correction as f32, eps: options.eps as f32 };
    Ok(param.inplace_op3(m, v, &update)?)
}

fn check(param: &Tensor, grad: &Tensor, m: &Tensor, v: &Tensor, step: u64) -> Result<()> {
    if step == 0 {
        return Err(Error::Config("Adam counts steps from 1, found 0".into()));
    }
    let dims = [param, grad, m, v].map(Tensor::dims);
    if dims.iter().any(|&other| other != dims[0]) {
        return Err(Error::Config(format!(
            "Adam needs a parameter, a gradient and two moments of one shape, found {dims:?}"
        )));
    }
    Ok(())
}

/// m ← β1·m + (1 - β1)·g.
struct FirstMoment {
    beta: f32,
    rest: f32,
    scale: f32,
}

impl InplaceOp2 for FirstMoment {
    fn name(&self) -> &'static str {
        "adam first moment"
    }

    fn cpu_fwd(
        &self,
        m: &mut CpuStorage,
        m_layout: &Layout,
        grad: &CpuStorage,
        grad_layout: &Layout,
    ) -> candle_core::Result<()> {
        let (m, grad) = (numbers_mut(m, m_layout)?, numbers(grad, grad_layout)?);
        cpu::map_mut(m, cpu::CHUNK, |start, m| {
            first_moment(m, &grad[start..start + m.len()], self.beta, self.rest, self.scale);
        });
        Ok(())
    }
}

simd! {
    fn first_moment(m: &mut [f32], grad: &[f32], beta: f32, rest: f32, scale: f32) {
        for (m, &g) in m.iter_mut().zip(grad) {
            *m = beta * *m + rest * (g * scale);
        }
    }
}

/// v ← β2·v + (1 - β2)·g².
struct SecondMoment {
    beta: f32,
    rest: f32,
    scale: f32,
}

impl InplaceOp2 for SecondMoment {
    fn name(&self) -> &'static str {
        "adam second moment"
    }

    fn cpu_fwd(
        &self,
        v: &mut CpuStorage,
        v_layout: &Layout,
        grad: &CpuStorage,
        grad_layout: &Layout,
    ) -> candle_core::Result<()> {
        let (v, grad) = (numbers_mut(v, v_layout)?, numbers(grad, grad_layout)?);
        cpu::map_mut(v, cpu::CHUNK, |start, v| {
            second_moment(v, &grad[start..start + v.len()], self.beta, self.rest, self.scale);
        });
        Ok(())
    }
}

simd! {
    fn second_moment(v: &mut [f32], grad: &[f32], beta: f32, rest: f32, scale: f32) {
        for (v, &g) in v.iter_mut().zip(grad) {
            let g = g * scale;
            *v = beta * *v + rest * (g * g);
        }
    }
}

/// θ ← θ - rate · m / (√(v · correction) + ε).
struct Update {
    rate: f32,
    correction: f32,
    eps: f32,
}

impl InplaceOp3 for Update {
    fn name(&self) -> &'static str {
        "adam update"
    }

    fn cpu_fwd(
        &self,
        param: &mut CpuStorage,
        param_layout: &Layout,
        m: &CpuStorage,
        m_layout: &Layout,
        v: &CpuStorage,
        v_layout: &Layout,
    ) -> candle_core::Result<()> {
        let (m, v) = (numbers(m, m_layout)?, numbers(v, v_layout)?);
        let param = numbers_mut(param, param_layout)?;
        if m.len() != param.len() || v.len() != param.len() {
            bail!("adam update: {} parameters, {} and {} moments", param.len(), m.len(), v.len());
        }
        cpu::map_mut(param, cpu::CHUNK, |start, param| {
            let piece = start..start + param.len();
            update(param, &m[piece.clone()], &v[piece], self.rate, self.correction, self.eps);
        });
        Ok(())
    }
}

simd! {
    fn update(param: &mut [f32], m: &[f32], v: &[f32], rate: f32, correction: f32, eps: f32) {
        for ((param, &m), &v) in param.iter_mut().zip(m).zip(v) {
            *param -= rate * (m / ((v * correction).sqrt() + eps));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{assert_close, flat, random};
    use super::super::simd::forced;
    use super::*;
    use candle_core::{DType, Device};

    type Step = fn(&Var, &Tensor, &Var, &Var, u64, &AdamOptions) -> Result<()>;

    /// θ, m and v after `steps` steps with gradients of a fixed stream.
    fn trained(adam: Step, dims: &[usize], steps: u64, options: &AdamOptions) -> Result<[Vec<f64>; 3]> {
        let param = Var::from_tensor(&random(dims, 1)?)?;
        let moments = [0, 1].map(|_| Var::zeros(dims, DType::F32, &Device::Cpu).unwrap());
        for step in 1..=steps {
            adam(&param, &random(dims, 1 + step)?, &moments[0], &moments[1], step, options)?;
        }
        Ok([flat(&param)?, flat(&moments[0])?, flat(&moments[1])?])
    }

    /// β1 = 0.5, β2 = 0.75, ε = 1, lr = 1, gradients 2 and 4 with scale 1/2, so 1 and 2.
    /// Step 1: m = 0.5, v = 0.25, m̂ = 1, v̂ = 1, θ = 10 - 1/(1 + 1) = 9.5.
    /// Step 2: m = 1.25, v = 1.1875, m̂ = 5/3, v̂ = 19/7, θ = 9.5 - (5/3)/(√(19/7) + 1) = 8.87051...
    #[test]
    fn two_steps_by_hand() -> Result<()> {
        let options = AdamOptions { lr: 1.0, beta1: 0.5, beta2: 0.75, eps: 1.0, grad_scale: 0.5 };
        for adam in [adam_step as Step, adam_step_plain] {
            let [param, m, v] = [10f32, 0., 0.].map(|x| Var::new(&[x], &Device::Cpu).unwrap());
            let expected =
                [[9.5, 0.5, 0.25], [9.5 - (5.0 / 3.0) / ((19f64 / 7.0).sqrt() + 1.0), 1.25, 1.1875]];
            for (step, grad) in [(1, 2f32), (2, 4.)] {
                adam(&param, &Tensor::new(&[grad], &Device::Cpu)?, &m, &v, step, &options)?;
                let found = [flat(&param)?[0], flat(&m)?[0], flat(&v)?[0]];
                assert_close(&found, &expected[step as usize - 1], 1e-7, "parameter and moments");
            }
        }
        Ok(())
    }

    #[test]
    fn fused_is_plain() -> Result<()> {
        let options = AdamOptions { lr: 0.01, grad_scale: 0.7, ..Default::default() };
        for dims in [&[0, 3][..], &[1, 1], &[5, 7], &[131, 257]] {
            let (fused, plain) =
                (trained(adam_step, dims, 3, &options)?, trained(adam_step_plain, dims, 3, &options)?);
            for (fused, plain) in fused.iter().zip(&plain) {
                assert_close(fused, plain, 1e-6, "parameter or moment");
            }
        }
        Ok(())
    }

    #[test]
    fn same_bits_on_every_path() {
        let options = AdamOptions { lr: 0.01, ..Default::default() };
        forced::same_everywhere(|| trained(adam_step, &[257, 131], 2, &options).unwrap());
    }

    #[test]
    fn what_does_not_fit_is_named() -> Result<()> {
        let var = Var::from_tensor(&random(&[2], 1)?)?;
        let (m, v) = (var.copy()?, var.copy()?);
        let (m, v) = (Var::from_tensor(&m)?, Var::from_tensor(&v)?);
        let options = AdamOptions::default();
        let error =
            |grad: &Tensor, step| adam_step(&var, grad, &m, &v, step, &options).unwrap_err().to_string();
        assert!(error(&random(&[3], 1)?, 1).contains("[3]"));
        assert!(error(&random(&[2], 1)?, 0).contains("from 1"));
        Ok(())
    }
}
