use super::*;

/// Numbers between -1 and 1 without a pattern.
fn numbers(len: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as f32 / u32::MAX as f32 * 2.0 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// Both orders of memory for the matrix [rows, cols].
fn views(numbers: &[f32], rows: usize, cols: usize) -> [Matrix<'_>; 2] {
    [Matrix::new(numbers, rows, cols), Matrix::new(numbers, cols, rows).t()]
}

fn element(x: Matrix, row: usize, col: usize) -> f32 {
    x.numbers[row * x.row_stride + col * x.col_stride]
}

/// Asserts that `out` is the sum of `start` and the product of the rounded matrices.
fn assert_product(a: Matrix, b: Matrix, start: f64, out: &[f32], what: &str) {
    assert_eq!(out.len(), a.rows * b.cols, "{what}");
    for (i, &out) in out.iter().enumerate() {
        let (row, col) = (i / b.cols, i % b.cols);
        let term = |k| f64::from(round(element(a, row, k))) * f64::from(round(element(b, k, col)));
        let exact: f64 = start + (0..a.cols).map(term).sum::<f64>();
        let tolerance = 1e-6 * (1.0 + (a.cols as f64).sqrt());
        assert!((f64::from(out) - exact).abs() < tolerance, "{what}, {row},{col}: {out}, {exact}");
    }
}

/// Every level and order of memory, with and without a sum.
fn assert_everywhere(m: usize, k: usize, n: usize) {
    let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
    for level in forced::levels() {
        for (order, (a, b)) in views(&a, m, k)
            .into_iter()
            .flat_map(|a| views(&b, k, n).into_iter().map(move |b| (a, b)))
            .enumerate()
        {
            let what = format!("{level:?}, {m} x {k} x {n}, order {order}");
            forced::run(level, 1, || {
                assert_product(a, b, 0.0, &product(a, b), &what);
                let mut out = vec![0.5; m * n];
                add_product(a, b, &mut out);
                assert_product(a, b, 0.5, &out, &what);
            });
        }
    }
}

#[test]
fn by_hand() {
    // [1 2 3; 4 5 6] · [1 0; 2 1; 0 3]
    let (a, b) = ([1., 2., 3., 4., 5., 6.], [1., 0., 2., 1., 0., 3.]);
    let (a, b) = (Matrix::new(&a, 2, 3), Matrix::new(&b, 3, 2));
    for level in forced::levels() {
        forced::run(level, 1, || {
            assert_eq!(product(a, b), [5., 11., 14., 23.], "{level:?}");
            assert_eq!(product(b.t(), a.t()), [5., 14., 11., 23.]);
            let mut out = vec![1.0; 4];
            add_product(a, b, &mut out);
            assert_eq!(out, [6., 12., 15., 24.]);
        });
    }
}

#[test]
fn every_small_shape() {
    let sizes = [1, 3, 15, 16, 17, 31, 33, 65];
    for m in sizes {
        for k in sizes {
            for n in sizes {
                assert_everywhere(m, k, n);
            }
        }
    }
}

/// More than one block of each kind.
#[test]
fn large_shapes() {
    for (m, k, n) in [(3, 2100, 5), (300, 1100, 40), (40, 1030, 550), (530, 70, 33)] {
        assert_everywhere(m, k, n);
    }
}

#[test]
fn empty_sides() {
    for level in forced::levels() {
        forced::run(level, 1, || {
            assert_eq!(product(Matrix::new(&[], 2, 0), Matrix::new(&[], 0, 3)), [0.0; 6]);
            assert_eq!(product(Matrix::new(&[], 0, 2), Matrix::new(&[1., 2.], 2, 1)), [0.0; 0]);
            assert_eq!(product(Matrix::new(&[1., 2.], 1, 2), Matrix::new(&[], 2, 0)), [0.0; 0]);
            let mut out = vec![1.0; 2];
            add_product(Matrix::new(&[], 2, 0), Matrix::new(&[], 0, 1), &mut out);
            assert_eq!(out, [1., 1.]);
        });
    }
}

#[test]
fn same_bits_at_every_number_of_threads() {
    let (a, b) = (numbers(700 * 130, 1), numbers(130 * 300, 2));
    for level in forced::levels() {
        let work = |threads| {
            forced::run(level, threads, || {
                let (a, b) = (Matrix::new(&a, 700, 130), Matrix::new(&b, 130, 300));
                let mut sum = product(a, b);
                add_product(a, b, &mut sum);
                [product(a, b), product(b.t(), a.t()), sum].concat()
            })
        };
        let one = work(1);
        for threads in [2, 3] {
            let same = work(threads).iter().zip(&one).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{level:?}, {threads} threads");
        }
    }
}

/// The element for a row does not depend on the rows around it.
#[test]
fn same_bits_in_every_size() {
    let (a, b) = (numbers(70 * 90, 1), numbers(90 * 50, 2));
    for level in [Bf16Level::Avx512, Bf16Level::Amx].into_iter().filter(|l| forced::levels().contains(l)) {
        forced::run(level, 1, || {
            let b = Matrix::new(&b, 90, 50);
            let all = product(Matrix::new(&a, 70, 90), b);
            for (row, a) in a.chunks(90).enumerate() {
                assert_eq!(product(Matrix::new(a, 1, 90), b), all[row * 50..][..50], "{level:?}, row {row}");
            }
        });
    }
}

/// 1·x at every level is x in bf16, by the processor's instruction and by integers.
#[test]
fn rounding() {
    let near_one = |bits: u32| f32::from_bits(0x3f80_0000 + bits);
    let cases = [
        (near_one(0x7fff), 1.0),
        (near_one(0x8000), 1.0),
        (near_one(0x8001), near_one(0x1_0000)),
        (near_one(0x1_8000), near_one(0x2_0000)),
        (-near_one(0x1_7fff), -near_one(0x1_0000)),
        (f32::MAX, f32::INFINITY),
        (f32::INFINITY, f32::INFINITY),
        (f32::NEG_INFINITY, f32::NEG_INFINITY),
        (f32::MIN_POSITIVE, f32::MIN_POSITIVE),
        (f32::from_bits(0x007f_ffff), 0.0),
        (-1e-45, 0.0),
        (0.0, 0.0),
    ];
    for (x, expected) in cases {
        assert_eq!(round(x), expected, "{x:e}");
    }
    let many = (0..100_000u32).map(|i| f32::from_bits(i.wrapping_mul(0x9e37_79b9)));
    let many: Vec<f32> = cases.iter().map(|&(x, _)| x).chain(many).filter(|x| !x.is_nan()).collect();
    let expected: Vec<f32> = many.iter().map(|&x| round(x)).collect();
    for level in forced::levels() {
        forced::run(level, 1, || {
            let one = Matrix::new(&[1.0], 1, 1);
            // Equal but for the sign of zero.
            assert!(product(Matrix::new(&many, many.len(), 1), one) == expected, "{level:?}");
            assert!(product(one, Matrix::new(&many, 1, many.len())) == expected, "{level:?}");
        });
    }
}

/// They show in their row or column, and in no other.
#[test]
fn nan_and_infinity_pass_through() {
    let payload = f32::from_bits(0x7f80_0001);
    for level in forced::levels() {
        for (x, is) in [
            (f32::NAN, f32::is_nan as fn(f32) -> bool),
            (payload, f32::is_nan),
            (f32::INFINITY, |y| y == f32::INFINITY),
            (f32::NEG_INFINITY, |y| y == f32::NEG_INFINITY),
        ] {
            let (mut a, b) = (vec![1.0; 37 * 45], vec![1.0; 45 * 51]);
            a[20 * 45 + 40] = x;
            forced::run(level, 1, || {
                let (a, b) = (Matrix::new(&a, 37, 45), Matrix::new(&b, 45, 51));
                for (i, &y) in product(a, b).iter().enumerate() {
                    assert!(if i / 51 == 20 { is(y) } else { y == 45.0 }, "{level:?}: {i}, {y}");
                }
                for (i, &y) in product(b.t(), a.t()).iter().enumerate() {
                    assert!(if i % 37 == 20 { is(y) } else { y == 45.0 }, "{level:?}: {i}, {y}");
                }
            });
        }
    }
}

#[test]
fn the_best_level_is_tested() {
    assert!(forced::levels().contains(&bf16_level()));
}

#[test]
#[should_panic(expected = "inner sizes")]
fn sizes_are_checked() {
    product(Matrix::new(&[1., 2.], 1, 2), Matrix::new(&[1.], 1, 1));
}
