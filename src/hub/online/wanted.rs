//! Which files of a repository make a model for `tx`: chosen from the list of what is there, on the Hub or in the cache, so that
//! nothing is asked for in vain and a model is complete by the same rule in both places.

use crate::checkpoint::{CONFIG, GENERATION, PICKLED_WEIGHTS, TOKENIZER_CONFIG, WEIGHT_FILES, WEIGHTS};
use crate::text::files as tokenizers;

/// The files to have of those called `names`, the weights last: where they are, so is the rest. An error says what is missing.
pub fn wanted(names: &[String]) -> Result<Vec<String>, String> {
    let has = |name: &str| names.iter().any(|there| there == name);
    let marian = marian(names)?;
    let mut wanted: Vec<&str> = [GENERATION, TOKENIZER_CONFIG].into_iter().filter(|name| has(name)).collect();
    let weights = match (marian, WEIGHT_FILES.into_iter().find(|name| has(name))) {
        (_, Some(weights)) if has(CONFIG) => {
            wanted.insert(0, CONFIG);
            weights
        }
        (Some(npz), _) => {
            wanted.extend(names.iter().map(String::as_str).filter(|name| is_beside(name, ".yml")));
            npz
        }
        (None, Some(_)) => return Err(format!("it has no {CONFIG}")),
        (None, None) => return Err(format!("it has no weights that tx reads{}", others(names))),
    };
    // The vocabulary of Marian's own models may be one of their .yml files.
    let spm: Vec<&str> = names.iter().map(String::as_str).filter(|name| is_beside(name, ".spm")).collect();
    let tokenizer = tokenizers::names(has).or((marian == Some(weights) && !spm.is_empty()).then_some(spm));
    wanted.extend(
        tokenizer.ok_or_else(|| format!("it has no tokenizer that tx reads ({})", tokenizers::expected()))?,
    );
    wanted.push(weights);
    Ok(wanted.into_iter().map(str::to_string).collect())
}

/// Marian's own file of weights.
fn marian(names: &[String]) -> Result<Option<&str>, String> {
    let is_model = |name: &&str| is_beside(name, ".npz") && !name.ends_with(".optimizer.npz");
    let models: Vec<&str> = names.iter().map(String::as_str).filter(is_model).collect();
    match models.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(only)),
        several => Err(format!(
            "it has {} models of Marian ({}): fetch one with its .yml files into a folder, and give that as the model",
            several.len(),
            several.join(", ")
        )),
    }
}

/// Whether a file lies in the repository's own folder and ends in `ending`. The name becomes one in the cache.
fn is_beside(name: &str, ending: &str) -> bool {
    name.ends_with(ending) && !name.starts_with('.') && !name.contains(['/', '\\', ':'])
}

/// Weights of other forms.
fn others(names: &[String]) -> String {
    const FORMS: [&str; 6] = [".index.json", ".h5", ".msgpack", ".ot", ".onnx", ".gguf"];
    let found: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|name| FORMS.iter().any(|form| name.ends_with(form)))
        .collect();
    let wanted = format!("{WEIGHTS}, {PICKLED_WEIGHTS} or one .npz of Marian");
    match found.as_slice() {
        [] => format!(" ({wanted})"),
        found => format!(" ({wanted}); what it has is {}", found.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &str) -> Result<String, String> {
        wanted(&names.split(' ').map(str::to_string).collect::<Vec<_>>()).map(|names| names.join(" "))
    }

    #[test]
    fn only_what_is_needed_and_the_weights_last() {
        for (there, needed) in [
            (
                "README.md config.json generation_config.json pytorch_model.bin rust_model.ot source.spm target.spm tf_model.h5 tokenizer_config.json vocab.json",
                "config.json generation_config.json tokenizer_config.json source.spm target.spm vocab.json pytorch_model.bin",
            ),
            (
                "config.json model.safetensors pytorch_model.bin source.spm target.spm vocab.json target_vocab.json",
                "config.json source.spm target.spm vocab.json target_vocab.json model.safetensors",
            ),
            (
                "config.json pytorch_model.bin tokenizer.json sentencepiece.bpe.model vocab.json",
                "config.json tokenizer.json pytorch_model.bin",
            ),
            (
                "config.json pytorch_model.bin sentencepiece.bpe.model special_tokens_map.json vocab.json",
                "config.json sentencepiece.bpe.model vocab.json special_tokens_map.json pytorch_model.bin",
            ),
            (
                "decoder.yml model.npz model.optimizer.npz old/model.npz tokenizer.json",
                "decoder.yml tokenizer.json model.npz",
            ),
            (
                "decoder.yml model.npz source.spm target.spm vocab.json",
                "decoder.yml source.spm target.spm vocab.json model.npz",
            ),
            (
                "decoder.yml model.npz opus.vocab.yml source.spm target.spm",
                "decoder.yml opus.vocab.yml source.spm target.spm model.npz",
            ),
        ] {
            assert_eq!(of(there).unwrap(), needed);
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        for (there, what) in [
            (
                "config.json tokenizer.json tf_model.h5",
                "no weights that tx reads (model.safetensors, pytorch_model.bin or one .npz of Marian); what it has is tf_model.h5",
            ),
            ("tokenizer.json model.safetensors", "no config.json"),
            (
                "config.json model.safetensors vocab.json",
                "no tokenizer that tx reads (tokenizer.json, source.spm + ",
            ),
            ("model.npz vocab.yml", "no tokenizer that tx reads"),
            ("a.npz b.npz tokenizer.json", "2 models of Marian (a.npz, b.npz)"),
        ] {
            let error = of(there).unwrap_err();
            assert!(error.contains(what), "{error}");
        }
    }
}
