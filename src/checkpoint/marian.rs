//! Marian's own model files: a `.npz` with the weights under Marian's names (models/transformer.h of marian-dev) and the settings
//! as the array `special:model.yml`.
//!
//! Matrices are [in, out] there. The decoder starts from a vector of zeros: here the padding, which Marian does not have, is
//! one more row of zeros in the embeddings, and its bias makes it impossible. Positions are those of tensor2tensor. The ε of
//! the layer norm is 1e-6 in Marian; as in `transformers` and CTranslate2, it is 1e-5 here.

use super::Generation;
use super::files::{self, Contents};
use super::marian_settings::{decoding, shape};
use super::npz::{self, Array};
use super::yaml::Settings;
use crate::config::{Config, Norm, Tie};
use crate::error::{Error, Result};
use crate::model::parameters::{
    self, DECODER_EMBEDDING, ENCODER_EMBEDDING, LM_HEAD, LOGITS_BIAS, Parameter, SHARED_EMBEDDING, Weights,
};
use candle_core::{Device, Tensor};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The array with the settings.
const SETTINGS: &str = "special:model.yml";
/// The logit of a piece that is never said: e to its power is 0 in f32, and f16 can hold it.
const IMPOSSIBLE: f32 = -1e4;

/// The `.npz` of a folder: the one that `decoder.yml` names, else the only one.
pub fn find(folder: &Path) -> Result<Option<PathBuf>> {
    let list = std::fs::read_dir(folder).map_err(|error| Error::io(folder, error))?;
    let names = list.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter(|name| name.ends_with(".npz") && !name.ends_with(".optimizer.npz")).collect();
    names.sort();
    let yml = folder.join("decoder.yml");
    if let Ok(bytes) = std::fs::read(&yml) {
        let settings = Settings::parse(&bytes).map_err(|what| Error::format(&yml, what))?;
        match settings.list("models") {
            [model] if names.contains(model) => return Ok(Some(folder.join(model))),
            [] | [_] => {}
            several => {
                let what = format!(
                    "{} models, and tx translates with one: name it, --model FILE.npz",
                    several.len()
                );
                return Err(Error::format(&yml, what));
            }
        }
    }
    match names.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(folder.join(only))),
        several => {
            let what = format!(
                "{} models of Marian ({}): name one, --model FILE.npz",
                several.len(),
                several.join(", ")
            );
            Err(Error::format(folder, what))
        }
    }
}

/// Where a `.npz` lies, and its tokenizer with it.
pub fn folder(npz: &Path) -> &Path {
    npz.parent().unwrap_or(Path::new("."))
}

/// How the model `npz` wants to be decoded.
pub fn generation(npz: &Path) -> Result<Generation> {
    let yml = decoder_yml(npz);
    let generation = decoder_settings(npz)?.map(|settings| decoding(&settings)).transpose();
    Ok(generation.map_err(|what| Error::format(&yml, what))?.unwrap_or_default())
}

/// What is in `decoder.yml`, if it is there.
pub fn decoder_settings(npz: &Path) -> Result<Option<Settings>> {
    let yml = decoder_yml(npz);
    if !yml.is_file() {
        return Ok(None);
    }
    Settings::parse(&files::read(&yml)?).map(Some).map_err(|what| Error::format(&yml, what))
}

/// `decoder.yml`, which training names after the model.
pub fn decoder_yml(npz: &Path) -> PathBuf {
    let named = files::with_suffix(npz, ".decoder.yml");
    if named.is_file() { named } else { npz.with_file_name("decoder.yml") }
}

