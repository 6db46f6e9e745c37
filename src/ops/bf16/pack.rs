//! Operands as tiles of bf16: what [`super::amx`] and [`super::avx512`] read.
//!
//! A product of a \[m,k\] and b \[k,n\] has two sides, and each is a set of *lanes* (the rows of a, the columns of b)
//! of k numbers. Sixteen lanes of 32 numbers make a [`Tile`], in the [`Form`] of its side; two tiles, 32 lanes, side
//! by side make a step, and the steps of the same 32 lanes follow each other as a panel. What lies beyond the last
//! lane or the last number is zero.

use std::arch::x86_64::*;
use std::ops::Range;

use super::super::matmul::Matrix;

/// Lanes of a tile, and pairs of numbers in each.
pub const SIDE: usize = 16;

/// Lanes of a panel.
pub const LANES: usize = 2 * SIDE;

/// Numbers of each lane in a tile.
pub const DEPTH: usize = 2 * SIDE;

/// Sixteen times sixteen pairs of bf16 (1 KiB).
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Tile(pub [u32; SIDE * SIDE]);

impl Tile {
    pub const ZERO: Tile = Tile([0; SIDE * SIDE]);
}

/// How the pairs of a tile follow each other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Lane by lane, each with its sixteen pairs: the left side, a.
    Lanes,
    /// Pair by pair, each with its sixteen lanes: the right side, b.
    Pairs,
}

/// One side of a product.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    numbers: &'a [f32],
    pub lanes: usize,
    pub k: usize,
    lane_stride: usize,
    k_stride: usize,
}

impl<'a> Side<'a> {
    /// The rows of a \[m,k\].
    pub fn left(a: Matrix<'a>) -> Self {
        let Matrix { numbers, rows, cols, row_stride, col_stride } = a;
        Side { numbers, lanes: rows, k: cols, lane_stride: row_stride, k_stride: col_stride }
    }

    /// The columns of b \[k,n\].
    pub fn right(b: Matrix<'a>) -> Self {
        Side::left(b.t())
    }

    /// Some of the lanes.
    pub fn part(self, lanes: Range<usize>) -> Self {
        assert!(lanes.start < lanes.end && lanes.end <= self.lanes, "lanes {lanes:?} of {}", self.lanes);
        Side { numbers: &self.numbers[lanes.start * self.lane_stride..], lanes: lanes.len(), ..self }
    }
}

/// Writes the numbers `ks` of the lanes `lanes` to `tiles`, panel by panel.
///
/// # Safety
/// The processor must have AVX-512 F, BW and BF16.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub unsafe fn pack(side: Side, lanes: Range<usize>, ks: Range<usize>, form: Form, tiles: &mut [Tile]) {
    let (panels, steps) = (lanes.len().div_ceil(LANES), ks.len().div_ceil(DEPTH));
    assert!(lanes.end <= side.lanes && ks.end <= side.k, "a part of the side");
    assert_eq!(tiles.len(), 2 * panels * steps, "tiles for the part");
    let mut write = |panel: usize, half: usize, step: usize| {
        let (lane, k) = (lanes.start + panel * LANES + half * SIDE, ks.start + step * DEPTH);
        let part = Part {
            from: side.numbers.as_ptr().wrapping_add(lane * side.lane_stride + k * side.k_stride),
            lanes: lanes.end.saturating_sub(lane).min(SIDE),
            ks: (ks.end - k).min(DEPTH),
        };
        let tile = &mut tiles[2 * (panel * steps + step) + half];
        // SAFETY: the part lies within the side, which `Matrix` keeps within its numbers; one of the strides of a
        // matrix is 1; the processor is the caller's promise.
        unsafe {
            match side.k_stride {
                1 => part.lane_registers(side.lane_stride).write(form == Form::Lanes, tile),
                _ => part.pair_registers(side.k_stride).write(form == Form::Pairs, tile),
            }
        }
    };
    // In the order of the numbers in memory.
    if side.k_stride == 1 {
        for panel in 0..panels {
            for half in 0..2 {
                (0..steps).for_each(|step| write(panel, half, step));
            }
        }
    } else {
        for step in 0..steps {
            for panel in 0..panels {
                (0..2).for_each(|half| write(panel, half, step));
            }
        }
    }
}

/// The numbers of one tile: up to 16 lanes and 32 of each, or none.
#[derive(Clone, Copy)]
struct Part {
    from: *const f32,
    lanes: usize,
    ks: usize,
}

/// A tile in registers.
struct Registers([__m512i; SIDE]);

