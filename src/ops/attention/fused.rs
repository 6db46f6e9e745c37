//! The fused form of [`super::attention`] on the CPU: no padding, no masks, no copies for the heads.
//!
//! A task is one head of one span. It reads the rows of its span in place, and no two tasks write the same element,
//! so results do not depend on the number of threads. By [`crate::ops::kernel`] a query's output depends on its row and on
//! the keys it sees alone, bit for bit: on a batch as alone, with cached keys as in the full pass.
//!
//! The backward pass computes the weights again instead of keeping them: with s and p the scores and weights of a
//! head, p' the weights after dropout and o the output,
//! dv = p'ᵀ do, dp' = do vᵀ, ds = p' ∘ dp' − p · Σ_keys(p' ∘ dp'), dq = ds k / √d_k, dk = dsᵀ q / √d_k.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp1, CustomOp2, Device, Layout, Shape, Tensor};

use super::{dropout_index, scale};
use crate::Result;
use crate::ops::dropout::Dropout;
use crate::ops::kernel::{Matrix, Output, Start, dots, filled, matmul};
use crate::ops::lanes::LANES;
use crate::ops::rows::{Rows, in_rows, rows};
use crate::ops::simd::{exp, max, simd, sum, sum2};
use crate::ops::spans::{Spans, Visible};
use crate::ops::team::for_each;

/// Multiply-adds below which a second thread costs more than it saves.
pub(super) const SERIAL: usize = 1 << 19;

/// With a causal mask, rows that are multiplied together: the hidden keys after the last one's are left out.
const CAUSAL_ROWS: usize = 16;

/// Attention as one operation of the graph.
pub(super) struct Fused {
    pub spans: Arc<Spans>,
    pub n_heads: usize,
    pub dropout: Option<Dropout>,
}

/// One head of one span.
struct Head {
    visible: Visible,
    /// The first query row, the first key row, and the first column.
    q: usize,
    k: usize,
    col: usize,
    /// d_k, the columns of the head.
    width: usize,
    index: usize,
}

/// Memory of a task.
struct Scratch {
    weights: Vec<f32>,
    dropped: Vec<f32>,
    grad: Vec<f32>,
}

thread_local! {
    /// Kept for the next task.
    static SCRATCH: RefCell<Scratch> =
        const { RefCell::new(Scratch { weights: Vec::new(), dropped: Vec::new(), grad: Vec::new() }) };
}

impl CustomOp1 for Fused {
    fn name(&self) -> &'static str {
        "self_attention"
    }

    fn cpu_fwd(&self, qkv: &CpuStorage, layout: &Layout) -> candle_core::Result<(CpuStorage, Shape)> {
        let (n, width) = layout.shape().dims2()?;
        let (qkv, d) = (rows(qkv, layout)?, width / 3);
        let out = self.forward([qkv, qkv.from(0, d), qkv.from(0, 2 * d)], n, d);
        Ok((CpuStorage::F32(out), (n, d).into()))
    }

    fn bwd(&self, qkv: &Tensor, _out: &Tensor, grad: &Tensor) -> candle_core::Result<Option<Tensor>> {
        let (n, width) = qkv.dims2()?;
        let (grad, d) = (in_rows(grad)?, width / 3);
        let (qkv, grad) = (Rows::of(qkv)?, Rows::of(&grad)?);
        let (qkv, grad) = (qkv.matrix()?, grad.matrix()?);
        let fill = |dqkv: Output<'_>| {
            zero_gaps(dqkv, self.spans.spans().iter().map(|span| &span.q), n, d);
            let (dk, dv) = (dqkv.from(0, d), dqkv.from(0, 2 * d));
            self.backward([qkv, qkv.from(0, d), qkv.from(0, 2 * d), grad], [dqkv, dk, dv], n, d);
        };
        // SAFETY: `zero_gaps` and `backward` write every row of the three column blocks.
        let dqkv = unsafe { filled(n * width, |out| fill(Output::new(out, width))) };
        Ok(Some(Tensor::from_vec(dqkv, (n, width), &Device::Cpu)?))
    }
}

impl CustomOp2 for Fused {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn cpu_fwd(
        &self,
        q: &CpuStorage,
        q_layout: &Layout,
        kv: &CpuStorage,
        kv_layout: &Layout,
    ) -> candle_core::Result<(CpuStorage, Shape)> {
        let (n, d) = q_layout.shape().dims2()?;
        let kv = rows(kv, kv_layout)?;
        let out = self.forward([rows(q, q_layout)?, kv, kv.from(0, d)], n, d);
        Ok((CpuStorage::F32(out), (n, d).into()))
    }

