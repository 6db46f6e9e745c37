//! What `tx inspect-attention` shows: the attention weights of a translation, with the tokens they are between.

use super::{Options, Translator};
use crate::error::{Error, Result};
use crate::model::Pass;
use crate::model::trace::Kind;
use crate::text::Tokenizer;
use candle_core::Tensor;
use serde::Serialize;

/// Weights as \[layer\]\[head\]\[query\]\[key\]; every row sums to 1.
pub type Weights = Vec<Vec<Vec<Vec<f32>>>>;

/// The attention weights of one translation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Inspection {
    /// The source as it was given.
    pub src: String,
    /// The translation that was looked at.
    pub tgt: String,
    /// Source pieces and end mark: queries and keys of `encoder_self`, keys of `cross`.
    pub src_tokens: Vec<String>,
    /// What the decoder was fed: keys of `decoder_self`.
    pub tgt_in: Vec<String>,
    /// What it had to answer: queries of `decoder_self` and `cross`.
    pub tgt_out: Vec<String>,
    /// Source looks at source.
    pub encoder_self: Weights,
    /// Target looks at the target before it.
    pub decoder_self: Weights,
    /// Target looks at source.
    pub cross: Weights,
}

impl Translator {
    /// Looks at the attention of the translation that `options` give, or of `target`.
    pub fn inspect(&self, src: &str, target: Option<&str>, options: &Options) -> Result<Inspection> {
        let [model] = self.models() else {
            return Err(Error::Config(
                "attention is that of one model: look at the models one by one".into(),
            ));
        };
        let src_ids = self.encode_one(src)?;
        let tgt_ids = match target {
            Some(target) => self.one(self.encode_target(target)?)?,
            None => self.search(&src_ids, options)?.swap_remove(0).ids,
        };
        let bos = model.config().special.bos;
        let tgt_in: Vec<u32> = [bos].into_iter().chain(tgt_ids.iter().copied()).take(tgt_ids.len()).collect();
        let mut pass = Pass::traced(Kind::ALL);
        let memory = model.encode(&src_ids, &[src_ids.len()], &mut pass)?;
        model.decode(&tgt_in, &[tgt_in.len()], &memory, &mut pass)?;
        let Some(trace) = pass.into_trace() else {
            return Err(Error::Numeric("the pass left no record".into()));
        };
        let tokens = |tokenizer: &Tokenizer, ids: &[u32]| {
            ids.iter().map(|&id| tokenizer.piece(id).to_string()).collect()
        };
        let (src_tokenizer, tgt_tokenizer) = (self.tokenizer(), self.tgt_tokenizer());
        Ok(Inspection {
            src: src.to_string(),
            tgt: tgt_tokenizer.decode(&tgt_ids)?,
            src_tokens: tokens(src_tokenizer, &src_ids),
            tgt_in: tokens(tgt_tokenizer, &tgt_in),
            tgt_out: tokens(tgt_tokenizer, &tgt_ids),
            encoder_self: to_vec(&trace.encoder_self)?,
            decoder_self: to_vec(&trace.decoder_self)?,
            cross: to_vec(&trace.cross)?,
        })
    }
}

/// The weights of the only sentence.
fn to_vec(layers: &[Vec<Tensor>]) -> Result<Weights> {
    layers.iter().flat_map(|sentences| sentences.first()).map(|weights| Ok(weights.to_vec3()?)).collect()
}