// SAFETY (all functions): the caller vouches for the processor and that the part exists with this stride; a mask
// keeps what lies beyond it from being read.
impl Part {
    /// A register for each lane, whose numbers are neighbours.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    unsafe fn lane_registers(self, stride: usize) -> Registers {
        let (low, high) = (first(self.ks), first(self.ks.saturating_sub(SIDE)));
        let full = self.lanes == SIDE && self.ks == DEPTH;
        Registers(std::array::from_fn(|lane| {
            let from = self.from.wrapping_add(lane * stride);
            unsafe {
                if full {
                    bf16(_mm512_loadu_ps(from), _mm512_loadu_ps(from.add(SIDE)))
                } else if lane < self.lanes {
                    bf16(
                        _mm512_maskz_loadu_ps(low, from),
                        _mm512_maskz_loadu_ps(high, from.wrapping_add(SIDE)),
                    )
                } else {
                    _mm512_setzero_si512()
                }
            }
        }))
    }

    /// A register for each pair of numbers, which are neighbours with those of the other lanes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    unsafe fn pair_registers(self, stride: usize) -> Registers {
        let lanes = first(self.lanes);
        let full = self.lanes == SIDE && self.ks == DEPTH;
        Registers(std::array::from_fn(|pair| {
            let from = self.from.wrapping_add(2 * pair * stride);
            unsafe {
                if full {
                    interleave(bf16(_mm512_loadu_ps(from), _mm512_loadu_ps(from.add(stride))))
                } else {
                    let mask = |k: usize| if k < self.ks { lanes } else { 0 };
                    interleave(bf16(
                        _mm512_maskz_loadu_ps(mask(2 * pair), from),
                        _mm512_maskz_loadu_ps(mask(2 * pair + 1), from.wrapping_add(stride)),
                    ))
                }
            }
        }))
    }
}

impl Registers {
    /// Writes the registers, or their transpose, to `tile`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn write(self, as_they_are: bool, tile: &mut Tile) {
        let rows = if as_they_are { self.0 } else { transposed(self.0) };
        for (row, register) in rows.into_iter().enumerate() {
            // SAFETY: sixteen registers fill a tile.
            unsafe { _mm512_store_si512(tile.0.as_mut_ptr().add(row * SIDE).cast(), register) };
        }
    }
}

/// A mask of the first `n` of sixteen, of all if there are more.
#[inline(always)]
fn first(n: usize) -> __mmask16 {
    ((1u32 << n.min(SIDE)) - 1) as __mmask16
}

/// The sixteen numbers of `low`, then those of `high`, in bf16.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
fn bf16(low: __m512, high: __m512) -> __m512i {
    // SAFETY: both are 64 bytes without invalid values.
    unsafe { std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low)) }
}

/// The i-th number of the low half beside the i-th of the high one.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn interleave(halves: __m512i) -> __m512i {
    const ORDER: [u16; 2 * SIDE] = {
        let mut order = [0; 2 * SIDE];
        let mut i = 0;
        while i < SIDE {
            order[2 * i] = i as u16;
            order[2 * i + 1] = (SIDE + i) as u16;
            i += 1;
        }
        order
    };
    // SAFETY: `ORDER` has 64 bytes.
    _mm512_permutexvar_epi16(unsafe { _mm512_loadu_si512(ORDER.as_ptr().cast()) }, halves)
}

/// Element j of register i at element i of register j: within 128 bits, then among the quarters.
#[inline]
#[target_feature(enable = "avx512f")]
fn transposed(x: [__m512i; SIDE]) -> [__m512i; SIDE] {
    // Quarter q of `columns[4g + c]` is column 4q + c of the rows 4g..4g+4.
    let mut columns = x;
    for columns in columns.as_chunks_mut::<4>().0 {
        let [a, b, c, d] = *columns;
        let (ab_low, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        let (cd_low, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
        *columns = [
            _mm512_unpacklo_epi64(ab_low, cd_low),
            _mm512_unpackhi_epi64(ab_low, cd_low),
            _mm512_unpacklo_epi64(ab_high, cd_high),
            _mm512_unpackhi_epi64(ab_high, cd_high),
        ];
    }
    let mut out = x;
    for c in 0..4 {
        let [a, b, d, e] = [columns[c], columns[4 + c], columns[8 + c], columns[12 + c]];
        // Quarters 0 and 2, then 1 and 3, of two groups of rows.
        let (ab_even, ab_odd) =
            (_mm512_shuffle_i32x4::<0b10_00_10_00>(a, b), _mm512_shuffle_i32x4::<0b11_01_11_01>(a, b));
        let (de_even, de_odd) =
            (_mm512_shuffle_i32x4::<0b10_00_10_00>(d, e), _mm512_shuffle_i32x4::<0b11_01_11_01>(d, e));
        out[c] = _mm512_shuffle_i32x4::<0b10_00_10_00>(ab_even, de_even);
        out[8 + c] = _mm512_shuffle_i32x4::<0b11_01_11_01>(ab_even, de_even);
        out[4 + c] = _mm512_shuffle_i32x4::<0b10_00_10_00>(ab_odd, de_odd);
        out[12 + c] = _mm512_shuffle_i32x4::<0b11_01_11_01>(ab_odd, de_odd);
    }
    out
}
