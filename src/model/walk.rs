//! The record of every quantity that one sentence becomes on its way through the model: what `tx inspect-attention --walk`
//! shows. Fused operations have no insides, so what they skip is computed once more here by the formula.

use crate::config::{Activation, Config, Positions};
use crate::error::Result;
use crate::ops::Spans;
use candle_core::{D, Device, Tensor};
use serde::Serialize;

/// What a stage holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Rows of the embedding table.
    Embedding,
    /// The same times √d.
    ScaledEmbedding,
    /// The positional encoding.
    Positions,
    /// What enters the stack.
    Input,
    /// Q
    Queries,
    /// K
    Keys,
    /// V
    Values,
    /// Q Kᵀ
    Dots,
    /// The same over √d_k.
    ScaledDots,
    /// The same with -∞ where a query must not look.
    MaskedDots,
    /// Their softmax.
    Weights,
    /// The weights times V.
    HeadOutputs,
    /// All heads side by side, times W_O.
    MultiHead,
    /// The inner layer of the feed-forward network.
    Hidden,
    /// What comes out of it.
    FeedForward,
    /// What went into a sublayer and what came out, added.
    Residual,
    /// A layer norm.
    Norm,
    /// A number for each piece of the vocabulary.
    Logits,
}

impl Quantity {
    /// The paper's equation for a model of this shape, and the section that it stands in.
    pub fn equation(self, config: &Config) -> (String, &'static str) {
        let hidden = match config.activation {
            Activation::Relu => "max(0, x W_1 + b_1)",
            Activation::Gelu => "GELU(x W_1 + b_1)",
            Activation::Swish => "swish(x W_1 + b_1)",
        };
        let positions = match config.positions {
            Positions::Interleaved => {
                "PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos of the same"
            }
            Positions::Halves => {
                "PE(pos, i) = sin(pos / 10000^(2i/d_model)), PE(pos, d_model/2 + i) = cos of the same"
            }
            Positions::T2t => {
                "PE(pos, i) = sin(pos / 10000^(i/(d_model/2 − 1))), PE(pos, d_model/2 + i) = cos of the same"
            }
        };
        let scale = if config.scale_embedding { " · √d_model" } else { "" };
        let (equation, section) = match self {
            Quantity::Embedding => ("E[id]".into(), "3.4"),
            Quantity::ScaledEmbedding => (format!("E[id]{scale}"), "3.4"),
            Quantity::Positions => (positions.into(), "3.5"),
            Quantity::Input => (format!("E[id]{scale} + PE(pos)"), "3.5"),
            Quantity::Queries => ("Q_i = x W_i^Q".into(), "3.2.2"),
            Quantity::Keys => ("K_i = x W_i^K".into(), "3.2.2"),
            Quantity::Values => ("V_i = x W_i^V".into(), "3.2.2"),
            Quantity::Dots => ("Q_i K_iᵀ".into(), "3.2.1"),
            Quantity::ScaledDots => ("Q_i K_iᵀ / √d_k".into(), "3.2.1"),
            Quantity::MaskedDots => ("Q_i K_iᵀ / √d_k, or −∞ where a position must not look".into(), "3.2.3"),
            Quantity::Weights => ("softmax of each row x: e^x_j / Σ_k e^x_k".into(), "3.2.1"),
            Quantity::HeadOutputs => ("head_i = softmax(Q_i K_iᵀ / √d_k) V_i".into(), "3.2.1"),
            Quantity::MultiHead => ("MultiHead = Concat(head_1, …, head_h) W^O".into(), "3.2.2"),
            Quantity::Hidden => (hidden.into(), "3.3"),
            Quantity::FeedForward => (format!("FFN(x) = {hidden} W_2 + b_2"), "3.3"),
            Quantity::Residual => ("x + Sublayer(x)".into(), "3.1"),
            Quantity::Norm => ("LayerNorm(x) = (x − mean) / √(variance + ε) · g + b".into(), "3.1"),
            Quantity::Logits => ("x Eᵀ, whose softmax is the probability of each piece".into(), "3.4"),
        };
        (equation, section)
    }
}

/// One quantity at one place.
#[derive(Debug, Clone)]
pub struct Stage {
    /// What its parameters are called in the model's file.
    pub place: String,
    /// What it is.
    pub quantity: Quantity,
    /// [n, d]; within attention [h, n, d_k] and [h, q, k]; on the CPU.
    pub values: Tensor,
}

/// All stages in the order of the computation.
#[derive(Debug, Default)]
pub struct Walk(pub Vec<Stage>);

impl Walk {
    /// Adds a stage.
    pub(super) fn note(&mut self, place: &str, quantity: Quantity, values: &Tensor) -> Result<()> {
        let values = values.detach().to_device(&Device::Cpu)?.contiguous()?;
        self.0.push(Stage { place: place.to_string(), quantity, values });
        Ok(())
    }

    /// The inside of an attention: queries q [n_q, d] over keys and values kv [n_k, 2d] of one sentence.
    pub(super) fn attention(
        &mut self,
        place: &str,
        q: &Tensor,
        kv: &Tensor,
        spans: &Spans,
        n_heads: usize,
    ) -> Result<()> {
        let d = q.dim(1)?;
        let heads = |x: &Tensor| -> Result<Tensor> {
            Ok(x.reshape((x.dim(0)?, n_heads, d / n_heads))?.transpose(0, 1)?.contiguous()?)
        };
        let (q, k, v) = (
            heads(q)?,
            heads(&kv.narrow(1, 0, d)?.contiguous()?)?,
            heads(&kv.narrow(1, d, d)?.contiguous()?)?,
        );
        for (quantity, values) in [(Quantity::Queries, &q), (Quantity::Keys, &k), (Quantity::Values, &v)] {
            self.note(place, quantity, values)?;
        }
        let dots = q.matmul(&k.t()?)?;
        self.note(place, Quantity::Dots, &dots)?;
        let mut scaled = (dots / ((d / n_heads) as f64).sqrt())?;
        self.note(place, Quantity::ScaledDots, &scaled)?;
        if spans.causal() {
            scaled = scaled.broadcast_add(&hidden(scaled.dim(1)?, scaled.device())?)?;
            self.note(place, Quantity::MaskedDots, &scaled)?;
        }
        let weights = candle_nn::ops::softmax(&scaled, D::Minus1)?;
        self.note(place, Quantity::Weights, &weights)?;
        self.note(place, Quantity::HeadOutputs, &weights.matmul(&v)?)
    }
}

/// [n, n] of 0 where query i sees key j ≤ i, and −∞.
fn hidden(n: usize, device: &Device) -> Result<Tensor> {
    let cell = |at: usize| if at % n > at / n { f32::NEG_INFINITY } else { 0.0 };
    Ok(Tensor::from_vec((0..n * n).map(cell).collect(), (n, n), device)?)
}
