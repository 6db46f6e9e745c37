//! What `tx beam` shows: the search for one sentence with its record, and why it did not return a given translation.

use super::{Notice, Options, Translator};
use crate::error::{Error, Result};
use crate::ops;
use crate::search::{self, Ensemble, Hypothesis, Sentence, Trace, TransformerScorer, Why};
use crate::text;

impl Translator {
    /// What to search for as the translation of one sentence, which begins with `prefix` and contains what `options` say. What
    /// cannot be said is refused.
    pub fn one_sentence(&self, text: &str, prefix: Option<&str>, options: &Options) -> Result<Sentence> {
        let src = self.encode_one(text)?;
        let must = self.must(text, &src, 0, options)?;
        let prefix = prefix.filter(|prefix| !text::is_blank(prefix));
        let prefix = prefix.map_or(Ok(Vec::new()), |prefix| self.pieces(prefix))?;
        let mut notices = Vec::new();
        let sentence = self.constrained(src, prefix, &must, options, &mut notices)?;
        match notices.into_iter().next() {
            Some(Notice::Missing { text, why }) => {
                Err(Error::Data(format!("{text:?} cannot be said: {why}")))
            }
            _ => Ok(sentence),
        }
    }

    /// Searches for one sentence, recording every step.
    pub fn search_traced(&self, sentence: &Sentence, options: &Options) -> Result<(Vec<Hypothesis>, Trace)> {
        let mut traces = Vec::new();
        let hypotheses = self.search_sentence(sentence, options, Some(&mut traces))?;
        let trace = traces.pop().ok_or_else(|| Error::Numeric("the search left no record".into()))?;
        Ok((hypotheses, trace))
    }

    /// [`Translator::search_traced`], and why the result is not `target`, of which the pieces are those of the tokenizer.
    pub fn why(
        &self,
        sentence: &Sentence,
        target: &str,
        options: &Options,
    ) -> Result<(Vec<Hypothesis>, Trace, Why)> {
        let target = self.one(self.encode_target(target)?)?;
        let options = self.search_options(options)?;
        ops::together(|| match self.models() {
            [model] => search::why(&TransformerScorer::new(model), sentence, &options, &target),
            models => {
                let members = models.iter().map(TransformerScorer::new).collect();
                let ensemble = Ensemble::new(members, self.log_weights().to_vec());
                search::why(&ensemble, sentence, &options, &target)
            }
        })
    }
}
