//! Products of words: four bytes of the inner index at a time, which are four u8 against four i8 ([`super::int8`]) or
//! two bf16 against two ([`super::bf16`]). Processors have one instruction for sixteen such words.
//!
//! Weights lie in panels of sixteen columns: word after word, each with its sixteen columns (64 bytes), as many words as
//! make whole tiles of AMX. The same panels serve every instruction set.

#[cfg(target_arch = "x86_64")]
use super::super::amx::Registers;
use super::super::kernel::prefetch;
use rayon::prelude::*;
use std::ops::Range;

/// Columns of a panel.
pub const PANEL: usize = 16;

/// Bytes of a word.
pub const WORD: usize = 4;

/// Words that make a tile of AMX; the inner side is filled up with zeros to a multiple of them.
pub const TILE_WORDS: usize = 16;

/// Rows of a tile of AMX. There is memory for whole tiles of rows.
pub const TILE_ROWS: usize = 16;

/// One word of the sixteen columns of a panel.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct Line(pub [u8; PANEL * WORD]);

/// The weights of a layer, panel after panel.
#[derive(Debug)]
pub struct Panels {
    lines: Vec<Line>,
    /// Of a panel.
    words: usize,
    n_out: usize,
}

/// The words of an inner side of so many bytes, filled up to whole tiles.
pub fn words(bytes: usize) -> usize {
    bytes.div_ceil(WORD).next_multiple_of(TILE_WORDS)
}

impl Panels {
    /// The rows of a weight as columns: `rows` has their bytes one after the other, `row_bytes` each.
    pub fn pack(rows: &[u8], row_bytes: usize) -> Self {
        let (n_out, words) = (rows.len() / row_bytes, words(row_bytes));
        let mut lines = vec![Line([0; PANEL * WORD]); n_out.div_ceil(PANEL) * words];
        let panels = lines.par_chunks_exact_mut(words).zip(rows.par_chunks(PANEL * row_bytes));
        panels.for_each(|(lines, rows)| {
            for (column, row) in rows.chunks_exact(row_bytes).enumerate() {
                let (whole, rest) = row.as_chunks::<WORD>();
                for (line, word) in lines.iter_mut().zip(whole) {
                    line.0[column * WORD..][..WORD].copy_from_slice(word);
                }
                if !rest.is_empty() {
                    lines[whole.len()].0[column * WORD..][..rest.len()].copy_from_slice(rest);
                }
            }
        });
        Panels { lines, words, n_out }
    }

    /// Number `k` of a row of the weight that was packed.
    pub fn number<const BYTES: usize>(&self, row: usize, k: usize) -> [u8; BYTES] {
        let byte = k * BYTES;
        let line = &self.lines[row / PANEL * self.words + byte / WORD].0;
        std::array::from_fn(|i| line[row % PANEL * WORD + byte % WORD + i])
    }

    /// Panels.
    pub fn count(&self) -> usize {
        self.n_out.div_ceil(PANEL)
    }

    /// Memory.
    pub fn bytes(&self) -> usize {
        size_of_val(self.lines.as_slice())
    }

    /// The real columns of some panels.
    fn columns(&self, panels: Range<usize>) -> Range<usize> {
        panels.start * PANEL..(panels.end * PANEL).min(self.n_out)
    }
}

/// The rows of an input in the numbers of the panels, filled up to whole tiles on both sides.
#[derive(Debug)]
pub struct Inputs {
    pub lines: Vec<Line>,
    pub rows: usize,
    words: usize,
}

impl Inputs {
    /// Zeros for `rows` rows of `words` words.
    pub fn zeros(rows: usize, words: usize) -> Self {
        let lines = rows.next_multiple_of(TILE_ROWS) * words / PANEL;
        Inputs { lines: vec![Line([0; PANEL * WORD]); lines], rows, words }
    }

    /// The bytes of a row.
    pub fn row_mut(&mut self, row: usize) -> &mut [u8] {
        let lines = self.words / PANEL;
        self.lines[row * lines..(row + 1) * lines].as_flattened_bytes()
    }
}

/// Lines as their bytes.
trait Flattened {
    fn as_flattened_bytes(&mut self) -> &mut [u8];
}

impl Flattened for [Line] {
    fn as_flattened_bytes(&mut self) -> &mut [u8] {
        // SAFETY: a line is 64 bytes, without padding.
        unsafe { std::slice::from_raw_parts_mut(self.as_mut_ptr().cast(), size_of_val(self)) }
    }
}

/// The most rows and panels whose sums are made together.
const MOST_ROWS: usize = 32;
const MOST_PANELS: usize = 4;

/// Sums of products of some rows and panels: i32 for bytes, the bits of f32 for bf16.
#[repr(C, align(64))]
pub struct Sums(pub [[u32; MOST_PANELS * PANEL]; MOST_ROWS]);

/// A product of some rows of an input with some panels, addressed for the instructions.
#[derive(Clone, Copy)]
pub struct Product {
    /// The first row of the input.
    pub x: *const u8,
    /// Bytes from row to row.
    pub x_row: usize,
    /// The first panel.
    pub w: *const u8,
    /// Bytes from panel to panel.
    pub w_panel: usize,
    /// Words of the inner side.
    pub words: usize,
}

