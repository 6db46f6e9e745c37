//! Writing files so that a kill or a full disk never leaves half of one: temporary file in the same folder, sync,
//! rename, sync of the folder. The mode follows the user's umask.

use crate::error::{Error, Result};
use memmap2::Mmap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Reads a whole file.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| Error::io(path, error))
}

/// The bytes of a file.
pub trait Contents {
    /// All of them.
    fn bytes(&self) -> &[u8];

    /// `part` of the bytes will not be read again; where the system holds them, it need not do so in this process' memory.
    fn release(&self, _part: &[u8]) {}
}

impl Contents for &[u8] {
    fn bytes(&self) -> &[u8] {
        self
    }
}

impl Contents for Mmap {
    fn bytes(&self) -> &[u8] {
        self
    }

    #[cfg(unix)]
    fn release(&self, part: &[u8]) {
        let start = part.as_ptr() as usize - self.as_ptr() as usize;
        // SAFETY: the mapping is of a file and read only, so the pages come back with the same bytes if they are read again.
        // A system that refuses only keeps them.
        let _ = unsafe { self.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, part.len()) };
    }
}

/// The bytes of a file, without a copy of it in memory.
pub fn map(path: &Path) -> Result<Mmap> {
    let file = File::open(path).map_err(|error| Error::io(path, error))?;
    // SAFETY: the file is read through at once; who overwrites it meanwhile (tx itself replaces files whole) risks this
    // process, not its data.
    unsafe { Mmap::map(&file) }.map_err(|error| Error::io(path, error))
}

/// Replaces `path` by `bytes` at once; on failure the old file is untouched and nothing is left behind. What a link
/// points to is replaced, and what is no file (a pipe, a device) is written to.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let path = &fs::canonicalize(path).unwrap_or(path.to_path_buf());
    let temporary = with_suffix(path, ".tmp");
    let is_special = fs::metadata(path).is_ok_and(|found| !found.is_file());
    let write = || -> std::io::Result<()> {
        if is_special {
            return fs::OpenOptions::new().write(true).open(path)?.write_all(bytes);
        }
        let mut file = File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        sync_folder(path)
    };
    write().map_err(|error| {
        // Already gone, or as unremovable as it was unwritable: the first error is the one to report.
        let _ = fs::remove_file(&temporary);
        Error::io(
            path,
            std::io::Error::new(error.kind(), format!("could not write {} bytes: {error}", bytes.len())),
        )
    })
}

/// `path` with `suffix` added to its last component.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(suffix);
    PathBuf::from(name)
}

/// Makes a rename inside the folder of `path` durable (a folder can be opened for this on Unix only).
pub fn sync_folder(path: &Path) -> std::io::Result<()> {
    match path.parent().filter(|parent| cfg!(unix) && !parent.as_os_str().is_empty()) {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The device that is always full says so and stays a device; the target of a link is replaced, not the link.
    #[cfg(target_os = "linux")]
    #[test]
    fn devices_and_links_stay_what_they_are() {
        let error = write_atomically(Path::new("/dev/full"), b"x").unwrap_err().to_string();
        assert!(error.contains("could not write 1 bytes"), "{error}");
        assert!(!fs::metadata("/dev/full").unwrap().is_file());
        let folder = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| folder.path().join(name));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_atomically(&link, b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"new");
    }

    #[test]
    fn a_failed_write_keeps_the_old_file_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write_atomically(&path, b"old").unwrap();
        fs::create_dir(with_suffix(&path, ".tmp")).unwrap();
        let error = write_atomically(&path, b"new").unwrap_err().to_string();
        assert!(error.contains("could not write 3 bytes"), "{error}");
        assert_eq!(read(&path).unwrap(), b"old");
    }

    #[cfg(unix)]
    #[test]
    fn the_mode_follows_the_umask() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (ours, plain) = (folder.path().join("ours"), folder.path().join("plain"));
        write_atomically(&ours, b"x").unwrap();
        fs::write(&plain, b"x").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&ours), mode(&plain));
    }
}
