//! The affine map y = x·Wᵀ + b of every projection (sections 3.2.2 and 3.3 of the paper).
//!
//! W is stored \[o,i\] as in PyTorch. Backward, with g the gradient of y: dx = g·W, dW = gᵀ·x, db = Σ over the rows of g.
//! The inner half of the feed-forward sublayer takes max(0, y) on the way out, so that y itself is never stored.

use super::activation::activation_plain;
use super::compute::Compute;
use super::cpu::{self, Numbers, numbers};
use super::matmul::Matrix;
use super::simd::simd;
use crate::Result;
use crate::config::Activation;
use candle_core::{CpuStorage, CustomOp2, CustomOp3, Layout, Shape, Tensor, bail};

/// x \[n,i\], weight \[o,i\], bias \[o\] → \[n,o\], in ordinary tensor operations.
pub fn linear_plain(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let y = x.matmul(&weight.t()?)?;
    Ok(match bias {
        Some(bias) => y.broadcast_add(bias)?,
        None => y,
    })
}

/// x \[n,i\], weight \[o,i\], bias \[o\] → \[n,o\].
pub fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, compute: Compute) -> Result<Tensor> {
    apply(x, weight, bias, Linear { relu: false, compute })
}

/// max(0, x·Wᵀ + b), the inner half of the feed-forward sublayer, in ordinary tensor operations.
pub fn linear_relu_plain(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    activation_plain(&linear_plain(x, weight, bias)?, Activation::Relu)
}

/// max(0, x·Wᵀ + b): x \[n,i\], weight \[o,i\], bias \[o\] → \[n,o\].
pub fn linear_relu(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, compute: Compute) -> Result<Tensor> {
    apply(x, weight, bias, Linear { relu: true, compute })
}

fn apply(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, op: Linear) -> Result<Tensor> {
    Ok(match bias {
        Some(bias) if cpu::fused(&[x, weight, bias]) => x.apply_op3(weight, bias, op)?,
        None if cpu::fused(&[x, weight]) => x.apply_op2(weight, op)?,
        _ if op.relu => linear_relu_plain(x, weight, bias)?,
        _ => linear_plain(x, weight, bias)?,
    })
}

struct Linear {
    relu: bool,
    compute: Compute,
}

impl Linear {
    fn forward(
        &self,
        (x, x_layout): (&CpuStorage, &Layout),
        (weight, weight_layout): (&CpuStorage, &Layout),
        bias: Option<&[f32]>,
    ) -> candle_core::Result<(CpuStorage, Shape)> {
        let (n, i) = x_layout.shape().dims2()?;
        let (o, weight_i) = weight_layout.shape().dims2()?;
        if i != weight_i || bias.is_some_and(|bias| bias.len() != o) {
            let bias = bias.map(<[f32]>::len);
            bail!(
                "linear: x [{n}, {i}] needs a weight [o, {i}] and a bias [o], found [{o}, {weight_i}] and {bias:?}"
            );
        }
        let x = Matrix::new(numbers(x, x_layout)?, n, i);
        let weight = Matrix::new(numbers(weight, weight_layout)?, o, i);
        let mut y = self.compute.product(x, weight.t());
        if bias.is_some() || self.relu {
            let chunk = o.max(1) * cpu::rows_per_chunk(o);
            cpu::map_mut(&mut y, chunk, |_, rows| finish(rows, bias.unwrap_or(&[]), self.relu));
        }
        Ok((CpuStorage::F32(y), Shape::from((n, o))))
    }

