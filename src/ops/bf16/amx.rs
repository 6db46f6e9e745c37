//! The product of two panels with Intel's AMX: tile registers of 16 rows of 64 bytes, and an instruction that
//! multiplies two of them (16,384 operations in 16 cycles).
//!
//! Rust has no stable intrinsics for it, hence the assembly.

use std::arch::asm;
use std::arch::x86_64::*;

use super::avx512;
use super::blocks::Target;
use super::pack::{LANES, SIDE, Tile};

/// Whether the processor and the system have AMX with bf16 (and AVX512-BF16, which packs its operands), and let this
/// process use it.
pub fn available() -> bool {
    /// CPUID leaf 7, EDX.
    const BF16_AND_TILE: u32 = 1 << 22 | 1 << 24;
    /// The states of tile configuration and tile data in XCR0.
    const STATES: u64 = 1 << 17 | 1 << 18;

    #[target_feature(enable = "xsave")]
    fn states() -> u64 {
        // SAFETY: the caller vouches for XGETBV.
        unsafe { _xgetbv(0) }
    }

    // AVX-512 is detected only where the system has enabled XGETBV.
    avx512::available()
        && is_x86_feature_detected!("xsave")
        && __get_cpuid_max(0).0 >= 7
        && __cpuid_count(7, 0).edx & BF16_AND_TILE == BF16_AND_TILE
        // SAFETY: XSAVE was just detected.
        && unsafe { states() } & STATES == STATES
        && permitted()
}

/// Asks Linux for the state of the tiles (8 KiB for each thread), which a process gets only on demand.
#[cfg(target_os = "linux")]
fn permitted() -> bool {
    const ARCH_PRCTL: usize = 158;
    const ARCH_REQ_XCOMP_PERM: usize = 0x1023;
    const XFEATURE_XTILEDATA: usize = 18;
    let mut result = ARCH_PRCTL;
    // SAFETY: the system call touches no memory of the process; an older kernel refuses it.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") result,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XFEATURE_XTILEDATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result == 0
}

/// The tiles are used on Linux alone.
#[cfg(not(target_os = "linux"))]
fn permitted() -> bool {
    false
}

/// The tile registers of this thread, configured for as long as the value lives.
pub struct Registers {
    /// Not for another thread.
    _thread: std::marker::PhantomData<*const ()>,
}

/// The operand of `ldtilecfg`.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Registers {
    /// Eight tiles of 16 rows of 64 bytes.
    ///
    /// # Safety
    /// AMX must be [`available`].
    pub unsafe fn configured() -> Self {
        let (mut row_bytes, mut rows) = ([0; 16], [0; 16]);
        row_bytes[..8].fill(64);
        rows[..8].fill(SIDE as u8);
        let configuration = Configuration { palette: 1, start_row: 0, reserved: [0; 14], row_bytes, rows };
        // SAFETY: the instruction reads 64 bytes; that it exists is the caller's promise.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) &configuration, options(nostack, readonly, preserves_flags));
        }
        Registers { _thread: std::marker::PhantomData }
    }

    /// Writes the product of a panel of rows and a panel of columns to `c`, or adds it.
    ///
    /// # Safety
    /// `c` must be writable, and readable where it adds.
    pub unsafe fn block(&self, a: &[Tile], b: &[Tile], c: Target) {
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
            whole_block(
                a,
                b,
                Target { data: whole.as_mut_ptr(), stride: LANES, rows: LANES, cols: LANES, ..c },
            );
            for row in 0..c.rows {
                rows(row).copy_from_nonoverlapping(whole.as_ptr().add(row * LANES), c.cols);
            }
        }
    }
}

impl Drop for Registers {
    fn drop(&mut self) {
        // SAFETY: there are tiles, since they were configured.
        unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) };
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
