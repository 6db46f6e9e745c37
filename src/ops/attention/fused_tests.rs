//! The fused form against the plain one, and what must hold to the bit.

use super::super::{attention_plain, attention_weights, self_attention};
use super::*;
use crate::ops::check::{assert_parity, random};
use crate::ops::simd::forced::{run, same_everywhere};
use crate::ops::simd::level;
use crate::ops::spans::Span;
use crate::rng::Rng;
use candle_core::Var;

fn inputs(spans: &Spans, d: usize) -> [Tensor; 3] {
    let tensor = |n, seed| random(&[n, d], seed).unwrap();
    [tensor(spans.n_q(), 1), tensor(spans.n_k(), 2), tensor(spans.n_k(), 3)]
}

/// [`super::super::attention`] of keys and values that are apart.
fn attention(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    spans: &Arc<Spans>,
    n_heads: usize,
    dropout: Option<Dropout>,
) -> Result<Tensor> {
    super::super::attention(q, &Tensor::cat(&[k, v], 1)?, spans, n_heads, dropout)
}

fn bits(x: &Tensor) -> Vec<u32> {
    x.flatten_all().unwrap().to_vec1::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

fn parity(spans: Spans, d: usize, n_heads: usize, dropout: Option<Dropout>) -> Result<()> {
    let spans = Arc::new(spans);
    assert_parity(
        &inputs(&spans, d),
        |x| attention(&x[0], &x[1], &x[2], &spans, n_heads, dropout),
        |x| attention_plain(&x[0], &x[1], &x[2], &spans, n_heads, dropout),
        3e-6,
    )?;
    if spans.n_q() != spans.n_k() {
        return Ok(());
    }
    assert_parity(
        &[random(&[spans.n_q(), 3 * d], 4)?],
        |x| self_attention(&x[0], &spans, n_heads, dropout),
        |x| {
            let block = |i: usize| x[0].narrow(1, i * d, d)?.contiguous();
            attention_plain(&block(0)?, &block(1)?, &block(2)?, &spans, n_heads, dropout)
        },
        3e-6,
    )
}

/// Values and gradients over random ragged batches: empty sentences, single tokens, causal, dropout, and widths of
/// a head around those of a vector.
#[test]
fn fused_is_plain_on_random_batches() -> Result<()> {
    let mut rng = Rng::new(5, "attention");
    for case in 0..40u64 {
        let n_heads = 1 + rng.below(4);
        let d = n_heads * [1, 2, 5, 15, 16, 17, 32, 40, 64][rng.below(9)];
        let mut lengths = || (0..5).map(|_| rng.below(23)).collect::<Vec<_>>();
        let (tgt, src) = (lengths(), lengths());
        let (new_tokens, past) = (1 + rng.below(3), rng.below(20));
        let spans = match case % 4 {
            0 => Spans::cross(&tgt, &src)?,
            1 => Spans::self_attention(&tgt, false),
            2 => Spans::self_attention(&tgt, true),
            _ => Spans::cached(3, new_tokens, past),
        };
        let dropout = Dropout { p: 0.3, key: rng.next_u64() };
        parity(spans, d, n_heads, (case % 3 == 0).then_some(dropout))?;
    }
    Ok(())
}

#[test]
fn fused_is_plain_at_the_edges() -> Result<()> {
    parity(Spans::self_attention(&[200], true), 32, 1, None)?;
    parity(Spans::self_attention(&[200, 1], false), 32, 2, Some(Dropout { p: 0.1, key: 1 }))?;
    // Rows outside every span, more queries than keys, and spans of one side only.
    let spans = [(1..4, 2..3), (4..4, 3..5), (6..8, 7..7)].map(|(q, k)| Span { q, k });
    for causal in [false, true] {
        parity(Spans::new(spans.to_vec(), causal, 10, 9)?, 6, 2, None)?;
    }
    Ok(())
}

/// An empty batch, and sentences without any key: zeros, and gradients of zero rather than NaN.
#[test]
fn nothing_to_see_gives_zeros() -> Result<()> {
    for (tgt, src) in [(vec![], vec![]), (vec![0], vec![0]), (vec![2, 1], vec![0, 0]), (vec![0], vec![3])] {
        let spans = Arc::new(Spans::cross(&tgt, &src)?);
        let vars = inputs(&spans, 4).map(|x| Var::from_tensor(&x).unwrap());
        let out = attention(&vars[0], &vars[1], &vars[2], &spans, 2, None)?;
        assert_eq!(bits(&out), vec![0; 4 * spans.n_q()]);
        let grads = out.sum_all()?.backward()?;
        for var in &vars {
            assert!(grads.get(var).is_some_and(|grad| bits(grad).iter().all(|&x| x == 0)));
        }
    }
    Ok(())
}

/// Output and gradients of a span are the same alone and in company, at every level and number of threads.
#[test]
fn a_span_does_not_depend_on_its_company() -> Result<()> {
    let (d, n_heads) = (64, 2);
    let (tgt, src) = ([7, 1, 40, 0, 3, 19, 90], [11, 60, 33, 4, 0, 20, 90]);
    for causal in [false, true] {
        let cross = Spans::cross(&tgt, &src)?;
        let spans = Arc::new(Spans::new(cross.spans().to_vec(), causal, cross.n_q(), cross.n_k())?);
        let [q, k, v] = inputs(&spans, d);
        let all = |spans: &Arc<Spans>, x: [&Tensor; 3]| {
            let vars = x.map(|x| Var::from_tensor(&x.contiguous().unwrap()).unwrap());
            let out = attention(&vars[0], &vars[1], &vars[2], spans, n_heads, None).unwrap();
            let grads = out.sqr().unwrap().sum_all().unwrap().backward().unwrap();
            let [dq, dk, dv] = vars.map(|var| grads.get(&var).unwrap().clone());
            [out, dq, dk, dv].map(|x| bits(&x))
        };
        let [out, dq, dk, dv] = same_everywhere(|| all(&spans, [&q, &k, &v]));
        for span in spans.spans() {
            let (q_len, k_len) = (span.q.len(), span.k.len());
            let alone = Arc::new(Spans::new(vec![Span { q: 0..q_len, k: 0..k_len }], causal, q_len, k_len)?);
            let part = |x: &Tensor, rows: &Range<usize>| x.narrow(0, rows.start, rows.len()).unwrap();
            let x = [part(&q, &span.q), part(&k, &span.k), part(&v, &span.k)];
            let found = all(&alone, [&x[0], &x[1], &x[2]]);
            let of = |x: &[u32], rows: &Range<usize>| x[rows.start * d..rows.end * d].to_vec();
            let expected = [of(&out, &span.q), of(&dq, &span.q), of(&dk, &span.k), of(&dv, &span.k)];
            assert!(found == expected, "causal {causal}, {span:?}");
        }
    }
    Ok(())
}

/// A query has the same bits in the full causal pass and one at a time with the keys of the past; also the number
/// of queries at once changes nothing.
#[test]
fn cached_decoding_is_the_full_pass() -> Result<()> {
    let (t, d, n_heads) = (37, 48, 3);
    let full = Arc::new(Spans::self_attention(&[t], true));
    let [q, k, v] = inputs(&full, d);
    let expected = attention(&q, &k, &v, &full, n_heads, None)?;
    for new_tokens in [1, 2, 5] {
        for past in (0..t - new_tokens + 1).step_by(new_tokens) {
            let spans = Arc::new(Spans::cached(1, new_tokens, past));
            let seen = |x: &Tensor| x.narrow(0, 0, past + new_tokens);
            let q = q.narrow(0, past, new_tokens)?;
            let found = attention(&q, &seen(&k)?, &seen(&v)?, &spans, n_heads, None)?;
            assert_eq!(
                bits(&found),
                bits(&expected.narrow(0, past, new_tokens)?),
                "{new_tokens} after {past}"
            );
        }
    }
    Ok(())
}

/// Queries, keys and values may be parts of one wider tensor, as a joint projection gives them.
#[test]
fn parts_of_a_wider_tensor_are_read_in_place() -> Result<()> {
    let spans = Arc::new(Spans::self_attention(&[3, 5], true));
    let packed = random(&[8, 3 * 20], 4)?;
    let [q, k, v] = [0, 20, 40].map(|start| packed.narrow(1, start, 20).unwrap());
    let found = attention(&q, &k, &v, &spans, 2, None)?;
    let copy = |x: &Tensor| x.contiguous().unwrap();
    assert_eq!(bits(&found), bits(&attention(&copy(&q), &copy(&k), &copy(&v), &spans, 2, None)?));
    assert_eq!(
        bits(&attention_weights(&q, &k, &spans, 2)?[1]),
        bits(&attention_weights(&copy(&q), &copy(&k), &spans, 2)?[1])
    );
    let turned = copy(&q.t()?).t()?;
    assert_eq!(bits(&found), bits(&attention(&turned, &k, &v, &spans, 2, None)?));
    Ok(())
}

/// Large scores do not overflow, and a broken key breaks only the queries that see it.
#[test]
fn large_and_broken_scores() -> Result<()> {
    let spans = Arc::new(Spans::self_attention(&[2, 3], true));
    let x = (random(&[5, 8], 6)? * 1e4)?;
    let large = run(level(), 1, || bits(&attention(&x, &x, &x, &spans, 2, None).unwrap()));
    assert!(large.iter().all(|&x| f32::from_bits(x).is_finite()));
    let mut numbers = x.flatten_all()?.to_vec1::<f32>()?;
    numbers[3 * 8..4 * 8].fill(f32::NAN);
    let k = Tensor::from_vec(numbers, (5, 8), &Device::Cpu)?;
    let out = attention(&x, &k, &x, &spans, 2, None)?;
    let broken: Vec<bool> = out.to_vec2::<f32>()?.iter().map(|row| row.iter().any(|x| x.is_nan())).collect();
    assert_eq!(broken, [false, false, false, true, true]);
    Ok(())
}
