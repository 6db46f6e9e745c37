//! Tests of the packed layers.

use super::super::bf16::rounded;
use super::super::simd::forced;
use super::*;
use crate::rng::Rng;
use candle_core::Var;

fn tensor(seed: u64, shape: (usize, usize)) -> Tensor {
    let mut rng = Rng::new(seed, "packed");
    let values: Vec<f32> = (0..shape.0 * shape.1).map(|_| rng.normal() as f32).collect();
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
}

fn bits(y: &Tensor) -> Vec<u32> {
    y.flatten_all().unwrap().to_vec1::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

#[test]
fn forward_by_hand() {
    let weight = Tensor::new(&[[1f32, 2.0], [0.0, -1.0], [3.0, 0.5]], &Device::Cpu).unwrap();
    let bias = Tensor::new(&[10f32, 20.0, 30.0], &Device::Cpu).unwrap();
    let x = Tensor::new(&[[1f32, 4.0]], &Device::Cpu).unwrap();
    let y = |bias| {
        PackedLinear::new(&weight, bias, Precision::F32)
            .unwrap()
            .forward(&x)
            .unwrap()
            .to_vec2::<f32>()
            .unwrap()
    };
    assert_eq!(y(None), [[9.0, -4.0, 5.0]]);
    assert_eq!(y(Some(&bias)), [[19.0, 16.0, 35.0]]);
}

/// The law in its plainest form: one chain in rising order, rounded once a step. At every level and number of
/// threads, over sizes around the panel and the register block.
#[test]
fn every_element_is_one_chain() {
    for (n, i, o) in [(1, 1, 1), (1, 7, 15), (3, 33, 16), (7, 64, 17), (8, 20, 47), (9, 5, 48), (17, 31, 49)]
        .into_iter()
        .chain([(16, 9, 96), (70, 3, 97), (130, 2, 100), (33, 130, 150)])
    {
        let (x, weight, bias) = (tensor(1, (n, i)), tensor(2, (o, i)), tensor(3, (1, o)));
        let layer = PackedLinear::new(&weight, Some(&bias.squeeze(0).unwrap()), Precision::F32).unwrap();
        let found = forced::same_everywhere(|| bits(&layer.forward(&x).unwrap()));
        let rows = |t: &Tensor| t.to_vec2::<f32>().unwrap();
        let (x, weight, bias) = (rows(&x), rows(&weight), rows(&bias));
        let chain = |x: &[f32], w: &[f32], b: f32| x.iter().zip(w).fold(b, |y, (&x, &w)| x.mul_add(w, y));
        let expected: Vec<u32> = (x.iter())
            .flat_map(|x| weight.iter().zip(&bias[0]).map(|(w, &b)| chain(x, w, b).to_bits()))
            .collect();
        assert_eq!(found, expected, "n {n}, i {i}, o {o}");
    }
}

const ALL: [Precision; 3] = [Precision::F32, Precision::Bf16, Precision::Int8];

/// Any number of rows, on one thread and on two, with work above and below the threshold of parallel work.
#[test]
fn a_row_does_not_depend_on_its_company() {
    for (precision, (i, o)) in
        ALL.into_iter().flat_map(|precision| [(precision, (40, 50)), (precision, (128, 300))])
    {
        let (x, weight) = (tensor(4, (70, i)), tensor(5, (o, i)));
        let layer = PackedLinear::new(&weight, None, precision).unwrap();
        let alone: Vec<Vec<u32>> =
            (0..70).map(|row| bits(&layer.forward(&x.narrow(0, row, 1).unwrap()).unwrap())).collect();
        for n in 1..=70 {
            for threads in [1, 2] {
                let x = x.narrow(0, 70 - n, n).unwrap();
                let found =
                    forced::run(super::super::simd::level(), threads, || bits(&layer.forward(&x).unwrap()));
                assert!(
                    found == alone[70 - n..].concat(),
                    "{precision:?}, i {i}, o {o}, n {n}, {threads} threads"
                );
            }
        }
    }
}

/// The difference that rounding may make: eight bits of mantissa, or 1/255 of a row's span and 1/254 of a column's.
#[test]
fn equals_the_plain_twin() {
    let (x, weight, bias) = (tensor(6, (37, 200)), tensor(7, (130, 200)), tensor(8, (1, 130)));
    let plain = x.matmul(&weight.t().unwrap()).unwrap().broadcast_add(&bias).unwrap();
    for (precision, worst) in ALL.into_iter().zip([1e-4, 0.15, 0.6]) {
        let layer = PackedLinear::new(&weight, Some(&bias.squeeze(0).unwrap()), precision).unwrap();
        let found = layer.forward(&x).unwrap();
        let error = (&found - &plain).unwrap().abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap();
        // The results have a standard deviation of 14.
        assert!(error < worst, "{precision:?}: {error}");
        let relu = layer.forward_relu(&x).unwrap();
        assert_eq!(bits(&relu), bits(&found.relu().unwrap()), "{precision:?}");
    }
}

/// With all instructions that there are: what the rounded factors give, but for the order of the sums.
#[test]
fn bf16_is_the_product_of_rounded_factors() {
    let (x, weight) = (tensor(15, (37, 100)), tensor(16, (50, 100)));
    let rounded = |x: &Tensor| x.to_dtype(DType::BF16).unwrap().to_dtype(DType::F32).unwrap();
    let plain = rounded(&x).matmul(&rounded(&weight).t().unwrap()).unwrap();
    for level in super::super::bf16::forced::levels() {
        let y = super::super::bf16::forced::run(level, 2, || {
            PackedLinear::new(&weight, None, Precision::Bf16).unwrap().forward(&x).unwrap()
        });
        let error = (&y - &plain).unwrap().abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap();
        assert!(error < 2e-5, "{level:?}: {error}");
    }
}

/// Scales are 1, so nothing is rounded: rows of W reach 127, rows of x span 255.
#[test]
fn int8_by_hand() {
    let weight = Tensor::new(&[[127f32, -3.0, 2.0], [1.0, 127.0, 0.0]], &Device::Cpu).unwrap();
    let bias = Tensor::new(&[0.5f32, -1.0], &Device::Cpu).unwrap();
    let x = Tensor::new(&[[255f32, 0.0, 7.0], [-5.0, 250.0, 1.0], [0.0, 0.0, 0.0]], &Device::Cpu).unwrap();
    let layer = PackedLinear::new(&weight, Some(&bias), Precision::Int8).unwrap();
    let expected = [[32_399.5, 254.0], [-1382.5, 31_744.0], [0.5, -1.0]];
    assert_eq!(layer.forward(&x).unwrap().to_vec2::<f32>().unwrap(), expected);
    // 256 between them: a step of 1 becomes 256/255.
    let x = Tensor::new(&[[-128f32, 128.0, 0.0]], &Device::Cpu).unwrap();
    let y = layer.forward(&x).unwrap().to_vec2::<f32>().unwrap();
    let step = 256.0f32 / 255.0;
    assert_eq!(y[0][1], (-128.0 + 127.0 * 127.0) * step - 1.0);
}

/// The rows of a weight as its precision holds them.
fn rows(weight: &Tensor, precision: Precision) -> Tensor {
    let ids: Vec<u32> = (0..weight.dim(0).unwrap() as u32).collect();
    PackedLinear::new(weight, None, precision).unwrap().rows(&ids).unwrap()
}

#[test]
fn rows_are_those_of_the_weight() {
    for shape in [(1, 1), (17, 5), (48, 64), (70, 33)] {
        let weight = tensor(15, shape);
        let flat = weight.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let held = |numbers: Vec<f32>| Tensor::from_vec(numbers, shape, &Device::Cpu).unwrap();
        assert_eq!(bits(&rows(&weight, Precision::F32)), bits(&weight));
        assert_eq!(bits(&rows(&weight, Precision::Bf16)), bits(&held(rounded(&flat))));
        let int8 = Int8Matrix::new(&flat, shape.1).unwrap().to_f32();
        assert_eq!(bits(&rows(&weight, Precision::Int8)), bits(&held(int8)));
    }
    let layer = PackedLinear::new(&tensor(15, (20, 3)), None, Precision::F32).unwrap();
    assert_eq!(layer.rows(&[]).unwrap().dims(), [0, 3]);
    assert!(layer.rows(&[1, 20]).unwrap_err().to_string().contains("token id 20 lies outside"));
}

/// A weight read back as what its integers stand for gives the same integers and scales.
#[test]
fn int8_of_int8_is_itself() {
    let weight = tensor(11, (70, 33));
    let again = |weight: &Tensor| rows(weight, Precision::Int8);
    let once = again(&weight);
    assert_eq!(bits(&again(&once)), bits(&once));
    let x = tensor(12, (5, 33));
    let y = |weight| bits(&PackedLinear::new(weight, None, Precision::Int8).unwrap().forward(&x).unwrap());
    assert_eq!(y(&weight), y(&once));
    let tiny = (weight * 1e-38).unwrap();
    assert_eq!(bits(&again(&again(&tiny))), bits(&again(&tiny)));
}

#[test]
fn what_is_no_number_spoils_its_row_alone() {
    let weight = tensor(13, (20, 64));
    for (precision, broken) in
        ALL.into_iter().flat_map(|p| [(p, f32::NAN), (p, f32::INFINITY), (p, f32::NEG_INFINITY)])
    {
        let mut rows = tensor(14, (3, 64)).to_vec2::<f32>().unwrap();
        let layer = PackedLinear::new(&weight, None, precision).unwrap();
        let whole = layer.forward(&Tensor::new(rows.clone(), &Device::Cpu).unwrap()).unwrap();
        rows[1][40] = broken;
        let found =
            layer.forward(&Tensor::new(rows, &Device::Cpu).unwrap()).unwrap().to_vec2::<f32>().unwrap();
        let whole = whole.to_vec2::<f32>().unwrap();
        assert!(found[0] == whole[0] && found[2] == whole[2], "{precision:?}");
        assert!(found[1].iter().all(|y| !y.is_finite()), "{precision:?} {broken}: {:?}", found[1]);
    }
    let broken = Tensor::new(&[[1f32, f32::NAN]], &Device::Cpu).unwrap();
    let message = PackedLinear::new(&broken, None, Precision::Int8).unwrap_err().to_string();
    assert!(message.contains("int8 has no way to hold NaN"), "{message}");
}

#[test]
fn rows_of_a_wider_tensor_are_read_in_place() {
    let (x, weight) = (tensor(9, (5, 60)), tensor(10, (20, 24)));
    let layer = PackedLinear::new(&weight, None, Precision::F32).unwrap();
    let part = x.narrow(1, 30, 24).unwrap();
    let expected = bits(&layer.forward(&part.contiguous().unwrap()).unwrap());
    assert_eq!(bits(&layer.forward(&part).unwrap()), expected);
    let turned = part.t().unwrap().contiguous().unwrap().t().unwrap();
    assert_eq!(bits(&layer.forward(&turned).unwrap()), expected);
}

#[test]
fn no_rows_give_no_rows() {
    let layer = PackedLinear::new(&tensor(1, (3, 4)), None, Precision::F32).unwrap();
    let x = Tensor::zeros((0, 4), DType::F32, &Device::Cpu).unwrap();
    assert_eq!(layer.forward(&x).unwrap().dims(), [0, 3]);
}

#[test]
fn memory_is_the_rounded_width() {
    let bias = Tensor::zeros(50, DType::F32, &Device::Cpu).unwrap();
    assert_eq!(
        PackedLinear::new(&tensor(1, (50, 10)), Some(&bias), Precision::F32).unwrap().bytes(),
        (64 * 10 + 50) * 4
    );
}

#[test]
fn mistakes_are_named() {
    let weight = tensor(1, (3, 4));
    let layer = PackedLinear::new(&weight, None, Precision::F32).unwrap();
    let message = layer.forward(&tensor(1, (2, 5))).unwrap_err().to_string();
    assert!(message.contains("expected rows of 4 numbers, found 5"), "{message}");
    let var = Var::from_tensor(&tensor(1, (2, 4))).unwrap();
    let message = layer.forward(&var).unwrap_err().to_string();
    assert!(message.contains("no backward pass"), "{message}");
    let bias = Tensor::zeros(4, DType::F32, &Device::Cpu).unwrap();
    let message = PackedLinear::new(&weight, Some(&bias), Precision::F32).err().unwrap().to_string();
    assert!(message.contains("expected a bias of shape [3], found [4]"), "{message}");
}
