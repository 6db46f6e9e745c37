//! The Transformer of Figure 1, one box per file.
//!
//! Activations are rows [n, d] of real tokens, the sentences of a batch one after the other with their lengths beside
//! them; nothing is padded, so nothing but attention needs to know where a sentence ends, and there the padding masks of
//! section 3.2.3 become ranges of rows ([`crate::ops::Spans`]).

pub mod attention;
pub mod decoder;
pub mod embedding;
pub mod encoder;
pub mod feed_forward;
mod layers;
pub mod linear;
pub mod parameters;
pub mod pass;
pub mod sublayer;
pub mod trace;
pub mod walk;

use crate::config::{Config, Tie};
use crate::error::{Error, Result};
use crate::ops::{Loss, Scores};
use candle_core::{Device, Tensor};
use decoder::{Decoder, DecoderState};
use embedding::{Embedding, positional_encoding};
use encoder::Encoder;
use layers::Layers;
use linear::{Affine, Linear};
use parameters::{DECODER_EMBEDDING, ENCODER_EMBEDDING, LM_HEAD, LOGITS_BIAS, SHARED_EMBEDDING, Weights};
pub use pass::Pass;
use walk::Quantity;

/// What the encoder makes of a batch of sources.
#[derive(Debug)]
pub struct Memory {
    /// [n_src, d]
    pub rows: Tensor,
    /// The sentences' lengths; their sum is n_src.
    pub lengths: Vec<usize>,
}

/// The model.
#[derive(Debug)]
pub struct Transformer {
    config: Config,
    device: Device,
    src_embedding: Embedding,
    tgt_embedding: Embedding,
    encoder: Encoder,
    decoder: Decoder,
    output: Linear,
}

impl Transformer {
    /// Puts a model together. `weights` must be what [`parameters::parameters`] lists; all differences are named.
    /// Those that are packed are let go one by one, so that there are never two copies of all.
    pub fn new(config: &Config, weights: Weights, kind: linear::Kind) -> Result<Self> {
        config.check()?;
        parameters::check(config, &weights)?;
        let bias = weights.get(LOGITS_BIAS).map(|bias| bias.flatten_all()).transpose()?;
        let layers = Layers::new(config, weights, kind);
        let (src, tgt, head) = match config.tie {
            Tie::All => (SHARED_EMBEDDING, SHARED_EMBEDDING, SHARED_EMBEDDING),
            Tie::Decoder => (ENCODER_EMBEDDING, DECODER_EMBEDDING, DECODER_EMBEDDING),
            Tie::None => (ENCODER_EMBEDDING, DECODER_EMBEDDING, LM_HEAD),
        };
        let weight = layers.take(head)?;
        let device = weight.device().clone();
        let output = Linear::new(vec![Affine { weight, bias }], kind)?;
        let embedding = |name: &'static str| -> Result<_> {
            Ok((name.trim_end_matches(".weight"), layers.embedding(name, (head, &output))?))
        };
        let rows = config.first_position..config.first_position + config.max_positions;
        let positions = positional_encoding(rows, config.d_model, config.positions, &device)?;
        Ok(Transformer {
            src_embedding: Embedding::new(config, embedding(src)?, positions.clone()),
            tgt_embedding: Embedding::new(config, embedding(tgt)?, positions),
            encoder: Encoder::new(&layers)?,
            decoder: Decoder::new(&layers)?,
            output,
            config: config.clone(),
            device,
        })
    }

    /// The model's shape.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where it computes.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Source ids of sentences of `lengths` (pieces and EOS), one after the other → memory
    pub fn encode(&self, src: &[u32], lengths: &[usize], pass: &mut Pass) -> Result<Memory> {
        let x = self.src_embedding.forward(src, &positions(lengths), pass)?;
        Ok(Memory { rows: self.encoder.forward(x, lengths, pass)?, lengths: lengths.to_vec() })
    }

    /// tgt_in ids of sentences of `lengths` (BOS and pieces), one after the other → logits [n, v]: row i of a sentence
    /// is about its token i + 1.
    pub fn decode(
        &self,
        tgt_in: &[u32],
        lengths: &[usize],
        memory: &Memory,
        pass: &mut Pass,
    ) -> Result<Tensor> {
        let logits = self.output.forward(&self.decode_rows(tgt_in, lengths, memory, pass)?)?;
        pass.note("output", Quantity::Logits, || Ok(logits.clone()))?;
        Ok(logits)
    }

    /// The attention weights of `kinds` when sources and tgt_in of such lengths are fed.
    pub fn trace(
        &self,
        kinds: &'static [trace::Kind],
        (src, src_lengths): (&[u32], &[usize]),
        (tgt_in, tgt_lengths): (&[u32], &[usize]),
    ) -> Result<trace::Trace> {
        let mut pass = Pass::traced(kinds);
        let memory = self.encode(src, src_lengths, &mut pass)?;
        self.decode_rows(tgt_in, tgt_lengths, &memory, &mut pass)?;
        pass.into_trace().ok_or_else(|| Error::Numeric("the pass left no record".into()))
    }

    /// The embeddings of all pieces of the source and of the target language, [v, d] each.
    pub fn embeddings(&self) -> Result<[Tensor; 2]> {
        let all = |embedding: &Embedding, v: usize| embedding.rows(&(0..v as u32).collect::<Vec<_>>());
        Ok([
            all(&self.src_embedding, self.config.src_vocab)?,
            all(&self.tgt_embedding, self.config.tgt_vocab)?,
        ])
    }

    /// As [`Transformer::decode`], up to the loss against the targets `tgt_out` (pieces and EOS).
    pub fn loss(
        &self,
        (tgt_in, tgt_out): (&[u32], &[u32]),
        lengths: &[usize],
        memory: &Memory,
        label_smoothing: f64,
        pass: &mut Pass,
    ) -> Result<Loss> {
        let x = self.decode_rows(tgt_in, lengths, memory, pass)?;
        self.output.cross_entropy(&x, tgt_out, label_smoothing)
    }

    /// What the decoder makes of tgt_in, [n, d]: the input of the output projection.
    fn decode_rows(
        &self,
        tgt_in: &[u32],
        lengths: &[usize],
        memory: &Memory,
        pass: &mut Pass,
    ) -> Result<Tensor> {
        let x = self.tgt_embedding.forward(tgt_in, &positions(lengths), pass)?;
        self.decoder.forward(x, lengths, &memory.rows, &memory.lengths, pass)
    }

    /// The state of incremental decoding before its first step.
    pub fn start(&self, memory: &Memory) -> Result<DecoderState> {
        self.decoder.start(&memory.rows, &memory.lengths)
    }

    /// Feeds one token to every row of `state`; `scores` becomes the logits [rows, v] of the next, with the norms of their
    /// softmax
    pub fn step(&self, tokens: &[u32], state: &mut DecoderState, scores: &mut Scores) -> Result<()> {
        let position = vec![state.past_length() as u32; tokens.len()];
        let x = self.tgt_embedding.forward(tokens, &position, &mut Pass::inference())?;
        let x = self.decoder.step(x, state)?;
        self.output.scores(&x, scores)
    }
}

/// 0, 1, 2, ... within each sentence.
fn positions(lengths: &[usize]) -> Vec<u32> {
    lengths.iter().flat_map(|&length| 0..length as u32).collect()
}