    fn bwd(
        &self,
        q: &Tensor,
        kv: &Tensor,
        _out: &Tensor,
        grad: &Tensor,
    ) -> candle_core::Result<(Option<Tensor>, Option<Tensor>)> {
        let ((n_q, d), (n_k, _)) = (q.dims2()?, kv.dims2()?);
        let grad = in_rows(grad)?;
        let (q, kv, grad) = (Rows::of(q)?, Rows::of(kv)?, Rows::of(&grad)?);
        let (q, kv, grad) = (q.matrix()?, kv.matrix()?, grad.matrix()?);
        let fill = |dq: Output<'_>, dkv: Output<'_>| {
            zero_gaps(dq, self.spans.spans().iter().map(|span| &span.q), n_q, d);
            self.backward([q, kv, kv.from(0, d), grad], [dq, dkv, dkv.from(0, d)], n_k, d);
        };
        let mut dkv = Vec::new();
        // SAFETY: `zero_gaps` and `backward` write every row of the three column blocks.
        let dq = unsafe {
            filled(n_q * d, |dq| {
                dkv = filled(n_k * 2 * d, |dkv| fill(Output::new(dq, d), Output::new(dkv, 2 * d)));
            })
        };
        let tensor = |grad, shape: (usize, usize)| Tensor::from_vec(grad, shape, &Device::Cpu).map(Some);
        Ok((tensor(dq, (n_q, d))?, tensor(dkv, (n_k, 2 * d))?))
    }
}

impl Fused {
    /// q [n_q, d], k and v [n_k, d] → [n_q, d].
    fn forward(&self, [q, k, v]: [Matrix<'_>; 3], n_q: usize, d: usize) -> Vec<f32> {
        let fill = |out: Output<'_>| {
            zero_gaps(out, self.spans.spans().iter().map(|span| &span.q), n_q, d);
            self.for_each_head(d, |head, scratch| {
                head.weights(q, k, &mut scratch.weights);
                if let Some(dropout) = self.dropout {
                    head.drop(dropout, self.n_heads, &mut scratch.weights);
                }
                // SAFETY: this task alone writes these rows and columns.
                unsafe { head.times_keys(&scratch.weights, v, out) };
            });
        };
        // SAFETY: every row is in a span, and written by its heads, or in a gap.
        unsafe { filled(n_q * d, |out| fill(Output::new(out, d))) }
    }

    /// The gradients of q, k and v (n_k rows) for q, k, v and the gradient of the output, but for the rows of dq in no span.
    fn backward(&self, inputs: [Matrix<'_>; 4], [dq, dk, dv]: [Output<'_>; 3], n_k: usize, d: usize) {
        for out in [dk, dv] {
            zero_gaps(out, self.spans.spans().iter().map(|span| &span.k), n_k, d);
        }
        self.for_each_head(d, |head, scratch| {
            // SAFETY: this task alone writes the rows and columns of its head.
            unsafe { self.head_backward(head, inputs, scratch, dq, dk, dv) }
        });
    }

