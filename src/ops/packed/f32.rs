//! Weights in f32, in the order in which the kernel reads them.
//!
//! Each element of the result is one chain of fused multiply-adds that starts at the bias and runs over the inputs in
//! rising order, in every code path: the same bits on every processor.

use super::super::kernel::{Matrix, Output, Start, matmul};
use super::super::lanes::LANES;
use super::super::simd::simd;
use super::Finish;
use std::ops::Range;

/// Columns of a panel: three registers of AVX-512, with eight rows of the input 24 accumulators.
pub const PANEL: usize = 48;

/// Inputs after which a chain is put aside while others run over the same weights (24 KiB of them).
const INNER: usize = 128;

/// The weights of a layer.
#[derive(Debug)]
pub struct F32 {
    /// Panel after panel, each [n_in, 48] row-major; the last one is narrower, a multiple of 16, with zeros in the
    /// columns past n_out.
    panels: Vec<f32>,
    n_in: usize,
    n_out: usize,
}

impl F32 {
    /// The rows of `weight` [n_out, n_in] as the columns of panels.
    pub fn new(weight: &[f32], n_in: usize) -> Self {
        let n_out = weight.len() / n_in;
        let mut panels = vec![0.0; n_out.next_multiple_of(LANES) * n_in];
        for (panel, rows) in panels.chunks_mut(PANEL * n_in).zip(weight.chunks(PANEL * n_in)) {
            let width = panel.len() / n_in;
            for (column, row) in rows.chunks_exact(n_in).enumerate() {
                for (input, &weight) in row.iter().enumerate() {
                    panel[input * width + column] = weight;
                }
            }
        }
        F32 { panels, n_in, n_out }
    }

    /// Memory.
    pub fn bytes(&self) -> usize {
        size_of_val(self.panels.as_slice())
    }

    /// 48 columns each.
    pub fn panels(&self) -> usize {
        self.n_out.div_ceil(PANEL)
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
        let first = panel * PANEL;
        let columns = (self.n_out - first).min(PANEL);
        let width = columns.next_multiple_of(LANES);
        let mut start = finish.bias.map_or(Start::Zero, |bias| Start::Bias(&bias[first..]));
        // In parts of the inner side where several blocks of rows read the panel, so that it stays in the first cache.
        let step = if rows.len() > 8 { INNER } else { self.n_in };
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
