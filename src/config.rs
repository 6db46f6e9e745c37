//! The shape of a model: everything about it that is fixed before the first step of training.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// The non-linearity of the feed-forward sublayer (section 3.3; the paper has `relu`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// max(0, x)
    Relu,
    /// x Φ(x), with the exact normal distribution function Φ
    Gelu,
    /// x σ(x), also called SiLU
    #[serde(alias = "silu")]
    Swish,
}

/// Which of the three vocabulary matrices are one and the same (section 3.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tie {
    /// Source embedding = target embedding = output projection, as in the paper.
    All,
    /// Target embedding = output projection.
    Decoder,
    /// Three matrices.
    None,
}

/// Where the layer norm of a sublayer stands (section 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Norm {
    /// LayerNorm(x + Dropout(Sublayer(x))), as in the paper.
    #[default]
    Post,
    /// x + Dropout(Sublayer(LayerNorm(x))), and a last norm after each stack: Wang et al. 2019, Pegasus, M2M100.
    Pre,
}

/// How the columns of the sinusoidal positional encoding are laid out (section 3.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Positions {
    /// sin, cos, sin, cos, ... as the paper prints them.
    Interleaved,
    /// All sines, then all cosines: the same columns permuted, as Hugging Face Marian and Pegasus have them.
    Halves,
    /// Sines, then cosines, of frequencies 10000^-(i/(d/2-1)): as tensor2tensor, M2M100 and Marian's own files have them.
    T2t,
}

/// The ids of the special tokens. The decoder starts from `bos`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpecialIds {
    /// Padding; never fed to the model and never generated.
    pub pad: u32,
    /// What a tokenizer without byte pieces gives for text outside its vocabulary.
    pub unk: u32,
    /// Begins tgt_in.
    pub bos: u32,
    /// Ends src and tgt_out.
    pub eos: u32,
}

impl SpecialIds {
    /// Whether `id` is one of the four.
    pub fn contains(&self, id: u32) -> bool {
        [self.pad, self.unk, self.bos, self.eos].contains(&id)
    }
}

impl Default for SpecialIds {
    fn default() -> Self {
        SpecialIds { pad: 0, unk: 1, bos: 2, eos: 3 }
    }
}

/// The encoder's or the decoder's stack of identical layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stack {
    /// N: the number of layers.
    pub layers: usize,
    /// h: the number of attention heads.
    pub heads: usize,
    /// f: the inner width of the feed-forward sublayer.
    pub d_ff: usize,
}

/// The three dropouts; each is the probability that a value is set to zero (section 5.4).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Dropouts {
    /// On the output of every sublayer and on embeddings + positions.
    pub residual: f32,
    /// On the attention weights.
    pub attention: f32,
    /// Inside the feed-forward sublayer, after the non-linearity.
    pub activation: f32,
}

/// More positions than any sentence has; each takes a row of the positional encoding.
const MAX_POSITIONS: usize = 1 << 16;

/// More layers than any model has.
const MAX_LAYERS: usize = 1024;

/// A whole model's shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Rows of the source embedding.
    pub src_vocab: usize,
    /// Rows of the target embedding and of the output projection.
    pub tgt_vocab: usize,
    /// d: the width of every activation between sublayers.
    pub d_model: usize,
    /// Left half of Figure 1.
    pub encoder: Stack,
    /// Right half of Figure 1.
    pub decoder: Stack,
    /// Non-linearity of the feed-forward sublayers.
    pub activation: Activation,
    /// Which vocabulary matrices are shared.
    pub tie: Tie,
    /// Where the layer norms stand.
    pub norm: Norm,
    /// Layout of the positional encoding.
    pub positions: Positions,
    /// pos of the first token: 0, but 2 in M2M100, whose table has rows for padding before it.
    pub first_position: usize,
    /// Whether embeddings are multiplied by √d (section 3.4).
    pub scale_embedding: bool,
    /// The longest source or target, in pieces, end mark included.
    pub max_positions: usize,
    /// Used in training only.
    pub dropout: Dropouts,
    /// Special tokens.
    pub special: SpecialIds,
}

/// Named sizes (the paper's Table 3 has `base` and `big`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// 4 layers, d 128, f 256, 4 heads: some ten thousand pairs.
    Tiny,
    /// 3 layers, d 256, f 1024, 4 heads: some hundred thousand pairs on a CPU.
    Small,
    /// 6 layers, d 512, f 1024, 4 heads.
    Iwslt,
    /// 6 layers, d 512, f 2048, 8 heads: the paper's base model.
    Base,
    /// 6 layers, d 1024, f 4096, 16 heads: the paper's big model.
    Big,
}

