//! Adam with the paper's schedule (section 5.3), clipping by global norm, and the assertion of the first step that
//! every parameter learns.

use crate::error::{Error, Result};
use crate::ops::{AdamOptions, adam_step, grad_norm};
use candle_core::backprop::GradStore;
use candle_core::{Tensor, Var};
use std::collections::BTreeMap;

/// lr = factor · d^-0.5 · min(step^-0.5, step · warmup^-1.5), written by its peak lr = factor · (d · warmup)^-0.5:
/// peak · min((warmup/step)^0.5, step/warmup). Steps count from 1.
pub fn learning_rate(peak: f64, warmup_steps: u64, step: u64) -> f64 {
    let (step, warmup) = (step.max(1) as f64, warmup_steps.max(1) as f64);
    peak * (warmup / step).sqrt().min(step / warmup)
}

/// What the learning rate of `step` is multiplied by so that it falls to zero in a straight line over the last `cooldown` of
/// `max_steps` steps.
pub fn cooldown(cooldown: u64, max_steps: u64, step: u64) -> f64 {
    let left = (max_steps + 1).saturating_sub(step);
    (left as f64 / (cooldown + 1) as f64).min(1.0)
}

/// What a gradient of norm `norm` is multiplied by so that its norm is at most `clip_norm` (0 = off).
pub fn clip_scale(norm: f64, clip_norm: f64) -> f64 {
    if clip_norm > 0.0 { (clip_norm / (norm + 1e-6)).min(1.0) } else { 1.0 }
}

/// The moments of Adam, by the name of the parameter.
#[derive(Debug)]
pub struct Optimizer {
    moments: BTreeMap<String, Moments>,
}

#[derive(Debug)]
struct Moments {
    m: Var,
    v: Var,
}

/// Names of the first and second moments in a checkpoint.
const PREFIXES: [&str; 2] = ["m.", "v."];

impl Optimizer {
    /// Zero moments.
    pub fn new(variables: &BTreeMap<String, Var>) -> Result<Self> {
        let mut moments = BTreeMap::new();
        for (name, var) in variables {
            let zeros = || -> Result<Var> { Ok(Var::from_tensor(&var.zeros_like()?)?) };
            moments.insert(name.clone(), Moments { m: zeros()?, v: zeros()? });
        }
        Ok(Optimizer { moments })
    }

    /// One update of every variable; `grads` are multiplied by `grad_scale` first.
    pub fn step(
        &mut self,
        variables: &BTreeMap<String, Var>,
        grads: &BTreeMap<String, Tensor>,
        step: u64,
        lr: f64,
        grad_scale: f64,
    ) -> Result<()> {
        let options = AdamOptions { lr, grad_scale, ..AdamOptions::default() };
        for (name, Moments { m, v }) in &self.moments {
            adam_step(&variables[name], &grads[name], m, v, step, &options)?;
        }
        Ok(())
    }

    /// The moments as named tensors.
    pub fn to_tensors(&self) -> BTreeMap<String, Tensor> {
        let [m_prefix, v_prefix] = PREFIXES;
        let both = |(name, moments): (&String, &Moments)| {
            let m = (format!("{m_prefix}{name}"), moments.m.as_tensor().clone());
            [m, (format!("{v_prefix}{name}"), moments.v.as_tensor().clone())]
        };
        self.moments.iter().flat_map(both).collect()
    }

    /// Takes saved moments back; each variable must have both, in its shape.
    pub fn load(&mut self, tensors: &BTreeMap<String, Tensor>) -> Result<()> {
        let [m_prefix, v_prefix] = PREFIXES;
        for (name, moments) in &self.moments {
            for (prefix, var) in [(m_prefix, &moments.m), (v_prefix, &moments.v)] {
                let name = format!("{prefix}{name}");
                match tensors.get(&name).filter(|saved| saved.shape() == var.shape()) {
                    Some(saved) => var.set(saved)?,
                    None => {
                        return Err(Error::Config(format!(
                            "the saved optimizer lacks {name} {:?}",
                            var.dims()
                        )));
                    }
                }
            }
        }
        Ok(())
    }
}

