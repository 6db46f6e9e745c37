//! Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V (paper 3.2.1, equation 1), for all heads at once: head i works on the
//! i-th block of d / h columns (3.2.2, without the projections), and a query sees the keys of its span (3.2.3).
//!
//! A query that sees no key has the output zero and a gradient of zero. Dropout, if any, falls on the weights (5.4).

mod cached;
mod fused;

use std::sync::Arc;

use candle_core::{DType, Device, Tensor};

pub use cached::{Ancestors, cached_attention, cached_attention_plain};
use fused::Fused;

use super::dropout::{Dropout, kept};
use super::rows::{Rows, in_rows};
use super::spans::{Span, Spans, causal_mask, key_padding_mask};
use crate::{Error, Result};

/// What hidden scores are set to before the softmax: finite, since a row of -∞ would become NaN.
const HIDDEN: f64 = -1e9;

/// Queries q [n_q, d] over keys and values side by side, kv [n_k, 2d] → [n_q, d].
pub fn attention(
    q: &Tensor,
    kv: &Tensor,
    spans: &Arc<Spans>,
    n_heads: usize,
    dropout: Option<Dropout>,
) -> Result<Tensor> {
    let d = q.dim(1)?;
    let (k, v) = (kv.narrow(1, 0, d)?, kv.narrow(1, d, d)?);
    if !fused_applies(&[q, kv]) {
        return attention_plain(q, &k, &v, spans, n_heads, dropout);
    }
    spans.check(q, &k, &v, n_heads)?;
    check_dropout(dropout)?;
    let fused = Fused { spans: spans.clone(), n_heads, dropout };
    Ok(in_rows(q)?.apply_op2(&in_rows(kv)?, fused)?)
}

/// [`attention`] of rows over themselves: queries, keys and values side by side, qkv [n, 3d] → [n, d].
pub fn self_attention(
    qkv: &Tensor,
    spans: &Arc<Spans>,
    n_heads: usize,
    dropout: Option<Dropout>,
) -> Result<Tensor> {
    let d = qkv.dim(1)? / 3;
    let [q, k, v] = [qkv.narrow(1, 0, d)?, qkv.narrow(1, d, d)?, qkv.narrow(1, 2 * d, d)?];
    if !fused_applies(&[qkv]) {
        return attention_plain(&q, &k, &v, spans, n_heads, dropout);
    }
    spans.check(&q, &k, &v, n_heads)?;
    check_dropout(dropout)?;
    Ok(in_rows(qkv)?.apply_op1(Fused { spans: spans.clone(), n_heads, dropout })?)
}

/// q [n_q, d], k and v [n_k, d] → [n_q, d], in ordinary tensor operations, with padding and masks: the specification, on
/// every device. In f32, f64 or bf16.
pub fn attention_plain(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    spans: &Spans,
    n_heads: usize,
    dropout: Option<Dropout>,
) -> Result<Tensor> {
    let d = spans.check(q, k, v, n_heads)?;
    check_dropout(dropout)?;
    let (b, t_q, t_k) = (spans.spans().len(), spans.max_q(), spans.max_k());
    if b * t_q * t_k == 0 {
        return Ok(q.zeros_like()?);
    }
    let mut weights = weights_plain(q, k, spans, n_heads)?;
    if let Some(dropout) = dropout {
        weights = (weights * dropout_mask(spans, n_heads, dropout, q)?)?;
    }
    let v = heads(&padded(v, spans.spans().iter().map(|span| &span.k), t_k)?, n_heads)?;
    let out = weights.matmul(&v)?.transpose(1, 2)?.reshape((b * t_q, d))?;
    gathered(&out, spans, t_q)
}

/// The weights of each span [h, q_len, k_len], as [`attention`] uses them without dropout: softmax(Q Kᵀ / √d_k). For
/// inspection: no gradient.
pub fn attention_weights(q: &Tensor, k: &Tensor, spans: &Spans, n_heads: usize) -> Result<Vec<Tensor>> {
    let d = spans.check(q, k, k, n_heads)?;
    if fused_applies(&[q, k]) {
        let (q, k) = (in_rows(q)?, in_rows(k)?);
        let (q, k) = (Rows::of(&q)?, Rows::of(&k)?);
        return fused::weights(q.matrix()?, k.matrix()?, d, spans, n_heads);
    }
    let shape = |span: &Span| (n_heads, span.q.len(), span.k.len());
    if spans.max_q() * spans.max_k() == 0 {
        let empty = |span| Ok(Tensor::zeros(shape(span), q.dtype(), q.device())?);
        return spans.spans().iter().map(empty).collect();
    }
    let weights = weights_plain(q, k, spans, n_heads)?.detach();
    let part = |(index, span): (usize, &Span)| {
        let (_, q_len, k_len) = shape(span);
        Ok(weights.get(index)?.narrow(1, 0, q_len)?.narrow(2, 0, k_len)?.contiguous()?)
    };
    spans.spans().iter().enumerate().map(part).collect()
}

