//! The encoder: N layers of self-attention and feed-forward (section 3.1, left half of Figure 1).

use super::attention::{SelfAttention, View};
use super::feed_forward::FeedForward;
use super::layers::Layers;
use super::pass::Pass;
use super::sublayer::{LastNorm, Residual};
use super::trace::Kind;
use crate::error::Result;
use crate::ops::Spans;
use candle_core::Tensor;
use std::sync::Arc;

/// LN ∘ (I + FFN) ∘ LN ∘ (I + MultiHead), or with pre-norm (I + FFN ∘ LN) ∘ (I + MultiHead ∘ LN)
#[derive(Debug)]
struct EncoderLayer {
    self_attn: SelfAttention,
    self_attn_residual: Residual,
    feed_forward: FeedForward,
    final_residual: Residual,
}

impl EncoderLayer {
    fn new(layers: &Layers, layer: usize) -> Result<Self> {
        let (heads, name) = (layers.config.encoder.heads, &format!("model.encoder.layers.{layer}"));
        Ok(EncoderLayer {
            self_attn: SelfAttention::new(
                layers,
                &format!("{name}.self_attn"),
                heads,
                (Kind::EncoderSelf, layer),
            )?,
            self_attn_residual: Residual::new(layers, &format!("{name}.self_attn_layer_norm"))?,
            feed_forward: FeedForward::new(layers, name)?,
            final_residual: Residual::new(layers, &format!("{name}.final_layer_norm"))?,
        })
    }

    fn forward(&self, x: &Tensor, spans: &Arc<Spans>, pass: &mut Pass) -> Result<Tensor> {
        let x = self
            .self_attn_residual
            .around(x, pass, |x, pass| self.self_attn.forward(x, View::Sentences(spans), pass))?;
        self.final_residual.around(&x, pass, |x, pass| self.feed_forward.forward(x, pass))
    }
}

/// The stack of layers.
#[derive(Debug)]
pub struct Encoder {
    layers: Vec<EncoderLayer>,
    norm: LastNorm,
}

impl Encoder {
    /// The encoder of a checkpoint.
    pub(super) fn new(layers: &Layers) -> Result<Self> {
        let layer = |i| EncoderLayer::new(layers, i);
        Ok(Encoder {
            layers: (0..layers.config.encoder.layers).map(layer).collect::<Result<_>>()?,
            norm: LastNorm::new(layers, "model.encoder")?,
        })
    }

    /// Embedded source rows x [n, d] of sentences of `lengths` → memory [n, d]
    pub fn forward(&self, x: Tensor, lengths: &[usize], pass: &mut Pass) -> Result<Tensor> {
        let spans = Arc::new(Spans::self_attention(lengths, false));
        let x = self.layers.iter().try_fold(x, |x, layer| layer.forward(&x, &spans, pass))?;
        self.norm.forward(x, pass)
    }
}
