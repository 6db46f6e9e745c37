//! The tokenizer files of a model directory, in whichever of the known forms they are; and the same files again, for a
//! directory that is written.

use super::{Engine, Tokenizer};
use crate::{Error, Result};
use serde_json::Value;
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
/// NLLB: the ids are those of fairseq.
const NLLB: [&str; 2] = [M2M100[0], SPECIAL_TOKENS_MAP];
/// A SentencePiece model with its own ids.
const SENTENCEPIECE: &str = "sentencepiece.model";
/// Where M2M100 and NLLB list their languages, whose ids follow those of the pieces.
const SPECIAL_TOKENS_MAP: &str = "special_tokens_map.json";

/// All forms, in the order in which they are looked for.
const FORMS: [&[&str]; 6] = [&OPUS, &TWO_JSON, &[JSON], &M2M100, &NLLB, &[SENTENCEPIECE]];

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
            let ids = serde_json::from_slice(&file(M2M100[1])?).map_err(|error| {
                let what = format!(
                    "expected an object of pieces and their ids, found {error}; fetch the file again"
                );
                Error::format(path(M2M100[1]), what)
            })?;
            spm(M2M100[0], M2M100[1], &with_languages(ids, get(SPECIAL_TOKENS_MAP)?.as_deref()))
        } else if form == NLLB {
            let model = Self::from_sentencepiece(&file(NLLB[0])?, path(NLLB[0]), None)?;
            let ids = fairseq_ids(model.pieces()).map_err(|what| Error::format(path(NLLB[0]), what))?;
            spm(NLLB[0], NLLB[1], &with_languages(ids, Some(&file(NLLB[1])?)))
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

/// Ids by piece.
type Ids = serde_json::Map<String, Value>;

/// The ids of the pieces with those of the languages that `special_tokens` lists, as `M2M100Tokenizer` and `NllbTokenizer` number
/// them.
fn with_languages(mut ids: Ids, special_tokens: Option<&[u8]>) -> Vec<u8> {
    let special: Option<Value> = special_tokens.and_then(|bytes| serde_json::from_slice(bytes).ok());
    let listed = special.as_ref().and_then(|json| json["additional_special_tokens"].as_array());
    let name = |token: &Value| token.as_str().or(token["content"].as_str()).map(String::from);
    for language in listed.into_iter().flatten().filter_map(name) {
        let next = ids.len();
        ids.entry(language).or_insert(next.into());
    }
    Value::Object(ids).to_string().into_bytes()
}

/// fairseq's ids of the pieces of a SentencePiece model: its own special ones, then the others.
fn fairseq_ids(pieces: &[String]) -> std::result::Result<Ids, String> {
    let [pad, unk, bos, eos] = super::SPECIAL_TOKENS;
    let Some(plain) = pieces.strip_prefix(&[unk, bos, eos].map(String::from)) else {
        return Err(format!(
            "its first pieces are {:?}, expected {unk} {bos} {eos} as in NLLB",
            &pieces[..pieces.len().min(3)]
        ));
    };
    let special = [bos, pad, eos, unk].map(String::from);
    Ok(special
        .into_iter()
        .chain(plain.iter().cloned())
        .enumerate()
        .map(|(id, piece)| (piece, id.into()))
        .collect())
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
        let ids = serde_json::from_str(r#"{"<s>":0,"<pad>":1,"</s>":2,"<unk>":3,"a":4}"#).unwrap();
        let special = br#"{"additional_special_tokens":["__af__",{"content":"__ko__"}]}"#;
        let found: HashMap<String, u32> =
            serde_json::from_slice(&with_languages(ids, Some(special))).unwrap();
        assert_eq!((found["__af__"], found["__ko__"], found.len()), (5, 6, 7));
    }

    /// NllbTokenizer: the pieces one further than in the model, then the languages.
    #[test]
    fn ids_of_fairseq() {
        let mut model = Vec::new();
        let packed: &[u8] = include_bytes!("../../tests/golden/sentencepiece/bpe.model.gz");
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(packed), &mut model).unwrap();
        let special = br#"{"additional_special_tokens":["eng_Latn","kor_Hang"]}"#;
        let nllb = opened(&vec![(NLLB[0], &model), (NLLB[1], special)]);
        let own = Tokenizer::from_sentencepiece(&model, "bpe.model", None).unwrap();
        let text = "The dog is here.";
        let (ids, its) = (nllb.encode(text).unwrap(), own.encode(text).unwrap());
        let words = its.len() - 1;
        assert!(words > 3 && its[..words].iter().all(|&id| id > 2), "{its:?}");
        assert_eq!(ids[..words], its[..words].iter().map(|id| id + 1).collect::<Vec<_>>());
        assert_eq!((ids[words], nllb.special_ids().pad), (2, 1));
        let languages = ["eng_Latn", "kor_Hang"].map(|name| nllb.id(name).unwrap() as usize);
        assert_eq!(languages, [own.vocab_size() + 1, own.vocab_size() + 2]);
        assert_eq!(nllb.decode(&ids).unwrap(), own.decode(&its).unwrap());
        assert!(fairseq_ids(&["<pad>".to_string()]).unwrap_err().contains("expected <unk> <s> </s>"));
    }

    #[test]
    fn a_folder_without_any_says_what_is_expected() {
        let message =
            Tokenizer::from_files(Path::new("model"), |_| false, |_| Ok(None)).unwrap_err().to_string();
        assert!(message.contains("tokenizer.json, source.spm + target.spm + vocab.json"), "{message}");
    }
}
