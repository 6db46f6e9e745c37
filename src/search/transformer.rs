//! The Transformer as a [`Scorer`]: the only place where the search meets the model.

use crate::error::Result;
use crate::model::decoder::DecoderState;
use crate::model::{Pass, Transformer};
use crate::ops::Scores;
use crate::search::Scorer;

/// Scores with a [`Transformer`].
#[derive(Debug, Clone, Copy)]
pub struct TransformerScorer<'a> {
    model: &'a Transformer,
}

impl<'a> TransformerScorer<'a> {
    /// Scores with `model`.
    pub fn new(model: &'a Transformer) -> Self {
        TransformerScorer { model }
    }
}

impl Scorer for TransformerScorer<'_> {
    type State = DecoderState;

    fn vocab_size(&self) -> usize {
        self.model.config().tgt_vocab
    }

    fn start(&self, src: &[Vec<u32>]) -> Result<DecoderState> {
        let lengths: Vec<usize> = src.iter().map(Vec::len).collect();
        let memory = self.model.encode(&src.concat(), &lengths, &mut Pass::inference())?;
        self.model.start(&memory)
    }

    fn step(&self, state: &mut DecoderState, tokens: &[u32], scores: &mut Scores) -> Result<()> {
        self.model.step(tokens, state, scores)
    }

    fn reorder(&self, state: &mut DecoderState, rows: &[usize]) -> Result<()> {
        state.reorder(rows)
    }
}
