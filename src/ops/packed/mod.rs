//! y = x Wᵀ + b for inference on the CPU, with W packed once in the order in which the kernels read it, in f32, bf16 or
//! int8.
//!
//! Plain twin: `x.matmul(&w.t()?)? + b`. There is no backward pass; an input that is part of a graph is refused, since
//! its gradient would be lost without a word.
//!
//! The bits of an output row depend on that input row, W and b alone, at any number of rows and threads. So the
//! translation of a sentence does not depend on its company, and decoding with cached keys can equal the full pass.
//! General matrix products do not promise this, and at few rows they are several times slower, since they pack W anew
//! at every call.

#[cfg(target_arch = "x86_64")]
mod amx;
mod bf16;
mod f32;
mod int8;
#[cfg(test)]
mod tests;
mod words;
#[cfg(target_arch = "x86_64")]
mod x86;

use candle_core::{DType, Device, Tensor};
use serde::Serialize;

use super::bf16::{Bf16Level, bf16_level, rounded};
use super::embedding::check_ids;
use super::kernel::{Matrix, Output, filled};
use super::log_softmax::{Scores, add_norms};
use super::rows::{Rows, in_rows};
use super::team::for_each;
use crate::{Error, Result};
pub use int8::Int8Matrix;

/// Multiply-adds below which a second thread costs more than it saves.
const SERIAL: usize = 1 << 18;

/// Rows of the input that one task of f32 takes, so that they stay in the cache next to a panel.
const MOST_ROWS: usize = 128;

/// The numbers that a packed layer multiplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// As they are.
    #[default]
    F32,
    /// Rounded to eight bits of mantissa.
    Bf16,
    /// Scaled to 127 by column and row and rounded to whole numbers.
    Int8,
}

impl Precision {
    /// What is fastest on this processor.
    pub fn fastest() -> Self {
        if int8::Level::available().len() > 1 { Precision::Int8 } else { Precision::F32 }
    }
}

/// A linear layer with packed weights.
#[derive(Debug)]
pub struct PackedLinear {
    weights: Weights,
    bias: Option<Vec<f32>>,
    n_in: usize,
    n_out: usize,
}

#[derive(Debug)]
enum Weights {
    F32(f32::F32),
    /// bf16 without instructions for it: rounded, and multiplied in f32.
    Rounded(f32::F32),
    #[cfg(target_arch = "x86_64")]
    Bf16(bf16::Bf16),
    Int8(int8::Int8),
}

impl Weights {
    fn new(weight: &[f32], n_in: usize, precision: Precision) -> Result<Self> {
        Ok(match (precision, bf16_level()) {
            (Precision::F32, _) => Weights::F32(f32::F32::new(weight, n_in)),
            (Precision::Bf16, Bf16Level::Plain) => Weights::Rounded(f32::F32::new(&rounded(weight), n_in)),
            #[cfg(target_arch = "x86_64")]
            (Precision::Bf16, level) => Weights::Bf16(bf16::Bf16::new(weight, n_in, level)),
            #[cfg(not(target_arch = "x86_64"))]
            (Precision::Bf16, _) => Weights::Rounded(f32::F32::new(&rounded(weight), n_in)),
            (Precision::Int8, _) => Weights::Int8(int8::Int8::new(weight, n_in)?),
        })
    }
}

/// What follows the product of a layer.
#[derive(Clone, Copy)]
struct Finish<'a> {
    bias: Option<&'a [f32]>,
    /// Whether negative results become zero.
    relu: bool,
}

impl PackedLinear {
    /// Packs `weight` [o, i] and `bias` \[o\], in any float type, from the CPU.
    pub fn new(weight: &Tensor, bias: Option<&Tensor>, precision: Precision) -> Result<Self> {
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
        let weights = Weights::new(&weight.matrix()?.data[..n_out * n_in], n_in, precision)?;
        let bias = bias.map(|bias| bias.to_dtype(DType::F32)?.to_vec1::<f32>()).transpose()?;
        Ok(Self { weights, bias, n_in, n_out })
    }

