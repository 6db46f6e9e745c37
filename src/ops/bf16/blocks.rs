//! A product cut into blocks whose packed operands stay in the second cache, and into parts for several threads.

use std::cell::Cell;
use std::ops::Range;

use rayon::prelude::*;

use super::super::amx::Registers;
use super::pack::{DEPTH, Form, LANES, Side, Tile, pack};
use super::{Bf16Level, amx, avx512};

/// Numbers of a lane that are multiplied before the sums go back to memory. Fixed, as it sets the order of the sums.
const K: usize = 1024;

/// Tiles of a packed block of b (1 MiB).
const B_TILES: usize = 1024;

/// Tiles of a packed block of a (256 KiB).
const A_TILES: usize = 256;

/// A product of fewer multiplications stays on the calling thread: waking the others takes longer.
const PARALLEL: usize = 1 << 22;

/// A part of the result: `rows` of `cols` neighbouring numbers, `stride` apart.
#[derive(Clone, Copy)]
pub struct Target {
    pub data: *mut f32,
    pub stride: usize,
    pub rows: usize,
    pub cols: usize,
    /// Whether the numbers there are added to.
    pub add: bool,
}

// SAFETY: the functions that write through it are unsafe and ask that no two tasks share a number.
unsafe impl Send for Target {}
// SAFETY: as above.
unsafe impl Sync for Target {}

impl Target {
    /// The part of these rows and columns.
    fn part(self, rows: Range<usize>, cols: Range<usize>) -> Self {
        let data = self.data.wrapping_add(rows.start * self.stride + cols.start);
        Target { data, rows: rows.len(), cols: cols.len(), ..self }
    }
}

/// Writes a·b to `out`, or adds it, for a side with rows and one with columns, neither empty.
///
/// # Safety
/// The processor must have `level`, which is not the plain one; `out` must have as many rows and columns as the
/// sides, writable by this call alone, and readable where it adds.
pub unsafe fn multiply(level: Bf16Level, a: Side, b: Side, out: Target) {
    let threads = rayon::current_num_threads();
    // SAFETY: the parts that several threads write are disjoint; the rest is the caller's promise.
    if threads == 1 || a.lanes * b.lanes * a.k < PARALLEL {
        unsafe { on_this_thread(level, a, b, out) };
    } else if a.lanes >= b.lanes {
        ranges(a.lanes, threads).into_par_iter().for_each(|rows| unsafe {
            on_this_thread(level, a.part(rows.clone()), b, out.part(rows, 0..out.cols));
        });
    } else {
        ranges(b.lanes, threads).into_par_iter().for_each(|cols| unsafe {
            on_this_thread(level, a, b.part(cols.clone()), out.part(0..out.rows, cols));
        });
    }
}

/// 0..lanes in at most `count` ranges of whole panels, the last as far as it goes.
fn ranges(lanes: usize, count: usize) -> Vec<Range<usize>> {
    let size = lanes.div_ceil(LANES).div_ceil(count) * LANES;
    (0..lanes).step_by(size).map(|start| start..lanes.min(start + size)).collect()
}

thread_local! {
    /// The packed blocks of one product, kept for the next.
    static TILES: Cell<Vec<Tile>> = const { Cell::new(Vec::new()) };
}

/// [`multiply`] without other threads.
unsafe fn on_this_thread(level: Bf16Level, a: Side, b: Side, out: Target) {
    // SAFETY: the level is the caller's promise.
    let amx = (level == Bf16Level::Amx).then(|| unsafe { Registers::configured() });
    let mut tiles = TILES.take();
    tiles.resize(A_TILES + B_TILES, Tile::ZERO);
    let (a_tiles, b_tiles) = tiles.split_at_mut(A_TILES);

    for ks in blocks(a.k, K, DEPTH) {
        // Tiles of a panel.
        let depth = 2 * ks.len().div_ceil(DEPTH);
        let add = out.add || ks.start > 0;
        for cols in blocks(b.lanes, B_TILES / depth * LANES, LANES) {
            let b_tiles = &mut b_tiles[..cols.len().div_ceil(LANES) * depth];
            // SAFETY: every level but the plain one has AVX512-BF16.
            unsafe { pack(b, cols.clone(), ks.clone(), Form::Pairs, b_tiles) };
            for rows in blocks(a.lanes, A_TILES / depth * LANES, LANES) {
                let a_tiles = &mut a_tiles[..rows.len().div_ceil(LANES) * depth];
                // SAFETY: as above.
                unsafe { pack(a, rows.clone(), ks.clone(), Form::Lanes, a_tiles) };
                for (rows, a) in panels(rows).zip(a_tiles.chunks_exact(depth)) {
                    for (cols, b) in panels(cols.clone()).zip(b_tiles.chunks_exact(depth)) {
                        let c = Target { add, ..out.part(rows.clone(), cols) };
                        // SAFETY: the level and the target are the caller's promise.
                        match &amx {
                            Some(registers) => unsafe { amx::block(registers, a, b, c) },
                            None => unsafe { avx512::block(a, b, c) },
                        }
                    }
                }
            }
        }
    }
    TILES.set(tiles);
}

/// 0..len in the fewest ranges of at most `largest` numbers, as equal as whole multiples of `unit` allow.
fn blocks(len: usize, largest: usize, unit: usize) -> impl Iterator<Item = Range<usize>> {
    let size = len.div_ceil(len.div_ceil(largest)).next_multiple_of(unit);
    (0..len).step_by(size).map(move |start| start..len.min(start + size))
}

/// The panels of some lanes.
fn panels(lanes: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = lanes.end;
    lanes.step_by(LANES).map(move |start| start..end.min(start + LANES))
}
