//! What becomes of freed memory.

/// From now on freed memory stays with the program, where the allocator can be told so (glibc's): the next step or batch asks for
/// the same again, and a training step would else spend a third of its time on page faults.
pub fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: these are settings of the allocator, which it takes at any time.
    unsafe {
        /// The largest block that is not given pages of its own; no larger number is taken.
        const LARGEST: libc::c_int = 32 << 20;
        // What loading a model has left goes back first.
        libc::malloc_trim(0);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGEST);
        libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
    }
}