/// softmax(Q Kᵀ / √d_k) with the masks of the paper: [b, h, t_q, t_k], zero where nothing is seen.
fn weights_plain(q: &Tensor, k: &Tensor, spans: &Spans, n_heads: usize) -> Result<Tensor> {
    let (b, t_q, t_k) = (spans.spans().len(), spans.max_q(), spans.max_k());
    let q = heads(&padded(q, spans.spans().iter().map(|span| &span.q), t_q)?, n_heads)?;
    let k = heads(&padded(k, spans.spans().iter().map(|span| &span.k), t_k)?, n_heads)?;
    let scores = (q.matmul(&k.t()?)? * scale(q.dim(3)?))?;
    let seen = key_padding_mask(spans, q.device())?.broadcast_mul(&causal_mask(spans, q.device())?)?;
    let seen = seen.broadcast_as((b, n_heads, t_q, t_k))?.contiguous()?;
    let hidden = Tensor::new(HIDDEN, q.device())?.to_dtype(q.dtype())?.broadcast_as(seen.shape())?;
    let weights = candle_nn::ops::softmax(&seen.where_cond(&scores, &hidden)?, 3)?;
    Ok((weights * seen.to_dtype(q.dtype())?)?)
}

/// 1 / √d_k: dot products of d_k components of variance 1 have the variance d_k (3.2.1).
pub(super) fn scale(d_k: usize) -> f64 {
    1.0 / (d_k as f64).sqrt()
}

/// The index of a weight in the mask of dropout: it depends on the head, the query's row and the key's place in its
/// span, not on padding.
pub(super) fn dropout_index(n_heads: usize, head: usize, q_row: usize, key: usize) -> u64 {
    (((q_row * n_heads + head) as u64) << 32) | key as u64
}

/// [b, h, t_q, t_k] of 1 / (1 − p) and 0.
fn dropout_mask(spans: &Spans, n_heads: usize, dropout: Dropout, like: &Tensor) -> Result<Tensor> {
    let (b, t_q, t_k) = (spans.spans().len(), spans.max_q(), spans.max_k());
    let mut mask = Vec::with_capacity(b * n_heads * t_q * t_k);
    for span in spans.spans() {
        for (head, query) in (0..n_heads).flat_map(|head| (0..t_q).map(move |query| (head, query))) {
            let index = |key| dropout_index(n_heads, head, span.q.start + query, key);
            let keep = |key| kept(dropout.key, index(key), dropout.threshold());
            mask.extend((0..t_k).map(|key| if keep(key) { dropout.scale() } else { 0.0 }));
        }
    }
    Ok(Tensor::from_vec(mask, (b, n_heads, t_q, t_k), like.device())?.to_dtype(like.dtype())?)
}

/// x [n, d] → [b, t, d]: the rows of each range, then rows of zeros.
fn padded<'a>(
    x: &Tensor,
    ranges: impl ExactSizeIterator<Item = &'a std::ops::Range<usize>>,
    t: usize,
) -> Result<Tensor> {
    let (n, d) = x.dims2()?;
    let b = ranges.len();
    let rows =
        ranges.flat_map(|range| (0..t).map(move |i| if i < range.len() { range.start + i } else { n }));
    let rows: Vec<u32> = rows.map(|row| row as u32).collect();
    let with_zeros = Tensor::cat(&[x, &Tensor::zeros((1, d), x.dtype(), x.device())?], 0)?;
    Ok(with_zeros.index_select(&Tensor::from_vec(rows, b * t, x.device())?, 0)?.reshape((b, t, d))?)
}

/// x [b, t, d] → [b, h, t, d / h].
fn heads(x: &Tensor, n_heads: usize) -> Result<Tensor> {
    let (b, t, d) = x.dims3()?;
    Ok(x.reshape((b, t, n_heads, d / n_heads))?.transpose(1, 2)?.contiguous()?)
}

/// x [b · t_q, d] → [n_q, d]: the rows of real queries back in place, zeros outside every span.
fn gathered(x: &Tensor, spans: &Spans, t_q: usize) -> Result<Tensor> {
    let (n, d) = x.dims2()?;
    let mut places = vec![n as u32; spans.n_q()];
    for (index, span) in spans.spans().iter().enumerate() {
        for (query, row) in span.q.clone().enumerate() {
            places[row] = (index * t_q + query) as u32;
        }
    }
    let with_zeros = Tensor::cat(&[x, &Tensor::zeros((1, d), x.dtype(), x.device())?], 0)?;
    Ok(with_zeros.index_select(&Tensor::from_vec(places, spans.n_q(), x.device())?, 0)?)
}

