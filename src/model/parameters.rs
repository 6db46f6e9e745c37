//! The trained tensors of a model: names (those of Hugging Face Marian), shapes and initial values.
//! This list is what initialisation, the check of a checkpoint and the optimizer go by.

use crate::config::{Config, Norm, Stack, Tie};
use crate::error::{Error, Result};
use crate::rng::Rng;
use candle_core::{Device, Tensor, Var};
use std::collections::BTreeMap;

/// Source embedding when nothing is shared but the decoder's two matrices, or nothing at all.
pub const ENCODER_EMBEDDING: &str = "model.encoder.embed_tokens.weight";
/// Target embedding when it is not shared with the source.
pub const DECODER_EMBEDDING: &str = "model.decoder.embed_tokens.weight";
/// The one matrix of a 3-way tie.
pub const SHARED_EMBEDDING: &str = "model.shared.weight";
/// Output projection when it is not shared with the target embedding.
pub const LM_HEAD: &str = "lm_head.weight";
/// A bias of the logits, [1, v]: read and used, never trained.
pub const LOGITS_BIAS: &str = "final_logits_bias";

/// How a tensor starts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Init {
    /// U(-√(6 / (fan_in + fan_out)), +√(6 / (fan_in + fan_out))): Glorot and Bengio 2010.
    XavierUniform,
    /// N(0, 1/d), so that embedding × √d has unit variance.
    Embedding,
    /// Biases.
    Zeros,
    /// Gains of layer norms.
    Ones,
}

/// One trained tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// Its name in a checkpoint.
    pub name: String,
    /// Its shape; matrices are [out, in], embeddings [v, d].
    pub shape: Vec<usize>,
    /// How it starts.
    pub init: Init,
}

/// Tensors by name, in name order: every loop over weights has the same order in every run.
pub type Weights = BTreeMap<String, Tensor>;

/// Every trained tensor of a model of this shape, sorted by name.
pub fn parameters(config: &Config) -> Vec<Parameter> {
    let mut list = List(Vec::new());
    let (d, src_vocab, tgt_vocab) = (config.d_model, config.src_vocab, config.tgt_vocab);
    match config.tie {
        Tie::All => list.add(SHARED_EMBEDDING, &[tgt_vocab, d], Init::Embedding),
        Tie::Decoder | Tie::None => {
            list.add(ENCODER_EMBEDDING, &[src_vocab, d], Init::Embedding);
            list.add(DECODER_EMBEDDING, &[tgt_vocab, d], Init::Embedding);
        }
    }
    if config.tie == Tie::None {
        list.add(LM_HEAD, &[tgt_vocab, d], Init::XavierUniform);
    }
    list.stack("model.encoder", config.encoder, d, &["self_attn"]);
    list.stack("model.decoder", config.decoder, d, &["self_attn", "encoder_attn"]);
    if config.norm == Norm::Pre {
        list.layer_norm("model.encoder.layer_norm".into(), d);
        list.layer_norm("model.decoder.layer_norm".into(), d);
    }
    list.0.sort_by(|a, b| a.name.cmp(&b.name));
    list.0
}

struct List(Vec<Parameter>);

impl List {
    fn add(&mut self, name: impl Into<String>, shape: &[usize], init: Init) {
        self.0.push(Parameter { name: name.into(), shape: shape.to_vec(), init });
    }

    fn linear(&mut self, name: String, out: usize, input: usize) {
        self.add(format!("{name}.weight"), &[out, input], Init::XavierUniform);
        self.add(format!("{name}.bias"), &[out], Init::Zeros);
    }

    fn layer_norm(&mut self, name: String, d: usize) {
        self.add(format!("{name}.weight"), &[d], Init::Ones);
        self.add(format!("{name}.bias"), &[d], Init::Zeros);
    }

    fn stack(&mut self, prefix: &str, stack: Stack, d: usize, attentions: &[&str]) {
        for layer in 0..stack.layers {
            let layer = format!("{prefix}.layers.{layer}");
            for attention in attentions {
                for projection in ["q_proj", "k_proj", "v_proj", "out_proj"] {
                    self.linear(format!("{layer}.{attention}.{projection}"), d, d);
                }
                self.layer_norm(format!("{layer}.{attention}_layer_norm"), d);
            }
            self.linear(format!("{layer}.fc1"), stack.d_ff, d);
            self.linear(format!("{layer}.fc2"), d, stack.d_ff);
            self.layer_norm(format!("{layer}.final_layer_norm"), d);
        }
    }
}

/// Fresh weights as variables: a function of shape and seed alone, each tensor from a stream of its name.
pub fn initial(config: &Config, seed: u64, device: &Device) -> Result<BTreeMap<String, Var>> {
    let mut variables = BTreeMap::new();
    for Parameter { name, shape, init } in parameters(config) {
        let mut rng = Rng::new(seed, &name);
        let count = shape.iter().product();
        let values: Vec<f32> = match init {
            Init::XavierUniform => {
                let limit = (6.0 / (shape[0] + shape[1]) as f64).sqrt();
                (0..count).map(|_| ((2.0 * rng.uniform() - 1.0) * limit) as f32).collect()
            }
            Init::Embedding => {
                let deviation = (shape[1] as f64).powf(-0.5);
                (0..count).map(|_| (rng.normal() * deviation) as f32).collect()
            }
            Init::Zeros => vec![0.0; count],
            Init::Ones => vec![1.0; count],
        };
        variables.insert(name, Var::from_tensor(&Tensor::from_vec(values, shape, device)?)?);
    }
    Ok(variables)
}

