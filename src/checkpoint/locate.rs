//! Which of the forms that tx reads a path is, and what is missing to be one.

use super::{CONFIG, PICKLED_WEIGHTS, WEIGHT_FILES, WEIGHTS, marian, torch};
use crate::error::{Error, Result};
use crate::text::files::{JSON as TOKENIZER, form, missing as tokenizer_files};
use std::path::{Path, PathBuf};

/// What a path turned out to be.
pub(super) enum Place {
    /// A directory in the form of Hugging Face.
    Directory,
    /// A file of Marian's.
    Marian(PathBuf),
    /// All of a directory in one safetensors file.
    Bundle,
}

/// What `path` is.
pub(super) fn locate(path: &Path) -> Result<Place> {
    if path.is_file() && path.extension().is_some_and(|extension| extension == "npz") {
        return Ok(Place::Marian(path.to_path_buf()));
    }
    if path.is_file() && path.extension().is_some_and(|extension| extension == "safetensors") {
        return Ok(Place::Bundle);
    }
    if !path.is_dir() {
        let what = if path.exists() { "is a file, expected a model directory" } else { "does not exist" };
        let expected = format!(
            "{what} (a directory with {CONFIG}, {WEIGHTS} or {PICKLED_WEIGHTS}, and {TOKENIZER}; a .safetensors of `tx bundle`; or a .npz of Marian)"
        );
        return Err(Error::format(path, expected));
    }
    if !path.join(CONFIG).is_file()
        && let Some(npz) = marian::find(path)?
    {
        return Ok(Place::Marian(npz));
    }
    let has = |name: &str| path.join(name).is_file();
    let mut missing: Vec<&str> = [CONFIG, weights_file(path)].into_iter().filter(|name| !has(name)).collect();
    if form(has).is_none() {
        missing.extend(tokenizer_files(has));
    }
    if missing.is_empty() {
        return Ok(Place::Directory);
    }
    let what = format!("not a model directory: {} missing{}", missing.join(", "), way_out(path));
    Err(Error::format(path, what))
}

/// The name of the file of weights in a model directory.
pub fn weights_file(folder: &Path) -> &'static str {
    let there = WEIGHT_FILES.into_iter().find(|name| folder.join(name).is_file());
    there.unwrap_or(WEIGHTS)
}

/// The file of the weights of a model, whatever its form.
pub fn weights_path(model: &Path) -> PathBuf {
    match locate(model) {
        Ok(Place::Marian(npz)) => npz,
        Ok(Place::Bundle) => model.to_path_buf(),
        _ => model.join(weights_file(model)),
    }
}

/// What to do where other programs' forms of the missing files are there.
fn way_out(folder: &Path) -> String {
    let has = |name: &&str| folder.join(name).is_file();
    let shards = ["model.safetensors.index.json", "pytorch_model.bin.index.json"];
    if let Some(index) = shards.iter().find(|name| has(name)) {
        return format!(
            "; its weights are in several files ({index}): open it in `transformers` and save it with \
             `save_pretrained(..., max_shard_size=\"1TB\")`"
        );
    }
    let others: Vec<&str> =
        ["tf_model.h5", "flax_model.msgpack", "spiece.model", "vocab.json"].into_iter().filter(has).collect();
    if others.is_empty() {
        return String::new();
    }
    format!(
        "; it has {}, which tx does not read: {}, and its fast tokenizer, which writes {TOKENIZER}",
        others.join(", "),
        torch::WAY_OUT
    )
}