/// Shape and weights of `contents`; `path` is for messages.
pub fn parse(contents: &dyn Contents, path: &Path, device: &Device) -> Result<(Config, Weights)> {
    let refuse = |what: String| Error::format(path, what);
    if let Some(what) = super::tensors::not_weights(contents.bytes()) {
        return Err(refuse(what));
    }
    let mut arrays = npz::arrays(contents.bytes()).map_err(refuse)?;
    let settings = match arrays.remove(SETTINGS) {
        Some(array) => Settings::parse(array.data).map_err(|what| refuse(format!("{SETTINGS}: {what}")))?,
        None => {
            let yml = files::with_suffix(path, ".yml");
            if !yml.is_file() {
                let what = format!(
                    "it has no {SETTINGS}, and there is no {}: is it a model of Marian?",
                    yml.display()
                );
                return Err(refuse(what));
            }
            Settings::parse(&files::read(&yml)?).map_err(|what| Error::format(&yml, what))?
        }
    };
    let config = shape(&settings).map_err(|problems| refuse(problems.join("; ")))?;
    config.check().map_err(|error| refuse(error.to_string()))?;
    let weights =
        weights(&config, arrays, &settings, device).map_err(|problems| refuse(problems.join("; ")))?;
    contents.release(contents.bytes());
    Ok((config, weights))
}

/// The weights under our names; all that is missing, has another shape or is left over is listed.
fn weights(
    config: &Config,
    mut arrays: BTreeMap<&str, Array>,
    settings: &Settings,
    device: &Device,
) -> std::result::Result<Weights, Vec<String>> {
    let bias = Parameter {
        name: LOGITS_BIAS.into(),
        shape: vec![1, config.tgt_vocab],
        init: parameters::Init::Zeros,
    };
    let (mut weights, mut problems) = (Weights::new(), Vec::new());
    for Parameter { name, shape, .. } in parameters::parameters(config).into_iter().chain([bias]) {
        let Some((theirs, form)) = marian_name(&name, config) else {
            problems.push(format!("{name} has no name in Marian"));
            continue;
        };
        let expected = form.stored(&shape, settings.list("dim-vocabs"), &name);
        let Some(array) = arrays.remove(theirs.as_str()) else {
            problems.push(format!("{theirs} {expected:?} is missing"));
            continue;
        };
        if array.shape != expected {
            problems.push(format!("{theirs} has shape {:?}, expected {expected:?}", array.shape));
            continue;
        }
        let made = array.tensor().and_then(|tensor| {
            let tensor = form.ours(tensor, &shape).and_then(|tensor| tensor.to_device(device));
            tensor.map_err(|error| error.to_string())
        });
        match made {
            Ok(tensor) => _ = weights.insert(name, tensor),
            Err(what) => problems.push(format!("{theirs}: {what}")),
        }
    }
    problems.extend(
        arrays.iter().map(|(name, array)| format!("{name} {:?} is not part of such a model", array.shape)),
    );
    if problems.is_empty() { Ok(weights) } else { Err(problems) }
}

/// How a tensor of ours lies in Marian's file.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    /// [in, out]
    Matrix,
    /// [1, n]
    Row,
    /// [v, d] without the padding's row.
    Table,
    /// [d, v] without the padding's column.
    Head,
    /// [1, v] without the padding's number.
    Bias,
}

impl Form {
    /// The shape in the file of the tensor `name`, which has `shape` here.
    fn stored(self, shape: &[usize], vocabs: &[String], name: &str) -> Vec<usize> {
        let side = if name == ENCODER_EMBEDDING { vocabs.first() } else { vocabs.last() };
        let v = side.and_then(|v| v.parse().ok()).unwrap_or(0);
        match (self, shape) {
            (Form::Matrix, &[out, input]) => vec![input, out],
            (Form::Row, &[n]) => vec![1, n],
            (Form::Table, &[_, d]) => vec![v, d],
            (Form::Head, &[_, d]) => vec![d, v],
            (Form::Bias, _) => vec![1, v],
            (_, other) => other.to_vec(),
        }
    }

    /// The tensor of `shape` here.
    fn ours(self, tensor: Tensor, shape: &[usize]) -> candle_core::Result<Tensor> {
        let padded =
            |tensor: Tensor| tensor.pad_with_zeros(0, 0, shape.first().map_or(0, |&v| v - tensor.dims()[0]));
        match self {
            Form::Matrix => tensor.t()?.contiguous(),
            Form::Row => tensor.flatten_all(),
            Form::Table => padded(tensor),
            Form::Head => padded(tensor.t()?.contiguous()?),
            Form::Bias => {
                let v = shape.last().copied().unwrap_or(0);
                let more = Tensor::full(IMPOSSIBLE, (1, v - tensor.dim(1)?), tensor.device())?;
                Tensor::cat(&[tensor, more], 1)
            }
        }
    }
}

