//! [`super::words`] in tiles of AMX: sixteen rows of an input (64 bytes of each) by a panel (sixteen words of it).

use std::arch::asm;

use super::words::{PANEL, Product, Sums, TILE_ROWS, WORD};

/// Bytes of a row of `Sums`.
const SUMS_ROW: usize = size_of::<Sums>() / 32;

/// Bytes of a tile of weights.
const TILE: usize = 16 * PANEL * WORD;

macro_rules! kernels {
    ($square:ident, $flat:ident, $instruction:literal) => {
        /// Two tiles of rows by two panels.
        ///
        /// # Safety
        /// The tiles must be configured.
        pub unsafe fn $square((rows, panels): (usize, usize), product: Product, sums: &mut Sums) {
            let Product { x, x_row, w, w_panel, words } = product;
            // Where there is no second one the first stands in, and its sums are not used.
            let x_low = if rows > TILE_ROWS { x.wrapping_add(TILE_ROWS * x_row) } else { x };
            let w_right = if panels > 1 { w.wrapping_add(w_panel) } else { w };
            let sums = sums.0.as_mut_ptr().cast::<u8>();
            // SAFETY: a tile is 16 rows of an input or 16 words of a panel, and there are whole tiles of both.
            unsafe {
                asm!(
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "tilezero tmm2",
                    "tilezero tmm3",
                    "2:",
                    "tileloadd tmm6, [{w} + {line}*1]",
                    "tileloadd tmm4, [{x} + {x_row}*1]",
                    concat!($instruction, " tmm0, tmm4, tmm6"),
                    "tileloadd tmm7, [{w_right} + {line}*1]",
                    concat!($instruction, " tmm1, tmm4, tmm7"),
                    "tileloadd tmm5, [{x_low} + {x_row}*1]",
                    concat!($instruction, " tmm2, tmm5, tmm6"),
                    concat!($instruction, " tmm3, tmm5, tmm7"),
                    "add {x}, 64",
                    "add {x_low}, 64",
                    "add {w}, {tile}",
                    "add {w_right}, {tile}",
                    "dec {tiles}",
                    "jnz 2b",
                    "tilestored [{sums} + {sums_row}*1], tmm0",
                    "tilestored [{sums} + {sums_row}*1 + 64], tmm1",
                    "tilestored [{low} + {sums_row}*1], tmm2",
                    "tilestored [{low} + {sums_row}*1 + 64], tmm3",
                    x = inout(reg) x => _,
                    x_low = inout(reg) x_low => _,
                    w = inout(reg) w => _,
                    w_right = inout(reg) w_right => _,
                    tiles = inout(reg) words / 16 => _,
                    line = in(reg) 64usize,
                    x_row = in(reg) x_row,
                    tile = const TILE,
                    sums = in(reg) sums,
                    low = in(reg) sums.wrapping_add(TILE_ROWS * SUMS_ROW),
                    sums_row = in(reg) SUMS_ROW,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
        }

        /// One tile of rows by four panels.
        ///
        /// # Safety
        /// The tiles must be configured.
        pub unsafe fn $flat((_, panels): (usize, usize), product: Product, sums: &mut Sums) {
            let Product { x, x_row, w, w_panel, words } = product;
            // Where there are fewer the last stands in, and its sums are not used.
            let panel = |index: usize| w.wrapping_add(index.min(panels - 1) * w_panel);
            // SAFETY: as above.
            unsafe {
                asm!(
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "tilezero tmm2",
                    "tilezero tmm3",
                    "2:",
                    "tileloadd tmm4, [{x} + {x_row}*1]",
                    "tileloadd tmm5, [{w0} + {line}*1]",
                    concat!($instruction, " tmm0, tmm4, tmm5"),
                    "tileloadd tmm6, [{w1} + {line}*1]",
                    concat!($instruction, " tmm1, tmm4, tmm6"),
                    "tileloadd tmm7, [{w2} + {line}*1]",
                    concat!($instruction, " tmm2, tmm4, tmm7"),
                    "tileloadd tmm5, [{w3} + {line}*1]",
                    concat!($instruction, " tmm3, tmm4, tmm5"),
                    "add {x}, 64",
                    "add {w0}, {tile}",
                    "add {w1}, {tile}",
                    "add {w2}, {tile}",
                    "add {w3}, {tile}",
                    "dec {tiles}",
                    "jnz 2b",
                    "tilestored [{sums} + {sums_row}*1], tmm0",
                    "tilestored [{sums} + {sums_row}*1 + 64], tmm1",
                    "tilestored [{sums} + {sums_row}*1 + 128], tmm2",
                    "tilestored [{sums} + {sums_row}*1 + 192], tmm3",
                    x = inout(reg) x => _,
                    w0 = inout(reg) w => _,
                    w1 = inout(reg) panel(1) => _,
                    w2 = inout(reg) panel(2) => _,
                    w3 = inout(reg) panel(3) => _,
                    tiles = inout(reg) words / 16 => _,
                    line = in(reg) 64usize,
                    x_row = in(reg) x_row,
                    tile = const TILE,
                    sums = in(reg) sums.0.as_mut_ptr(),
                    sums_row = in(reg) SUMS_ROW,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
        }
    };
}

kernels!(bytes_square, bytes_flat, "tdpbusd");
kernels!(bf16_square, bf16_flat, "tdpbf16ps");
