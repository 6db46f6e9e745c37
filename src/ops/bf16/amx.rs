//! The product of two panels with AMX ([`super::super::amx`]).

use std::arch::asm;

use super::super::amx::Registers;
use super::blocks::Target;
use super::pack::{LANES, SIDE, Tile};

/// Writes the product of a panel of rows and a panel of columns to `c`, or adds it.
///
/// # Safety
/// `c` must be writable, and readable where it adds.
pub unsafe fn block(_registers: &Registers, a: &[Tile], b: &[Tile], c: Target) {
    if c.rows == LANES && c.cols == LANES {
        // SAFETY: 32 rows of 32 numbers are the caller's promise.
        unsafe { whole_block(a, b, c) };
        return;
    }
    let mut whole = [0.0f32; LANES * LANES];
    let rows = |row: usize| c.data.wrapping_add(row * c.stride);
    // SAFETY: rows and columns are those of `c`, which has at most 32 of each.
    unsafe {
        for row in 0..if c.add { c.rows } else { 0 } {
            rows(row).copy_to_nonoverlapping(whole.as_mut_ptr().add(row * LANES), c.cols);
        }
        whole_block(a, b, Target { data: whole.as_mut_ptr(), stride: LANES, rows: LANES, cols: LANES, ..c });
        for row in 0..c.rows {
            rows(row).copy_from_nonoverlapping(whole.as_ptr().add(row * LANES), c.cols);
        }
    }
}

/// Four tiles of sums; each step of 32 products loads two tiles of either side.
///
/// # Safety
/// The tiles must be configured, and `c` have 32 rows of 32 numbers.
unsafe fn whole_block(a: &[Tile], b: &[Tile], c: Target) {
    assert!(a.len() == b.len() && a.len() >= 2 && a.len().is_multiple_of(2), "panels of as many steps");
    let stride = c.stride * size_of::<f32>();
    let low = c.data.wrapping_add(SIDE * c.stride);
    // SAFETY: `c` is the caller's promise; the loop reads two tiles of `a` and of `b` in each of its steps.
    unsafe {
        asm!(
            "test {add:e}, {add:e}",
            "jz 2f",
            "tileloadd tmm0, [{c} + {stride}*1]",
            "tileloadd tmm1, [{c} + {stride}*1 + 64]",
            "tileloadd tmm2, [{low} + {stride}*1]",
            "tileloadd tmm3, [{low} + {stride}*1 + 64]",
            "jmp 3f",
            "2:",
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "3:",
            "tileloadd tmm4, [{a} + {row}*1]",
            "tileloadd tmm6, [{b} + {row}*1]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{b} + {row}*1 + 1024]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{a} + {row}*1 + 1024]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "add {a}, 2048",
            "add {b}, 2048",
            "dec {steps}",
            "jnz 3b",
            "tilestored [{c} + {stride}*1], tmm0",
            "tilestored [{c} + {stride}*1 + 64], tmm1",
            "tilestored [{low} + {stride}*1], tmm2",
            "tilestored [{low} + {stride}*1 + 64], tmm3",
            add = in(reg) u32::from(c.add),
            a = inout(reg) a.as_ptr() => _,
            b = inout(reg) b.as_ptr() => _,
            steps = inout(reg) a.len() / 2 => _,
            row = in(reg) 64usize,
            c = in(reg) c.data,
            low = in(reg) low,
            stride = in(reg) stride,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
    }
}
