//! Trying the model on dev: loss, perplexity, BLEU and chrF of greedy output, and a few translations to look at.

use super::Prepared;
use super::loss::batch_loss;
use crate::checkpoint::{Checkpoint, Generation};
use crate::config::Config;
use crate::error::Result;
use crate::model::{Pass, Transformer, linear, parameters::Weights};
use crate::ops::Precision;
use crate::score::{self, Metric, Score, perplexity};
use crate::translate::{Options, Translation, Translator, numbered};
use serde_json::{Value, json};

/// Target tokens that are scored together.
const BATCH_TOKENS: usize = 2048;
/// Translations that are shown.
const SAMPLES: usize = 3;

/// How the model does on dev.
#[derive(Debug, Clone, Default)]
pub struct Validation {
    /// Label-smoothed cross-entropy per target token.
    pub loss: f64,
    /// Negative log-likelihood per target token.
    pub nll: f64,
    /// Corpus BLEU of the greedy translations as text.
    pub bleu: f64,
    /// Its signature.
    pub bleu_signature: String,
    /// Corpus chrF of the same.
    pub chrf: f64,
    /// Its signature.
    pub chrf_signature: String,
    /// A few lines.
    pub samples: Vec<Sample>,
}

/// A line of dev.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Source.
    pub src: String,
    /// What the model makes of it.
    pub hypothesis: String,
    /// What it should be.
    pub reference: String,
}

impl Validation {
    /// e^NLL
    pub fn perplexity(&self) -> f64 {
        perplexity(self.nll)
    }

    /// The numbers.
    pub fn to_json(&self) -> Value {
        json!({
            "loss": self.loss, "nll": self.nll, "bleu": self.bleu, "bleu_signature": self.bleu_signature,
            "chrf": self.chrf, "chrf_signature": self.chrf_signature,
        })
    }
}

/// Tries weights on dev. They are to be detached: nothing here needs a gradient, and the graph would be kept.
pub fn validate(config: &Config, weights: Weights, prepared: &Prepared) -> Result<Validation> {
    let plain = Transformer::new(config, weights.clone(), linear::Kind::Plain)?;
    let (loss, nll) = dev_loss(&plain, prepared)?;
    let device = plain.device().clone();
    let translator = Translator::new(
        Checkpoint {
            config: config.clone(),
            weights,
            tokenizer: prepared.tokenizer.clone(),
            info: None,
            generation: Generation::default(),
            precision: Precision::F32,
        },
        &device,
        None,
    )?;
    let (src, references) = (&prepared.dev_text.src, &prepared.dev_text.tgt);
    let hypotheses = translate_greedily(&translator, src)?;
    let [bleu, chrf] = scores(&hypotheses, references)?;
    let samples =
        src.iter().zip(&hypotheses).zip(references).take(SAMPLES).map(|((src, hypothesis), reference)| {
            Sample { src: src.clone(), hypothesis: hypothesis.clone(), reference: reference.clone() }
        });
    Ok(Validation {
        loss,
        nll,
        bleu: bleu.score,
        bleu_signature: bleu.signature.to_string(),
        chrf: chrf.score,
        chrf_signature: chrf.signature.to_string(),
        samples: samples.collect(),
    })
}

/// Loss and NLL per target token of dev, each summed over all tokens and divided once: no batch counts more than
/// another.
fn dev_loss(model: &Transformer, prepared: &Prepared) -> Result<(f64, f64)> {
    let settings = &prepared.origin.settings;
    let (mut loss, mut nll, mut tokens) = (0.0, 0.0, 0);
    for indices in crate::data::batches(prepared.dev.lengths(), BATCH_TOKENS, 0, 0) {
        let batch = prepared.dev.batch(&indices, model.config().special.bos);
        let sums = batch_loss(model, &batch, settings.label_smoothing, &mut Pass::inference())?;
        loss += f64::from(sums.loss.to_scalar::<f32>()?);
        nll += sums.nll;
        tokens += batch.tgt_tokens();
    }
    Ok((loss / tokens as f64, nll / tokens as f64))
}

/// Corpus BLEU and chrF of detokenized text, as sacreBLEU gives them by default.
pub fn scores(hypotheses: &[String], references: &[String]) -> Result<[Score; 2]> {
    let references = [references];
    let corpus = score::Corpus::new(hypotheses, &references)?;
    let metric = |name| Metric::from_name(name, score::Tokenizer::V13a, false);
    Ok([metric("bleu")?.corpus_score(&corpus), metric("chrf")?.corpus_score(&corpus)])
}

/// The best text for every line, greedily.
fn translate_greedily(translator: &Translator, src: &[String]) -> Result<Vec<String>> {
    let options = Options { beam_size: Some(1), split: false, ..Options::default() };
    let translations = translator.translate(numbered(src), &options)?;
    Ok(translations.into_iter().map(Translation::into_text).collect())
}