/// Marian's name of a tensor of ours.
fn marian_name(ours: &str, config: &Config) -> Option<(String, Form)> {
    let decoder = if config.tie == Tie::All { "Wemb" } else { "decoder_Wemb" };
    let (name, form) = match ours {
        SHARED_EMBEDDING | DECODER_EMBEDDING => (decoder, Form::Table),
        ENCODER_EMBEDDING => ("encoder_Wemb", Form::Table),
        LM_HEAD => ("decoder_ff_logit_out_W", Form::Head),
        LOGITS_BIAS => ("decoder_ff_logit_out_b", Form::Bias),
        _ => return layer_name(ours, config.norm),
    };
    Some((name.to_string(), form))
}

/// That of a tensor of a layer, `model.SIDE.layers.N.PLACE.PART`, or of the last norm, `model.SIDE.layer_norm.PART`.
fn layer_name(ours: &str, place_of_norms: Norm) -> Option<(String, Form)> {
    let (side, rest) = ours.strip_prefix("model.")?.split_once('.')?;
    let (place, part) = rest.rsplit_once('.')?;
    let norm = if part == "weight" { "ln_scale" } else { "ln_bias" };
    if place == "layer_norm" {
        return Some((format!("{side}_top_{norm}"), Form::Row));
    }
    // Of a norm before the sublayer; the one after the stack is after it.
    let pre = if place_of_norms == Norm::Pre { "_pre" } else { "" };
    let (number, place) = place.strip_prefix("layers.")?.split_once('.')?;
    let layer = format!("{side}_l{}", number.parse::<usize>().ok()? + 1);
    let (letter, form) = if part == "weight" { ("W", Form::Matrix) } else { ("b", Form::Row) };
    let sublayer = |name: &str| if name == "self_attn" { "self" } else { "context" };
    Some(match (place, place.split_once('.')) {
        ("self_attn_layer_norm", _) => (format!("{layer}_self_Wo_{norm}{pre}"), Form::Row),
        ("encoder_attn_layer_norm", _) => (format!("{layer}_context_Wo_{norm}{pre}"), Form::Row),
        ("final_layer_norm", _) => (format!("{layer}_ffn_ffn_{norm}{pre}"), Form::Row),
        ("fc1", _) => (format!("{layer}_ffn_{letter}1"), form),
        ("fc2", _) => (format!("{layer}_ffn_{letter}2"), form),
        (_, Some((name, projection))) => {
            (format!("{layer}_{}_{letter}{}", sublayer(name), projection.get(..1)?), form)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Preset;

    #[test]
    fn names_are_those_of_marian() {
        let config = Config::new(Preset::Tiny, 10);
        let name = |ours: &str| marian_name(ours, &config).unwrap();
        assert_eq!(name(SHARED_EMBEDDING), ("Wemb".into(), Form::Table));
        let layer = "model.decoder.layers.5";
        assert_eq!(
            name(&format!("{layer}.encoder_attn.q_proj.weight")),
            ("decoder_l6_context_Wq".into(), Form::Matrix)
        );
        assert_eq!(
            name(&format!("{layer}.self_attn.out_proj.bias")),
            ("decoder_l6_self_bo".into(), Form::Row)
        );
        assert_eq!(
            name(&format!("{layer}.final_layer_norm.weight")),
            ("decoder_l6_ffn_ffn_ln_scale".into(), Form::Row)
        );
        assert_eq!(name(&format!("{layer}.fc2.weight")), ("decoder_l6_ffn_W2".into(), Form::Matrix));
        assert_eq!(name("model.encoder.layer_norm.bias"), ("encoder_top_ln_bias".into(), Form::Row));
        let pre = Config { norm: Norm::Pre, ..config.clone() };
        let (name, _) = marian_name(&format!("{layer}.self_attn_layer_norm.bias"), &pre).unwrap();
        assert_eq!(name, "decoder_l6_self_Wo_ln_bias_pre");
    }
}
