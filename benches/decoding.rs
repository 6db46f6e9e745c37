//! The products of decoding, by numbers and rows (rows are hypotheses: sentences times beam), on one thread: those of
//! the model `base`, d 512, f 2,048, 8,000 pieces.
//!
//!     cargo bench --bench decoding

use divan::{Bencher, black_box, counter::ItemsCount};
use tx::candle_core::{Device, Tensor};
use tx::ops::{PackedLinear, Precision};

fn main() {
    tx::memory::keep_freed();
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global().expect("the first pool");
    divan::main();
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
