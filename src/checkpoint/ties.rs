//! Vocabulary matrices that are one in the model (section 3.4) but may have several names in a file: they come to the name
//! that [`parameters::parameters`] has for them, after a look whether they really are one.

use crate::config::{Config, Tie};
use crate::error::{Error, Result};
use crate::model::parameters::{
    self, DECODER_EMBEDDING, ENCODER_EMBEDDING, LM_HEAD, SHARED_EMBEDDING, Weights,
};
use candle_core::Tensor;
use std::path::Path;

/// Leaves in `weights` what a model of this shape needs, and refuses everything else by name; `path` is for messages.
pub fn settle(config: &Config, weights: &mut Weights, path: &Path) -> Result<()> {
    let problems = problems(config, weights)?;
    if problems.is_empty() { Ok(()) } else { Err(Error::format(path, problems.join("; "))) }
}

/// As [`settle`], with the problems one by one: matrices that should be one and are not, tensors that are missing, of
/// another shape or unexpected.
pub fn problems(config: &Config, weights: &mut Weights) -> Result<Vec<String>> {
    // Computed, not learnt; some exporters write them all the same.
    weights.retain(|name, _| !name.trim_end_matches('s').ends_with(".embed_positions.weight"));
    let mut problems = Vec::new();
    let (one, others): (&str, &[&str]) = match config.tie {
        Tie::All => (SHARED_EMBEDDING, &[ENCODER_EMBEDDING, DECODER_EMBEDDING, LM_HEAD]),
        Tie::Decoder => (DECODER_EMBEDDING, &[LM_HEAD]),
        Tie::None => (LM_HEAD, &[]),
    };
    for other in others {
        let Some(tensor) = weights.remove(*other) else { continue };
        match weights.get(one) {
            None => {
                weights.insert(one.to_string(), tensor);
            }
            Some(kept) if same(kept, &tensor)? => {}
            Some(_) => problems.push(format!(
                "{other} {:?} is not {one}, but config.json says that they are one: \
                 `share_encoder_decoder_embeddings` or `tie_word_embeddings` must be false",
                tensor.dims()
            )),
        }
    }
    problems.extend(parameters::problems(config, weights));
    Ok(problems)
}

/// Whether two tensors have the same numbers.
fn same(a: &Tensor, b: &Tensor) -> Result<bool> {
    if a.id() == b.id() {
        return Ok(true);
    }
    Ok(a.dims() == b.dims() && a.ne(b)?.flatten_all()?.max(0)?.to_scalar::<u8>()? == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Preset;
    use crate::model::parameters::{as_weights, initial};
    use candle_core::Device;

    fn weights(config: &Config) -> Weights {
        as_weights(&initial(config, 1, &Device::Cpu).unwrap())
    }

    #[test]
    fn names_of_one_matrix_become_one() {
        let config = Config::new(Preset::Tiny, 10);
        let plain = weights(&config);
        let mut named = plain.clone();
        let shared = named.remove(SHARED_EMBEDDING).unwrap();
        named.insert(LM_HEAD.into(), shared.copy().unwrap());
        named.insert(ENCODER_EMBEDDING.into(), shared.clone());
        named.insert("model.encoder.embed_positions.weights".into(), shared.clone());
        assert_eq!(problems(&config, &mut named).unwrap(), [""; 0]);
        assert!(named.keys().eq(plain.keys()), "{:?}", named.keys());
    }

    #[test]
    fn matrices_that_are_not_one_are_refused() {
        let config = Config::new(Preset::Tiny, 10);
        let mut named = weights(&config);
        let other = (&named[SHARED_EMBEDDING] + 1.0).unwrap();
        named.insert(LM_HEAD.into(), other.clone());
        named.insert(DECODER_EMBEDDING.into(), other.narrow(0, 0, 9).unwrap());
        let found = problems(&config, &mut named).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[1].starts_with("lm_head.weight [10, 128] is not model.shared.weight, but config.json says")
        );
        let untied = Config { tie: Tie::None, ..config };
        let mut named = weights(&untied);
        named.insert(SHARED_EMBEDDING.into(), other);
        let found = problems(&untied, &mut named).unwrap();
        assert_eq!(found, ["model.shared.weight [10, 128] is not part of such a model"]);
    }
}
