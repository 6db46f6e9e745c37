//! A limit of memory: 4 × the input + 64 MiB above what there was before.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const FREE: usize = 64 << 20;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

fn count(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Relaxed).saturating_add(bytes);
    if live > LIMIT.load(Relaxed) {
        LIMIT.store(usize::MAX, Relaxed);
        eprintln!(
            "memory: {bytes} bytes more are {live} in all, {}",
            std::backtrace::Backtrace::force_capture()
        );
        std::process::abort();
    }
}

// SAFETY: it is the system's, and only counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        LIVE.fetch_sub(layout.size(), Relaxed);
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(old, layout) }
    }
}

/// Ends the process, as a crash that the fuzzer sees, if `run` needs more than the limit for an input of that many bytes.
pub fn guarded(input: usize, run: impl FnOnce()) {
    LIMIT.store(LIVE.load(Relaxed) + 4 * input + FREE, Relaxed);
    run();
    LIMIT.store(usize::MAX, Relaxed);
}
