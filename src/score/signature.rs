//! The signature printed with a score: all settings it depends on, as sacreBLEU writes them, with `tx-` and this
//! crate's version in place of sacreBLEU's.

use std::fmt;

use super::{Metric, Test};

/// Keys and values in the order they are printed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature(Vec<(&'static str, String)>);

impl Signature {
    /// The pairs in order, `version` last.
    pub fn pairs(&self) -> &[(&'static str, String)] {
        &self.0
    }

    /// The signature of a significance test: trials and seed come right after the number of references.
    pub fn with_test(mut self, test: Test, n_samples: usize, seed: u64) -> Signature {
        self.0.splice(1..1, [(test.key(), n_samples.to_string()), ("seed", seed.to_string())]);
        self
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (key, value)) in self.0.iter().enumerate() {
            let bar = if i > 0 { "|" } else { "" };
            write!(f, "{bar}{key}:{value}")?;
        }
        Ok(())
    }
}

impl Metric {
    /// The signature of this metric on lines with `n_refs` references each.
    pub fn signature(&self, n_refs: usize) -> Signature {
        let case = |lowercase| ("case", if lowercase { "lc" } else { "mixed" });
        let settings = match self {
            Metric::Bleu(bleu) => vec![
                case(bleu.lowercase),
                ("eff", if bleu.effective_order { "yes" } else { "no" }),
                ("tok", bleu.tokenizer.name()),
                ("smooth", "exp"),
            ],
            Metric::Chrf(chrf) => vec![
                case(chrf.lowercase),
                ("eff", "yes"),
                ("nc", "6"),
                ("nw", if chrf.with_words { "2" } else { "0" }),
                ("space", "no"),
            ],
            Metric::Ter(ter) => vec![
                case(!ter.case_sensitive),
                ("tok", "tercom"),
                ("norm", "no"),
                ("punct", "yes"),
                ("asian", "no"),
            ],
            Metric::Rouge(_) => vec![case(true), ("tok", "rouge"), ("stem", "no")],
            Metric::ExactMatch(exact) => vec![case(exact.lowercase)],
            Metric::LengthRatio(ratio) => vec![("tok", ratio.tokenizer.name())],
        };
        let mut pairs = vec![("nrefs", n_refs.to_string())];
        pairs.extend(settings.into_iter().map(|(key, value)| (key, value.to_string())));
        pairs.push(("version", concat!("tx-", env!("CARGO_PKG_VERSION")).to_string()));
        Signature(pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::{Bleu, Tokenizer};

    #[test]
    fn a_test_adds_trials_and_seed() {
        let bleu = Bleu { tokenizer: Tokenizer::Zh, lowercase: true, effective_order: false };
        let signature = Metric::Bleu(bleu).signature(2).with_test(Test::Bootstrap, 1000, 12345).to_string();
        let version = env!("CARGO_PKG_VERSION");
        let expected = "nrefs:2|bs:1000|seed:12345|case:lc|eff:no|tok:zh|smooth:exp|version:tx-";
        assert_eq!(signature, format!("{expected}{version}"));
    }
}