/// The gradient of every variable; one without gradient has zeros.
pub fn collect(grads: &GradStore, variables: &BTreeMap<String, Var>) -> Result<BTreeMap<String, Tensor>> {
    let mut named = BTreeMap::new();
    for (name, var) in variables {
        let grad = match grads.get(var.as_tensor()) {
            Some(grad) => grad.contiguous()?,
            None => var.zeros_like()?,
        };
        named.insert(name.clone(), grad);
    }
    Ok(named)
}

/// The global norm √Σ‖g‖², summed in name order.
pub fn global_norm(grads: &BTreeMap<String, Tensor>) -> Result<f64> {
    grad_norm(&grads.values().cloned().collect::<Vec<_>>())
}

/// Refuses to train a model of which a part does not learn: every gradient must be finite, and not all zero but for
/// `k_proj.bias`, whose gradient is zero by mathematics (softmax does not change when all scores of a query do).
pub fn check_gradients(grads: &BTreeMap<String, Tensor>) -> Result<()> {
    let (mut infinite, mut zero) = (Vec::new(), Vec::new());
    for (name, grad) in grads {
        let norm = grad_norm(std::slice::from_ref(grad))?;
        if !norm.is_finite() {
            infinite.push(name.as_str());
        } else if norm == 0.0 && !name.ends_with("k_proj.bias") {
            zero.push(name.as_str());
        }
    }
    if infinite.is_empty() && zero.is_empty() {
        return Ok(());
    }
    Err(Error::Numeric(format!(
        "in the first step these parameters have no gradient: [{}]; and these one that is not finite: [{}]",
        zero.join(", "),
        infinite.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Device;

    /// 3 of 10 steps: 3/4, 2/4 and 1/4 of the rate, after which it would be 0.
    #[test]
    fn a_cooldown_is_a_straight_line_to_zero() {
        let factors: Vec<f64> = (1..=11).map(|step| cooldown(3, 10, step)).collect();
        assert_eq!(factors, [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0]);
        assert_eq!([1, 9, 10].map(|step| cooldown(0, 10, step)), [1.0; 3]);
    }

    /// d = 512, warmup 4,000, factor 1: at step 4,000 512^-0.5 · 4000^-0.5 = 6.9877e-4, at step 1 a 4,000th of it,
    /// at step 16,000 half of it.
    #[test]
    fn learning_rate_is_the_papers() {
        let peak = (512.0f64 * 4000.0).powf(-0.5);
        assert!((peak - 6.987_712e-4).abs() < 1e-9);
        assert!((learning_rate(peak, 4000, 4000) - peak).abs() < 1e-12);
        assert!((learning_rate(peak, 4000, 1) - peak / 4000.0).abs() < 1e-12);
        assert!((learning_rate(peak, 4000, 16_000) - peak / 2.0).abs() < 1e-12);
    }

    #[test]
    fn warmup_of_zero_and_one_gives_finite_falling_rates() {
        for warmup in [0, 1] {
            let rates: Vec<f64> = (1..4).map(|step| learning_rate(1.0, warmup, step)).collect();
            assert!(
                (rates[0] - 1.0).abs() < 1e-12 && rates[1] < rates[0] && rates[2] < rates[1],
                "{rates:?}"
            );
        }
    }

    #[test]
    fn clipping_scales_long_gradients_only() {
        assert!((clip_scale(4.0, 1.0) - 0.25).abs() < 1e-6);
        assert_eq!(clip_scale(0.5, 1.0), 1.0);
        assert_eq!(clip_scale(400.0, 0.0), 1.0);
    }

    #[test]
    fn check_gradients_names_what_does_not_learn() {
        let tensor = |values: &[f32]| Tensor::new(values, &Device::Cpu).unwrap();
        let mut grads = BTreeMap::from([
            ("a".to_string(), tensor(&[1.0, 0.0])),
            ("layer.k_proj.bias".to_string(), tensor(&[0.0, 0.0])),
        ]);
        check_gradients(&grads).unwrap();
        grads.insert("b".into(), tensor(&[0.0, 0.0]));
        grads.insert("c".into(), tensor(&[f32::NAN, 0.0]));
        let message = check_gradients(&grads).unwrap_err().to_string();
        assert!(message.contains("[b]") && message.contains("[c]"), "{message}");
    }
}