    /// One head's part of [`Self::backward`]: the equations at the top of this file, in their order.
    ///
    /// # Safety
    /// No other task may write the rows and columns of this head.
    unsafe fn head_backward(
        &self,
        head: &Head,
        [q, k, v, grad]: [Matrix<'_>; 4],
        scratch: &mut Scratch,
        dq: Output<'_>,
        dk: Output<'_>,
        dv: Output<'_>,
    ) {
        let Scratch { weights, dropped, grad: ds } = scratch;
        head.weights(q, k, weights);
        if let Some(dropout) = self.dropout {
            dropped.clear();
            dropped.extend_from_slice(&weights[..head.len()]);
            head.drop(dropout, self.n_heads, dropped);
        }
        let dropped: &[f32] = if self.dropout.is_some() { dropped } else { weights };
        // SAFETY: as the caller's.
        unsafe { head.transposed_times_queries(dropped, grad, dv) };
        head.dots(grad, v, ds);
        let scale = scale(head.width) as f32;
        softmax_backward(
            &weights[..head.len()],
            dropped,
            &mut ds[..head.len()],
            head.pitch(),
            head.visible,
            scale,
        );
        // SAFETY: as the caller's.
        unsafe {
            head.times_keys(ds, k, dq);
            head.transposed_times_queries(ds, q, dk);
        }
    }

    /// `work` on every head of every span, on all threads if it is worth it.
    fn for_each_head(&self, d: usize, work: impl Fn(&Head, &mut Scratch) + Sync) {
        let (spans, n_heads) = (self.spans.spans(), self.n_heads);
        let head = |task: usize| head(&self.spans, task / n_heads, task % n_heads, d / n_heads);
        let tasks = spans.len() * n_heads;
        let products: usize = spans.iter().map(|span| span.q.len() * span.k.len() * d).sum();
        let task = |task| SCRATCH.with_borrow_mut(|scratch| work(&head(task), scratch));
        if products < SERIAL { (0..tasks).for_each(task) } else { for_each(tasks, task) }
    }
}

fn head(spans: &Spans, span: usize, index: usize, width: usize) -> Head {
    let span = &spans.spans()[span];
    Head { visible: spans.visible(span), q: span.q.start, k: span.k.start, col: index * width, width, index }
}

impl Head {
    /// Floats from one row of weights to the next: whole registers.
    fn pitch(&self) -> usize {
        self.visible.cols.next_multiple_of(LANES).max(LANES)
    }

    /// Floats of the weights of all queries.
    fn len(&self) -> usize {
        self.visible.rows * self.pitch()
    }

    /// out[i, j] = a_i · b_j for the queries i and the keys j that they see.
    fn dots(&self, a: Matrix<'_>, b: Matrix<'_>, out: &mut Vec<f32>) {
        if out.len() < self.len() {
            out.resize(self.len(), 0.0);
        }
        let (a, b) = (a.from(self.q, self.col), b.from(self.k, self.col));
        dots(self.visible, self.width, a, b, out, self.pitch());
    }

    /// softmax(q kᵀ / √d_k), zero after the keys that a query sees.
    fn weights(&self, q: Matrix<'_>, k: Matrix<'_>, out: &mut Vec<f32>) {
        self.dots(q, k, out);
        softmax(&mut out[..self.len()], self.pitch(), self.visible, scale(self.width) as f32);
    }

    /// Dropout on the weights.
    fn drop(&self, dropout: Dropout, n_heads: usize, weights: &mut [f32]) {
        for (query, row) in weights.chunks_exact_mut(self.pitch()).take(self.visible.rows).enumerate() {
            let start = dropout_index(n_heads, self.index, self.q + query, 0);
            drop_row(row, dropout.key, start, dropout.threshold(), dropout.scale());
        }
    }

    /// The queries' rows of `out` = weights · x, with x by keys.
    ///
    /// # Safety
    /// No other task may touch these rows and columns of `out`.
    unsafe fn times_keys(&self, weights: &[f32], x: Matrix<'_>, out: Output<'_>) {
        let weights = Matrix::rows(weights, self.pitch());
        let x = x.from(self.k, self.col);
        for rows in self.blocks(self.visible.rows) {
            let size = (rows.len(), self.width, self.visible.of(rows.end - 1));
            let out = out.from(self.q + rows.start, self.col);
            // SAFETY: as the caller's.
            unsafe { matmul(size, weights.from(rows.start, 0), x, Start::Zero, out) };
        }
    }

    /// The keys' rows of `out` = weightsᵀ · x, with x by queries.
    ///
    /// # Safety
    /// No other task may touch these rows and columns of `out`.
    unsafe fn transposed_times_queries(&self, weights: &[f32], x: Matrix<'_>, out: Output<'_>) {
        let weights = Matrix::rows(weights, self.pitch()).transposed();
        for keys in self.blocks(self.visible.cols) {
            let first = self.visible.first_row(keys.start).min(self.visible.rows);
            let size = (keys.len(), self.width, self.visible.rows - first);
            let x = x.from(self.q + first, self.col);
            let out = out.from(self.k + keys.start, self.col);
            // SAFETY: as the caller's.
            unsafe { matmul(size, weights.from(keys.start, first), x, Start::Zero, out) };
        }
    }

