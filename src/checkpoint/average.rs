//! The mean of several models' weights (section 6.1: the paper averages the last 5 or 20 checkpoints). Sums are in f64. Tied
//! matrices are one tensor in a checkpoint, so they are averaged once and stay tied.

use super::{CONFIG, Checkpoint, WEIGHTS, tensors};
use crate::config::Dropouts;
use crate::error::{Error, Result};
use crate::model::parameters::{self, LOGITS_BIAS, Weights};
use candle_core::{DType, Device, Tensor};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Adds up weights.
#[derive(Debug, Default)]
pub struct Mean {
    sums: BTreeMap<String, (Vec<usize>, Vec<f64>)>,
    count: usize,
}

impl Mean {
    /// Adds the weights of the file or folder `path`; names and shapes must be those of the first.
    pub fn add(&mut self, path: &Path, weights: &Weights) -> Result<()> {
        let is_first = self.count == 0;
        if let Some(name) = self.sums.keys().find(|name| !weights.contains_key(*name)) {
            return Err(Error::format(
                path,
                format!("{name} is missing: it is in the first of the averaged"),
            ));
        }
        for (name, tensor) in weights {
            let dims = tensor.dims().to_vec();
            let values =
                tensor.to_device(&Device::Cpu)?.flatten_all()?.to_dtype(DType::F64)?.to_vec1::<f64>()?;
            match self.sums.get_mut(name) {
                Some((expected, sum)) if *expected == dims => {
                    sum.iter_mut().zip(&values).for_each(|(sum, value)| *sum += value);
                }
                None if is_first => {
                    self.sums.insert(name.clone(), (dims, values));
                }
                found => {
                    let expected = found.map_or("no such tensor".into(), |(dims, _)| format!("{dims:?}"));
                    let what = format!("{name} has shape {dims:?}, the first of the averaged has {expected}");
                    return Err(Error::format(path, what));
                }
            }
        }
        self.count += 1;
        Ok(())
    }

    /// The mean, as f32 on `device`.
    pub fn finish(self, device: &Device) -> Result<Weights> {
        let count = self.count as f64;
        let mean = |(name, (dims, sum)): (String, (Vec<usize>, Vec<f64>))| -> Result<(String, Tensor)> {
            let values: Vec<f32> = sum.iter().map(|sum| (sum / count) as f32).collect();
            Ok((name, Tensor::from_vec(values, dims, device)?))
        };
        self.sums.into_iter().map(mean).collect()
    }
}

/// The mean of the models at `paths`: model directories, or states and weights of a run (`train/step-N`,
/// `train/weights/step-N.safetensors`), whose shape and tokenizer are those of the model directory around them. All must
/// have one shape and one tokenizer.
pub fn average(paths: &[PathBuf]) -> Result<Checkpoint> {
    let Some((first_path, rest)) = paths.split_first() else {
        return Err(Error::Config("nothing to average: name at least one model".into()));
    };
    let mut first = open(first_path)?;
    let mut mean = Mean::default();
    mean.add(first_path, &first.weights)?;
    for path in rest {
        let other = open(path)?;
        check_same(first_path, &first, path, &other)?;
        mean.add(path, &other.weights)?;
    }
    first.weights = mean.finish(&Device::Cpu)?;
    if let Some(info) = &mut first.info {
        let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        info.provenance = serde_json::json!({"version": env!("CARGO_PKG_VERSION"), "average_of": names});
    }
    Ok(first)
}

fn open(path: &Path) -> Result<Checkpoint> {
    let mut checkpoint = if path.join(CONFIG).is_file() || !path.exists() {
        Checkpoint::open(path, &Device::Cpu)?
    } else {
        let file = if path.is_dir() { path.join(WEIGHTS) } else { path.to_path_buf() };
        let absolute = path.canonicalize().map_err(|error| Error::io(path, error))?;
        let Some(model) = absolute.ancestors().find(|folder| folder.join(CONFIG).is_file()) else {
            let what =
                format!("neither a model directory nor inside one: there is no {CONFIG} here or above");
            return Err(Error::format(path, what));
        };
        let mut checkpoint = Checkpoint::open(model, &Device::Cpu)?;
        checkpoint.weights = tensors::read(&file, &Device::Cpu)?;
        parameters::check(&checkpoint.config, &checkpoint.weights)
            .map_err(|error| Error::format(&file, error.to_string()))?;
        checkpoint
    };
    let zeros = Tensor::zeros((1, checkpoint.config.tgt_vocab), DType::F32, &Device::Cpu)?;
    checkpoint.weights.entry(LOGITS_BIAS.into()).or_insert(zeros);
    Ok(checkpoint)
}

fn check_same(first_path: &Path, first: &Checkpoint, path: &Path, other: &Checkpoint) -> Result<()> {
    let shape = |checkpoint: &Checkpoint| {
        let mut config = checkpoint.config.clone();
        // Of training only.
        config.dropout = Dropouts::default();
        config
    };
    let what = match () {
        () if shape(first) != shape(other) => "shape (config.json)",
        () if first.tokenizer.hash() != other.tokenizer.hash() => "tokenizer",
        () => return Ok(()),
    };
    Err(Error::format(
        path,
        format!("its {what} is not that of {}: such weights have no mean", first_path.display()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(values: &[f32]) -> Weights {
        Weights::from([("a".into(), Tensor::new(values, &Device::Cpu).unwrap())])
    }

    /// (16777216 + 1 + 1) / 3 would be 5592405.33 in f32, where 16777216 + 1 is 16777216.
    #[test]
    fn the_mean_is_summed_in_double_precision() {
        let mut mean = Mean::default();
        for value in [16_777_216f32, 1.0, 1.0] {
            mean.add(Path::new("x"), &weights(&[value, 3.0])).unwrap();
        }
        let mean = mean.finish(&Device::Cpu).unwrap();
        assert_eq!(mean["a"].to_vec1::<f32>().unwrap(), [5_592_406.0, 3.0]);
    }

    #[test]
    fn weights_of_another_model_are_refused_by_name() {
        let mut mean = Mean::default();
        mean.add(Path::new("one"), &weights(&[1.0, 2.0])).unwrap();
        let message = |error: Result<()>| error.unwrap_err().to_string();
        let text = message(mean.add(Path::new("two"), &weights(&[1.0])));
        assert!(text.contains("two: a has shape [1], the first of the averaged has [2]"), "{text}");
        let text = message(mean.add(Path::new("three"), &Weights::new()));
        assert!(text.contains("three: a is missing"), "{text}");
    }
}
