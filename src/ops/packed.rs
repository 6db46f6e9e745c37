//! y = x Wᵀ + b for inference on the CPU, with W packed once in the order in which the kernel reads it.
//!
//! Plain twin: `x.matmul(&w.t()?)? + b`. There is no backward pass; an input that is part of a graph is refused, since
//! its gradient would be lost without a word.
//!
//! The bits of an output row depend on that input row, W and b alone: each element is one chain of fused
//! multiply-adds that starts at the bias and runs over the inputs in rising order, in every code path, at any number
//! of rows and threads. So the translation of a sentence does not depend on its company, and decoding with cached
//! keys can equal the full pass. General matrix products do not promise this, and at few rows they are several times
//! slower, since they pack W anew at every call.

use candle_core::{DType, Device, Tensor};
use rayon::prelude::*;

use super::kernel::{Matrix, Output, filled, matmul};
use super::lanes::LANES;
use super::rows::{Rows, in_rows};
use crate::{Error, Result};

/// Columns of a panel: three registers of AVX-512, with eight rows of the input 24 accumulators.
const PANEL: usize = 48;

/// Multiply-adds below which a second thread costs more than it saves.
const SERIAL: usize = 1 << 18;

/// Rows of the input that one task takes, so that they stay in the cache next to a panel.
const MOST_ROWS: usize = 128;

/// A linear layer with packed weights.
#[derive(Debug)]
pub struct PackedLinear {
    /// Panel after panel, each [n_in, 48] row-major; the last one is narrower, a multiple of 16, with zeros in the
    /// columns past n_out.
    panels: Vec<f32>,
    bias: Option<Vec<f32>>,
    n_in: usize,
    n_out: usize,
}

impl PackedLinear {
    /// Packs `weight` [o, i] and `bias` \[o\], in any float type, from the CPU.
    pub fn new(weight: &Tensor, bias: Option<&Tensor>) -> Result<Self> {
        let (n_out, n_in) = weight.dims2()?;
        if let Some(bias) = bias.filter(|bias| bias.dims() != [n_out]) {
            let found = bias.dims();
            return Err(Error::Data(format!(
                "packed linear: expected a bias of shape [{n_out}], found {found:?}"
            )));
        }
        if n_in == 0 || n_out == 0 {
            return Err(Error::Data(format!(
                "packed linear: expected at least one input and output, found a weight of shape [{n_out}, {n_in}]"
            )));
        }
        on_cpu(weight)?;
        let weight = weight.to_dtype(DType::F32)?.contiguous()?;
        let weight = Rows::of(&weight)?;
        let bias = bias.map(|bias| bias.to_dtype(DType::F32)?.to_vec1::<f32>()).transpose()?;
        Ok(Self { panels: pack(weight.matrix()?.data, n_in, n_out), bias, n_in, n_out })
    }

    /// x [n, i] → [n, o], in f32.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (n, n_in) = x.dims2()?;
        if n_in != self.n_in {
            let expected = self.n_in;
            return Err(Error::Data(format!(
                "packed linear: expected rows of {expected} numbers, found {n_in}"
            )));
        }
        if x.track_op() {
            return Err(Error::Data(
                "packed linear: the input is part of a graph, but there is no backward pass; detach it, or use the \
                 plain layer in training"
                    .into(),
            ));
        }
        on_cpu(x)?;
        let x = in_rows(&x.to_dtype(DType::F32)?)?;
        let x = Rows::of(&x)?;
        let x = x.matrix()?;
        // SAFETY: `fill` writes every row of every panel.
        let y = unsafe { filled(n * self.n_out, |y| self.fill(n, x, Output::new(y, self.n_out))) };
        Ok(Tensor::from_vec(y, (n, self.n_out), &Device::Cpu)?)
    }

    /// The memory of the packed weights and the bias.
    pub fn bytes(&self) -> usize {
        (self.panels.len() + self.bias.as_ref().map_or(0, Vec::len)) * size_of::<f32>()
    }

    /// The width of an input row.
    pub fn n_in(&self) -> usize {
        self.n_in
    }

    /// The width of an output row.
    pub fn n_out(&self) -> usize {
        self.n_out
    }

    /// Writes y = x Wᵀ + b for n rows: a task is a panel and a block of rows.
    fn fill(&self, n: usize, x: Matrix<'_>, y: Output<'_>) {
        let panels = self.n_out.div_ceil(PANEL);
        if n * self.n_in * self.n_out < SERIAL {
            for panel in 0..panels {
                self.task(panel, 0, n, x, y);
            }
            return;
        }
        // Two blocks at least where there are rows enough, so that few panels are spread evenly.
        let blocks = n.div_ceil(MOST_ROWS).max(if n >= 16 { 2 } else { 1 });
        let rows = n.div_ceil(blocks).next_multiple_of(8);
        (0..panels * n.div_ceil(rows)).into_par_iter().for_each(|task| {
            let start = task / panels * rows;
            self.task(task % panels, start, (n - start).min(rows), x, y);
        });
    }

    /// One panel's columns of the rows from `start`.
    fn task(&self, panel: usize, start: usize, rows: usize, x: Matrix<'_>, y: Output<'_>) {
        let first = panel * PANEL;
        let columns = (self.n_out - first).min(PANEL);
        let weights = Matrix::rows(&self.panels[first * self.n_in..], columns.next_multiple_of(LANES));
        let bias = self.bias.as_ref().map(|bias| &bias[first..]);
        // SAFETY: no two tasks have both panel and rows in common.
        unsafe { matmul((rows, columns, self.n_in), x.from(start, 0), weights, bias, y.from(start, first)) }
    }
}

