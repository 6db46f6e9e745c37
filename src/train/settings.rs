//! Everything that decides what a training run computes. The resolved settings are saved with the model; which of them
//! may change on resume is in `resume`.

use super::best::Criterion;
use super::tokenizer::Vocab;
use crate::config::{Activation, Config, Dropouts, Norm, Positions, Preset, SpecialIds, Stack, Tie};
use crate::data::Filters;
use crate::error::{Error, Result};
use crate::ops::Compute;
use crate::text;
use candle_core::DType;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Settings that the user gave, by the names of the fields of [`Settings`].
pub type Given = Map<String, Value>;

/// How the weights of the model directory are stored. Training itself keeps f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stored {
    /// As they are.
    #[default]
    F32,
    /// Half the size, 11 bits of precision.
    F16,
}

impl From<Stored> for DType {
    fn from(stored: Stored) -> DType {
        match stored {
            Stored::F32 => DType::F32,
            Stored::F16 => DType::F16,
        }
    }
}

/// The settings of one run. A comment gives the unit; defaults are in [`Settings::new`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Name of the sizes it started from.
    pub preset: Preset,
    /// d
    pub d_model: usize,
    /// Layers of the encoder.
    pub encoder_layers: usize,
    /// Layers of the decoder.
    pub decoder_layers: usize,
    /// h
    pub heads: usize,
    /// f
    pub d_ff: usize,
    /// Non-linearity of the feed-forward sublayers.
    pub activation: Activation,
    /// Whether the languages share their pieces; runs from before there was a choice do not say.
    #[serde(default)]
    pub vocab: Vocab,
    /// Which vocabulary matrices are shared.
    pub tie: Tie,
    /// Where the layer norms stand; runs from before there was a choice do not say.
    #[serde(default)]
    pub norm: Norm,
    /// Layout of the positional encoding.
    pub positions: Positions,
    /// Longest source or target in pieces, end mark included; longer training pairs are left out.
    pub max_positions: usize,
    /// On sublayer outputs and embeddings.
    pub dropout: f64,
    /// On attention weights.
    pub attention_dropout: f64,
    /// Inside the feed-forward sublayer.
    pub activation_dropout: f64,
    /// How text is cut; none where a finished tokenizer was given.
    pub tokenizer: Option<text::Kind>,
    /// Pieces of the vocabulary, special tokens included; of the source's, where the target has its own.
    pub vocab_size: usize,
    /// Whether the tokenizer lower-cases.
    pub lowercase: bool,
    /// Of everything random.
    pub seed: u64,
    /// Pairs × longest side of a batch, in pieces.
    pub batch_tokens: usize,
    /// Batches of one update.
    pub accumulate: usize,
    /// The learning rate at the end of the warmup.
    pub lr: f64,
    /// Steps of linear increase.
    pub warmup_steps: u64,
    /// Steps before the last over which the learning rate falls to zero; runs from before there was a choice do not say.
    #[serde(default)]
    pub cooldown: u64,
    /// ε of section 5.4.
    pub label_smoothing: f64,
    /// Largest global norm of the gradient; 0 = no clipping.
    pub clip_norm: f64,
    /// Steps after which training ends.
    pub max_steps: u64,
    /// Steps between validations.
    pub valid_every: u64,
    /// Steps between saves.
    pub save_every: u64,
    /// Minutes between saves, beside those by steps; 0 = none by time.
    pub save_minutes: f64,
    /// Epochs after which training ends; 0 = never.
    pub max_epochs: u64,
    /// Validations without improvement after which training ends; 0 = never.
    pub patience: u64,
    /// By which validations are compared.
    pub metric: Criterion,
    /// What patience takes for an improvement must be larger than this.
    pub min_change: f64,
    /// Saved states that are kept.
    pub keep: usize,
    /// Validated weights that are kept, the best.
    pub keep_best: usize,
    /// Validated weights that are averaged at the end, the last; 0 = none.
    pub average: usize,
    /// Share of the old in the moving average of the weights; 0 = no such average.
    pub ema: f64,
    /// In which numbers products are computed.
    #[serde(default)]
    pub compute: Compute,
    /// How the weights of the model directory are stored.
    #[serde(default)]
    pub dtype: Stored,
    /// Probability that a merge of byte pair encoding is left out in training; 0 = never.
    #[serde(default)]
    pub sample_tokens: f64,
    /// Most pieces of the longer side of a training pair for each of the shorter one.
    #[serde(default)]
    pub max_ratio: Option<f64>,
    /// Whether a training pair that was read before is left out.
    #[serde(default)]
    pub drop_duplicates: bool,
    /// Whether a training pair with identical sides is left out.
    #[serde(default)]
    pub drop_identical: bool,
}

