//! Weights in f32, in the order in which the kernel reads them.
//!
//! Each element of the result is one chain of fused multiply-adds that starts at the bias and runs over the inputs in
//! rising order, in every code path: the same bits on every processor.

use super::super::kernel::{Matrix, Output, Start, matmul};
use super::super::lanes::LANES;
use super::super::simd::{Level, level, simd};
use super::Finish;
use rayon::prelude::*;
use std::ops::Range;

/// Weights of a panel over which many rows run before the next ones: 24 KiB, so that they stay in the first cache.
const INNER: usize = 6144;

/// Columns of a panel: those that the kernel takes together, so that it reads the weights one after the other. With AVX-512
/// three registers, with eight rows of the input 24 accumulators.
fn panel_width() -> usize {
    #[cfg(target_arch = "x86_64")]
    if level() == Level::Avx512 {
        return 3 * LANES;
    }
    LANES
}

/// The weights of a layer.
#[derive(Debug)]
pub struct F32 {
    /// Panel after panel, each [n_in, width] row-major; the last one may be narrower, a multiple of 16, with zeros in the
    /// columns past n_out.
    panels: Vec<f32>,
    width: usize,
    n_in: usize,
    n_out: usize,
}

impl F32 {
    /// The rows of `weight` [n_out, n_in] as the columns of panels.
    pub fn new(weight: &[f32], n_in: usize) -> Self {
        let (n_out, most) = (weight.len() / n_in, panel_width());
        let mut panels = vec![0.0; n_out.next_multiple_of(LANES) * n_in];
        let each = panels.par_chunks_mut(most * n_in).zip(weight.par_chunks(most * n_in));
        each.for_each(|(panel, rows)| {
            let width = panel.len() / n_in;
            for (input, line) in panel.chunks_exact_mut(width).enumerate() {
                line.iter_mut()
                    .zip(rows[input..].iter().step_by(n_in))
                    .for_each(|(to, &weight)| *to = weight);
            }
        });
        F32 { panels, width: most, n_in, n_out }
    }

    /// Writes row `row` of the weight that was packed.
    pub fn row(&self, row: usize, out: &mut [f32]) {
        let (first, column) = (row / self.width * self.width, row % self.width);
        let width = (self.n_out - first).min(self.width).next_multiple_of(LANES);
        let panel = self.panels[first * self.n_in..].chunks_exact(width);
        out.iter_mut().zip(panel).for_each(|(out, inputs)| *out = inputs[column]);
    }

    /// Memory.
    pub fn bytes(&self) -> usize {
        size_of_val(self.panels.as_slice())
    }

    /// How many there are.
    pub fn panels(&self) -> usize {
        self.n_out.div_ceil(self.width)
    }

    /// Writes the columns of `panel` for `rows` of `x`.
    ///
    /// # Safety
    /// No other task may touch these elements of `y`.
    pub unsafe fn fill(
        &self,
        x: Matrix<'_>,
        rows: Range<usize>,
        panel: usize,
        finish: Finish<'_>,
        y: Output<'_>,
    ) {
        let first = panel * self.width;
        let columns = (self.n_out - first).min(self.width);
        let width = columns.next_multiple_of(LANES);
        let mut start = finish.bias.map_or(Start::Zero, |bias| Start::Bias(&bias[first..]));
        // In parts of the inner side where several blocks of rows read the panel, so that it stays in the first cache.
        let step = if rows.len() > 8 { INNER / width } else { self.n_in };
        for k in (0..self.n_in).step_by(step) {
            let weights = Matrix::rows(&self.panels[first * self.n_in + k * width..], width);
            let size = (rows.len(), columns, (self.n_in - k).min(step));
            // SAFETY: the caller's promise; the first part writes what the next ones add to.
            unsafe { matmul(size, x.from(rows.start, k), weights, start, y.from(rows.start, first)) };
            start = Start::Out;
        }
        if finish.relu {
            for row in rows {
                // SAFETY: as above; the product has just written them.
                relu(unsafe { y.row(row, first..first + columns).assume_init_mut() });
            }
        }
    }
}

simd! {
    /// max(0, y); NaN stays.
    fn relu(y: &mut [f32]) {
        for y in y {
            *y = if *y < 0.0 { 0.0 } else { *y };
        }
    }
}
