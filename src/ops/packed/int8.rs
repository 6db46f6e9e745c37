//! Linear layers in eight-bit integers: y ≈ x Wᵀ + b with both factors rounded to whole numbers. Every row of W (an
//! output) is scaled so that its largest number becomes ±127; every row of x so that it spans 0 to 255, with its own
//! whole number for zero, since what comes out of a relu has no negative half. Products and sums are exact, so the result
//! is the same bits on every processor, and that of a row depends on the row alone.

use super::super::kernel::{Matrix, Output};
use super::super::simd::{max, max_of, simd, sum};
use super::Finish;
use super::words::{Inputs, Kernel, Panels, Product, Sums, Words, multiply, small, words};
use crate::{Error, Result};
use rayon::prelude::*;
use std::ops::Range;

/// The largest quantised number.
const LARGEST: f32 = 127.0;

/// Added to a number of at most 2^21, this leaves it, rounded to the nearest, of two as near to the even one, in the low
/// bits.
const ROUND: f32 = 12_582_912.0;

/// With more inputs a sum could leave 32 bits.
const MOST_INPUTS: usize = 1 << 16;

/// The weights of a layer, and by column what turns its sums into outputs.
#[derive(Debug)]
pub struct Int8 {
    panels: Panels,
    scales: Vec<f32>,
    /// Sums of the weights, which a row's zero multiplies.
    sums: Vec<i32>,
}

/// How products of bytes are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Any processor.
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    AvxVnni,
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni,
    #[cfg(target_arch = "x86_64")]
    Amx,
}

impl Level {
    /// What this processor has, the slowest first.
    pub fn available() -> Vec<Level> {
        #[allow(unused_mut)]
        let mut levels = vec![Level::Plain];
        #[cfg(target_arch = "x86_64")]
        {
            let vnni512 = is_x86_feature_detected!("avx512vnni")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl");
            let there = [
                (Level::Avx2, is_x86_feature_detected!("avx2")),
                (Level::AvxVnni, is_x86_feature_detected!("avxvnni")),
                (Level::Avx512Vnni, vnni512),
                (Level::Amx, super::super::amx::available()),
            ];
            levels.extend(there.into_iter().filter(|&(_, there)| there).map(|(level, _)| level));
        }
        levels
    }

    /// The best for `rows` rows: tiles gain nothing where few of their rows are used.
    fn best(rows: usize) -> Level {
        /// Rows from which on tiles are faster.
        const TILES: usize = 12;
        static LEVELS: std::sync::LazyLock<[Level; 2]> = std::sync::LazyLock::new(|| {
            let levels = Level::available();
            let best = levels[levels.len() - 1];
            #[cfg(target_arch = "x86_64")]
            let few = levels.iter().rev().find(|&&level| level != Level::Amx).copied().unwrap_or(best);
            #[cfg(not(target_arch = "x86_64"))]
            let few = best;
            [few, best]
        });
        LEVELS[usize::from(rows >= TILES)]
    }

    fn kernel(self, rows: usize) -> Kernel {
        #[cfg(target_arch = "x86_64")]
        {
            use super::{amx, x86};
            match self {
                Level::Plain => {}
                Level::Avx2 => return Kernel { rows: 4, panels: 1, tiles: false, run: x86::bytes_avx2 },
                Level::AvxVnni => {
                    return Kernel { rows: 6, panels: 1, tiles: false, run: x86::bytes_avx_vnni };
                }
                Level::Avx512Vnni => {
                    return Kernel { rows: 8, panels: 3, tiles: false, run: x86::bytes_avx512 };
                }
                Level::Amx if rows <= 16 => {
                    return Kernel { rows: 16, panels: 4, tiles: true, run: amx::bytes_flat };
                }
                Level::Amx => return Kernel { rows: 32, panels: 2, tiles: true, run: amx::bytes_square },
            }
        }
        let _ = rows;
        Kernel { rows: 4, panels: 1, tiles: false, run: plain }
    }
}

/// Bytes on any processor.
#[derive(Clone, Copy)]
struct Plain([i32; 16]);

// SAFETY (all functions): the caller vouches for the memory behind the pointers.
impl Words for Plain {
    const ROWS: usize = 4;
    const PANELS: usize = 1;
    type Weights = [[i32; 4]; 16];
    type Input = [i32; 4];

    #[inline(always)]
    unsafe fn zero() -> Self {
        Self([0; 16])
    }