    /// `count` rows in blocks: all at once, or a few at a time where that leaves out hidden keys.
    fn blocks(&self, count: usize) -> impl Iterator<Item = Range<usize>> {
        let step = if self.visible.causal { CAUSAL_ROWS } else { count.max(1) };
        (0..count).step_by(step).map(move |start| start..(start + step).min(count))
    }
}

/// Zeros in the rows of `out` [n, d] that no range holds.
fn zero_gaps<'a>(out: Output<'_>, ranges: impl Iterator<Item = &'a Range<usize>>, n: usize, d: usize) {
    let mut free = 0;
    for range in ranges.cloned().chain(std::iter::once(n..n)) {
        // SAFETY: tasks begin after this, and ranges do not overlap.
        unsafe { out.from(free, 0).zero(range.start - free, d) };
        free = range.end;
    }
}

/// The weights [h, q_len, k_len] of each span.
pub(super) fn weights(
    q: Matrix<'_>,
    k: Matrix<'_>,
    d: usize,
    spans: &Spans,
    n_heads: usize,
) -> Result<Vec<Tensor>> {
    let mut weights = Vec::new();
    let mut of_span = |index: usize| {
        let span = &spans.spans()[index];
        let shape = (n_heads, span.q.len(), span.k.len());
        let mut all: Vec<f32> = Vec::with_capacity(shape.0 * shape.1 * shape.2);
        for head in (0..n_heads).map(|i| head(spans, index, i, d / n_heads)) {
            head.weights(q, k, &mut weights);
            weights[..head.len()].chunks_exact(head.pitch()).for_each(|row| all.extend(&row[..shape.2]));
        }
        Ok(Tensor::from_vec(all, shape, &Device::Cpu)?)
    };
    (0..spans.spans().len()).map(&mut of_span).collect()
}

simd! {
    /// softmax(scores · scale) in place, over the keys that each query sees; zeros after them.
    pub(super) fn softmax(scores: &mut [f32], pitch: usize, visible: Visible, scale: f32) {
        // In three passes, so that the rows do not wait for each other's chains of dependent instructions. Hidden
        // scores become 0, not -∞, before they become 0 again: exponentials that underflow are slow.
        for (query, row) in scores.chunks_exact_mut(pitch).enumerate() {
            let seen = visible.of(query);
            let largest = max(&row[..seen]);
            for x in row.as_chunks_mut::<LANES>().0 {
                for x in x {
                    *x = (*x - largest) * scale;
                }
            }
            row[seen..].fill(0.0);
        }
        for x in scores.as_chunks_mut::<LANES>().0 {
            for x in x {
                *x = exp(*x);
            }
        }
        for (query, row) in scores.chunks_exact_mut(pitch).enumerate() {
            row[visible.of(query)..].fill(0.0);
            let total = sum(row, |x| x);
            let factor = if total == 0.0 { 0.0 } else { 1.0 / total };
            for x in row.as_chunks_mut::<LANES>().0 {
                for x in x {
                    *x *= factor;
                }
            }
        }
    }
}

simd! {
    /// grad = (p' ∘ grad − p · Σ(p' ∘ grad)) · scale in place, by rows; zeros after the keys that a query sees.
    fn softmax_backward(p: &[f32], dropped: &[f32], grad: &mut [f32], pitch: usize, visible: Visible, scale: f32) {
        for (query, grad) in grad.chunks_exact_mut(pitch).enumerate() {
            let seen = visible.of(query);
            grad[seen..].fill(0.0);
            let live = query * pitch..query * pitch + seen.next_multiple_of(LANES);
            let (p, dropped, grad) = (&p[live.clone()], &dropped[live.clone()], &mut grad[..live.len()]);
            let total = sum2(dropped, grad, |p, grad| p * grad);
            for ((grad, &p), &dropped) in grad.iter_mut().zip(p).zip(dropped) {
                *grad = (dropped * *grad - p * total) * scale;
            }
        }
    }
}

simd! {
    /// Dropout on a row of whole vectors whose mask begins at the even index `start`.
    fn drop_row(row: &mut [f32], key: u64, start: u64, threshold: u32, scale: f32) {
        for (vector, x) in row.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
            // Two elements share a hash, as in `kept`.
            let mut halves = [0; LANES];
            for (pair, halves) in halves.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                let bits = crate::rng::hash(key, start / 2 + (vector * LANES / 2 + pair) as u64);
                *halves = [bits as u32, (bits >> 32) as u32];
            }
            for (x, half) in x.iter_mut().zip(halves) {
                *x = if half >= threshold { *x * scale } else { 0.0 };
            }
        }
    }
}

#[cfg(test)]
#[path = "fused_tests.rs"]
mod tests;
