//! One sentence on its way through the model: every quantity from the tokens to the probabilities.

use super::{Line, Options, Translator};
use crate::error::{Error, Result};
use crate::model::Pass;
pub use crate::model::walk::{Quantity, Stage};
use crate::ops::scores;
use candle_core::Tensor;
use serde::Serialize;

/// Pieces that are listed for each step.
const TOP: usize = 5;

/// All of the way.
#[derive(Debug)]
pub struct Walk {
    /// The source as it was given.
    pub src: String,
    /// Its translation.
    pub tgt: String,
    /// Source pieces and end mark.
    pub src_tokens: Vec<String>,
    /// What the decoder was fed.
    pub tgt_in: Vec<String>,
    /// In the order of the computation: encoder, decoder, logits.
    pub stages: Vec<Stage>,
    /// What the decoder answered at each step.
    pub answers: Vec<Answer>,
}

/// One step of the decoder.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// The piece that the translation has here.
    pub piece: String,
    /// The natural logarithm of its probability.
    pub log_prob: f32,
    /// Its place among all pieces, from 1.
    pub rank: usize,
    /// The most probable pieces.
    pub top: Vec<Likely>,
}

/// A piece and how probable it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Likely {
    /// The piece.
    pub piece: String,
    /// The natural logarithm of its probability.
    pub log_prob: f32,
}

impl Translator {
    /// Follows a source and the translation that `options` and the prefix of `line` give, or `target`, through the model.
    pub fn walk(&self, line: &Line, target: Option<&str>, options: &Options) -> Result<Walk> {
        let (model, decoded) = self.decoded(line, target, options)?;
        let mut pass = Pass::walking();
        let memory = model.encode(&decoded.src, &[decoded.src.len()], &mut pass)?;
        let logits = model.decode(&decoded.tgt_in, &[decoded.tgt_in.len()], &memory, &mut pass)?;
        let Some(walk) = pass.into_walk() else {
            return Err(Error::Numeric("the pass left no record".into()));
        };
        let pieces = |ids: &[u32]| ids.iter().map(|&id| self.tgt_tokenizer().piece(id).to_string()).collect();
        Ok(Walk {
            src: line.text.clone(),
            tgt: self.text(&decoded.tgt_out)?,
            src_tokens: decoded.src.iter().map(|&id| self.tokenizer().piece(id).to_string()).collect(),
            tgt_in: pieces(&decoded.tgt_in),
            stages: walk.0,
            answers: self.answers(&logits, &decoded.tgt_out)?,
        })
    }

    /// Of each row of `logits` [n, v] the most probable pieces, and the place of that of `tgt_out`.
    fn answers(&self, logits: &Tensor, tgt_out: &[u32]) -> Result<Vec<Answer>> {
        let (_n, v) = logits.dims2()?;
        let piece = |id: u32| self.tgt_tokenizer().piece(id).to_string();
        let answer = |(row, &id): (&[f32], &u32)| {
            let mut ids: Vec<u32> = (0..v as u32).collect();
            ids.sort_by(|&a, &b| row[b as usize].total_cmp(&row[a as usize]));
            let likely = |id: u32| Likely { piece: piece(id), log_prob: row[id as usize] };
            Answer {
                piece: piece(id),
                log_prob: row[id as usize],
                rank: ids.iter().position(|&other| other == id).map_or(v, |place| place + 1),
                top: ids.iter().take(TOP).map(|&id| likely(id)).collect(),
            }
        };
        Ok(scores(logits)?.into_log_probs().chunks_exact(v).zip(tgt_out).map(answer).collect())
    }
}