    #[inline(always)]
    unsafe fn weights(from: *const u8) -> [[i32; 4]; 16] {
        unsafe { from.cast::<[[i8; 4]; 16]>().read() }.map(|word| word.map(i32::from))
    }

    #[inline(always)]
    unsafe fn input(from: *const u8) -> [i32; 4] {
        unsafe { from.cast::<[u8; 4]>().read() }.map(i32::from)
    }

    #[inline(always)]
    unsafe fn add(self, x: [i32; 4], w: [[i32; 4]; 16]) -> Self {
        Self(std::array::from_fn(|lane| {
            let w = w[lane];
            self.0[lane] + x[0] * w[0] + x[1] * w[1] + x[2] * w[2] + x[3] * w[3]
        }))
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u32) {
        unsafe { to.cast::<[i32; 16]>().write_unaligned(self.0) }
    }
}

unsafe fn plain(shape: (usize, usize), product: Product, sums: &mut Sums) {
    // SAFETY: the caller's promise.
    unsafe { small::<Plain>(shape, product, sums) }
}

/// The scale of numbers of which `largest` is the largest: `largest` / 127, rounded up to 16 bits of mantissa. So the
/// products of the scale with whole numbers to 127 are exact in f32, and a weight that is read back as such a product
/// gives the same integers and the same scale again.
fn scale(largest: f32) -> f32 {
    /// Bits of an f32 below the 16 that stay.
    const BELOW: u32 = (1 << 8) - 1;
    f32::from_bits(((largest / LARGEST).to_bits() + BELOW) & !BELOW)
}

/// A matrix as whole numbers, and the scale of each row.
#[derive(Debug)]
pub struct Int8Matrix {
    /// Row after row, -127 to 127.
    pub numbers: Vec<i8>,
    /// Of each row; a number is its integer times this.
    pub scales: Vec<f32>,
}

impl Int8Matrix {
    /// The integers nearest to the numbers of `rows` [n, n_in] over their row's scale, of two as near the even one.
    /// NaN and infinities are refused.
    pub fn new(rows: &[f32], n_in: usize) -> Result<Self> {
        if let Some(broken) = rows.iter().find(|x| !x.is_finite()) {
            return Err(Error::Data(format!("int8 has no way to hold {broken}: expected numbers")));
        }
        let mut numbers = vec![0; rows.len()];
        let quantize = |(row, out): (&[f32], &mut [i8])| {
            let scale = scale(max_of(row, f32::abs).max(0.0));
            round_row(row, scale, out);
            scale
        };
        let rows = rows.par_chunks_exact(n_in.max(1)).zip(numbers.par_chunks_exact_mut(n_in.max(1)));
        let scales = rows.map(quantize).collect();
        Ok(Int8Matrix { numbers, scales })
    }

    /// The numbers that they stand for.
    pub fn to_f32(&self) -> Vec<f32> {
        let n_in = self.numbers.len() / self.scales.len().max(1);
        let rows = self.numbers.chunks_exact(n_in.max(1)).zip(&self.scales);
        rows.flat_map(|(row, &scale)| row.iter().map(move |&q| f32::from(q) * scale)).collect()
    }
}

simd! {
    fn round_row(row: &[f32], scale: f32, out: &mut [i8]) {
        if scale == 0.0 {
            return;
        }
        for (out, &x) in out.iter_mut().zip(row) {
            *out = (x / scale + ROUND).to_bits() as i8;
        }
    }
}

impl Int8 {
    /// Quantises `weight` [n_out, n_in], row by row.
    pub fn new(weight: &[f32], n_in: usize) -> Result<Self> {
        if n_in > MOST_INPUTS {
            return Err(Error::Data(format!(
                "int8 linear: {n_in} inputs are too many for sums of 32 bits, at most {MOST_INPUTS}: use f32"
            )));
        }
        let Int8Matrix { numbers, scales } = Int8Matrix::new(weight, n_in)?;
        let sums = numbers.chunks_exact(n_in).map(|row| row.iter().map(|&q| i32::from(q)).sum()).collect();
        let bytes: Vec<u8> = numbers.into_iter().map(|q| q as u8).collect();
        Ok(Int8 { panels: Panels::pack(&bytes, n_in), sums, scales })
    }

    /// Writes row `row` of the weight that was packed, as the numbers that its integers stand for.
    pub fn row(&self, row: usize, out: &mut [f32]) {
        for (k, out) in out.iter_mut().enumerate() {
            let [q] = self.panels.number(row, k);
            *out = f32::from(q as i8) * self.scales[row];
        }
    }