    /// The gradients of x and W, each only if something below needs it, and of the bias if there is one.
    fn backward(
        &self,
        [x, weight, y, grad]: [&Tensor; 4],
        bias: Option<&Tensor>,
    ) -> candle_core::Result<[Option<Tensor>; 3]> {
        let ((n, i), (o, _)) = (x.dims2()?, weight.dims2()?);
        let grad = grad.contiguous()?;
        let grad = if self.relu { only_where_positive(y, &grad)? } else { grad };
        let grad = Numbers::of(&grad)?;
        let g = Matrix::new(&grad, n, o);
        let tensor = |numbers, shape: (usize, usize)| Tensor::from_vec(numbers, shape, x.device()).map(Some);
        let dx = match x.track_op() {
            true => tensor(self.compute.product(g, Matrix::new(&Numbers::of(weight)?, o, i)), (n, i))?,
            false => None,
        };
        let dweight = match weight.track_op() {
            true => tensor(self.compute.product(g.t(), Matrix::new(&Numbers::of(x)?, n, i)), (o, i))?,
            false => None,
        };
        let dbias = match bias.filter(|bias| bias.track_op()) {
            Some(bias) => Some(Tensor::from_vec(sum_rows(&grad, o), bias.shape(), bias.device())?),
            None => None,
        };
        Ok([dx, dweight, dbias])
    }
}

impl CustomOp2 for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
    ) -> candle_core::Result<(CpuStorage, Shape)> {
        self.forward((x, x_layout), (weight, weight_layout), None)
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        y: &Tensor,
        grad: &Tensor,
    ) -> candle_core::Result<(Option<Tensor>, Option<Tensor>)> {
        let [dx, dweight, _] = self.backward([x, weight, y, grad], None)?;
        Ok((dx, dweight))
    }
}

impl CustomOp3 for Linear {
    fn name(&self) -> &'static str {
        "linear"
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
        self.forward((x, x_layout), (weight, weight_layout), Some(numbers(bias, bias_layout)?))
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        bias: &Tensor,
        y: &Tensor,
        grad: &Tensor,
    ) -> candle_core::Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let [dx, dweight, dbias] = self.backward([x, weight, y, grad], Some(bias))?;
        Ok((dx, dweight, dbias))
    }
}

simd! {
    /// Adds the bias to every row (an empty one is no bias), then takes max(0, ·) if asked.
    pub(super) fn finish(rows: &mut [f32], bias: &[f32], relu: bool) {
        if !bias.is_empty() {
            for row in rows.chunks_exact_mut(bias.len()) {
                for (y, &bias) in row.iter_mut().zip(bias) {
                    *y += bias;
                }
            }
        }
        if relu {
            for y in rows {
                *y = if *y <= 0.0 { 0.0 } else { *y };
            }
        }
    }
}

/// `grad` where y is above 0 (or not a number), else 0.
fn only_where_positive(y: &Tensor, grad: &Tensor) -> candle_core::Result<Tensor> {
    let (ys, grads) = (Numbers::of(y)?, Numbers::of(grad)?);
    let (ys, grads): (&[f32], &[f32]) = (&ys, &grads);
    let (live, _) = cpu::build(ys.len(), cpu::CHUNK, |start, live| {
        let range = start..start + live.len();
        where_positive(&ys[range.clone()], &grads[range], live);
    });
    Tensor::from_vec(live, y.shape(), y.device())
}

simd! {
    fn where_positive(y: &[f32], grad: &[f32], live: &mut [f32]) {
        for ((live, &y), &grad) in live.iter_mut().zip(y).zip(grad) {
            *live = if y <= 0.0 { 0.0 } else { grad };
        }
    }
}

/// Σ over the rows of x \[n,d\] → \[d\]: fixed blocks of rows, then the blocks in order.
pub fn sum_rows(x: &[f32], d: usize) -> Vec<f32> {
    let blocks: Vec<&[f32]> = x.chunks((d * cpu::ROWS).max(1)).collect();
    let partial = cpu::map(blocks.len(), x.len(), |block| {
        let mut total = vec![0.0; d];
        add_rows(blocks[block], &mut total);
        total
    });
    cpu::sum_in_order(&partial, d)
}

