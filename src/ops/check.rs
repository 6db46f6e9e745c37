//! What the tests of the operations share: random tensors, parity of two forms of an operation in values and
//! gradients, and finite differences.

use crate::Result;
use crate::rng::Rng;
use candle_core::{DType, Device, Tensor, Var};

/// A standard normal f32 tensor that is a function of its seed.
pub fn random(dims: &[usize], seed: u64) -> Result<Tensor> {
    let mut rng = Rng::new(seed, "test");
    let numbers: Vec<f32> = (0..dims.iter().product()).map(|_| rng.normal() as f32).collect();
    Ok(Tensor::from_vec(numbers, dims, &Device::Cpu)?)
}

/// The numbers of a tensor as f64.
pub fn flat(x: &Tensor) -> Result<Vec<f64>> {
    Ok(x.to_dtype(DType::F64)?.flatten_all()?.to_vec1()?)
}

/// The result of `op` at `args` and the gradient of a random projection of it by each argument.
pub fn value_and_gradients(
    args: &[Tensor],
    op: impl Fn(&[Tensor]) -> Result<Tensor>,
) -> Result<Vec<Vec<f64>>> {
    let vars = args.iter().map(|arg| Ok(Var::from_tensor(&arg.copy()?)?)).collect::<Result<Vec<_>>>()?;
    let tensors: Vec<Tensor> = vars.iter().map(|var| var.as_tensor().clone()).collect();
    let y = op(&tensors)?;
    let direction = random(y.dims(), 99)?.to_dtype(y.dtype())?;
    let grads = (&y * direction)?.sum_all()?.backward()?;
    let mut all = vec![flat(&y)?];
    for var in &vars {
        all.push(flat(grads.get(var).expect("a gradient for every argument"))?);
    }
    Ok(all)
}

/// Asserts that two vectors agree within `tolerance`, relative to the larger of 1 and the largest number.
pub fn assert_close(a: &[f64], b: &[f64], tolerance: f64, what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    let scale = b.iter().fold(1.0, |m: f64, x| m.max(x.abs()));
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert!((a - b).abs() <= tolerance * scale, "{what}, number {i}: {a} and {b}");
    }
}

/// Asserts that two forms of an operation agree in value and in every gradient.
pub fn assert_parity(
    args: &[Tensor],
    fused: impl Fn(&[Tensor]) -> Result<Tensor>,
    plain: impl Fn(&[Tensor]) -> Result<Tensor>,
    tolerance: f64,
) -> Result<()> {
    let (fused, plain) = (value_and_gradients(args, fused)?, value_and_gradients(args, plain)?);
    for (i, (a, b)) in fused.iter().zip(&plain).enumerate() {
        let what = if i == 0 { "value".to_string() } else { format!("gradient of argument {}", i - 1) };
        assert_close(a, b, tolerance, &format!("{what}, first argument {:?}", args[0].dims()));
    }
    Ok(())
}

/// Asserts that the gradients of a plain form, in f64, are those of central differences.
pub fn assert_gradients(args: &[Tensor], op: impl Fn(&[Tensor]) -> Result<Tensor>) -> Result<()> {
    let args = args.iter().map(|arg| Ok(arg.to_dtype(DType::F64)?)).collect::<Result<Vec<_>>>()?;
    let gradients = value_and_gradients(&args, &op)?;
    let direction = flat(&random(op(&args)?.dims(), 99)?)?;
    let value = |args: &[Tensor]| -> Result<f64> {
        Ok(flat(&op(args)?)?.iter().zip(&direction).map(|(y, d)| y * d).sum())
    };
    for (index, arg) in args.iter().enumerate() {
        let numbers = flat(arg)?;
        for i in 0..numbers.len() {
            let shifted = |step: f64| -> Result<f64> {
                let (mut args, mut numbers) = (args.clone(), numbers.clone());
                numbers[i] += step;
                args[index] = Tensor::from_vec(numbers, arg.shape(), arg.device())?;
                value(&args)
            };
            let difference = (shifted(1e-5)? - shifted(-1e-5)?) / 2e-5;
            let gradient = gradients[1 + index][i];
            assert!(
                (difference - gradient).abs() < 1e-7 * gradient.abs().max(1.0),
                "argument {index}, number {i}: {gradient} and {difference}"
            );
        }
    }
    Ok(())
}
