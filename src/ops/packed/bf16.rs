//! Linear layers in bf16: weights and inputs rounded to eight bits of mantissa, products summed in f32. Half the memory
//! of f32, and on processors with AMX several times its speed.
//!
//! The instructions add in different orders, so processors differ in the last bits. On one processor the bits of a row
//! depend on the row alone.

#[cfg(target_arch = "x86_64")]
pub use x86::Bf16;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::super::super::bf16::{Bf16Level, bf16_bits};
    use super::super::super::kernel::{Matrix, Output};
    use super::super::words::{Inputs, Kernel, Panels, Sums, multiply, words};
    use super::super::{Finish, amx, x86};
    use crate::ops::simd::simd;
    use std::mem::MaybeUninit;
    use std::ops::Range;

    /// The weights of a layer.
    #[derive(Debug)]
    pub struct Bf16 {
        panels: Panels,
        level: Bf16Level,
    }

    impl Bf16 {
        /// Rounds `weight` [n_out, n_in] for the instructions of `level`, which is not the plain one.
        pub fn new(weight: &[f32], n_in: usize, level: Bf16Level) -> Self {
            let bytes: Vec<u8> = weight.iter().flat_map(|&w| bf16_bits(w).to_le_bytes()).collect();
            Bf16 { panels: Panels::pack(&bytes, n_in * 2), level }
        }

        /// Writes row `row` of the weight that was packed, as it was rounded.
        pub fn row(&self, row: usize, out: &mut [f32]) {
            for (k, out) in out.iter_mut().enumerate() {
                let [low, high] = self.panels.number(row, k);
                *out = f32::from_le_bytes([0, 0, low, high]);
            }
        }

        /// Memory.
        pub fn bytes(&self) -> usize {
            self.panels.bytes()
        }

        /// Sixteen columns each.
        pub fn panels(&self) -> usize {
            self.panels.count()
        }

        /// The rows of `x`, rounded.
        pub fn inputs(&self, x: Matrix<'_>, (rows, n_in): (usize, usize)) -> Inputs {
            let mut inputs = Inputs::zeros(rows, words(n_in * 2));
            for row in 0..rows {
                round_row(&x.data[row * x.row..][..n_in], inputs.row_mut(row));
            }
            inputs
        }

        /// Writes the columns of `panels` for all rows of `x`.
        ///
        /// # Safety
        /// No other task may touch these columns of `y`, which has as many rows as `x`.
        pub unsafe fn fill(
            &self,
            x: &Inputs,
            panels: Range<usize>,
            Finish { bias, relu }: Finish<'_>,
            y: Output<'_>,
        ) {
            // Not by the number of rows: AMX and AVX-512 add in different orders.
            let kernel = match self.level {
                Bf16Level::Amx if x.rows <= 16 => {
                    Kernel { rows: 16, panels: 4, tiles: true, run: amx::bf16_flat }
                }
                Bf16Level::Amx => Kernel { rows: 32, panels: 2, tiles: true, run: amx::bf16_square },
                _ => Kernel { rows: 8, panels: 3, tiles: false, run: x86::bf16_avx512 },
            };
            let finish = |rows: Range<usize>, columns: Range<usize>, sums: &Sums| {
                let bias = bias.map(|bias| &bias[columns.clone()]);
                for (row, sums) in rows.zip(&sums.0) {
                    // SAFETY: no other task touches these columns.
                    let y = unsafe { y.row(row, columns.clone()) };
                    finish_row(&sums[..columns.len()], bias, relu, y);
                }
            };
            // SAFETY: the level is this processor's; the rest is the caller's promise.
            unsafe { multiply(kernel, x, &self.panels, panels, finish) }
        }
    }

    simd! {
        fn round_row(x: &[f32], out: &mut [u8]) {
            for (out, &x) in out.as_chunks_mut::<2>().0.iter_mut().zip(x) {
                *out = bf16_bits(x).to_le_bytes();
            }
        }
    }

    simd! {
        /// The outputs of a row for its sums.
        fn finish_row(sums: &[u32], bias: Option<&[f32]>, relu: bool, y: &mut [MaybeUninit<f32>]) {
            let lowest = if relu { 0.0 } else { f32::NEG_INFINITY };
            let value = |sum: u32, bias: f32| {
                let y = f32::from_bits(sum) + bias;
                // NaN stays.
                if y < lowest { lowest } else { y }
            };
            for (index, (y, &sum)) in y.iter_mut().zip(sums).enumerate() {
                y.write(value(sum, bias.map_or(0.0, |bias| bias[index])));
            }
        }
    }
}
