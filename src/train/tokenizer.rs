//! The tokenizer of a run: learnt from its text, or finished.

use super::settings::{Given, Settings};
use crate::data::Spool;
use crate::error::{Error, Result};
use crate::text::{Kind, Tokenizer};
use serde::{Deserialize, Serialize};

/// Pairs that a tokenizer is learnt from at most.
const MOST_PAIRS: usize = 1_000_000;

/// Whether source and target language are cut into the same pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Vocab {
    /// One tokenizer for both (paper section 5.1).
    #[default]
    Joint,
    /// One for each.
    Separate,
}

impl Vocab {
    /// That of `tokenizer`.
    pub fn of(tokenizer: &Tokenizer) -> Self {
        if tokenizer.is_joint() { Vocab::Joint } else { Vocab::Separate }
    }
}

/// Notes among the given settings which vocabularies the finished `tokenizer` has; refuses others that were asked for.
pub fn note(tokenizer: &Tokenizer, given: &mut Given) -> Result<()> {
    let vocab = serde_json::json!(Vocab::of(tokenizer));
    match given.insert("vocab".into(), vocab.clone()) {
        Some(asked) if asked != vocab => {
            Err(Error::Config(format!("--vocab {asked}, but that of the tokenizer is {vocab}: leave it out")))
        }
        _ => Ok(()),
    }
}

/// Learns a tokenizer from the training text: one for both languages, or one for each.
pub fn learn(settings: &Settings, train: &Spool, tell: &mut dyn FnMut(String)) -> Result<Tokenizer> {
    let (src, tgt): (Vec<String>, Vec<String>) = train.sample(MOST_PAIRS, settings.seed)?.into_iter().unzip();
    if src.len() < train.len() {
        tell(format!(
            "the tokenizer is learnt from a sample of {} of the {} pairs (seed {})",
            src.len(),
            train.len(),
            settings.seed
        ));
    }
    let kind = settings.tokenizer.unwrap_or(Kind::Bpe);
    let kind_name = serde_json::json!(kind);
    let mut learn = |name: &str, lines: &[&String]| -> Result<Tokenizer> {
        let tokenizer = Tokenizer::train(kind, lines, settings.vocab_size, settings.lowercase)?;
        let (found, asked) = (tokenizer.vocab_size(), settings.vocab_size);
        let why = if found < asked {
            format!("; {asked} were asked for, the text fills no more")
        } else {
            String::new()
        };
        tell(format!("{name}: {} of {found} pieces{why}", kind_name.as_str().unwrap_or_default()));
        Ok(tokenizer)
    };
    let (src, tgt): (Vec<&String>, Vec<&String>) = (src.iter().collect(), tgt.iter().collect());
    match settings.vocab {
        Vocab::Joint => learn("tokenizer", &[src, tgt].concat()),
        Vocab::Separate => {
            Ok(learn("tokenizer of the source", &src)?.with_target(learn("tokenizer of the target", &tgt)?))
        }
    }
}
