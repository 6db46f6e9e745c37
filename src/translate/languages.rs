//! Models of many languages: which pieces of their vocabulary name a language, and where these stand.
//!
//! OPUS-MT puts the target language before the source (`>>de<<`); M2M100 (`__de__`) and NLLB (`deu_Latn`) the source language
//! before the source, and the target language is the first piece of the translation. That piece is given, so it has
//! the probability 1.

use super::Translator;
use crate::error::{Error, Result};
use std::collections::HashSet;

/// What a source and its translation begin with.
#[derive(Debug, Clone, Default)]
pub(super) struct Direction {
    pub src: Vec<u32>,
    pub tgt: Vec<u32>,
    /// Every piece that names a language.
    pub marks: HashSet<u32>,
    /// Whether a source without the name of a language cannot be translated.
    pub is_needed: bool,
}

/// How a vocabulary names languages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Opus,
    M2m100,
    Nllb,
}

impl Scheme {
    /// The language that a piece names.
    fn language(self, piece: &str) -> Option<&str> {
        match self {
            Scheme::Opus => piece.strip_prefix(">>")?.strip_suffix("<<"),
            Scheme::M2m100 => piece.strip_prefix("__")?.strip_suffix("__"),
            Scheme::Nllb => {
                let (language, script) = piece.split_once('_')?;
                let small = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase());
                let capital = script.bytes().next()?.is_ascii_uppercase();
                let fits = language.len() == 3 && script.len() == 4 && small(language) && capital;
                (fits && small(&script[1..])).then_some(piece)
            }
        }
        .filter(|language| !language.is_empty() && !language.contains(['>', '<', ' ', '▁']))
    }
}

impl Translator {
    /// The languages that the vocabulary names, with their ids, and how; none if there are fewer than two.
    fn named_languages(&self) -> Option<(Scheme, Vec<(&str, u32)>)> {
        let pieces = || self.tokenizer().pieces().iter().zip(0u32..);
        [Scheme::Opus, Scheme::M2m100, Scheme::Nllb].into_iter().find_map(|scheme| {
            let named = pieces().filter_map(|(piece, id)| Some((scheme.language(piece)?, id)));
            let mut named: Vec<(&str, u32)> = named.collect();
            named.sort_unstable();
            let enough = if scheme == Scheme::Opus { 1 } else { 2 };
            (named.len() >= enough).then_some((scheme, named))
        })
    }

    /// The languages that can be chosen from; none of a model of one direction.
    pub fn choices(&self) -> Vec<String> {
        self.named_languages()
            .map_or(Vec::new(), |(_, named)| named.into_iter().map(|(name, _)| name.to_string()).collect())
    }

    /// Translates from and to these languages from now on. A model of one direction has no other; one of many must be told.
    pub fn set_direction(&mut self, from: Option<&str>, to: Option<&str>) -> Result<()> {
        let Some((scheme, named)) = self.named_languages() else {
            return self.check_direction(from, to);
        };
        let id = |flag: &str, language: Option<&str>| -> Result<Vec<u32>> {
            let asked = language.unwrap_or_default();
            let found: Vec<u32> = named
                .iter()
                .filter(|(name, _)| *name == asked || (scheme == Scheme::Nllb && is_short_for(asked, name)))
                .map(|(_, id)| *id)
                .collect();
            match (found.as_slice(), language) {
                ([id], _) => Ok(vec![*id]),
                (_, given) => {
                    let what = match given {
                        Some(given) => format!("--{flag} {given} is none of the model's languages"),
                        None => format!("the model translates between many languages: expected --{flag}"),
                    };
                    let names: Vec<&str> = named.iter().map(|(name, _)| *name).collect();
                    Err(Error::Config(format!("{what}: one of {}", names.join(" "))))
                }
            }
        };
        let (src, tgt) = match scheme {
            Scheme::Opus if to.is_none() => (Vec::new(), Vec::new()),
            Scheme::Opus => (id("to", to)?, Vec::new()),
            Scheme::M2m100 | Scheme::Nllb => (id("from", from)?, id("to", to)?),
        };
        let marks = named.iter().map(|(_, id)| *id).collect();
        self.direction = Direction { src, tgt, marks, is_needed: true };
        Ok(())
    }