    /// Memory.
    pub fn bytes(&self) -> usize {
        self.panels.bytes() + size_of_val(self.scales.as_slice()) + size_of_val(self.sums.as_slice())
    }

    /// Sixteen columns each.
    pub fn panels(&self) -> usize {
        self.panels.count()
    }

    /// The rows of `x` as integers.
    pub fn inputs(&self, x: Matrix<'_>, (rows, n_in): (usize, usize)) -> Quantized {
        let mut inputs = Inputs::zeros(rows, words(n_in));
        let codes = (0..rows).map(|row| quantize_row(&x.data[row * x.row..][..n_in], inputs.row_mut(row)));
        Quantized { codes: codes.collect(), inputs }
    }

    /// Writes the columns of `panels` for all rows of `x`.
    ///
    /// # Safety
    /// No other task may touch these columns of `y`, which has as many rows as `x`.
    pub unsafe fn fill(&self, x: &Quantized, panels: Range<usize>, finish: Finish<'_>, y: Output<'_>) {
        // SAFETY: the processor has its best level; the rest is the caller's promise.
        unsafe { self.fill_at(Level::best(x.inputs.rows), x, panels, finish, y) }
    }

    /// [`Int8::fill`] with other instructions.
    ///
    /// # Safety
    /// As above, and the processor must have them.
    unsafe fn fill_at(
        &self,
        level: Level,
        x: &Quantized,
        panels: Range<usize>,
        Finish { bias, relu }: Finish<'_>,
        y: Output<'_>,
    ) {
        let kernel = level.kernel(x.inputs.rows);
        let finish = |rows: Range<usize>, columns: Range<usize>, sums: &Sums| {
            let own = Columns {
                scales: &self.scales[columns.clone()],
                sums: &self.sums[columns.clone()],
                bias: bias.map(|bias| &bias[columns.clone()]),
                relu,
            };
            finish_block(sums, &x.codes[rows.clone()], own, y.from(rows.start, columns.start));
        };
        // SAFETY: the caller's promise.
        unsafe { multiply(kernel, &x.inputs, &self.panels, panels, finish) }
    }
}

/// Rows as integers.
#[derive(Debug)]
pub struct Quantized {
    inputs: Inputs,
    codes: Vec<Code>,
}

/// What the integers of a row mean: x ≈ scale · (q - zero).
#[derive(Debug, Clone, Copy)]
struct Code {
    scale: f32,
    zero: i32,
}

simd! {
    /// Writes q = x / scale + zero, rounded to the nearest, of two as near to the even one. With a NaN or an infinity the
    /// scale is NaN, and so will be the outputs.
    fn quantize_row(x: &[f32], out: &mut [u8]) -> Code {
        /// Below this the quotient of 255 could overflow; such a row counts as zero.
        const SMALLEST: f32 = 1e-30;
        // x · 0 is zero but for NaN and the infinities.
        let broken = sum(x, |x| x * 0.0) != 0.0;
        let (low, high) = (max_of(x, |x| -x).max(0.0), max(x).max(0.0));
        let span = high + low;
        if broken || span == f32::INFINITY {
            return Code { scale: f32::NAN, zero: 0 };
        }
        if span <= SMALLEST {
            return Code { scale: 0.0, zero: 0 };
        }
        let factor = 255.0 / span;
        let zero = (low * factor + ROUND) - ROUND;
        for (out, &x) in out.iter_mut().zip(x) {
            let q = (x * factor + ROUND) - ROUND + zero;
            let q = if q > 255.0 { 255.0 } else { q };
            *out = (q + ROUND).to_bits() as u8;
        }
        Code { scale: span / 255.0, zero: zero as i32 }
    }
}

/// Columns of a block, and what becomes of them.
#[derive(Clone, Copy)]
struct Columns<'a> {
    scales: &'a [f32],
    sums: &'a [i32],
    bias: Option<&'a [f32]>,
    relu: bool,
}

