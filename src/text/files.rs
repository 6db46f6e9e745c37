//! The tokenizer files of a model directory, in whichever of the known forms they are; and the same files again, for a
//! directory that is written.

use super::{Engine, Tokenizer};
use crate::{Error, Result};
use std::path::Path;

/// `tokenizer.json` of the `tokenizers` library: ours.
pub const JSON: &str = "tokenizer.json";
/// One for each language.
const TWO_JSON: [&str; 2] = ["tokenizer.src.json", "tokenizer.tgt.json"];
/// OPUS-MT as Hugging Face has it: what cuts either language, and the ids.
const OPUS: [&str; 3] = ["source.spm", "target.spm", "vocab.json"];
/// The ids of the target's pieces, where they are others.
const OPUS_TARGET: &str = "target_vocab.json";
/// M2M100.
const M2M100: [&str; 2] = ["sentencepiece.bpe.model", "vocab.json"];
/// A SentencePiece model with its own ids.
const SENTENCEPIECE: &str = "sentencepiece.model";
/// Where M2M100 lists its languages, whose ids follow those of the pieces.
const SPECIAL_TOKENS_MAP: &str = "special_tokens_map.json";

/// All forms, in the order in which they are looked for.
const FORMS: [&[&str]; 5] = [&OPUS, &TWO_JSON, &[JSON], &M2M100, &[SENTENCEPIECE]];

/// A tokenizer's files by name.
pub type Files<'a> = Vec<(&'static str, &'a [u8])>;

/// The files of the first form of which `has` has all.
pub fn form(has: impl Fn(&str) -> bool) -> Option<&'static [&'static str]> {
    FORMS.into_iter().find(|form| form.iter().all(|name| has(name)))
}

/// The files of that form, with those that come with it where they are.
pub fn names(has: impl Fn(&str) -> bool) -> Option<Vec<&'static str>> {
    let form = form(&has)?;
    let more = [(&OPUS[..], OPUS_TARGET), (&M2M100, SPECIAL_TOKENS_MAP)];
    let more = more.into_iter().filter(|&(of, name)| of == form && has(name)).map(|(_, name)| name);
    Some(form.iter().copied().chain(more).collect())
}

/// What there can be, for a message.
pub fn expected() -> String {
    format!("{JSON}, {} or {}", OPUS.join(" + "), M2M100.join(" + "))
}

/// What lacks of the form that is there in part, or else of ours.
pub fn missing(has: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let nearest = FORMS.into_iter().find(|form| has(form[0])).unwrap_or(&[JSON]);
    nearest.iter().copied().filter(|name| !has(name)).collect()
}

impl Tokenizer {
    /// Opens the files that `get` gives by name, of those that there are by `has`; `folder` is for messages.
    pub fn from_files(
        folder: &Path,
        has: impl Fn(&str) -> bool,
        get: impl Fn(&str) -> Result<Option<Vec<u8>>>,
    ) -> Result<Self> {
        let path = |name: &str| folder.join(name);
        let file = |name: &str| -> Result<Vec<u8>> {
            get(name)?.ok_or_else(|| Error::format(path(name), "missing"))
        };
        let json = |name: &str| Self::from_bytes(&file(name)?, path(name));
        let spm = |name: &str, ids: &str, bytes: &[u8]| {
            Self::from_sentencepiece(&file(name)?, path(name), Some((bytes, &path(ids))))
        };
        let Some(form) = form(has) else {
            return Err(Error::format(folder, format!("no tokenizer: expected {}", expected())));
        };
        if form == OPUS {
            let ids = file(OPUS[2])?;
            let target_ids = get(OPUS_TARGET)?;
            let target = match &target_ids {
                Some(bytes) => spm(OPUS[1], OPUS_TARGET, bytes)?,
                None => spm(OPUS[1], OPUS[2], &ids)?,
            };
            Ok(spm(OPUS[0], OPUS[2], &ids)?.with_target(target))
        } else if form == TWO_JSON {
            Ok(json(TWO_JSON[0])?.with_target(json(TWO_JSON[1])?))
        } else if form == M2M100 {
            let ids = with_languages(&file(M2M100[1])?, get(SPECIAL_TOKENS_MAP)?.as_deref());
            let ids = ids.map_err(|what| Error::format(path(M2M100[1]), what))?;
            spm(M2M100[0], M2M100[1], &ids)
        } else if form == [SENTENCEPIECE] {
            Self::from_sentencepiece(&file(SENTENCEPIECE)?, path(SENTENCEPIECE), None)
        } else {
            json(JSON)
        }
    }

