//! SHA-256 of files while they are read, so that nothing is read twice.

use sha2::{Digest as _, Sha256};
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

/// SHA-256 of what its reader has delivered so far: that of the file once the file has ended.
#[derive(Debug, Clone, Default)]
pub struct Digest(Arc<Mutex<Sha256>>);

impl Digest {
    /// `inner`, hashed as it is read.
    pub(super) fn reader<R: Read>(&self, inner: R) -> impl Read + use<R> {
        Hashing { inner, digest: self.clone() }
    }

    /// In hexadecimal.
    pub fn hex(&self) -> String {
        let sha = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        format!("{:x}", sha.finalize())
    }
}

struct Hashing<R> {
    inner: R,
    digest: Digest,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.digest.0.lock().unwrap_or_else(PoisonError::into_inner).update(&buffer[..n]);
        Ok(n)
    }
}
