//! The products of decoding, by numbers and rows (rows are hypotheses: sentences times beam), on one thread: those of
//! the model `base`, d 512, f 2,048, 8,000 pieces.
//!
//!     cargo bench --bench decoding
//!     cargo bench --bench decoding -- growth     # whole searches over beam, batch and length

use divan::{Bencher, black_box, counter::ItemsCount};
use std::time::{Duration, Instant};
use tx::candle_core::{Device, Tensor};
use tx::config::{Config, Preset};
use tx::model::{Transformer, linear::Kind, parameters};
use tx::ops::{PackedLinear, Precision};
use tx::rng::Rng;
use tx::search::{self, Rules, Sentence, TransformerScorer};

fn main() {
    tx::ops::keep_freed_memory();
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global().expect("the first pool");
    if std::env::args().any(|argument| argument == "growth") { growth() } else { divan::main() }
}

/// One size at a time away from beam 4, 16 sentences and 20 tokens: target tokens a second of the model `small`.
fn growth() {
    let config = Config { max_positions: 512, ..Config::new(Preset::Small, 8_000) };
    let models = [Precision::F32, Precision::Int8].map(|precision| {
        let weights = parameters::initial(&config, 1, &Device::Cpu).expect("weights");
        let weights = parameters::as_weights(&weights);
        let weights = weights.into_iter().map(|(name, weight)| (name, weight.detach())).collect();
        Transformer::new(&config, weights, Kind::Packed(precision)).expect("a model")
    });
    println!("| beam | batch | length | f32 | int8 |\n|---|---|---|---|---|");
    let sizes = [1, 2, 4, 8, 16].map(|beam| (beam, 16, 20));
    let sizes = sizes.into_iter().chain([1, 4, 64, 256].map(|batch| (4, batch, 20)));
    for (beam, batch, length) in sizes.chain([5, 50, 100, 200, 400].map(|length| (4, 16, length))) {
        let speed = models.each_ref().map(|model| speed(model, beam, batch, length));
        println!("| {beam} | {batch} | {length} | {:.0} | {:.0} |", speed[0], speed[1]);
    }
}

/// Tokens a second of searches for `batch` sources of `length` random pieces that all have translations of that length: the
/// fastest of those that fit a second, at least one.
fn speed(model: &Transformer, beam_size: usize, batch: usize, length: usize) -> f64 {
    let special = model.config().special;
    let options = search::Options {
        beam_size,
        rules: Rules { banned: vec![special.eos], ..Rules::default() },
        ..search::Options::new(special.bos, special.eos)
    };
    let mut rng = Rng::new(1, "growth");
    let piece = |_| 4 + rng.below(7_996) as u32;
    let pieces: Vec<u32> = (0..batch * length).map(piece).collect();
    let sentences: Vec<Sentence> =
        pieces.chunks(length).map(|src| Sentence::new(src.to_vec(), length)).collect();
    let start = Instant::now();
    let mut fastest = Duration::MAX;
    while fastest == Duration::MAX || start.elapsed() < Duration::from_secs(1) {
        let begun = Instant::now();
        search::decode(&TransformerScorer::new(model), &sentences, &options, None).expect("translations");
        fastest = fastest.min(begun.elapsed());
    }
    (batch * length) as f64 / fastest.as_secs_f64()
}

fn tensor(rows: usize, columns: usize) -> Tensor {
    let numbers: Vec<f32> = (0..rows * columns).map(|i| (i as f32).sin()).collect();
    Tensor::from_vec(numbers, (rows, columns), &Device::Cpu).expect("as many numbers")
}

/// Times a layer; items are multiply-adds.
fn product(bencher: Bencher, precision: Precision, rows: usize, (n_in, n_out): (usize, usize)) {
    let layer = PackedLinear::new(&tensor(n_out, n_in), None, precision).expect("a layer");
    let x = tensor(rows, n_in);
    bencher
        .counter(ItemsCount::new(rows * n_in * n_out))
        .bench_local(|| black_box(layer.forward(&x).expect("a product")));
}

macro_rules! benches {
    ($($name:ident: $size:expr;)*) => {
        $(
            #[divan::bench(args = [1, 4, 16, 32, 128], consts = [0, 1, 2])]
            fn $name<const P: usize>(bencher: Bencher, rows: usize) {
                product(bencher, [Precision::F32, Precision::Bf16, Precision::Int8][P], rows, $size);
            }
        )*
    };
}

benches! {
    d_256_to_768: (256, 768);
    d_256_to_8000: (256, 8000);
    d_512_to_2048: (512, 2048);
    d_2048_to_512: (2048, 512);
    d_512_to_8000: (512, 8000);
}