simd! {
    /// Writes the outputs of some rows and columns for their sums: as many rows as codes.
    ///
    /// The columns are exclusively the caller's.
    fn finish_block(sums: &Sums, codes: &[Code], columns: Columns<'_>, y: Output<'_>) {
        let Columns { scales, sums: weights, bias, relu } = columns;
        let lowest = if relu { 0.0 } else { f32::NEG_INFINITY };
        for (row, (code, sums)) in codes.iter().zip(&sums.0).enumerate() {
            // SAFETY: the caller's promise.
            let y = unsafe { y.row(row, 0..scales.len()) };
            let value = |sum: u32, weights: i32, scale: f32, bias: f32| {
                let sum = (sum as i32).wrapping_sub(code.zero.wrapping_mul(weights));
                let y = sum as f32 * code.scale * scale + bias;
                // NaN stays.
                if y < lowest { lowest } else { y }
            };
            let columns = y.iter_mut().zip(sums).zip(weights).zip(scales);
            match bias {
                Some(bias) => {
                    for ((((y, &sum), &weights), &scale), &bias) in columns.zip(bias) {
                        y.write(value(sum, weights, scale, bias));
                    }
                }
                None => {
                    for (((y, &sum), &weights), &scale) in columns {
                        y.write(value(sum, weights, scale, 0.0));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::kernel::filled;
    use super::super::super::simd::forced;
    use super::*;
    use crate::rng::Rng;

    fn numbers(seed: u64, len: usize) -> Vec<f32> {
        let mut rng = Rng::new(seed, "int8");
        (0..len).map(|_| rng.normal() as f32).collect()
    }

    /// The definition, without panels or instructions.
    fn plainly(x: &[f32], weight: &[f32], bias: &[f32], n_in: usize) -> Vec<u32> {
        let Int8Matrix { numbers, scales } = Int8Matrix::new(weight, n_in).unwrap();
        let mut y = Vec::new();
        for x in x.chunks_exact(n_in) {
            let mut q = vec![0; n_in];
            let code = quantize_row(x, &mut q);
            for ((row, scale), bias) in numbers.chunks_exact(n_in).zip(&scales).zip(bias) {
                let products = q.iter().zip(row).map(|(&q, &w)| (i32::from(q) - code.zero) * i32::from(w));
                y.push((products.sum::<i32>() as f32 * code.scale * scale + bias).to_bits());
            }
        }
        y
    }

    /// Around the sizes of tiles, panels and register blocks, with all instructions that there are.
    #[test]
    fn every_level_gives_the_same_bits() {
        for (n, i, o) in [(1, 1, 1), (2, 63, 15), (3, 64, 16), (9, 65, 17), (15, 200, 48), (16, 128, 49)]
            .into_iter()
            .chain([(17, 70, 65), (31, 5, 100), (32, 256, 96), (33, 64, 33), (70, 300, 80)])
        {
            let (x, weight, bias) = (numbers(1, n * i), numbers(2, o * i), numbers(3, o));
            let expected = plainly(&x, &weight, &bias, i);
            let layer = Int8::new(&weight, i).unwrap();
            for level in Level::available() {
                let found = forced::same_everywhere(|| {
                    let x = layer.inputs(Matrix::rows(&x, i), (n, i));
                    let finish = Finish { bias: Some(&bias), relu: false };
                    // SAFETY: the level is there, and fills all of it.
                    let y = unsafe {
                        filled(n * o, |y| {
                            layer.fill_at(level, &x, 0..layer.panels(), finish, Output::new(y, o))
                        })
                    };
                    y.into_iter().map(f32::to_bits).collect::<Vec<_>>()
                });
                assert!(found == expected, "{level:?}, n {n}, i {i}, o {o}");
            }
        }
    }

    /// The largest sums that there can be: 255 times 127, as often as inputs are allowed.
    #[test]
    fn sums_do_not_overflow() {
        let (x, weight) = (vec![1.0; MOST_INPUTS], vec![-1.0; MOST_INPUTS]);
        let layer = Int8::new(&weight, MOST_INPUTS).unwrap();
        let x = layer.inputs(Matrix::rows(&x, MOST_INPUTS), (1, MOST_INPUTS));
        for level in Level::available() {
            let finish = Finish { bias: None, relu: false };
            // SAFETY: the level is there, and fills all of it.
            let y = unsafe { filled(1, |y| layer.fill_at(level, &x, 0..1, finish, Output::new(y, 1))) };
            assert!((y[0] / -(MOST_INPUTS as f32) - 1.0).abs() < 1e-4, "{level:?}: {}", y[0]);
        }
        let message = Int8::new(&vec![0.0; MOST_INPUTS + 1], MOST_INPUTS + 1).unwrap_err().to_string();
        assert!(message.contains("65537 inputs are too many"), "{message}");
    }
}