/// The variables as weights of a model; gradients flow to them.
pub fn as_weights(variables: &BTreeMap<String, Var>) -> Weights {
    variables.iter().map(|(name, var)| (name.clone(), var.as_tensor().clone())).collect()
}

/// Compares `weights` with what a model of this shape needs. All missing, mis-shaped and unexpected tensors are named
/// in one error, so that nothing is left at its initial value and nothing is ignored in silence.
pub fn check(config: &Config, weights: &Weights) -> Result<()> {
    let problems = problems(config, weights);
    if problems.is_empty() { Ok(()) } else { Err(Error::Config(problems.join("; "))) }
}

/// What [`check`] finds, one by one.
pub fn problems(config: &Config, weights: &Weights) -> Vec<String> {
    let mut problems = Vec::new();
    let expected = parameters(config);
    for Parameter { name, shape, .. } in &expected {
        match weights.get(name) {
            None => problems.push(format!("{name} {shape:?} is missing")),
            Some(found) if found.dims() != shape.as_slice() => {
                problems.push(format!("{name} has shape {:?}, expected {shape:?}", found.dims()));
            }
            Some(_) => {}
        }
    }
    for (name, found) in weights {
        if name == LOGITS_BIAS {
            if found.dims() != [1, config.tgt_vocab] {
                problems.push(format!(
                    "{name} has shape {:?}, expected {:?}",
                    found.dims(),
                    [1, config.tgt_vocab]
                ));
            }
        } else if expected.binary_search_by(|parameter| parameter.name.as_str().cmp(name)).is_err() {
            problems.push(format!("{name} {:?} is not part of such a model", found.dims()));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Preset;

    /// The paper's Table 3 gives 65 million for `base` over 37,000 pieces (tied) and 213 million for `big`.
    #[test]
    fn base_and_big_have_the_papers_number_of_parameters() {
        let millions = |preset| {
            let config = Config::new(preset, 37_000);
            let count: usize = parameters(&config).iter().map(|p| p.shape.iter().product::<usize>()).sum();
            count / 1_000_000
        };
        assert_eq!(millions(Preset::Base), 63);
        assert_eq!(millions(Preset::Big), 214);
    }

    #[test]
    fn initial_values_have_the_stated_spread_and_follow_the_seed() {
        let config = Config::new(Preset::Tiny, 1000);
        let weights = as_weights(&initial(&config, 1, &Device::Cpu).unwrap());
        let values = |weights: &Weights, name: &str| -> Vec<f32> {
            weights[name].flatten_all().unwrap().to_vec1().unwrap()
        };
        let embedding = values(&weights, SHARED_EMBEDDING);
        let variance = embedding.iter().map(|x| x * x).sum::<f32>() / embedding.len() as f32;
        assert!((variance * 128.0 - 1.0).abs() < 0.03, "{variance}");
        let matrix = values(&weights, "model.encoder.layers.0.fc1.weight");
        let limit = (6.0f32 / (128.0 + 256.0)).sqrt();
        let largest = matrix.iter().fold(0f32, |a, x| a.max(x.abs()));
        assert!(largest <= limit && largest > 0.99 * limit, "{largest} against {limit}");
        let again = as_weights(&initial(&config, 1, &Device::Cpu).unwrap());
        assert_eq!(embedding, values(&again, SHARED_EMBEDDING));
        let other = as_weights(&initial(&config, 2, &Device::Cpu).unwrap());
        assert_ne!(embedding, values(&other, SHARED_EMBEDDING));
    }

    #[test]
    fn every_problem_of_a_checkpoint_is_named() {
        let config = Config::new(Preset::Tiny, 10);
        let mut weights = as_weights(&initial(&config, 1, &Device::Cpu).unwrap());
        check(&config, &weights).unwrap();
        weights.remove("model.encoder.layers.0.fc1.weight");
        weights.remove("model.decoder.layers.3.fc2.bias");
        let cut = weights[SHARED_EMBEDDING].narrow(0, 0, 9).unwrap();
        weights.insert(SHARED_EMBEDDING.into(), cut.clone());
        weights.insert("odd".into(), cut);
        let message = check(&config, &weights).unwrap_err().to_string();
        for part in [
            "model.encoder.layers.0.fc1.weight [256, 128] is missing",
            "model.decoder.layers.3.fc2.bias [128] is missing",
            "model.shared.weight has shape [9, 128], expected [10, 128]",
            "odd [9, 128] is not part of such a model",
        ] {
            assert!(message.contains(part), "{part:?} is not in {message:?}");
        }
    }
}
