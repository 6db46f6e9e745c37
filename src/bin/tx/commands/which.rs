//! Which model is meant: a directory, a file, an id of the Hugging Face Hub, or one inside tx.

use super::hub;
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use tx::bundled::{self, Bundled};
use tx::candle_core::Device;
use tx::checkpoint::{self, Checkpoint, weights_path};
use tx::hub::ModelId;
use tx::text::Tokenizer;

/// What a model inside tx is called.
const BUNDLED: &str = "bundled";
/// What the name of one begins with that says its languages: `bundled:en-de`.
const BUNDLED_PAIR: &str = "bundled:";

/// What `$TX_MODEL` names.
pub fn from_env() -> Option<PathBuf> {
    std::env::var_os("TX_MODEL").filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Where the model is that `given` names.
pub fn path(given: &Path) -> anyhow::Result<PathBuf> {
    Which::named(given)?.path().map(Path::to_path_buf)
}

/// A model, and what to call it.
pub enum Which {
    Path { path: PathBuf, name: String },
    Bundled(&'static Bundled),
}

impl Which {
    /// The model that is given, else that of `$TX_MODEL`, else the one in the current folder, else one inside tx: then the languages that are
    /// asked for choose, as they do where only `bundled` is given.
    pub fn find(given: Option<&Path>, from: Option<&str>, to: Option<&str>) -> anyhow::Result<Self> {
        let local = || Some(tx::train::default_out()).filter(|path| path.is_dir());
        let path = given.map(Path::to_path_buf).or_else(from_env).or_else(local);
        match path.filter(|path| path.as_os_str() != BUNDLED || path.exists()) {
            Some(path) => Which::at(&path),
            None => Ok(Which::Bundled(bundled::find(from, to)?)),
        }
    }

    /// The model that is given.
    pub fn named(given: &Path) -> anyhow::Result<Self> {
        Which::find(Some(given), None, None)
    }

    /// A path, else one inside tx, else one of the Hub, which is fetched if it is not here. Of what is none of these, all is said.
    fn at(given: &Path) -> anyhow::Result<Self> {
        let text = given.to_str().filter(|_| !given.exists()).unwrap_or_default();
        if let Some((from, to)) = text.strip_prefix(BUNDLED_PAIR).and_then(|pair| pair.split_once('-')) {
            return Ok(Which::Bundled(bundled::find(Some(from), Some(to))?));
        }
        match ModelId::parse(text) {
            Some(id) => hub::fetched(&id)
                .with_context(|| format!("there is no {id} here; as a model of the Hugging Face Hub")),
            None => Ok(Which::Path { path: given.to_path_buf(), name: given.display().to_string() }),
        }
    }

    /// Where it is; of one inside tx, how it gets somewhere.
    pub fn path(&self) -> anyhow::Result<&Path> {
        match self {
            Which::Path { path, .. } => Ok(path),
            Which::Bundled(model) => {
                let name = model.name();
                bail!("the model is inside tx: `tx convert {name} OUT --to hf` writes it as a directory")
            }
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Which::Path { name, .. } => name,
            Which::Bundled(_) => BUNDLED,
        }
    }

    pub fn open(&self, device: &Device) -> tx::Result<Checkpoint> {
        match self {
            Which::Path { path, .. } => Checkpoint::open(path, device),
            Which::Bundled(model) => model.open(device),
        }
    }

    /// Bytes of its weights, where they are a file.
    pub fn weights_size(&self) -> Option<u64> {
        match self {
            Which::Path { path, .. } => std::fs::metadata(weights_path(path)).ok().map(|file| file.len()),
            Which::Bundled(model) => Some(model.weights_size()),
        }
    }

    pub fn tokenizer(&self) -> tx::Result<Tokenizer> {
        match self {
            Which::Path { path, .. } => checkpoint::tokenizer(path),
            Which::Bundled(model) => model.tokenizer(),
        }
    }
}