/// The rows of `weight` [n_out, n_in] as the columns of panels.
fn pack(weight: &[f32], n_in: usize, n_out: usize) -> Vec<f32> {
    let mut panels = vec![0.0; n_out.next_multiple_of(LANES) * n_in];
    for (panel, rows) in panels.chunks_mut(PANEL * n_in).zip(weight.chunks(PANEL * n_in)) {
        let width = panel.len() / n_in;
        for (column, row) in rows.chunks_exact(n_in).enumerate() {
            for (input, &weight) in row.iter().enumerate() {
                panel[input * width + column] = weight;
            }
        }
    }
    panels
}

fn on_cpu(x: &Tensor) -> Result<()> {
    match x.device() {
        Device::Cpu => Ok(()),
        device => Err(Error::Data(format!(
            "packed linear: expected a tensor on the CPU, found one on {device:?}; use the plain layer there"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::simd::forced;
    use super::*;
    use crate::rng::Rng;
    use candle_core::Var;

    fn tensor(seed: u64, shape: (usize, usize)) -> Tensor {
        let mut rng = Rng::new(seed, "packed");
        let values: Vec<f32> = (0..shape.0 * shape.1).map(|_| rng.normal() as f32).collect();
        Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
    }

    fn bits(y: &Tensor) -> Vec<u32> {
        y.flatten_all().unwrap().to_vec1::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
    }

    #[test]
    fn forward_by_hand() {
        let weight = Tensor::new(&[[1f32, 2.0], [0.0, -1.0], [3.0, 0.5]], &Device::Cpu).unwrap();
        let bias = Tensor::new(&[10f32, 20.0, 30.0], &Device::Cpu).unwrap();
        let x = Tensor::new(&[[1f32, 4.0]], &Device::Cpu).unwrap();
        let y =
            |bias| PackedLinear::new(&weight, bias).unwrap().forward(&x).unwrap().to_vec2::<f32>().unwrap();
        assert_eq!(y(None), [[9.0, -4.0, 5.0]]);
        assert_eq!(y(Some(&bias)), [[19.0, 16.0, 35.0]]);
    }

    /// The law in its plainest form: one chain in rising order, rounded once a step. At every level and number of
    /// threads, over sizes around the panel and the register block.
    #[test]
    fn every_element_is_one_chain() {
        for (n, i, o) in
            [(1, 1, 1), (1, 7, 15), (3, 33, 16), (7, 64, 17), (8, 20, 47), (9, 5, 48), (17, 31, 49)]
                .into_iter()
                .chain([(16, 9, 96), (70, 3, 97), (130, 2, 100), (33, 130, 150)])
        {
            let (x, weight, bias) = (tensor(1, (n, i)), tensor(2, (o, i)), tensor(3, (1, o)));
            let layer = PackedLinear::new(&weight, Some(&bias.squeeze(0).unwrap())).unwrap();
            let found = forced::same_everywhere(|| bits(&layer.forward(&x).unwrap()));
            let rows = |t: &Tensor| t.to_vec2::<f32>().unwrap();
            let (x, weight, bias) = (rows(&x), rows(&weight), rows(&bias));
            let chain = |x: &[f32], w: &[f32], b: f32| x.iter().zip(w).fold(b, |y, (&x, &w)| x.mul_add(w, y));
            let expected: Vec<u32> = (x.iter())
                .flat_map(|x| weight.iter().zip(&bias[0]).map(|(w, &b)| chain(x, w, b).to_bits()))
                .collect();
            assert_eq!(found, expected, "n {n}, i {i}, o {o}");
        }
    }

    /// Any number of rows, on one thread and on two, with work above and below the threshold of parallel work.
    #[test]
    fn a_row_does_not_depend_on_its_company() {
        for (i, o) in [(40, 50), (128, 300)] {
            let (x, weight) = (tensor(4, (70, i)), tensor(5, (o, i)));
            let layer = PackedLinear::new(&weight, None).unwrap();
            let alone: Vec<Vec<u32>> =
                (0..70).map(|row| bits(&layer.forward(&x.narrow(0, row, 1).unwrap()).unwrap())).collect();
            for n in 1..=70 {
                for threads in [1, 2] {
                    let x = x.narrow(0, 70 - n, n).unwrap();
                    let found = forced::run(super::super::simd::level(), threads, || {
                        bits(&layer.forward(&x).unwrap())
                    });
                    assert!(found == alone[70 - n..].concat(), "i {i}, o {o}, n {n}, {threads} threads");
                }
            }
        }
    }

    #[test]
    fn equals_the_plain_twin() {
        let (x, weight, bias) = (tensor(6, (37, 200)), tensor(7, (130, 200)), tensor(8, (1, 130)));
        let layer = PackedLinear::new(&weight, Some(&bias.squeeze(0).unwrap())).unwrap();
        let plain = x.matmul(&weight.t().unwrap()).unwrap().broadcast_add(&bias).unwrap();
        let found = layer.forward(&x).unwrap();
        let worst = (found - plain).unwrap().abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap();
        assert!(worst < 1e-4, "{worst}");
    }

    #[test]
    fn rows_of_a_wider_tensor_are_read_in_place() {
        let (x, weight) = (tensor(9, (5, 60)), tensor(10, (20, 24)));
        let layer = PackedLinear::new(&weight, None).unwrap();
        let part = x.narrow(1, 30, 24).unwrap();
        let expected = bits(&layer.forward(&part.contiguous().unwrap()).unwrap());
        assert_eq!(bits(&layer.forward(&part).unwrap()), expected);
        let turned = part.t().unwrap().contiguous().unwrap().t().unwrap();
        assert_eq!(bits(&layer.forward(&turned).unwrap()), expected);
    }

    #[test]
    fn no_rows_give_no_rows() {
        let layer = PackedLinear::new(&tensor(1, (3, 4)), None).unwrap();
        let x = Tensor::zeros((0, 4), DType::F32, &Device::Cpu).unwrap();
        assert_eq!(layer.forward(&x).unwrap().dims(), [0, 3]);
    }

    #[test]
    fn memory_is_the_rounded_width() {
        let bias = Tensor::zeros(50, DType::F32, &Device::Cpu).unwrap();
        assert_eq!(PackedLinear::new(&tensor(1, (50, 10)), Some(&bias)).unwrap().bytes(), (64 * 10 + 50) * 4);
    }

    #[test]
    fn mistakes_are_named() {
        let weight = tensor(1, (3, 4));
        let layer = PackedLinear::new(&weight, None).unwrap();
        let message = layer.forward(&tensor(1, (2, 5))).unwrap_err().to_string();
        assert!(message.contains("expected rows of 4 numbers, found 5"), "{message}");
        let var = Var::from_tensor(&tensor(1, (2, 4))).unwrap();
        let message = layer.forward(&var).unwrap_err().to_string();
        assert!(message.contains("no backward pass"), "{message}");
        let bias = Tensor::zeros(4, DType::F32, &Device::Cpu).unwrap();
        let message = PackedLinear::new(&weight, Some(&bias)).err().unwrap().to_string();
        assert!(message.contains("expected a bias of shape [3], found [4]"), "{message}");
    }
}