impl Preset {
    /// (d_model, stack) of this preset; encoder and decoder have the same stack.
    pub fn sizes(self) -> (usize, Stack) {
        let (layers, d_model, d_ff, heads) = match self {
            Preset::Tiny => (4, 128, 256, 4),
            Preset::Small => (3, 256, 1024, 4),
            Preset::Iwslt => (6, 512, 1024, 4),
            Preset::Base => (6, 512, 2048, 8),
            Preset::Big => (6, 1024, 4096, 16),
        };
        (d_model, Stack { layers, heads, d_ff })
    }

    /// The preset for a corpus of `pairs` sentence pairs. A model with many more parameters than the
    /// corpus has words learns it by heart; one with many fewer cannot hold it.
    pub fn for_corpus(pairs: usize) -> Self {
        match pairs {
            0..50_000 => Preset::Tiny,
            50_000..500_000 => Preset::Small,
            500_000..2_000_000 => Preset::Iwslt,
            _ => Preset::Base,
        }
    }
}

impl Config {
    /// A model of `preset`'s size over one joint vocabulary, with the paper's settings elsewhere.
    pub fn new(preset: Preset, vocab: usize) -> Self {
        let (d_model, stack) = preset.sizes();
        Config {
            src_vocab: vocab,
            tgt_vocab: vocab,
            d_model,
            encoder: stack,
            decoder: stack,
            activation: Activation::Relu,
            tie: Tie::All,
            norm: Norm::Post,
            positions: Positions::Halves,
            first_position: 0,
            scale_embedding: true,
            max_positions: 512,
            dropout: Dropouts { residual: 0.1, attention: 0.1, activation: 0.0 },
            special: SpecialIds::default(),
        }
    }

    /// Refuses shapes that cannot be computed with, all problems in one message.
    pub fn check(&self) -> Result<()> {
        let mut problems = Vec::new();
        let d = self.d_model;
        if d == 0 || !d.is_multiple_of(2) {
            problems
                .push(format!("d_model is {d}: it must be even and above 0, half sines and half cosines"));
        }
        for (name, stack) in [("encoder", self.encoder), ("decoder", self.decoder)] {
            if stack.heads == 0 || !d.is_multiple_of(stack.heads) {
                problems.push(format!(
                    "the {name} has {} heads: d_model = {d} must be a multiple of it",
                    stack.heads
                ));
            }
            if stack.layers == 0 || stack.d_ff == 0 || stack.layers > MAX_LAYERS {
                problems.push(format!(
                    "the {name} has {} layers of d_ff {}: both must be above 0, and layers at most {MAX_LAYERS}",
                    stack.layers, stack.d_ff
                ));
            }
        }
        if self.tie == Tie::All && self.src_vocab != self.tgt_vocab {
            problems.push(format!(
                "source and target embeddings are tied, but the vocabularies have {} and {} pieces",
                self.src_vocab, self.tgt_vocab
            ));
        }
        if !(2..=MAX_POSITIONS).contains(&self.max_positions) {
            problems.push(format!(
                "max_positions is {}: it must be from 2 to {MAX_POSITIONS}",
                self.max_positions
            ));
        }
        if self.positions == Positions::T2t && d < 4 {
            problems.push(format!(
                "d_model is {d}: positions of the form t2t need two frequencies, so at least 4"
            ));
        }
        let special = [self.special.pad, self.special.unk, self.special.bos, self.special.eos];
        if special.iter().any(|&id| id as usize >= self.tgt_vocab.min(self.src_vocab)) {
            problems.push(format!(
                "the special ids (pad, unk, bos, eos) = {special:?} must lie inside the vocabularies of {} and {} pieces",
                self.src_vocab, self.tgt_vocab
            ));
        }
        let dropouts = [self.dropout.residual, self.dropout.attention, self.dropout.activation];
        if dropouts.iter().any(|p| !(0.0..1.0).contains(p)) {
            problems.push(format!("dropout is {dropouts:?}: each must be at least 0 and below 1"));
        }
        if problems.is_empty() { Ok(()) } else { Err(Error::Config(problems.join("; "))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// d_k = d_v = d_model / h = 512 / 8 = 64 (section 3.2.2).
    #[test]
    fn base_is_the_papers_table_3() {
        let base = Config::new(Preset::Base, 37_000);
        assert_eq!((base.d_model, base.encoder.layers, base.encoder.d_ff), (512, 6, 2048));
        assert_eq!(base.d_model / base.encoder.heads, 64);
        base.check().unwrap();
    }

    #[test]
    fn every_problem_is_named_in_one_message() {
        let mut config = Config::new(Preset::Tiny, 3);
        config.encoder.heads = 3;
        config.decoder.layers = 0;
        config.src_vocab = 9;
        config.dropout.attention = 1.0;
        let message = config.check().unwrap_err().to_string();
        for part in
            ["encoder has 3 heads", "decoder has 0 layers", "9 and 3 pieces", "special ids", "dropout is"]
        {
            assert!(message.contains(part), "{part:?} is not in {message:?}");
        }
    }
}
