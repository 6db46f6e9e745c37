//! Intel's AMX: tile registers of 16 rows of 64 bytes, and instructions that multiply two of them (16,384 operations on
//! bf16, or twice as many on bytes, in 16 cycles). Whether they are there, and their configuration; the products
//! themselves are in [`super::bf16`] and [`super::packed`].
//!
//! Rust has no stable intrinsics for it, hence the assembly.

use std::arch::asm;
use std::arch::x86_64::*;
use std::sync::LazyLock;

/// Whether the processor and the system have AMX with bf16 and bytes, and let this process use it.
pub fn available() -> bool {
    *AVAILABLE
}

static AVAILABLE: LazyLock<bool> = LazyLock::new(detect);

fn detect() -> bool {
    /// CPUID leaf 7, EDX: bf16, tiles, bytes. All processors with tiles have had all three.
    const FEATURES: u32 = 1 << 22 | 1 << 24 | 1 << 25;
    /// The states of tile configuration and tile data in XCR0.
    const STATES: u64 = 1 << 17 | 1 << 18;

    #[target_feature(enable = "xsave")]
    fn states() -> u64 {
        // SAFETY: the caller vouches for XGETBV.
        unsafe { _xgetbv(0) }
    }

    // AVX-512 is detected only where the system has enabled XGETBV.
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("xsave")
        && __get_cpuid_max(0).0 >= 7
        && __cpuid_count(7, 0).edx & FEATURES == FEATURES
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
        rows[..8].fill(16);
        let configuration = Configuration { palette: 1, start_row: 0, reserved: [0; 14], row_bytes, rows };
        // SAFETY: the instruction reads 64 bytes; that it exists is the caller's promise.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) &configuration, options(nostack, readonly, preserves_flags));
        }
        Registers { _thread: std::marker::PhantomData }
    }
}

impl Drop for Registers {
    fn drop(&mut self) {
        // SAFETY: there are tiles, since they were configured.
        unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) };
    }
}
