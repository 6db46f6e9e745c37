//! Marian's own file, in a folder with its tokenizer and `decoder.yml`. Most mutations are of one array in the archive, half of these of the
//! settings, and of others mostly of their headers; the archive around it, and the array around the settings, are whole again afterwards.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use std::sync::OnceLock;
use tempfile::TempDir;
use tx::candle_core::Device;
use tx::checkpoint::Checkpoint;
use tx_fuzz::{archive, files, guard, header, translate};

/// Marian's models are found beside other files, so they are opened from a folder.
static FOLDER: OnceLock<TempDir> = OnceLock::new();

fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, bytes) in files("families/marian-npz") {
        std::fs::write(folder.path().join(name), bytes).expect("room for a small file");
    }
    folder
}

fuzz_target!(|bytes: &[u8]| {
    let folder = FOLDER.get_or_init(folder).path();
    let path = folder.join("model.npz");
    std::fs::write(&path, bytes).expect("room for a small file");
    guard::guarded(bytes.len(), || {
        translate(Checkpoint::open(&path, &Device::Cpu), &folder.to_string_lossy())
    });
});

fuzz_mutator!(|bytes: &mut [u8], size: usize, max_size: usize, seed: u32| {
    archive::mutate(&mut bytes[..max_size], size, seed, "special:model.yml.npy", header::npy)
});
