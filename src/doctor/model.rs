//! What may be wrong with a model directory: every file, every tensor, and whether they belong together.

use super::{Diagnosis, Finding, Level};
use crate::Result;
use crate::checkpoint::{self, config_json, files, parse_json, tensors, ties};
use crate::config::Config;
use crate::model::parameters::Weights;
use crate::text::Tokenizer;
use candle_core::{DType, Device};
use serde_json::Value;
use std::path::Path;

/// Files that `transformers` wants too.
const COMPANIONS: [&str; 2] = ["generation_config.json", "tokenizer_config.json"];

/// Looks at the model directory `folder`. An error only where nothing can be read.
pub fn model(folder: &Path) -> Result<Diagnosis> {
    let mut diagnosis = Diagnosis::default();
    let form = crate::text::files::form(|name| folder.join(name).is_file()).unwrap_or(&["tokenizer.json"]);
    for name in ["config.json", checkpoint::weights_file(folder)].iter().chain(form) {
        if !folder.join(name).is_file() {
            diagnosis.problem("missing-file", folder.join(name).display().to_string(), 1, "missing");
        }
    }
    for name in COMPANIONS.into_iter().filter(|name| !folder.join(name).is_file()) {
        let (file, what) =
            (folder.join(name).display().to_string(), "missing: tx does without, `transformers` not");
        let what = what.to_string();
        diagnosis.findings.push(Finding {
            level: Level::Note,
            check: "missing-file",
            file,
            line: None,
            count: 1,
            what,
        });
    }
    let config = look_at(&mut diagnosis, &folder.join("config.json"), config);
    let tokenizer = look_at(&mut diagnosis, &folder.join(form[0]), |_| {
        Tokenizer::open_folder(folder).map_err(|error| vec![error.to_string()])
    });
    let weights = look_at(&mut diagnosis, &folder.join(checkpoint::weights_file(folder)), |path| {
        tensors::read(path, &Device::Cpu).map_err(|error| vec![error.to_string()])
    });
    if let (Some((config, _)), Some(weights)) = (&config, &weights) {
        shapes(&mut diagnosis, &folder.join(checkpoint::weights_file(folder)), config, weights)?;
    }
    if let Some(weights) = &weights {
        finite(&mut diagnosis, &folder.join(checkpoint::weights_file(folder)), weights)?;
    }
    if let (Some((config, info)), Some(tokenizer)) = (&config, &tokenizer) {
        let file = folder.join(form[0]).display().to_string();
        if let Err(what) = checkpoint::check_tokenizer(config, tokenizer, info.as_ref()) {
            diagnosis.problem("tokenizer", &file, 1, what);
        }
        diagnosis.facts.push(format!(
            "{}: {}+{} layers, d_model {}, {} pieces, {} in the tokenizer",
            folder.display(),
            config.encoder.layers,
            config.decoder.layers,
            config.d_model,
            config.tgt_vocab,
            tokenizer.tgt().vocab_size()
        ));
        let generation = folder.join(COMPANIONS[0]);
        if generation.is_file() {
            special_ids(&mut diagnosis, &generation, config);
        }
    }
    Ok(diagnosis)
}

/// Reads a file if it is there; what `read` finds wrong becomes problems.
fn look_at<T>(
    diagnosis: &mut Diagnosis,
    path: &Path,
    read: impl Fn(&Path) -> std::result::Result<T, Vec<String>>,
) -> Option<T> {
    if !path.is_file() {
        return None;
    }
    match read(path) {
        Ok(found) => Some(found),
        Err(problems) => {
            for what in problems {
                diagnosis.problem("content", path.display().to_string(), 1, what);
            }
            None
        }
    }
}

type Read = (Config, Option<config_json::TxInfo>);

fn config(path: &Path) -> std::result::Result<Read, Vec<String>> {
    let text = |error: crate::Error| vec![error.to_string()];
    let json = parse_json(path, &files::read(path).map_err(text)?).map_err(text)?;
    let (config, info) = config_json::from_json(&json)?;
    config.check().map_err(text)?;
    Ok((config, info))
}

/// Missing, unexpected and mis-shaped tensors.
fn shapes(diagnosis: &mut Diagnosis, path: &Path, config: &Config, weights: &Weights) -> Result<()> {
    let mut weights = weights.clone();
    for what in ties::problems(config, &mut weights)? {
        diagnosis.problem("tensor", path.display().to_string(), 1, what);
    }
    let count: usize = weights.values().map(|tensor| tensor.elem_count()).sum();
    diagnosis.facts.push(format!("{}: {} tensors, {count} numbers", path.display(), weights.len()));
    Ok(())
}

/// Tensors with NaN or infinity.
fn finite(diagnosis: &mut Diagnosis, path: &Path, weights: &Weights) -> Result<()> {
    for (name, tensor) in weights {
        let values = tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?;
        let bad = values.iter().filter(|value| !value.is_finite()).count();
        if bad > 0 {
            let what = format!("{name}: {bad} of {} numbers are not finite", values.len());
            diagnosis.problem("not-finite", path.display().to_string(), bad, what);
        }
    }
    Ok(())
}

/// The ids of the generation settings are those of the model.
fn special_ids(diagnosis: &mut Diagnosis, path: &Path, config: &Config) {
    let json: Option<Value> = look_at(diagnosis, path, |path| {
        files::read(path).and_then(|bytes| parse_json(path, &bytes)).map_err(|error| vec![error.to_string()])
    });
    let special = config.special;
    let expected = [
        ("pad_token_id", special.pad),
        ("eos_token_id", special.eos),
        ("decoder_start_token_id", special.bos),
    ];
    for (name, expected) in expected {
        let Some(found) = json.as_ref().and_then(|json| json[name].as_u64()) else { continue };
        if found != u64::from(expected) {
            let what = format!("{name} is {found}, config.json says {expected}");
            diagnosis.problem("special-id", path.display().to_string(), 1, what);
        }
    }
}
