//! What may be wrong with a model: every file, every tensor, and whether they belong together.

use super::{Diagnosis, Finding, Level};
use crate::checkpoint::{
    self, Checkpoint, TxInfo, config_json, files, marian, marian_vocab, parse_json, tensors, ties,
};
use crate::config::Config;
use crate::model::parameters::Weights;
use crate::text::Tokenizer;
use crate::{Error, Result};
use candle_core::{DType, Device};
use serde_json::Value;
use std::path::Path;

/// Files that `transformers` wants too.
const COMPANIONS: [&str; 2] = ["generation_config.json", "tokenizer_config.json"];

/// Looks at a model of any form that tx opens. An error only where nothing can be read.
pub fn model(path: &Path) -> Result<Diagnosis> {
    let weights = checkpoint::weights_path(path);
    if weights.extension().is_some_and(|extension| extension == "npz") {
        of_marian(&weights)
    } else if path.is_file() {
        in_one_file(path)
    } else {
        directory(path)
    }
}

/// Looks at a model directory in the form of Hugging Face.
fn directory(folder: &Path) -> Result<Diagnosis> {
    let mut diagnosis = Diagnosis::default();
    let stored = folder.join(checkpoint::weights_file(folder));
    for path in [&folder.join("config.json"), &stored].into_iter().filter(|path| !path.is_file()) {
        diagnosis.problem("missing-file", path.display().to_string(), 1, "missing");
    }
    for path in COMPANIONS.map(|name| folder.join(name)).iter().filter(|path| !path.is_file()) {
        diagnosis.findings.push(Finding {
            level: Level::Note,
            check: "missing-file",
            file: path.display().to_string(),
            line: None,
            count: 1,
            what: "missing: tx does without, `transformers` not".to_string(),
        });
    }
    let config = look_at(&mut diagnosis, &folder.join("config.json"), config);
    let tokenizer = tokenizer(&mut diagnosis, folder);
    let weights = look_at(&mut diagnosis, &stored, |path| tensors::read(path, &Device::Cpu).map_err(said));
    if let (Some((config, _)), Some(weights)) = (&config, &weights) {
        let mut weights = weights.clone();
        for what in ties::problems(config, &mut weights)? {
            diagnosis.problem("tensor", stored.display().to_string(), 1, what);
        }
        count(&mut diagnosis, &stored, &weights);
    }
    if let Some(weights) = &weights {
        finite(&mut diagnosis, &stored, weights)?;
    }
    if let (Some((config, info)), Some(tokenizer)) = (&config, &tokenizer) {
        belong_together(&mut diagnosis, folder, config, tokenizer, info.as_ref());
        let generation = folder.join(COMPANIONS[0]);
        if generation.is_file() {
            special_ids(&mut diagnosis, &generation, config);
        }
    }
    Ok(diagnosis)
}

/// Looks at a `.npz` of Marian's and what lies beside it.
fn of_marian(npz: &Path) -> Result<Diagnosis> {
    let (mut diagnosis, folder) = (Diagnosis::default(), marian::folder(npz));
    let read = |path: &Path| marian::parse(&files::map(path)?, path, &Device::Cpu);
    let model = look_at(&mut diagnosis, npz, |path| read(path).map_err(said));
    look_at(&mut diagnosis, &marian::decoder_yml(npz), |_| marian::generation(npz).map_err(said));
    let tokenizer = look_at(&mut diagnosis, folder, |_| marian_vocab::tokenizer(npz).map_err(said));
    let Some((mut config, weights)) = model else { return Ok(diagnosis) };
    count(&mut diagnosis, npz, &weights);
    finite(&mut diagnosis, npz, &weights)?;
    if let Some(tokenizer) = &tokenizer {
        config.special.unk = tokenizer.special_ids().unk;
        belong_together(&mut diagnosis, folder, &config, tokenizer, None);
    }
    Ok(diagnosis)
}

/// Looks at all of a model in one file, as `tx bundle` writes it.
fn in_one_file(path: &Path) -> Result<Diagnosis> {
    let mut diagnosis = Diagnosis::default();
    let open = |path: &Path| Checkpoint::open(path, &Device::Cpu).map_err(said);
    if let Some(model) = look_at(&mut diagnosis, path, open) {
        count(&mut diagnosis, path, &model.weights);
        finite(&mut diagnosis, path, &model.weights)?;
        belong_together(&mut diagnosis, path, &model.config, &model.tokenizer, model.info.as_ref());
    }
    Ok(diagnosis)
}

/// What an error says of a file that is named beside it.
fn said(error: Error) -> Vec<String> {
    vec![if let Error::Format { what, .. } = error { what } else { error.to_string() }]
}

/// The tokenizer of a folder.
fn tokenizer(diagnosis: &mut Diagnosis, folder: &Path) -> Option<Tokenizer> {
    let has = |name: &str| folder.join(name).is_file();
    let Some(form) = crate::text::files::form(has) else {
        for name in crate::text::files::missing(has) {
            diagnosis.problem("missing-file", folder.join(name).display().to_string(), 1, "missing");
        }
        return None;
    };
    look_at(diagnosis, &folder.join(form[0]), |_| {
        Tokenizer::open_folder(folder).map_err(|error| vec![error.to_string()])
    })
}

/// Notes what the model is, and whether the tokenizer is its own.
fn belong_together(
    diagnosis: &mut Diagnosis,
    place: &Path,
    config: &Config,
    tokenizer: &Tokenizer,
    info: Option<&TxInfo>,
) {
    if let Err(what) = checkpoint::check_tokenizer(config, tokenizer, info) {
        diagnosis.problem("tokenizer", place.display().to_string(), 1, what);
    }
    diagnosis.facts.push(format!(
        "{}: {}+{} layers, d_model {}, {} pieces, {} in the tokenizer",
        place.display(),
        config.encoder.layers,
        config.decoder.layers,
        config.d_model,
        config.tgt_vocab,
        tokenizer.vocab_size()
    ));
}

/// Reads a file if it is there; what `read` finds wrong becomes problems.
fn look_at<T>(
    diagnosis: &mut Diagnosis,
    path: &Path,
    read: impl Fn(&Path) -> std::result::Result<T, Vec<String>>,
) -> Option<T> {
    if !path.exists() {
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

type Read = (Config, Option<TxInfo>);

fn config(path: &Path) -> std::result::Result<Read, Vec<String>> {
    let json = files::read(path).and_then(|bytes| parse_json(path, &bytes)).map_err(said)?;
    let (config, info) = config_json::from_json(&json)?;
    config.check().map_err(said)?;
    Ok((config, info))
}

/// Notes how large the model is.
fn count(diagnosis: &mut Diagnosis, path: &Path, weights: &Weights) {
    let count: usize = weights.values().map(|tensor| tensor.elem_count()).sum();
    diagnosis.facts.push(format!("{}: {} tensors, {count} numbers", path.display(), weights.len()));
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
        files::read(path).and_then(|bytes| parse_json(path, &bytes)).map_err(said)
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