    /// Refuses languages that are not those of a model of one direction.
    fn check_direction(&self, from: Option<&str>, to: Option<&str>) -> Result<()> {
        let (src, tgt) = self.languages().unzip();
        for (flag, asked, has) in [("from", from, src), ("to", to, tgt)] {
            if let Some(asked) = asked.filter(|asked| Some(*asked) != has) {
                let direction = match (src, tgt) {
                    (Some(src), Some(tgt)) => format!("it translates {src} → {tgt}"),
                    _ => "it does not say its languages: leave the flag away".to_string(),
                };
                return Err(Error::Config(format!("--{flag} {asked} is not the model's: {direction}")));
            }
        }
        Ok(())
    }

    /// The `>>de<<` that a clean line begins with, if that names a language of the model, and the rest.
    pub(super) fn split_language<'a>(&self, line: &'a str) -> (&'a str, &'a str) {
        let end = line.find("<<").filter(|_| self.direction.is_needed).map_or(0, |at| at + 2);
        let (language, rest) = line.split_at(end);
        if self.tokenizer().language_codes().contains(&language) {
            (language, rest.trim_start())
        } else {
            ("", line)
        }
    }

    /// How many pieces at the beginning of `ids` name a language.
    pub(super) fn count_marks(&self, ids: &[u32]) -> usize {
        ids.iter().take_while(|id| self.direction.marks.contains(id)).count()
    }

    /// Refuses a source that does not say into which language.
    pub(super) fn check_marked(&self, src: &[u32]) -> Result<()> {
        if self.direction.is_needed && self.count_marks(src) == 0 {
            return Err(Error::Data(
                "the model has several target languages: say which with --to, or begin the line with it, as >>de<<".into(),
            ));
        }
        Ok(())
    }
}

/// The languages whose code stands for a group in ISO 639-3, and the one of the group that NLLB means.
const GROUPS: [(&str, &str); 19] = [
    ("ara", "arb"),
    ("aym", "ayr"),
    ("aze", "azj"),
    ("fas", "pes"),
    ("kur", "kmr"),
    ("lav", "lvs"),
    ("mlg", "plt"),
    ("mon", "khk"),
    ("msa", "zsm"),
    ("nep", "npi"),
    ("nor", "nob"),
    ("ori", "ory"),
    ("orm", "gaz"),
    ("pus", "pbt"),
    ("que", "quy"),
    ("sqi", "als"),
    ("swa", "swh"),
    ("uzb", "uzn"),
    ("yid", "ydd"),
];

/// Whether `short` means the language of a name with a script: `de`, `deu` and `de-Latn` are `deu_Latn`.
fn is_short_for(short: &str, name: &str) -> bool {
    let (language, script) = short.split_once(['-', '_']).map_or((short, None), |(a, b)| (a, Some(b)));
    let three = isolang::Language::from_639_1(language).map_or(language, |language| language.to_639_3());
    let one = GROUPS.iter().find(|(group, _)| *group == three).map_or(three, |(_, one)| one);
    name.split_once('_').is_some_and(|(language, its_script)| {
        (language == one || language == three) && script.is_none_or(|script| script == its_script)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_languages() {
        let of = |piece: &str| {
            [Scheme::Opus, Scheme::M2m100, Scheme::Nllb]
                .map(|scheme| scheme.language(piece).map(String::from))
        };
        let some = |text: &str| Some(text.to_string());
        assert_eq!(of(">>de<<"), [some("de"), None, None]);
        assert_eq!(of("__ko__"), [None, some("ko"), None]);
        assert_eq!(of("kor_Hang"), [None, None, some("kor_Hang")]);
        for piece in [">><<", "____", "▁__a", "Kor_Hang", "kor_hang", "kor_Hangu", ">>a b<<"] {
            assert_eq!(of(piece), [None, None, None], "{piece}");
        }
        for short in ["kor", "ko", "ko-Hang", "kor_Hang"] {
            assert!(is_short_for(short, "kor_Hang"), "{short}");
        }
        for short in ["", "k", "kor_Latn", "ja", "_Hang"] {
            assert!(!is_short_for(short, "kor_Hang"), "{short}");
        }
        assert!(
            is_short_for("ar", "arb_Arab")
                && is_short_for("zh-Hant", "zho_Hant")
                && is_short_for("fa", "pes_Arab")
        );
    }
}
