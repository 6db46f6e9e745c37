//! The decoder: N layers of masked self-attention, attention over the memory, and feed-forward
//! (section 3.1, right half of Figure 1). One body serves training, where a sentence is fed at once, and decoding,
//! where it grows and [`DecoderState`] holds the keys and values of what was fed before.

use super::attention::{CrossAttention, Past, SelfAttention, View};
use super::feed_forward::FeedForward;
use super::layers::Layers;
use super::pass::Pass;
use super::sublayer::{LastNorm, Residual};
use super::trace::Kind;
use crate::error::Result;
use crate::ops::{Ancestors, Spans};
use candle_core::Tensor;
use std::sync::Arc;

/// LN ∘ (I + FFN) ∘ LN ∘ (I + CrossMultiHead) ∘ LN ∘ (I + MaskedMultiHead), or with pre-norm
/// (I + FFN ∘ LN) ∘ (I + CrossMultiHead ∘ LN) ∘ (I + MaskedMultiHead ∘ LN)
#[derive(Debug)]
struct DecoderLayer {
    self_attn: SelfAttention,
    self_attn_residual: Residual,
    encoder_attn: CrossAttention,
    encoder_attn_residual: Residual,
    feed_forward: FeedForward,
    final_residual: Residual,
}

impl DecoderLayer {
    fn new(layers: &Layers, layer: usize) -> Result<Self> {
        let (heads, name) = (layers.config.decoder.heads, &format!("model.decoder.layers.{layer}"));
        Ok(DecoderLayer {
            self_attn: SelfAttention::new(
                layers,
                &format!("{name}.self_attn"),
                heads,
                (Kind::DecoderSelf, layer),
            )?,
            self_attn_residual: Residual::new(layers, &format!("{name}.self_attn_layer_norm"))?,
            encoder_attn: CrossAttention::new(layers, &format!("{name}.encoder_attn"), heads, layer)?,
            encoder_attn_residual: Residual::new(layers, &format!("{name}.encoder_attn_layer_norm"))?,
            feed_forward: FeedForward::new(layers, name)?,
            final_residual: Residual::new(layers, &format!("{name}.final_layer_norm"))?,
        })
    }

    /// x [n, d] over the keys and values of the memory, of which `spans` gives each row its sentence's → [n, d]
    fn forward(
        &self,
        x: &Tensor,
        view: View,
        memory: &Tensor,
        spans: &Arc<Spans>,
        pass: &mut Pass,
    ) -> Result<Tensor> {
        let x = self.self_attn_residual.around(x, pass, |x, pass| self.self_attn.forward(x, view, pass))?;
        let x = self
            .encoder_attn_residual
            .around(&x, pass, |x, pass| self.encoder_attn.forward(x, memory, spans, pass))?;
        self.final_residual.around(&x, pass, |x, pass| self.feed_forward.forward(x, pass))
    }
}

/// Steps after which keys and values that nobody looks at any more are let go.
const COMPACTION: usize = 4;

/// What decoding keeps from step to step. Rows are hypotheses; the rows of one sentence are adjacent.
#[derive(Debug)]
pub struct DecoderState {
    /// Of each layer, what its self-attention looks back at.
    past: Vec<Past>,
    /// Where each row's own past lies in it.
    ancestors: Ancestors,
    /// Of each layer, keys and values [n_src, 2d] of the memory, computed once.
    memory: Vec<Tensor>,
    /// Source lengths: where each sentence lies in the memory.
    src_lengths: Vec<usize>,
    /// The sentence of each row, ascending.
    sentences: Vec<usize>,
    /// The rows of each sentence over its memory.
    spans: Arc<Spans>,
}

impl DecoderState {
    /// Tokens fed to each row so far.
    pub fn past_length(&self) -> usize {
        self.ancestors.steps()
    }

    /// Number of live rows.
    pub fn rows(&self) -> usize {
        self.sentences.len()
    }

    /// New row i continues old row `rows[i]`; rows of one sentence must stay adjacent.
    pub fn reorder(&mut self, rows: &[usize]) -> Result<()> {
        let sentences: Vec<usize> = rows.iter().map(|&row| self.sentences[row]).collect();
        if sentences != self.sentences {
            self.spans = Arc::new(spans(&sentences, &self.src_lengths)?);
            self.sentences = sentences;
        }
        self.ancestors.reorder(rows);
        if self.past_length().is_multiple_of(COMPACTION) { self.compact() } else { Ok(()) }
    }

    /// Lets go the keys and values of hypotheses that were dropped, where they are a quarter of a block or more.
    fn compact(&mut self) -> Result<()> {
        for step in 0..self.past_length() {
            let stored = self.past.first().map_or(Ok(0), |past| past[step].dim(0))?;
            let Some(alive) = self.ancestors.compact(step, stored) else { continue };
            for past in &mut self.past {
                let alive = Tensor::new(alive.as_slice(), past[step].device())?;
                past[step] = past[step].index_select(&alive, 0)?;
            }
        }
        Ok(())
    }
}

/// The rows of `sentences` (ascending) over the memory of their sentence.
fn spans(sentences: &[usize], src_lengths: &[usize]) -> Result<Spans> {
    let mut rows_of = vec![0; src_lengths.len()];
    sentences.iter().for_each(|&sentence| rows_of[sentence] += 1);
    Spans::cross(&rows_of, src_lengths)
}

/// The stack of layers.
#[derive(Debug)]
pub struct Decoder {
    layers: Vec<DecoderLayer>,
    norm: LastNorm,
}

impl Decoder {
    /// The decoder of a checkpoint.
    pub(super) fn new(layers: &Layers) -> Result<Self> {
        let layer = |i| DecoderLayer::new(layers, i);
        Ok(Decoder {
            layers: (0..layers.config.decoder.layers).map(layer).collect::<Result<_>>()?,
            norm: LastNorm::new(layers, "model.decoder")?,
        })
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
        let own = Arc::new(Spans::self_attention(tgt_lengths, true));
        let spans = Arc::new(Spans::cross(tgt_lengths, src_lengths)?);
        for layer in &self.layers {
            let memory = layer.encoder_attn.keys_values(memory)?;
            x = layer.forward(&x, View::Sentences(&own), &memory, &spans, pass)?;
        }
        self.norm.forward(x, pass)
    }

    /// The state before the first step: one row for each sentence of the memory [n_src, d].
    pub fn start(&self, memory: &Tensor, src_lengths: &[usize]) -> Result<DecoderState> {
        let sentences: Vec<usize> = (0..src_lengths.len()).collect();
        let keys_values = |layer: &DecoderLayer| layer.encoder_attn.keys_values(memory);
        Ok(DecoderState {
            past: self.layers.iter().map(|_| Past::new()).collect(),
            ancestors: Ancestors::new(sentences.len()),
            memory: self.layers.iter().map(keys_values).collect::<Result<_>>()?,
            src_lengths: src_lengths.to_vec(),
            spans: Arc::new(spans(&sentences, src_lengths)?),
            sentences,
        })
    }

    /// The next token of every row, embedded: x [rows, d] → [rows, d]
    pub fn step(&self, mut x: Tensor, state: &mut DecoderState) -> Result<Tensor> {
        let DecoderState { past, ancestors, memory, spans, .. } = state;
        ancestors.push();
        for (layer, (past, memory)) in self.layers.iter().zip(past.iter_mut().zip(memory)) {
            x = layer.forward(&x, View::Cached(past, ancestors), memory, spans, &mut Pass::inference())?;
        }
        self.norm.forward(x, &mut Pass::inference())
    }
}
