//! The vocabularies beside a `.npz` of Marian: SentencePiece models that Marian uses itself (`vocab.spm`, whose ids count), or
//! lists of pieces and ids (`*.vocab.yml`, also `.json`) with `source.spm` and `target.spm`, which cut the text, as in the
//! releases of OPUS-MT.

use super::{files, marian, yaml};
use crate::error::{Error, Result};
use crate::text::{SPECIAL_TOKENS, Tokenizer};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// What cuts the text, where the vocabularies are lists.
const CUTTERS: [&str; 2] = ["source.spm", "target.spm"];

/// The tokenizer of the model `npz`: in one of our forms, or Marian's.
pub fn tokenizer(npz: &Path) -> Result<Tokenizer> {
    let folder = marian::folder(npz);
    if crate::text::files::form(|name| folder.join(name).is_file()).is_some() {
        return Tokenizer::open_folder(folder);
    }
    let [src, tgt] = vocabularies(npz)?;
    let (src_pieces, tgt_pieces) = (pieces(&src)?, pieces(&tgt)?);
    // Marian has no padding: as in its weights here, that is one more piece of either.
    let pad = src_pieces.len().max(tgt_pieces.len());
    let open = |vocab: &Path, pieces: Vec<String>, cutter: &str| {
        let model = if is_sentencepiece(vocab) { vocab.to_path_buf() } else { folder.join(cutter) };
        let ids = ids(pieces, pad).to_string().into_bytes();
        Tokenizer::from_sentencepiece(&files::read(&model)?, &model, Some((&ids, vocab)))
    };
    Ok(open(&src, src_pieces, CUTTERS[0])?.with_target(open(&tgt, tgt_pieces, CUTTERS[1])?))
}

/// The vocabulary files of source and target: those that the decoder's settings name, else the only one there is.
fn vocabularies(npz: &Path) -> Result<[PathBuf; 2]> {
    let folder = marian::folder(npz);
    if let Some(settings) = marian::decoder_settings(npz)?
        && let [src, tgt] = settings.list("vocabs")
    {
        // Training writes the paths of its own machine.
        let here = |name: &String| folder.join(Path::new(name).file_name().unwrap_or_default());
        return Ok([here(src), here(tgt)]);
    }
    let list = std::fs::read_dir(folder).map_err(|error| Error::io(folder, error))?;
    let is_vocabulary = |name: &String| {
        let is_list = name == "vocab.yml" || name.ends_with(".vocab.yml") || name == "vocab.json";
        is_list || (name.ends_with(".spm") && !CUTTERS.contains(&name.as_str()))
    };
    let names = list.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(is_vocabulary).collect();
    names.sort();
    match names.as_slice() {
        [only] => Ok([folder.join(only), folder.join(only)]),
        [] => Err(Error::format(
            folder,
            format!(
                "no tokenizer: expected tokenizer.json, a vocab.spm, or a vocab.yml with {}",
                CUTTERS.join(" and ")
            ),
        )),
        several => {
            let what =
                format!("which vocabulary ({})? decoder.yml should say it under vocabs", several.join(", "));
            Err(Error::format(folder, what))
        }
    }
}

fn is_sentencepiece(vocab: &Path) -> bool {
    vocab.extension().is_some_and(|extension| extension == "spm")
}

/// The pieces of a vocabulary by id.
fn pieces(vocab: &Path) -> Result<Vec<String>> {
    if is_sentencepiece(vocab) {
        return Ok(Tokenizer::open(vocab)?.pieces().to_vec());
    }
    let read = || {
        let id = |ids: &[String]| if let [id] = ids { id.parse::<u32>().ok() } else { None };
        let by_piece = yaml::mapping(&files::read(vocab).map_err(|error| error.to_string())?)?;
        let with_ids = by_piece.into_iter().map(|(piece, ids)| match id(&ids) {
            Some(id) => Ok((piece, id)),
            None => Err(format!("{piece:?} has no id but {:?}", ids.join(" "))),
        });
        crate::text::by_id(with_ids.collect::<std::result::Result<_, _>>()?)
    };
    read().map_err(|what| Error::format(vocab, what))
}

/// The ids of `pieces` and of the padding. Where the other language has more pieces, names that no text has fill the gap.
fn ids(pieces: Vec<String>, pad: usize) -> Value {
    let fillers = (pieces.len()..pad).map(|id| format!("<unused{id}>"));
    let fillers: Vec<String> = fillers.chain([SPECIAL_TOKENS[0].to_string()]).collect();
    let all = pieces.into_iter().chain(fillers).enumerate();
    Value::Object(all.map(|(id, piece)| (piece, json!(id))).collect::<Map<_, _>>())
}
