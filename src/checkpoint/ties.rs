//! Vocabulary matrices that are one in the model (section 3.4) but may have several names in a file: they come to the name
//! that [`parameters::parameters`] has for them, after a look whether they really are one.

use crate::config::{Config, Tie};
use crate::error::{Error, Result};
use crate::model::embedding::positional_encoding;
use crate::model::parameters::{
    self, DECODER_EMBEDDING, ENCODER_EMBEDDING, LM_HEAD, SHARED_EMBEDDING, Weights,
};
use candle_core::{Device, Tensor};
use std::path::Path;

/// Leaves in `weights` what a model of this shape needs, and refuses everything else by name; `path` is for messages.
pub fn settle(config: &Config, weights: &mut Weights, path: &Path) -> Result<()> {
    let problems = problems(config, weights)?;
    if problems.is_empty() { Ok(()) } else { Err(Error::format(path, problems.join("; "))) }
}

/// As [`settle`], with the problems one by one: matrices that should be one and are not, tensors that are missing, of
/// another shape or unexpected.
pub fn problems(config: &Config, weights: &mut Weights) -> Result<Vec<String>> {
    let mut problems = check_positions(config, weights)?;
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

/// The positions of both stacks as tensors, for those who want them.
pub(super) fn position_tables(config: &Config) -> Result<Weights> {
    let table = positional_encoding(0..config.max_positions, config.d_model, config.positions, &Device::Cpu)?;
    Ok(["encoder", "decoder"].map(|side| (format!("model.{side}{POSITIONS}"), table.clone())).into())
}

/// The end of the names of the positions' tensors; M2M100 has an `s` more.
const POSITIONS: &str = ".embed_positions.weight";

/// Positions are computed, not learnt, so those that some exporters write are dropped, after a look whether they are the
/// sinusoids of this model up to the rounding of f16.
fn check_positions(config: &Config, weights: &mut Weights) -> Result<Vec<String>> {
    let (mut problems, mut tables) = (Vec::new(), Vec::new());
    weights.retain(|name, tensor| {
        let is_table = name.trim_end_matches('s').ends_with(POSITIONS);
        if is_table {
            tables.push((name.clone(), tensor.clone()));
        }
        !is_table
    });
    for (name, table) in tables {
        let &[n, d] = table.dims() else {
            problems.push(format!("{name} {:?} is no table of positions", table.dims()));
            continue;
        };
        let rows = n.saturating_sub(config.first_position);
        let expected = positional_encoding(config.first_position..n, d, config.positions, table.device())?;
        let difference = if d != config.d_model || rows == 0 {
            f32::INFINITY
        } else {
            let found = table.narrow(0, config.first_position, rows)?;
            (found - expected)?.abs()?.flatten_all()?.max(0)?.to_scalar::<f32>()?
        };
        if difference.is_nan() || difference > 2e-3 {
            problems.push(format!(
                "{name} [{n}, {d}] has other positions than sines and cosines (`{:?}`) of d_model {}: tx has no learnt ones",
                config.positions, config.d_model
            ));
        }
    }
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
    use crate::config::{Positions, Preset};
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
        named.extend(position_tables(&config).unwrap());
        assert_eq!(problems(&config, &mut named).unwrap(), [""; 0]);
        assert!(named.keys().eq(plain.keys()), "{:?}", named.keys());
    }

    #[test]
    fn learnt_positions_are_refused() {
        let config = Config::new(Preset::Tiny, 10);
        let mut named = weights(&config);
        let (name, table) = position_tables(&config).unwrap().pop_first().unwrap();
        named.insert(name.clone(), (table + 0.01).unwrap());
        let found = problems(&config, &mut named).unwrap();
        assert!(found[0].starts_with(&format!("{name} [512, 128] has other positions")), "{found:?}");
        let t2t = Config { positions: Positions::T2t, ..config };
        named.extend(position_tables(&t2t).unwrap());
        assert_eq!(problems(&t2t, &mut named).unwrap(), [""; 0]);
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
