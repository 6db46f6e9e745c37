//! Model directories in the form of Hugging Face: `config.json`, `model.safetensors` or `pytorch_model.bin`, `tokenizer.json`,
//! and for others `generation_config.json` and `tokenizer_config.json`. `tx train` writes this form too. Marian's own
//! `.npz` is read as well. All of it can be one file (`bundle`).

pub mod average;
mod bundle;
pub mod config_json;
mod ct2;
pub mod files;
mod generation;
mod locate;
pub(crate) mod marian;
mod marian_settings;
pub(crate) mod marian_vocab;
mod names;
mod npz;
mod pickle;
mod pickle_codes;
pub mod tensors;
pub mod ties;
mod torch;
mod written;
mod yaml;
mod zip;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::model::parameters::{LOGITS_BIAS, Weights};
use crate::ops::Precision;
use crate::text::Tokenizer;
pub use bundle::bundle;
use candle_core::{DType, Device, Tensor};
use config_json::Family;
pub use config_json::{AlignmentHead, TxInfo};
pub use files::Contents;
pub use generation::Generation;
use locate::Place;
pub use locate::{weights_file, weights_path};
use serde_json::Value;
use std::path::{Path, PathBuf};

pub(crate) const CONFIG: &str = "config.json";
pub(crate) const WEIGHTS: &str = "model.safetensors";
pub(crate) const PICKLED_WEIGHTS: &str = "pytorch_model.bin";
const INT8_WEIGHTS: &str = "model.int8.safetensors";
/// The first of these that is there has the weights.
pub(crate) const WEIGHT_FILES: [&str; 3] = [INT8_WEIGHTS, WEIGHTS, PICKLED_WEIGHTS];
pub(crate) const GENERATION: &str = "generation_config.json";
pub(crate) const TOKENIZER_CONFIG: &str = "tokenizer_config.json";

/// The contents of a file.
pub type Bytes<'a> = Box<dyn Contents + 'a>;

/// A model directory in memory.
#[derive(Debug)]
pub struct Checkpoint {
    /// The model's shape.
    pub config: Config,
    /// Its tensors, f32.
    pub weights: Weights,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// What `tx train` noted; none in a foreign directory.
    pub info: Option<TxInfo>,
    /// Decoding defaults of a foreign directory.
    pub generation: Generation,
    /// What its linear layers are stored for.
    pub precision: Precision,
}

impl Checkpoint {
    /// Opens a model directory, one in a single file ([`bundle()`]), or a `.npz` of Marian.
    pub fn open(path: &Path, device: &Device) -> Result<Self> {
        match locate::locate(path)? {
            Place::Marian(npz) => Self::open_marian(&npz, device),
            Place::Bundle => {
                let map = files::map(path)?;
                let bundle = bundle::Bundle::open(&map, path)?;
                Self::from_files(path, device, |name| Ok(bundle.get(name)))
            }
            Place::Directory => Self::from_files(path, device, |name| match path.join(name) {
                path if !path.is_file() => Ok(None),
                path => files::map(&path).map(|bytes| Some(Box::new(bytes) as Bytes)),
            }),
        }
    }

    /// Opens Marian's own form; the tokenizer lies beside it.
    fn open_marian(npz: &Path, device: &Device) -> Result<Self> {
        let folder = marian::folder(npz);
        let tokenizer = marian_vocab::tokenizer(npz)?;
        let (mut config, weights) = marian::parse(&files::map(npz)?, npz, device)?;
        let (there, expected) = (tokenizer.vocab_sizes(), [config.src_vocab, config.tgt_vocab]);
        if there != expected {
            let what = format!(
                "with the padding its vocabularies have {there:?} pieces, the model {expected:?}: they do not belong together"
            );
            return Err(Error::format(folder, what));
        }
        config.special.unk = tokenizer.special_ids().unk;
        check_tokenizer(&config, &tokenizer, None).map_err(|what| Error::format(folder, what))?;
        let generation = marian::generation(npz)?;
        Ok(Checkpoint { config, weights, tokenizer, info: None, generation, precision: Precision::F32 })
    }

