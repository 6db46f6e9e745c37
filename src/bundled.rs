//! The English-German model inside the library (see `assets/en-de/README.md`).

use crate::checkpoint::{Bytes, Checkpoint};
use crate::error::Result;
use crate::text::Tokenizer;
use candle_core::Device;
use std::path::Path;

/// The files of its directory; a constant might be in the binary more than once.
static FILES: [(&str, &[u8]); 3] = [
    ("config.json", include_bytes!("../assets/en-de/config.json")),
    ("model.safetensors", include_bytes!("../assets/en-de/model.safetensors")),
    ("tokenizer.json", include_bytes!("../assets/en-de/tokenizer.json")),
];

/// Its tokenizer.
pub fn tokenizer() -> Result<Tokenizer> {
    let (name, bytes) = FILES[2];
    Tokenizer::from_bytes(bytes, name)
}

/// Bytes of its files.
pub fn size() -> u64 {
    FILES.iter().map(|(_, bytes)| bytes.len() as u64).sum()
}

/// Opens it.
pub fn open(device: &Device) -> Result<Checkpoint> {
    Checkpoint::from_files(Path::new("bundled"), device, |name| {
        Ok(FILES.iter().find(|(file, _)| *file == name).map(|(_, bytes)| Box::new(*bytes) as Bytes))
    })
}