fn fused_applies(tensors: &[&Tensor]) -> bool {
    tensors.iter().all(|x| matches!(x.device(), Device::Cpu) && x.dtype() == DType::F32)
}

fn check_dropout(dropout: Option<Dropout>) -> Result<()> {
    match dropout {
        Some(Dropout { p, .. }) if !(0.0..1.0).contains(&p) => {
            Err(Error::Config(format!("attention dropout must be at least 0 and below 1, found {p}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{assert_close, assert_gradients, flat, random};
    use super::*;

    fn side_by_side(k: &Tensor, v: &Tensor) -> Tensor {
        Tensor::cat(&[k, v], 1).unwrap()
    }

    /// Both forms, which must agree with each other wherever one is checked by hand.
    fn both(q: &Tensor, k: &Tensor, v: &Tensor, spans: &Arc<Spans>, n_heads: usize) -> [Vec<f64>; 2] {
        let fused = attention(q, &side_by_side(k, v), spans, n_heads, None).unwrap();
        let plain = attention_plain(q, k, v, spans, n_heads, None).unwrap();
        [flat(&fused).unwrap(), flat(&plain).unwrap()]
    }

    fn one_span(q_len: usize, k_len: usize) -> Arc<Spans> {
        Arc::new(Spans::cross(&[q_len], &[k_len]).unwrap())
    }

    fn matrix<const N: usize, const D: usize>(rows: &[[f32; D]; N]) -> Tensor {
        Tensor::new(rows, &Device::Cpu).unwrap()
    }

    /// Scores 0 and ln 3, after the division by √2: weights 1/4 and 3/4, values (2, 0) and (0, 4).
    #[test]
    fn equation_1_by_hand() {
        let q = matrix(&[[2f32.sqrt(), 0.0]]);
        let k = matrix(&[[0.0, 5.0], [3f32.ln(), 0.0]]);
        let v = matrix(&[[2.0, 0.0], [0.0, 4.0]]);
        for out in both(&q, &k, &v, &one_span(1, 2), 1) {
            assert_close(&out, &[0.5, 3.0], 1e-6, "attention");
        }
        let weights = attention_weights(&q, &k, &one_span(1, 2), 1).unwrap();
        assert_eq!(weights[0].dims(), [1, 1, 2]);
        assert_close(&flat(&weights[0]).unwrap(), &[0.25, 0.75], 1e-6, "weights");
    }

    /// √d_k is that of a head, not of d_model: four times the width of equal columns doubles the scores.
    #[test]
    fn scores_are_divided_by_the_root_of_the_width_of_a_head() {
        let v = matrix(&[[1.0; 8], [0.0; 8]]);
        let weight = |d_k: usize, n_heads| {
            let q = Tensor::ones((1, 8), DType::F32, &Device::Cpu).unwrap();
            let k = Tensor::cat(&[&q, &q.zeros_like().unwrap()], 0).unwrap();
            let expected = 1.0 / (1.0 + (-(d_k as f64).sqrt()).exp());
            for out in both(&q, &k, &v, &one_span(1, 2), n_heads) {
                assert_close(&out, &[expected; 8], 1e-6, "weight of the first key");
            }
        };
        weight(8, 1);
        weight(2, 4);
    }

    /// Head i is attention on the i-th block of columns (3.2.2: Concat(head_1, ..., head_h)).
    #[test]
    fn heads_are_blocks_of_columns() -> Result<()> {
        let (n_heads, d_k) = (3, 5);
        let spans = Arc::new(Spans::cross(&[4, 2], &[3, 6])?);
        let [q, k, v] = [(6, 1), (9, 2), (9, 3)].map(|(n, seed)| random(&[n, n_heads * d_k], seed).unwrap());
        let head = |head| {
            let block = |x: &Tensor| x.narrow(1, head * d_k, d_k).unwrap();
            attention_plain(&block(&q), &block(&k), &block(&v), &spans, 1, None)
        };
        let concat = Tensor::cat(&(0..n_heads).map(head).collect::<Result<Vec<_>>>()?, 1)?;
        for out in both(&q, &k, &v, &spans, n_heads) {
            assert_close(&out, &flat(&concat)?, 1e-6, "heads");
        }
        Ok(())
    }

    /// 3.2.3: with a causal mask the first query sees the first key only, the second both.
    #[test]
    fn causal_by_hand() {
        let q = matrix(&[[1.0, 1.0], [2f32.sqrt(), 0.0]]);
        let k = matrix(&[[0.0, 5.0], [3f32.ln(), 0.0]]);
        let v = matrix(&[[2.0, 0.0], [0.0, 4.0]]);
        for out in both(&q, &k, &v, &Arc::new(Spans::self_attention(&[2], true)), 1) {
            assert_close(&out, &[2.0, 0.0, 0.5, 3.0], 1e-6, "attention");
        }
    }

    /// A sentence next to others gives what it gives alone, also the empty one: no key, output zero.
    #[test]
    fn spans_do_not_see_each_other() -> Result<()> {
        let [q, k, v] = [(5, 1), (4, 2), (4, 3)].map(|(n, seed)| random(&[n, 4], seed).unwrap());
        let spans = Arc::new(Spans::cross(&[2, 2, 1], &[3, 0, 1])?);
        let first = attention_plain(
            &q.narrow(0, 0, 2)?,
            &k.narrow(0, 0, 3)?,
            &v.narrow(0, 0, 3)?,
            &one_span(2, 3),
            2,
            None,
        )?;
        for out in both(&q, &k, &v, &spans, 2) {
            assert_close(&out[..8], &flat(&first)?, 1e-6, "first span");
            assert_eq!(out[8..16], [0.0; 8]);
            // One key has the weight 1.
            assert_close(&out[16..], &flat(&v.narrow(0, 3, 1)?)?, 1e-6, "last span");
        }
        Ok(())
    }

    #[test]
    fn gradients_are_those_of_differences() -> Result<()> {
        let args = [random(&[4, 4], 1)?, random(&[5, 4], 2)?, random(&[5, 4], 3)?];
        let dropout = Some(Dropout { p: 0.3, key: 8 });
        for (causal, dropout) in [(false, None), (true, None), (false, dropout)] {
            let spans = [Span { q: 0..3, k: 0..3 }, Span { q: 3..3, k: 3..4 }, Span { q: 3..4, k: 4..4 }];
            let spans = Spans::new(spans.to_vec(), causal, 4, 5)?;
            assert_gradients(&args, |x| attention_plain(&x[0], &x[1], &x[2], &spans, 2, dropout))?;
        }
        Ok(())
    }

    /// The weights of inspection are those that attention uses: applied to the values they give its output.
    #[test]
    fn weights_sum_to_one_and_give_the_output() -> Result<()> {
        let (n_heads, d_k) = (2, 3);
        let [q, k, v] = [(6, 1), (24, 2), (24, 3)].map(|(n, seed)| random(&[n, 6], seed).unwrap());
        let spans = Arc::new(Spans::cross(&[2, 1, 3], &[3, 0, 21])?);
        let out = attention(&q, &side_by_side(&k, &v), &spans, n_heads, None)?;
        let weights = attention_weights(&q, &k, &spans, n_heads)?;
        let plain = attention_weights(&q.to_dtype(DType::F64)?, &k.to_dtype(DType::F64)?, &spans, n_heads)?;
        for ((span, weights), plain) in spans.spans().iter().zip(&weights).zip(&plain) {
            assert_eq!(weights.dims(), [n_heads, span.q.len(), span.k.len()]);
            assert_close(&flat(weights)?, &flat(plain)?, 1e-6, "weights");
            if span.k.is_empty() {
                continue;
            }
            assert_close(&flat(&weights.sum(2)?)?, &vec![1.0; n_heads * span.q.len()], 1e-6, "row sums");
            let v = v.narrow(0, span.k.start, span.k.len())?;
            let v = v.reshape((span.k.len(), n_heads, d_k))?.transpose(0, 1)?.contiguous()?;
            let found = weights.matmul(&v)?.transpose(0, 1)?.reshape((span.q.len(), n_heads * d_k))?;
            let expected = out.narrow(0, span.q.start, span.q.len())?;
            assert_close(&flat(&found)?, &flat(&expected)?, 1e-6, "output");
        }
        Ok(())
    }

    #[test]
    fn wrong_dropout_is_refused() {
        let x = random(&[2, 4], 1).unwrap();
        let spans = Arc::new(Spans::self_attention(&[2], false));
        let dropout = Some(Dropout { p: 1.0, key: 1 });
        let xx = side_by_side(&x, &x);
        for result in [attention(&x, &xx, &spans, 1, dropout), self_attention(&xx, &spans, 1, dropout)] {
            let error = result.unwrap_err();
            assert!(error.to_string().contains("below 1, found 1"), "{error}");
        }
    }
}