simd! {
    /// Adds every row of `rows` to `total`.
    fn add_rows(rows: &[f32], total: &mut [f32]) {
        for row in rows.chunks_exact(total.len()) {
            for (total, &x) in total.iter_mut().zip(row) {
                *total += x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{assert_gradients, assert_parity, random};
    use super::super::simd::forced;
    use super::*;
    use Compute::F32;
    use candle_core::{Device, Var};

    #[test]
    fn by_hand() -> Result<()> {
        let x = Var::new(&[[1f32, 2.], [3., 4.]], &Device::Cpu)?;
        let weight = Var::new(&[[1f32, 0.], [2., 1.], [0., -1.]], &Device::Cpu)?;
        let bias = Var::new(&[10f32, 20., 30.], &Device::Cpu)?;
        let y = linear(&x, &weight, Some(&bias), F32)?;
        assert_eq!(y.to_vec2::<f32>()?, [[11., 24., 28.], [13., 30., 26.]]);
        assert_eq!(linear(&x, &weight, None, F32)?.to_vec2::<f32>()?, [[1., 4., -2.], [3., 10., -4.]]);
        let grads = y.sum_all()?.backward()?;
        let grad = |var: &Var| grads.get(var).unwrap().clone();
        assert_eq!(grad(&x).to_vec2::<f32>()?, [[3., 0.], [3., 0.]]);
        assert_eq!(grad(&weight).to_vec2::<f32>()?, [[4., 6.], [4., 6.], [4., 6.]]);
        assert_eq!(grad(&bias).to_vec1::<f32>()?, [2., 2., 2.]);
        Ok(())
    }

    #[test]
    fn fused_is_plain() -> Result<()> {
        for (n, i, o) in [(1, 1, 1), (1, 7, 5), (5, 3, 1), (130, 33, 17), (67, 64, 250)] {
            let (x, w, b) = (random(&[n, i], 1)?, random(&[o, i], 2)?, random(&[o], 3)?);
            let fused = |v: &[Tensor]| linear(&v[0], &v[1], v.get(2), F32);
            let plain = |v: &[Tensor]| linear_plain(&v[0], &v[1], v.get(2));
            let fused_relu = |v: &[Tensor]| linear_relu(&v[0], &v[1], v.get(2), F32);
            let plain_relu = |v: &[Tensor]| linear_relu_plain(&v[0], &v[1], v.get(2));
            for args in [&[x.clone(), w.clone(), b][..], &[x, w]] {
                assert_parity(args, fused, plain, 1e-5)?;
                assert_parity(args, fused_relu, plain_relu, 1e-5)?;
            }
        }
        Ok(())
    }

    #[test]
    fn gradients_are_finite_differences() -> Result<()> {
        let args = [random(&[3, 4], 1)?, random(&[2, 4], 2)?, random(&[2], 3)?];
        assert_gradients(&args, |v| linear_plain(&v[0], &v[1], Some(&v[2])))
    }

    #[test]
    fn no_rows() -> Result<()> {
        let x = Var::zeros((0, 3), candle_core::DType::F32, &Device::Cpu)?;
        let (weight, bias) = (Var::from_tensor(&random(&[2, 3], 1)?)?, Var::from_tensor(&random(&[2], 2)?)?);
        let y = linear(&x, &weight, Some(&bias), F32)?;
        assert_eq!(y.dims(), [0, 2]);
        let grads = y.sum_all()?.backward()?;
        assert_eq!(grads.get(&weight).unwrap().to_vec2::<f32>()?, [[0.; 3]; 2]);
        assert_eq!(grads.get(&bias).unwrap().to_vec1::<f32>()?, [0.; 2]);
        Ok(())
    }

    #[test]
    fn sum_rows_has_one_order_of_addition() {
        let x: Vec<f32> = (0..300 * 77).map(|i| (i as f32).sin() * 1e3).collect();
        let bits =
            forced::same_everywhere(|| sum_rows(&x, 77).into_iter().map(f32::to_bits).collect::<Vec<_>>());
        for (column, bits) in bits.into_iter().enumerate() {
            let exact: f64 = x.iter().skip(column).step_by(77).map(|&x| f64::from(x)).sum();
            assert!((f64::from(f32::from_bits(bits)) - exact).abs() < 0.05);
        }
    }

    #[test]
    fn sizes_that_do_not_fit_are_named() -> Result<()> {
        let error = linear(&random(&[2, 3], 1)?, &random(&[4, 5], 2)?, None, F32).unwrap_err().to_string();
        assert!(error.contains("[2, 3]") && error.contains("[4, 5]"), "{error}");
        Ok(())
    }
}
