//! What each fused operation gains over its plain twin: forward and backward together, at the sizes of the README's
//! table (half of a batch of 4,096 tokens, d 256, f 1,024, 8,000 pieces), on one thread.
//!
//!     cargo bench --bench ops

use divan::{Bencher, black_box};
use std::sync::Arc;
use tx::candle_core::{Device, Tensor, Var};
use tx::ops::*;

const N: usize = 1768;
const D: usize = 256;
const F: usize = 1024;
const V: usize = 8000;
const HEADS: usize = 4;
const DROPOUT: Option<Dropout> = Some(Dropout { p: 0.1, key: 1 });

fn main() {
    // SAFETY: nothing else runs yet. As in the program: candle's own pool gets one thread.
    unsafe { std::env::set_var("CANDLE_NUM_THREADS", "1") };
    tx::ops::keep_freed_memory();
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global().expect("the first pool");
    divan::main();
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    Plain,
    Fused,
    /// Fused, with products in bf16.
    Bf16,
}

use Form::{Bf16, Fused, Plain};

impl Form {
    fn compute(self) -> Compute {
        if self == Bf16 { Compute::Bf16 } else { Compute::F32 }
    }
}

fn var(dims: &[usize]) -> Var {
    let numbers: Vec<f32> = (0..dims.iter().product::<usize>()).map(|i| (i as f32).sin()).collect();
    Var::from_tensor(&Tensor::from_vec(numbers, dims, &Device::Cpu).expect("as many numbers"))
        .expect("a variable")
}

/// Times the forward and backward pass of `loss`.
fn both_passes(bencher: Bencher, loss: impl Fn() -> tx::Result<Tensor>) {
    bencher.bench_local(|| {
        black_box(loss().expect("a loss").sum_all().expect("a sum").backward().expect("gradients"))
    });
}

#[divan::bench(args = [Plain, Fused, Bf16])]
fn linear_256_to_768(bencher: Bencher, form: Form) {
    let (x, w, b) = (var(&[N, D]), var(&[3 * D, D]), var(&[3 * D]));
    both_passes(bencher, || match form {
        Plain => linear_plain(&x, &w, Some(&b)),
        _ => linear(&x, &w, Some(&b), form.compute()),
    });
}

#[divan::bench(args = [Plain, Fused, Bf16])]
fn linear_relu_256_to_1024(bencher: Bencher, form: Form) {
    let (x, w, b) = (var(&[N, D]), var(&[F, D]), var(&[F]));
    both_passes(bencher, || match form {
        Plain => linear_relu_plain(&x, &w, Some(&b)),
        _ => linear_relu(&x, &w, Some(&b), form.compute()),
    });
}

#[divan::bench(args = [Plain, Fused])]
fn add_norm_with_dropout(bencher: Bencher, form: Form) {
    let (x, sublayer, w, b) = (var(&[N, D]), var(&[N, D]), var(&[D]), var(&[D]));
    let op = if form == Plain { add_norm_plain } else { add_norm };
    both_passes(bencher, || op(&x, &sublayer, &w, &b, 1e-5, DROPOUT));
}

#[divan::bench(args = [Plain, Fused])]
fn embedding_of_8000(bencher: Bencher, form: Form) {
    let (table, encoding) = (var(&[V, D]), var(&[100, D]));
    let ids: Vec<u32> = (0..N).map(|i| (i * 7919 % V) as u32).collect();
    let positions: Vec<u32> = (0..N).map(|i| (i % 20) as u32).collect();
    let lookup = Lookup { ids: &ids, positions: &positions, scale: 16.0, dropout: DROPOUT };
    let op = if form == Plain { embedding_plain } else { embedding };
    both_passes(bencher, || op(&table, encoding.as_tensor(), &lookup));
}

/// Sentences of 20 rows, as many as fit.
fn sentences() -> Vec<usize> {
    let mut lengths = vec![20; N / 20];
    lengths.push(N % 20);
    lengths
}

#[divan::bench(args = [Plain, Fused])]
fn self_attention_of_20(bencher: Bencher, form: Form) {
    let (qkv, spans) = (var(&[N, 3 * D]), Arc::new(Spans::self_attention(&sentences(), true)));
    both_passes(bencher, || match form {
        Plain => {
            let part = |i: usize| qkv.narrow(1, i * D, D);
            attention_plain(&part(0)?, &part(1)?, &part(2)?, &spans, HEADS, DROPOUT)
        }
        _ => self_attention(&qkv, &spans, HEADS, DROPOUT),
    });
}

#[divan::bench(args = [Plain, Fused])]
fn cross_attention_of_20(bencher: Bencher, form: Form) {
    let (q, kv) = (var(&[N, D]), var(&[N, 2 * D]));
    let spans = Arc::new(Spans::cross(&sentences(), &sentences()).expect("spans"));
    both_passes(bencher, || match form {
        Plain => attention_plain(&q, &kv.narrow(1, 0, D)?, &kv.narrow(1, D, D)?, &spans, HEADS, DROPOUT),
        _ => attention(&q, &kv, &spans, HEADS, DROPOUT),
    });
}

#[divan::bench(args = [Plain, Fused, Bf16], sample_count = 20)]
fn projection_and_cross_entropy(bencher: Bencher, form: Form) {
    let (x, w) = (var(&[N, D]), var(&[V, D]));
    let targets: Vec<u32> = (0..N).map(|i| (i * 7919 % V) as u32).collect();
    both_passes(bencher, || {
        Ok(match form {
            Plain => cross_entropy_plain(&linear_plain(&x, &w, None)?, &targets, 0.1)?,
            _ => cross_entropy(&x, &w, None, &targets, 0.1, form.compute())?,
        }
        .loss)
    });
}

#[divan::bench(args = [Plain, Fused])]
fn adam_of_2_million(bencher: Bencher, form: Form) {
    let (param, grad, m, v) = (var(&[V, D]), var(&[V, D]), var(&[V, D]), var(&[V, D]));
    let options = AdamOptions { lr: 1e-3, ..AdamOptions::default() };
    let step = if form == Plain { adam_step_plain } else { adam_step };
    bencher.bench_local(|| step(&param, &grad, &m, &v, 1, &options).expect("a step"));
}
