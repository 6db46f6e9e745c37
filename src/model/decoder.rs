//! The decoder: N layers of masked self-attention, attention over the memory, and feed-forward
//! (section 3.1, right half of Figure 1). One body serves training, where a sentence is fed at once, and decoding,
//! where it grows and [`DecoderState`] holds the keys and values of what was fed before.

use super::attention::{CrossAttention, Past, SelfAttention};
use super::feed_forward::FeedForward;
use super::layers::Layers;
use super::pass::Pass;
use super::sublayer::Residual;
use super::trace::Kind;
use crate::error::Result;
use crate::ops::Spans;
use candle_core::Tensor;
use std::sync::Arc;

/// LN ∘ (I + FFN) ∘ LN ∘ (I + CrossMultiHead) ∘ LN ∘ (I + MaskedMultiHead)
#[derive(Debug)]
struct DecoderLayer {
    self_attn: SelfAttention,
    self_attn_residual: Residual,
    encoder_attn: CrossAttention,
    encoder_attn_residual: Residual,
    feed_forward: FeedForward,
    final_residual: Residual,
}

/// Which rows may look at which, in self-attention and over the memory.
struct Sight {
    self_attn: Arc<Spans>,
    encoder_attn: Arc<Spans>,
}

impl DecoderLayer {
    fn new(layers: &Layers, name: &str) -> Result<Self> {
        let heads = layers.config.decoder.heads;
        Ok(DecoderLayer {
            self_attn: SelfAttention::new(layers, &format!("{name}.self_attn"), heads, Kind::DecoderSelf)?,
            self_attn_residual: Residual::new(layers, &format!("{name}.self_attn_layer_norm"))?,
            encoder_attn: CrossAttention::new(layers, &format!("{name}.encoder_attn"), heads)?,
            encoder_attn_residual: Residual::new(layers, &format!("{name}.encoder_attn_layer_norm"))?,
            feed_forward: FeedForward::new(layers, name)?,
            final_residual: Residual::new(layers, &format!("{name}.final_layer_norm"))?,
        })
    }

    /// x [n, d] over the keys and values of the memory → [n, d]; `past` as in [`SelfAttention::forward`].
    fn forward(
        &self,
        x: &Tensor,
        past: Option<(&mut Past, usize)>,
        memory: &Tensor,
        sight: &Sight,
        pass: &mut Pass,
    ) -> Result<Tensor> {
        let sublayer = self.self_attn.forward(x, past, &sight.self_attn, pass)?;
        let x = self.self_attn_residual.forward(x, &sublayer, pass)?;
        let sublayer = self.encoder_attn.forward(&x, memory, &sight.encoder_attn, pass)?;
        let x = self.encoder_attn_residual.forward(&x, &sublayer, pass)?;
        let sublayer = self.feed_forward.forward(&x, pass)?;
        self.final_residual.forward(&x, &sublayer, pass)
    }
}

/// What decoding keeps from step to step. Rows are hypotheses; the rows of one sentence are adjacent.
#[derive(Debug)]
pub struct DecoderState {
    /// Of each layer, what its self-attention looks back at.
    past: Vec<Past>,
    /// Of each layer, keys and values [n_src, 2d] of the memory, computed once.
    memory: Vec<Tensor>,
    /// Source lengths: where each sentence lies in the memory.
    src_lengths: Vec<usize>,
    /// The sentence of each row, ascending.
    sentences: Vec<usize>,
    /// Tokens fed to each row so far.
    past_length: usize,
}

impl DecoderState {
    /// Tokens fed to each row so far.
    pub fn past_length(&self) -> usize {
        self.past_length
    }

    /// Number of live rows.
    pub fn rows(&self) -> usize {
        self.sentences.len()
    }

    /// New row i continues old row `rows[i]`; rows of one sentence must stay adjacent.
    pub fn reorder(&mut self, rows: &[usize]) -> Result<()> {
        if rows.len() == self.rows() && rows.iter().enumerate().all(|(new, &old)| new == old) {
            return Ok(());
        }
        self.sentences = rows.iter().map(|&row| self.sentences[row]).collect();
        let indices: Vec<u32> = rows.iter().map(|&row| row as u32).collect();
        for past in self.past.iter_mut().flatten() {
            *past = past.index_select(&Tensor::new(indices.as_slice(), past.device())?, 0)?;
        }
        Ok(())
    }

    /// `new_tokens` rows of each hypothesis look at all of its past; all rows of a sentence look at its memory.
    fn sight(&self, new_tokens: usize) -> Result<Sight> {
        let mut rows_of = vec![0; self.src_lengths.len()];
        for &sentence in &self.sentences {
            rows_of[sentence] += new_tokens;
        }
        Ok(Sight {
            self_attn: Arc::new(Spans::cached(self.rows(), new_tokens, self.past_length)),
            encoder_attn: Arc::new(Spans::cross(&rows_of, &self.src_lengths)?),
        })
    }
}

/// The stack of layers.
#[derive(Debug)]
pub struct Decoder {
    layers: Vec<DecoderLayer>,
}

impl Decoder {
    /// The decoder of a checkpoint.
    pub(super) fn new(layers: &Layers) -> Result<Self> {
        let layer = |i| DecoderLayer::new(layers, &format!("model.decoder.layers.{i}"));
        Ok(Decoder { layers: (0..layers.config.decoder.layers).map(layer).collect::<Result<_>>()? })
    }

    /// Whole sentences at once: embedded tgt_in rows x [n, d] of `tgt_lengths` over the memory [n_src, d] of
    /// `src_lengths` → [n, d]
    pub fn forward(
        &self,
        mut x: Tensor,
        tgt_lengths: &[usize],
        memory: &Tensor,
        src_lengths: &[usize],
        pass: &mut Pass,
    ) -> Result<Tensor> {
        let sight = Sight {
            self_attn: Arc::new(Spans::self_attention(tgt_lengths, true)),
            encoder_attn: Arc::new(Spans::cross(tgt_lengths, src_lengths)?),
        };
        for layer in &self.layers {
            let memory = layer.encoder_attn.keys_values(memory)?;
            x = layer.forward(&x, None, &memory, &sight, pass)?;
        }
        Ok(x)
    }

    /// The state before the first step: one row for each sentence of the memory [n_src, d].
    pub fn start(&self, memory: &Tensor, src_lengths: &[usize]) -> Result<DecoderState> {
        Ok(DecoderState {
            past: self.layers.iter().map(|_| None).collect(),
            memory: self
                .layers
                .iter()
                .map(|layer| layer.encoder_attn.keys_values(memory))
                .collect::<Result<_>>()?,
            src_lengths: src_lengths.to_vec(),
            sentences: (0..src_lengths.len()).collect(),
            past_length: 0,
        })
    }

    /// The next tokens of every row, embedded: x [rows·m, d], m for each row → [rows·m, d]
    pub fn step(&self, mut x: Tensor, state: &mut DecoderState) -> Result<Tensor> {
        let (n, _) = x.dims2()?;
        let new_tokens = n / state.rows().max(1);
        let sight = state.sight(new_tokens)?;
        let rows = state.rows();
        for (layer, (past, memory)) in self.layers.iter().zip(state.past.iter_mut().zip(&state.memory)) {
            x = layer.forward(&x, Some((past, rows)), memory, &sight, &mut Pass::inference())?;
        }
        state.past_length += new_tokens;
        Ok(x)
    }
}