    /// Opens the tokenizer of a model directory.
    pub fn open_folder(folder: &Path) -> Result<Self> {
        let has = |name: &str| folder.join(name).is_file();
        Self::from_files(folder, has, |name| {
            let path = folder.join(name);
            if !path.is_file() {
                return Ok(None);
            }
            std::fs::read(&path).map(Some).map_err(|error| Error::io(&path, error))
        })
    }

    /// The files that [`Tokenizer::from_files`] makes the same tokenizer of.
    pub fn files(&self) -> Files<'_> {
        match (&self.vocab, &self.tgt) {
            (Some(ids), None) => vec![(M2M100[0], &self.file), (M2M100[1], ids)],
            (Some(ids), Some(tgt)) => {
                let mut files: Files = vec![(OPUS[0], &self.file), (OPUS[1], &tgt.file), (OPUS[2], ids)];
                files.extend(tgt.vocab.as_deref().filter(|own| own != ids).map(|own| (OPUS_TARGET, own)));
                files
            }
            (None, Some(tgt)) => vec![(TWO_JSON[0], &self.file), (TWO_JSON[1], &tgt.file)],
            (None, None) if matches!(self.engine, Engine::SentencePiece(_)) => {
                vec![(SENTENCEPIECE, &self.file)]
            }
            (None, None) => vec![(JSON, &self.file)],
        }
    }
}

/// The ids of M2M100's pieces with those of the languages that `special_tokens` lists, as `M2M100Tokenizer` numbers them.
fn with_languages(ids: &[u8], special_tokens: Option<&[u8]>) -> std::result::Result<Vec<u8>, String> {
    type Ids = serde_json::Map<String, serde_json::Value>;
    let mut ids: Ids = serde_json::from_slice(ids).map_err(|e| {
        format!("expected an object of pieces and their ids, found {e}; fetch the file again")
    })?;
    let special: Option<serde_json::Value> =
        special_tokens.and_then(|bytes| serde_json::from_slice(bytes).ok());
    let listed = special.as_ref().and_then(|json| json["additional_special_tokens"].as_array());
    let name = |token: &serde_json::Value| token.as_str().or(token["content"].as_str()).map(String::from);
    for language in listed.into_iter().flatten().filter_map(name) {
        let next = ids.len();
        ids.entry(language).or_insert(next.into());
    }
    serde_json::to_vec(&ids).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn opened(files: &Files) -> Tokenizer {
        let files: HashMap<String, Vec<u8>> =
            files.iter().map(|(name, bytes)| (name.to_string(), bytes.to_vec())).collect();
        Tokenizer::from_files(
            Path::new("model"),
            |name| files.contains_key(name),
            |name| Ok(files.get(name).cloned()),
        )
        .unwrap()
    }

    /// Either language is cut by its own, and what is written is read again.
    #[test]
    fn two_languages_have_their_own() {
        let train = |text: &str| Tokenizer::train(super::super::Kind::Word, &[text], 50, false).unwrap();
        let both = train("a house").with_target(train("ein Haus ist"));
        let again = opened(&both.files());
        for tokenizer in [&both, &again] {
            assert_eq!(tokenizer.count_unknown(&tokenizer.encode("a house").unwrap()), 0);
            assert_eq!(tokenizer.tgt().count_unknown(&tokenizer.tgt().encode("ein Haus").unwrap()), 0);
            assert!(tokenizer.count_unknown(&tokenizer.encode("ein Haus").unwrap()) > 0);
        }
        assert_eq!(both.hash(), again.hash());
        assert_ne!(both.hash(), train("a house").hash());
        let one = train("a house");
        assert_eq!(opened(&one.files()).hash(), one.hash());
        assert_eq!(one.tgt().pieces(), one.pieces());
    }

    #[test]
    fn languages_follow_the_pieces() {
        let ids = br#"{"<s>":0,"<pad>":1,"</s>":2,"<unk>":3,"a":4}"#;
        let special = br#"{"additional_special_tokens":["__af__",{"content":"__ko__"}]}"#;
        let found: HashMap<String, u32> =
            serde_json::from_slice(&with_languages(ids, Some(special)).unwrap()).unwrap();
        assert_eq!((found["__af__"], found["__ko__"], found.len()), (5, 6, 7));
        assert!(with_languages(b"[", None).is_err());
    }

    #[test]
    fn a_folder_without_any_says_what_is_expected() {
        let message =
            Tokenizer::from_files(Path::new("model"), |_| false, |_| Ok(None)).unwrap_err().to_string();
        assert!(message.contains("tokenizer.json, source.spm + target.spm + vocab.json"), "{message}");
    }
}