/// Instructions for sixteen words.
///
/// # Safety
/// All functions need a processor that has them.
pub trait Words: Copy {
    /// Rows and panels whose sums fit the registers.
    const ROWS: usize;
    const PANELS: usize;
    /// Sixteen words of weights, and a word of the input sixteen times, as the instruction takes them.
    type Weights: Copy;
    type Input: Copy;
    unsafe fn zero() -> Self;
    /// Sixteen words at `from`.
    unsafe fn weights(from: *const u8) -> Self::Weights;
    /// The word at `from`.
    unsafe fn input(from: *const u8) -> Self::Input;
    /// In each lane, self plus the products of a word.
    unsafe fn add(self, x: Self::Input, w: Self::Weights) -> Self;
    unsafe fn store(self, to: *mut u32);
}

/// The sums of `ROWS` rows and `PANELS` panels.
///
/// # Safety
/// The processor must have the instructions of `W`, and the product so many rows and panels.
#[inline(always)]
unsafe fn sized<W: Words, const ROWS: usize, const PANELS: usize>(product: Product, sums: &mut Sums) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut lanes = [[W::zero(); PANELS]; ROWS];
        for word in 0..product.words {
            let at = |panel: usize| product.w.add(panel * product.w_panel + word * PANEL * WORD);
            let mut w = [W::weights(at(0)); PANELS];
            for (panel, w) in w.iter_mut().enumerate() {
                *w = W::weights(at(panel));
            }
            for (row, lanes) in lanes.iter_mut().enumerate() {
                let x = W::input(product.x.add(row * product.x_row + word * WORD));
                for (lane, &w) in lanes.iter_mut().zip(&w) {
                    *lane = lane.add(x, w);
                }
            }
        }
        for (lanes, sums) in lanes.iter().zip(&mut sums.0) {
            for (panel, lane) in lanes.iter().enumerate() {
                lane.store(sums.as_mut_ptr().add(panel * PANEL));
            }
        }
    }
}

/// The sums of up to `W::ROWS` rows and `W::PANELS` panels.
///
/// # Safety
/// As [`sized`].
#[inline(always)]
pub unsafe fn small<W: Words>((rows, panels): (usize, usize), product: Product, sums: &mut Sums) {
    macro_rules! shapes {
        ($($rows:literal $panels:literal),*) => {
            // SAFETY: the caller's promise.
            unsafe {
                match (rows, panels) {
                    $(($rows, $panels) if $rows <= W::ROWS && $panels <= W::PANELS =>
                        sized::<W, $rows, $panels>(product, sums),)*
                    _ => unreachable!("no product of {rows} rows and {panels} panels"),
                }
            }
        };
    }
    shapes!(1 1, 2 1, 3 1, 4 1, 5 1, 6 1, 7 1, 8 1, 1 2, 2 2, 3 2, 4 2, 5 2, 6 2, 7 2, 8 2, 1 3, 2 3, 3 3, 4 3, 5 3, 6 3, 7 3, 8 3);
}

/// How the sums of a block of rows and panels are made: the rows and panels of a block, and the function.
#[derive(Clone, Copy)]
pub struct Kernel {
    pub rows: usize,
    pub panels: usize,
    /// Whether it needs the registers of AMX.
    pub tiles: bool,
    /// # Safety
    /// The processor must have its instructions; the product must have these rows and panels, in memory for whole tiles.
    pub run: unsafe fn(shape: (usize, usize), product: Product, sums: &mut Sums),
}

/// Makes the sums of all rows of `x` with `panels` and hands them, block by block, to `finish(rows, columns, sums)`.
///
/// # Safety
/// The processor must have the instructions of `kernel`.
pub unsafe fn multiply(
    kernel: Kernel,
    x: &Inputs,
    weights: &Panels,
    panels: Range<usize>,
    mut finish: impl FnMut(Range<usize>, Range<usize>, &Sums),
) {
    assert!(x.words == weights.words && panels.end <= weights.count(), "inner sizes of a product");
    // SAFETY: a kernel of tiles means a processor with AMX.
    #[cfg(target_arch = "x86_64")]
    let _registers = kernel.tiles.then(|| unsafe { Registers::configured() });
    let mut sums = Sums([[0; MOST_PANELS * PANEL]; MOST_ROWS]);
    for first in panels.clone().step_by(kernel.panels) {
        let panels = first..(first + kernel.panels).min(panels.end);
        let next =
            panels.end * weights.words..(panels.end + panels.len()).min(weights.count()) * weights.words;
        // The lines that the next panels have, a share at each block of rows.
        let share = next.len().div_ceil(x.rows.div_ceil(kernel.rows));
        let mut ahead = weights.lines[next].chunks(share.max(1));
        for row in (0..x.rows).step_by(kernel.rows) {
            let rows = row..(row + kernel.rows).min(x.rows);
            let product = Product {
                x: x.lines.as_ptr().cast::<u8>().wrapping_add(row * x.words * WORD),
                x_row: x.words * WORD,
                w: weights.lines.as_ptr().cast::<u8>().wrapping_add(first * weights.words * PANEL * WORD),
                w_panel: weights.words * PANEL * WORD,
                words: weights.words,
            };
            ahead.next().into_iter().flatten().for_each(|line| prefetch(line.0.as_ptr()));
            // SAFETY: the rows and panels exist; the instructions are the caller's promise.
            unsafe { (kernel.run)((rows.len(), panels.len()), product, &mut sums) };
            finish(rows, weights.columns(panels.clone()), &sums);
        }
    }
}