impl Settings {
    /// The settings of a new run on `pairs` sentence pairs: what was given, else defaults for the preset, which is by
    /// corpus size unless given. Some defaults follow from other settings: warmup from d, the learning rate from both,
    /// attention dropout from dropout, saves from validations, tied matrices from vocabularies.
    pub fn resolve(given: &Given, pairs: usize) -> Result<Self> {
        let preset = match given.get("preset") {
            Some(preset) => {
                serde_json::from_value(preset.clone()).map_err(|error| Error::Config(error.to_string()))?
            }
            None => Preset::for_corpus(pairs),
        };
        let mut settings = Settings::new(preset, pairs).with(given)?;
        let is_free = |name: &str| !given.contains_key(name);
        if is_free("warmup_steps") {
            settings.warmup_steps = if settings.d_model < 512 { 1000 } else { 4000 };
        }
        if is_free("lr") {
            settings.lr = settings.paper_lr();
        }
        if is_free("attention_dropout") {
            settings.attention_dropout = settings.dropout;
        }
        if is_free("tie") && settings.vocab == Vocab::Separate {
            settings.tie = Tie::Decoder;
        }
        if is_free("save_every") {
            settings.save_every = settings.valid_every;
        }
        Ok(settings)
    }

    /// These settings with the given ones in their place.
    pub fn with(&self, given: &Given) -> Result<Self> {
        let mut json = self.to_json();
        for (name, value) in given {
            json[name] = value.clone();
        }
        serde_json::from_value(json).map_err(|error| Error::Config(error.to_string()))
    }

    /// Defaults for a preset and a corpus of `pairs` sentence pairs.
    pub fn new(preset: Preset, pairs: usize) -> Self {
        let (d_model, stack) = preset.sizes();
        let config = Config::new(preset, 0);
        let mut settings = Settings {
            preset,
            d_model,
            encoder_layers: stack.layers,
            decoder_layers: stack.layers,
            heads: stack.heads,
            d_ff: stack.d_ff,
            activation: config.activation,
            vocab: Vocab::Joint,
            tie: config.tie,
            norm: config.norm,
            positions: config.positions,
            max_positions: config.max_positions,
            dropout: 0.1,
            attention_dropout: 0.1,
            activation_dropout: 0.0,
            tokenizer: Some(text::Kind::Bpe),
            vocab_size: default_vocab_size(pairs),
            lowercase: false,
            seed: 1,
            batch_tokens: (pairs / 4).clamp(512, 4096),
            lr: 0.0,
            warmup_steps: 4000,
            cooldown: 0,
            label_smoothing: 0.1,
            clip_norm: 1.0,
            accumulate: 1,
            max_steps: 20_000,
            valid_every: 500,
            save_every: 500,
            save_minutes: 10.0,
            max_epochs: 0,
            patience: 5,
            metric: Criterion::Nll,
            min_change: 0.0,
            keep: 1,
            keep_best: 1,
            average: 5,
            ema: 0.0,
            compute: Compute::F32,
            dtype: Stored::F32,
            sample_tokens: 0.0,
            max_ratio: None,
            drop_duplicates: false,
            drop_identical: false,
        };
        settings.lr = settings.paper_lr();
        settings
    }

    /// The peak of the paper's schedule (section 5.3, factor 1): (d · warmup)^-0.5.
    pub fn paper_lr(&self) -> f64 {
        (self.d_model as f64 * self.warmup_steps.max(1) as f64).powf(-0.5)
    }

    /// The shape of the model over `src_vocab` and `tgt_vocab` pieces.
    pub fn config(&self, [src_vocab, tgt_vocab]: [usize; 2], special: SpecialIds) -> Config {
        let stack = |layers| Stack { layers, heads: self.heads, d_ff: self.d_ff };
        Config {
            src_vocab,
            tgt_vocab,
            d_model: self.d_model,
            encoder: stack(self.encoder_layers),
            decoder: stack(self.decoder_layers),
            activation: self.activation,
            tie: self.tie,
            norm: self.norm,
            positions: self.positions,
            first_position: 0,
            scale_embedding: true,
            max_positions: self.max_positions,
            dropout: Dropouts {
                residual: self.dropout as f32,
                attention: self.attention_dropout as f32,
                activation: self.activation_dropout as f32,
            },
            special,
        }
    }