    /// x [n, i] → [n, o], in f32.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.run(x, false)
    }

    /// max(0, [`PackedLinear::forward`]).
    pub fn forward_relu(&self, x: &Tensor) -> Result<Tensor> {
        self.run(x, true)
    }

    fn run(&self, x: &Tensor, relu: bool) -> Result<Tensor> {
        let n = self.check(x)?;
        let x = in_rows(&x.to_dtype(DType::F32)?)?;
        let x = Rows::of(&x)?;
        let x = x.matrix()?;
        // SAFETY: `fill` writes every row of every panel.
        let y = unsafe { filled(n * self.n_out, |y| self.fill(n, x, relu, Output::new(y, self.n_out))) };
        Ok(Tensor::from_vec(y, (n, self.n_out), &Device::Cpu)?)
    }

    /// The rows of [`PackedLinear::forward`] as logits, in the memory of `scores`, with their norms, which are made of some rows
    /// at a time while these are in the cache.
    pub fn scores(&self, x: &Tensor, scores: &mut Scores) -> Result<()> {
        let n = self.check(x)?;
        let x = in_rows(&x.to_dtype(DType::F32)?)?;
        let x = Rows::of(&x)?;
        let x = x.matrix()?;
        let step = match self.weights {
            // Here reading the weights again would cost more.
            Weights::F32(_) | Weights::Rounded(_) => MOST_ROWS,
            _ => 32,
        };
        let Scores { logits, norms } = scores;
        logits.clear();
        norms.clear();
        logits.reserve(n * self.n_out);
        for start in (0..n).step_by(step) {
            let rows = (n - start).min(step);
            let len = rows * self.n_out;
            let y = Output::new(&mut logits.spare_capacity_mut()[..len], self.n_out);
            self.fill(rows, x.from(start, 0), false, y);
            // SAFETY: `fill` has written every row of every panel.
            unsafe { logits.set_len(logits.len() + len) };
            add_norms(&logits[logits.len() - len..], self.n_out, norms)?;
        }
        Ok(())
    }

    /// The rows `ids` of the weight, as its precision holds them: [n, i], in f32. An embedding that is also the output
    /// projection is looked up here.
    pub fn rows(&self, ids: &[u32]) -> Result<Tensor> {
        check_ids(ids, self.n_out)?;
        let mut rows = vec![0.0; ids.len() * self.n_in];
        for (out, &id) in rows.chunks_exact_mut(self.n_in).zip(ids) {
            let row = id as usize;
            match &self.weights {
                Weights::F32(weights) | Weights::Rounded(weights) => weights.row(row, out),
                #[cfg(target_arch = "x86_64")]
                Weights::Bf16(weights) => weights.row(row, out),
                Weights::Int8(weights) => weights.row(row, out),
            }
        }
        Ok(Tensor::from_vec(rows, (ids.len(), self.n_in), &Device::Cpu)?)
    }

    /// The number of rows of an input that fits.
    fn check(&self, x: &Tensor) -> Result<usize> {
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
        Ok(n)
    }

    /// The memory of the packed weights and the bias.
    pub fn bytes(&self) -> usize {
        let weights = match &self.weights {
            Weights::F32(weights) | Weights::Rounded(weights) => weights.bytes(),
            #[cfg(target_arch = "x86_64")]
            Weights::Bf16(weights) => weights.bytes(),
            Weights::Int8(weights) => weights.bytes(),
        };
        weights + self.bias.as_ref().map_or(0, |bias| size_of_val(bias.as_slice()))
    }

    /// The width of an input row.
    pub fn n_in(&self) -> usize {
        self.n_in
    }

    /// The width of an output row.
    pub fn n_out(&self) -> usize {
        self.n_out
    }

    /// Writes y = x Wᵀ + b for n rows.
    fn fill(&self, n: usize, x: Matrix<'_>, relu: bool, y: Output<'_>) {
        let finish = Finish { bias: self.bias.as_deref(), relu };
        match &self.weights {
            Weights::F32(weights) => self.fill_f32(weights, n, x, finish, y),
            Weights::Rounded(weights) => {
                let numbers: Vec<f32> =
                    (0..n).flat_map(|row| rounded(&x.data[row * x.row..][..self.n_in])).collect();
                self.fill_f32(weights, n, Matrix::rows(&numbers, self.n_in), finish, y);
            }
            #[cfg(target_arch = "x86_64")]
            Weights::Bf16(weights) => {
                let x = weights.inputs(x, (n, self.n_in));
                // SAFETY: no two ranges have a panel in common.
                self.ranges(n, weights.panels(), |panels| unsafe { weights.fill(&x, panels, finish, y) });
            }
            Weights::Int8(weights) => {
                let x = weights.inputs(x, (n, self.n_in));
                // SAFETY: as above.
                self.ranges(n, weights.panels(), |panels| unsafe { weights.fill(&x, panels, finish, y) });
            }
        }
    }

    /// A task is a panel and a block of rows.
    fn fill_f32(&self, weights: &f32::F32, n: usize, x: Matrix<'_>, finish: Finish<'_>, y: Output<'_>) {
        let panels = weights.panels();
        // SAFETY: no two tasks have both panel and rows in common.
        let task = |panel, rows| unsafe { weights.fill(x, rows, panel, finish, y) };
        let serial = self.serial(n);
        // Two blocks at least where there are rows enough for several threads, so that few panels are spread evenly.
        let blocks = n.div_ceil(MOST_ROWS).max(if n >= 16 && !serial { 2 } else { 1 });
        let size = n.div_ceil(blocks).next_multiple_of(8);
        let task = |index: usize| {
            let start = index / panels * size;
            task(index % panels, start..n.min(start + size));
        };
        let tasks = panels * n.div_ceil(size.max(1));
        if serial {
            (0..tasks).for_each(task);
        } else {
            for_each(tasks, task);
        }
    }

    /// All `panels` in ranges for the threads that there are.
    fn ranges(&self, n: usize, panels: usize, task: impl Fn(std::ops::Range<usize>) + Sync) {
        /// Panels that kernels take together.
        const TOGETHER: usize = 4;
        if self.serial(n) {
            return task(0..panels);
        }
        let size = panels.div_ceil(2 * rayon::current_num_threads()).next_multiple_of(TOGETHER);
        for_each(panels.div_ceil(size), |i| task(i * size..panels.min((i + 1) * size)));
    }

    /// Whether a product of n rows stays on the calling thread.
    fn serial(&self, n: usize) -> bool {
        n * self.n_in * self.n_out < SERIAL || rayon::current_num_threads() == 1
    }
}

fn on_cpu(x: &Tensor) -> Result<()> {
    match x.device() {
        Device::Cpu => Ok(()),
        device => Err(Error::Data(format!(
            "packed linear: expected a tensor on the CPU, found one on {device:?}; use the plain layer there"
        ))),
    }
}