    /// Opens the files that `get` gives by name; `folder` is for messages.
    pub fn from_files<'a>(
        folder: &Path,
        device: &Device,
        get: impl Fn(&str) -> Result<Option<Bytes<'a>>>,
    ) -> Result<Self> {
        let file = |name: &str| -> Result<(PathBuf, Bytes<'a>)> {
            let path = folder.join(name);
            let bytes = get(name)?.ok_or_else(|| Error::format(&path, "missing"))?;
            Ok((path, bytes))
        };
        let (path, bytes) = file(CONFIG)?;
        let config_json = parse_json(&path, bytes.bytes())?;
        let (mut config, info) = config_json::from_json(&config_json)
            .map_err(|problems| Error::format(&path, problems.join("; ")))?;
        config.check().map_err(|error| Error::format(&path, error.to_string()))?;
        let bytes = |name: &str| Ok(get(name)?.map(|bytes| bytes.bytes().to_vec()));
        let has = |name: &str| get(name).is_ok_and(|bytes| bytes.is_some());
        let tokenizer = Tokenizer::from_files(folder, has, bytes)?;
        config.special.unk = tokenizer.special_ids().unk;
        check_tokenizer(&config, &tokenizer, info.as_ref()).map_err(|what| Error::format(folder, what))?;
        let mut stored = None;
        for name in WEIGHT_FILES {
            if let Some(bytes) = get(name)? {
                stored = Some((name, bytes));
                break;
            }
        }
        let (name, bytes) = stored.ok_or_else(|| Error::format(folder.join(WEIGHTS), "missing"))?;
        let (path, precision) =
            (folder.join(name), if name == INT8_WEIGHTS { Precision::Int8 } else { Precision::F32 });
        let mut weights = tensors::parse(&*bytes, &path, device)?;
        drop(bytes);
        ties::settle(&config, &mut weights, &path)?;
        let path = folder.join(GENERATION);
        let json = match get(GENERATION)? {
            Some(bytes) => parse_json(&path, bytes.bytes())?,
            None => config_json,
        };
        let generation =
            generation::from_json(&json).map_err(|problems| Error::format(&path, problems.join("; ")))?;
        Ok(Checkpoint { config, weights, tokenizer, info, generation, precision })
    }

    /// Writes a model directory that `transformers` opens too; each file is replaced at once. `dtype` is that of the
    /// stored weights.
    pub fn save(&self, folder: &Path, dtype: DType) -> Result<()> {
        self.save_all_but_weights(folder, &written::to_json(&self.config, self.info.as_ref(), dtype))?;
        let mut weights = self.weights.clone();
        if Family::of(&self.config) != Family::M2m100 && !weights.contains_key(LOGITS_BIAS) {
            let zeros = Tensor::zeros((1, self.config.tgt_vocab), DType::F32, &Device::Cpu)?;
            weights.insert(LOGITS_BIAS.into(), zeros);
        }
        if Family::of(&self.config) == Family::Pegasus {
            // `transformers` computes them too, but warns.
            weights.extend(ties::position_tables(&self.config)?);
        }
        tensors::write(&folder.join(WEIGHTS), &weights, dtype)
    }

    /// Writes a model directory whose matrices are stored as int8. Its configuration and the file of its weights have names
    /// of their own, so that other programs refuse it instead of reading it wrongly.
    pub fn save_int8(&self, folder: &Path) -> Result<()> {
        self.save_all_but_weights(folder, &written::to_int8_json(&self.config, self.info.as_ref()))?;
        tensors::write_int8(&folder.join(INT8_WEIGHTS), &self.weights)
    }

    fn save_all_but_weights(&self, folder: &Path, config: &Value) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(|error| Error::io(folder, error))?;
        let json = |name: &str, json: &Value| write_json(&folder.join(name), json);
        for (name, bytes) in self.tokenizer.files() {
            files::write_atomically(&folder.join(name), bytes)?;
        }
        json(TOKENIZER_CONFIG, &written::tokenizer_config_json(&self.config))?;
        json(GENERATION, &written::generation_json(&self.config, self.generation, self.info.is_some()))?;
        json(CONFIG, config)
    }
}

/// The tokenizer of a model, whatever its form.
pub fn tokenizer(path: &Path) -> Result<Tokenizer> {
    match locate::locate(path)? {
        Place::Directory => Tokenizer::open_folder(path),
        Place::Marian(npz) => marian_vocab::tokenizer(&npz),
        Place::Bundle => {
            let map = files::map(path)?;
            let bundle = bundle::Bundle::open(&map, path)?;
            let bytes = |name: &str| Ok(bundle.get(name).map(|bytes| bytes.bytes().to_vec()));
            Tokenizer::from_files(path, |name| bundle.get(name).is_some(), bytes)
        }
    }
}

/// Notes in the model directory `folder`, which tx must have trained, that alignments are read from `head`.
pub fn store_alignment_head(folder: &Path, head: AlignmentHead) -> Result<()> {
    let path = folder.join(CONFIG);
    let mut json = parse_json(&path, &files::read(&path)?)?;
    let Some(info) = json.get_mut("tx").and_then(Value::as_object_mut) else {
        let what = "not of a model that tx has trained, so there is no place for an alignment head: name it each time, --alignment-head LAYER:HEAD";
        return Err(Error::format(&path, what));
    };
    info.insert("alignment_head".into(), serde_json::json!(head));
    write_json(&path, &json)
}

/// Writes `json`, indented, replacing `path` at once.
pub fn write_json(path: &Path, json: &Value) -> Result<()> {
    files::write_atomically(path, format!("{json:#}\n").as_bytes())
}

/// Parses `bytes` of the file `path`.
pub fn parse_json(path: &Path, bytes: &[u8]) -> Result<Value> {
    serde_json::from_slice(bytes).map_err(|error| {
        Error::format(path, format!("not readable as JSON ({error}): cut or damaged, fetch it again"))
    })
}

/// A tokenizer of another model gives fluent nonsense, or ids outside the tables: refused before the first line.
pub(crate) fn check_tokenizer(
    config: &Config,
    tokenizer: &Tokenizer,
    info: Option<&TxInfo>,
) -> Result<(), String> {
    for (side, tokenizer, rows) in
        [("source", tokenizer, config.src_vocab), ("target", tokenizer.tgt(), config.tgt_vocab)]
    {
        let pieces = tokenizer.vocab_size();
        if pieces > rows {
            return Err(format!(
                "the tokenizer has {pieces} pieces, the model's {side} embedding {rows} rows: they do not belong together"
            ));
        }
        let (found, expected) = (tokenizer.special_ids(), config.special);
        if (found.pad, found.eos) != (expected.pad, expected.eos) {
            return Err(format!(
                "<pad> and </s> have the ids {} and {} in the {side} tokenizer, in the model they are {} and {}",
                found.pad, found.eos, expected.pad, expected.eos
            ));
        }
    }
    match info {
        Some(info) if info.tokenizer_sha256 != tokenizer.hash() => Err(format!(
            "the SHA-256 of its tokenizer is {}, the model was trained with {}: put the right one back",
            tokenizer.hash(),
            info.tokenizer_sha256
        )),
        _ => Ok(()),
    }
}