    /// Which training pairs are left out.
    pub fn filters(&self) -> Filters {
        Filters {
            drop_duplicates: self.drop_duplicates,
            drop_identical: self.drop_identical,
            max_len: self.max_positions,
            max_ratio: self.max_ratio,
        }
    }

    /// Refuses values that cannot train.
    pub fn check(&self) -> Result<()> {
        let mut problems = Vec::new();
        if self.tie == Tie::All && self.vocab == Vocab::Separate {
            problems.push("separate vocabularies cannot have one embedding: tie decoder or none".to_string());
        }
        if !(self.lr.is_finite() && self.lr > 0.0) {
            problems.push(format!("the learning rate is {}: it must be above 0", self.lr));
        }
        if !(0.0..1.0).contains(&self.label_smoothing) {
            problems
                .push(format!("label smoothing is {}: it must be from 0 to below 1", self.label_smoothing));
        }
        if !(self.clip_norm.is_finite() && self.clip_norm >= 0.0) {
            problems.push(format!("clip norm is {}: it must be 0 (off) or above", self.clip_norm));
        }
        if !(0.0..1.0).contains(&self.sample_tokens) {
            problems.push(format!("sample tokens is {}: it must be from 0 to below 1", self.sample_tokens));
        }
        if let Some(ratio) = self.max_ratio.filter(|&ratio| !(ratio.is_finite() && ratio >= 1.0)) {
            problems.push(format!("the largest length ratio is {ratio}: it must be at least 1"));
        }
        if !(0.0..1.0).contains(&self.ema) {
            problems
                .push(format!("the decay of the EMA is {}: it must be from 0 (off) to below 1", self.ema));
        }
        for (name, value) in [("min change", self.min_change), ("minutes between saves", self.save_minutes)] {
            if !(value.is_finite() && value >= 0.0) {
                problems.push(format!("{name} is {value}: it must be 0 or above"));
            }
        }
        for (name, value) in [
            ("batch tokens", self.batch_tokens as u64),
            ("accumulate", self.accumulate as u64),
            ("saved states to keep", self.keep as u64),
            ("best weights to keep", self.keep_best as u64),
            ("max steps", self.max_steps),
            ("steps between validations", self.valid_every),
            ("steps between saves", self.save_every),
        ] {
            if value == 0 {
                problems.push(format!("{name} is 0: it must be above 0"));
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(Error::Config(problems.join("; "))) }
    }

    /// As JSON, for the run's folder and the model's provenance.
    pub fn to_json(&self) -> Value {
        serde_json::json!(self)
    }
}

/// Small corpora cannot teach the meaning of many pieces.
fn default_vocab_size(pairs: usize) -> usize {
    match pairs {
        0..5_000 => 1_000,
        5_000..20_000 => 4_000,
        20_000..1_000_000 => 8_000,
        1_000_000..5_000_000 => 16_000,
        _ => 32_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_follow_what_is_given() {
        let given = |json: Value| json.as_object().cloned().unwrap();
        let settings =
            Settings::resolve(&given(serde_json::json!({"dropout": 0.25, "valid_every": 7})), 1000).unwrap();
        assert_eq!(
            (settings.preset, settings.attention_dropout, settings.save_every),
            (Preset::Tiny, 0.25, 7)
        );
        assert!((settings.lr - (128.0f64 * 1000.0).powf(-0.5)).abs() < 1e-12);
        let given = given(serde_json::json!({"preset": "base", "lr": 0.5, "save_every": 3}));
        let settings = Settings::resolve(&given, 1000).unwrap();
        assert_eq!(
            (settings.d_model, settings.lr, settings.save_every, settings.warmup_steps),
            (512, 0.5, 3, 4000)
        );
    }

    #[test]
    fn settings_survive_json() {
        let settings = Settings::new(Preset::Small, 100_000);
        assert_eq!(serde_json::from_value::<Settings>(settings.to_json()).unwrap(), settings);
    }
}
