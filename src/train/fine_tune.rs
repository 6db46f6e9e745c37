//! Fine-tuning: a run that starts from the weights of a model and keeps its tokenizer and shape.

use super::settings::{Given, Settings};
use super::state::State;
use crate::checkpoint::{self, Checkpoint, files};
use crate::config::{Config, Dropouts};
use crate::error::{Error, Result};
use crate::model::parameters::LOGITS_BIAS;
use crate::text::Tokenizer;
use candle_core::Device;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// The model that a run started from, as its record keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StartedFrom {
    /// Its directory.
    pub model: PathBuf,
    /// SHA-256 of its weights.
    pub weights_sha256: String,
}

impl StartedFrom {
    /// Takes its weights, if they are still those that the run was begun with.
    pub fn start(&self, state: &mut State, device: &Device) -> Result<()> {
        if hash_of_weights(&self.model)? != self.weights_sha256 {
            let what = "its weights have changed since the run was begun: start a new run";
            return Err(Error::format(&self.model, what));
        }
        state.start_from(&Checkpoint::open(&self.model, device)?.weights)
    }
}

/// A model to start from.
#[derive(Debug)]
pub struct Base {
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// The given settings with the model's shape.
    pub given: Given,
    /// For the record.
    pub started_from: StartedFrom,
    config: Config,
}

impl Base {
    /// Opens a model directory; `given` settings that contradict its shape are refused by name.
    pub fn open(folder: &Path, given: &Given) -> Result<Self> {
        let Checkpoint { config, weights, tokenizer, .. } = Checkpoint::open(folder, &Device::Cpu)?;
        if let Some(bias) = weights.get(LOGITS_BIAS)
            && bias.abs()?.sum_all()?.to_scalar::<f32>()? != 0.0
        {
            let what = format!("its {LOGITS_BIAS} is not zero, and training would drop it");
            return Err(Error::format(folder, what));
        }
        let shape = shape(&config);
        let differs = |(name, value): &(&String, &serde_json::Value)| {
            shape.get(*name).is_some_and(|of_model| of_model != *value)
        };
        let conflicts: Vec<String> = given
            .iter()
            .filter(differs)
            .map(|(name, value)| format!("{name} is {value}, the model has {}", shape[name]))
            .collect();
        if !conflicts.is_empty() {
            return Err(Error::Config(format!(
                "--init-from keeps the shape of {}, but {}: leave these flags out",
                folder.display(),
                conflicts.join("; ")
            )));
        }
        let model = folder.canonicalize().map_err(|error| Error::io(folder, error))?;
        let weights_sha256 = hash_of_weights(&model)?;
        let given = given.clone().into_iter().chain(shape).collect();
        Ok(Base { tokenizer, given, started_from: StartedFrom { model, weights_sha256 }, config })
    }

    /// Refuses a model of a shape that `settings` cannot express.
    pub fn check(&self, settings: &Settings) -> Result<()> {
        let plain = |config: Config| Config { dropout: Dropouts::default(), ..config };
        let ours = settings.config(self.tokenizer.vocab_sizes(), self.tokenizer.special_ids());
        if plain(ours) == plain(self.config.clone()) {
            return Ok(());
        }
        let what = "tx cannot train a model of this shape: it needs one number of heads and one d_ff for encoder and decoder, as many rows in its embeddings as the tokenizer has pieces, a decoder that starts with <s>, and scaled embeddings";
        Err(Error::format(&self.started_from.model, what))
    }
}

fn shape(config: &Config) -> Given {
    let all = json!({
        "d_model": config.d_model,
        "encoder_layers": config.encoder.layers,
        "decoder_layers": config.decoder.layers,
        "heads": config.encoder.heads,
        "d_ff": config.encoder.d_ff,
        "activation": config.activation,
        "tie": config.tie,
        "norm": config.norm,
        "positions": config.positions,
        "max_positions": config.max_positions,
    });
    all.as_object().cloned().unwrap_or_default()
}

fn hash_of_weights(folder: &Path) -> Result<String> {
    Ok(format!("{:x}", Sha256::digest(files::read(&checkpoint::weights_path(folder))?)))
}
