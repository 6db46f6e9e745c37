//! A model as one safetensors file: its tensors, and each of its other files as a tensor of bytes.

use super::files::{self, Contents, write_atomically};
use super::tensors;
use super::{CONFIG, Checkpoint, GENERATION, INT8_WEIGHTS, TOKENIZER_CONFIG, WEIGHTS, weights_file};
use crate::error::{Error, Result};
use crate::text::Tokenizer;
use candle_core::DType;
use memmap2::Mmap;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use std::collections::HashMap;
use std::path::Path;

/// What the names of files begin with, so that no tensor has one.
pub(super) const FILE: &str = "tx.file/";
/// The entry that says which file of weights the tensors are.
const STORED: &str = "tx.weights";

/// Writes the model directory `folder` as the file `out`.
pub fn write(folder: &Path, out: &Path) -> Result<()> {
    let stored = weights_file(folder);
    let map = files::map(&folder.join(stored))?;
    let wrong = |error: safetensors::SafeTensorError| Error::format(folder.join(stored), error.to_string());
    let tensors = tensors::open(map.bytes(), &folder.join(stored))?;
    let tokenizer = Tokenizer::open_folder(folder)?;
    let mut others: Vec<(String, Vec<u8>)> =
        tokenizer.files().into_iter().map(|(name, bytes)| (name.to_string(), bytes.to_vec())).collect();
    for name in [CONFIG, GENERATION, TOKENIZER_CONFIG] {
        if folder.join(name).is_file() {
            others.push((name.to_string(), files::read(&folder.join(name))?));
        }
    }
    let mut views: Vec<(String, TensorView)> =
        tensors.iter().map(|(name, view)| (name.to_string(), view)).collect();
    for (name, bytes) in &others {
        views.push((
            format!("{FILE}{name}"),
            TensorView::new(Dtype::U8, vec![bytes.len()], bytes).map_err(wrong)?,
        ));
    }
    let metadata = HashMap::from([("format", "pt"), (STORED, stored)].map(|(k, v)| (k.into(), v.into())));
    let bytes = safetensors::serialize(views, Some(metadata)).map_err(wrong)?;
    write_atomically(out, &bytes)
}

/// Writes a model of any form as the file `out`: as it is stored, or in f32 if that is no safetensors file.
pub fn bundle(model: &Path, out: &Path) -> Result<()> {
    let stored = weights_file(model);
    if model.join(stored).is_file() && [WEIGHTS, INT8_WEIGHTS].contains(&stored) {
        return write(model, out);
    }
    let folder = tempfile::tempdir().map_err(|error| Error::io(std::env::temp_dir(), error))?;
    Checkpoint::open(model, &candle_core::Device::Cpu)?.save(folder.path(), DType::F32)?;
    write(folder.path(), out)
}

/// A bundle that is open.
pub(super) struct Bundle<'a> {
    map: &'a Mmap,
    files: HashMap<String, &'a [u8]>,
    stored: String,
}

/// All of a file that is open elsewhere.
struct Whole<'a>(&'a Mmap);

impl Contents for Whole<'_> {
    fn bytes(&self) -> &[u8] {
        self.0
    }

    fn release(&self, part: &[u8]) {
        self.0.release(part);
    }
}

impl<'a> Bundle<'a> {
    /// Opens the content of the file `path`.
    pub fn open(map: &'a Mmap, path: &Path) -> Result<Self> {
        let none = || {
            Error::format(
                path,
                "not a model in one file, as `tx bundle` writes it: name the directory that it is in"
                    .to_string(),
            )
        };
        let tensors = tensors::open(map, path)?;
        let (_, header) =
            SafeTensors::read_metadata(map).map_err(|error| Error::format(path, error.to_string()))?;
        let stored = header.metadata().as_ref().and_then(|entries| entries.get(STORED)).ok_or_else(none)?;
        let file =
            |(name, view): (&str, TensorView<'a>)| Some((name.strip_prefix(FILE)?.to_string(), view.data()));
        Ok(Bundle { map, files: tensors.iter().filter_map(file).collect(), stored: stored.clone() })
    }

    /// A file of the model.
    pub fn get(&self, name: &str) -> Option<Box<dyn Contents + 'a>> {
        if name == self.stored {
            return Some(Box::new(Whole(self.map)));
        }
        self.files.get(name).map(|bytes| Box::new(*bytes) as Box<dyn Contents>)
    }
}
