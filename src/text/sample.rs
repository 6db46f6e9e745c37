//! BPE-dropout (Provilkov, Emelianenko and Voita 2020): while a word is put together, each possible merge is left out
//! with probability p, anew at every step, so that a text is cut in many ways and the model sees the parts of a word.
//!
//! Departs from the `tokenizers` crate, whose dropout cannot be seeded: the numbers come from a key here. With p = 0
//! the pieces are those of [`Tokenizer::encode`].

use super::guarded::guarded;
use super::{Engine, Tokenizer};
use crate::rng::hash;
use crate::{Error, Result};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use tokenizers::{
    NormalizedString, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer,
};

/// Cuts text by chance.
#[derive(Debug)]
pub struct Sampler {
    tokenizer: Tokenizer,
    /// Its text rules.
    rules: Arc<tokenizers::Tokenizer>,
    /// Rank and result of a merge.
    merges: HashMap<(u32, u32), (u32, u32)>,
    /// Ids of single characters.
    chars: HashMap<char, u32>,
    /// Ids of single bytes, if characters without an id are spelt in them.
    bytes: Option<Vec<u32>>,
    dropout: f64,
}

impl Sampler {
    /// Samplers of source and target pieces.
    pub fn pair(tokenizer: &Tokenizer, dropout: f64) -> Result<[Arc<Self>; 2]> {
        let src = Arc::new(Self::new(tokenizer, dropout)?);
        let tgt = tokenizer.tgt.as_ref().map(|tgt| Self::new(tgt, dropout).map(Arc::new)).transpose()?;
        Ok([src.clone(), tgt.unwrap_or(src)])
    }

    /// A sampler of the pieces of `tokenizer` that leaves merges out with probability `dropout`. An error if it is no
    /// plain byte pair encoding.
    pub fn new(tokenizer: &Tokenizer, dropout: f64) -> Result<Self> {
        let refuse = |why: &str| {
            Error::Config(format!(
                "--sample-tokens leaves out merges of byte pair encoding, but the tokenizer {why}"
            ))
        };
        let Engine::Json(rules) = &tokenizer.engine else {
            return Err(refuse("is a SentencePiece model: let tx train learn one"));
        };
        let json: Value =
            serde_json::from_slice(&tokenizer.file).map_err(|e| Error::Tokenizer(e.to_string()))?;
        let model = &json["model"];
        if model["type"] != "BPE" || model["merges"].as_array().is_none_or(Vec::is_empty) {
            return Err(refuse("has none: use --tokenizer bpe"));
        }
        let plain = |name: &str| {
            matches!(&model[name], Value::Null | Value::Bool(false)) || model[name].as_str() == Some("")
        };
        let options = ["continuing_subword_prefix", "end_of_word_suffix", "ignore_merges", "fuse_unk"];
        if let Some(option) = options.into_iter().find(|name| !plain(name)) {
            return Err(refuse(&format!("has {option}, which is not supported here")));
        }
        if json["added_tokens"].as_array().is_some_and(|added| added.len() > super::SPECIAL_TOKENS.len()) {
            return Err(refuse("has added tokens besides the special ones, which is not supported here"));
        }
        let ids: HashMap<&str, u32> =
            (0u32..).zip(&tokenizer.pieces).map(|(id, p)| (p.as_str(), id)).collect();
        let merges = merges(&model["merges"], &ids).ok_or_else(|| refuse("has merges of unknown pieces"))?;
        let single = |(piece, id): (&&str, &u32)| {
            let mut chars = piece.chars();
            chars.next().filter(|_| chars.next().is_none()).map(|c| (c, *id))
        };
        let bytes = (0..=255u8).map(|byte| ids.get(format!("<0x{byte:02X}>").as_str()).copied());
        let bytes = bytes.collect::<Option<Vec<u32>>>().filter(|_| model["byte_fallback"] == true);
        let chars = ids.iter().filter_map(single).collect();
        Ok(Sampler { tokenizer: tokenizer.clone(), rules: rules.clone(), merges, chars, bytes, dropout })
    }

    /// The tokenizer itself.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Number of pieces.
    pub fn vocab_size(&self) -> usize {
        self.tokenizer.vocab_size()
    }

    /// The ids of `text`, cut by the random numbers of `key`, then one end mark.
    pub fn encode(&self, text: &str, key: u64) -> Result<Vec<u32>> {
        let words = guarded(|| {
            let mut normalized = NormalizedString::from(text);
            if let Some(normalizer) = self.rules.get_normalizer() {
                normalizer.normalize(&mut normalized)?;
            }
            let mut words = PreTokenizedString::from(normalized);
            if let Some(pre_tokenizer) = self.rules.get_pre_tokenizer() {
                pre_tokenizer.pre_tokenize(&mut words)?;
            }
            Ok(words)
        });
        let words = words.map_err(|e| Error::Tokenizer(format!("{text:?}: {e}")))?;
        let mut draw = Draw { key, next: 0, dropout: self.dropout };
        let mut ids = vec![];
        for (word, _, _) in words.get_splits(OffsetReferential::Normalized, OffsetType::None) {
            self.cut(word, &mut draw, &mut ids);
        }
        let special = self.tokenizer.special;
        ids.iter_mut().filter(|id| special.contains(**id)).for_each(|id| *id = special.unk);
        ids.push(special.eos);
        Ok(ids)
    }

    /// Adds the pieces of `word` to `ids`: its characters, merged by rank as long as a merge is left (the paper's
    /// algorithm 1).
    fn cut(&self, word: &str, draw: &mut Draw, ids: &mut Vec<u32>) {
        let mut pieces: Vec<u32> = vec![];
        for c in word.chars() {
            match (self.chars.get(&c), &self.bytes) {
                (Some(&id), _) => pieces.push(id),
                (None, Some(bytes)) => {
                    pieces.extend(c.encode_utf8(&mut [0; 4]).bytes().map(|byte| bytes[usize::from(byte)]));
                }
                (None, None) => pieces.push(self.tokenizer.special.unk),
            }
        }
        loop {
            let possible = pieces.windows(2).enumerate().filter_map(|(at, pair)| {
                let &(rank, merged) = self.merges.get(&(pair[0], pair[1]))?;
                (!draw.is_left_out()).then_some((rank, at, merged))
            });
            let Some((_, at, merged)) = possible.min() else { break };
            pieces[at] = merged;
            pieces.remove(at + 1);
        }
        ids.append(&mut pieces);
    }
}

/// Random numbers of one text.
struct Draw {
    key: u64,
    next: u64,
    dropout: f64,
}

impl Draw {
    fn is_left_out(&mut self) -> bool {
        self.next += 1;
        ((hash(self.key, self.next) >> 11) as f64 * 2f64.powi(-53)) < self.dropout
    }
}

/// `["a", "b"]` or `"a b"` in the order of their rank.
fn merges(list: &Value, ids: &HashMap<&str, u32>) -> Option<HashMap<(u32, u32), (u32, u32)>> {
    let mut merges = HashMap::new();
    for (rank, merge) in (0u32..).zip(list.as_array()?) {
        let (left, right) = match merge {
            Value::String(both) => both.split_once(' ')?,
            _ => (merge[0].as_str()?, merge[1].as_str()?),
        };
        let merged = *ids.get(format!("{left}{right}").as_str())?;
        merges.insert((*ids.get(left)?, *ids.get(right)?), (rank, merged));
    }
    Some(merges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Kind;

    const LINES: [&str; 6] = [
        "the lower the newer the wider",
        "a lower and newer tower",
        "lowest newest widest towers",
        "Größe und Höhe 漢字 \u{1F600}",
        "  typed </s> and <0x41>\u{200B} ",
        "the the the lower newer",
    ];

    fn tokenizer(kind: Kind) -> Tokenizer {
        let lines: Vec<&str> = LINES.iter().copied().cycle().take(60).collect();
        Tokenizer::train(kind, &lines, 330, false).unwrap()
    }

    #[test]
    fn without_dropout_the_pieces_are_those_of_the_tokenizer() {
        let tokenizer = tokenizer(Kind::Bpe);
        let sampler = Sampler::new(&tokenizer, 0.0).unwrap();
        for line in LINES.iter().chain(&["", "unseen: ЖЖ ☃", "ab\u{301}c", "lowlowlow newnewer"]) {
            assert_eq!(sampler.encode(line, 7).unwrap(), tokenizer.encode(line).unwrap(), "{line}");
        }
    }

    /// Cut differently by another key and in the same way by the same one; the text is the same all the same.
    #[test]
    fn a_text_is_cut_in_many_ways_that_the_key_decides() {
        let tokenizer = tokenizer(Kind::Bpe);
        let sampler = Sampler::new(&tokenizer, 0.3).unwrap();
        let cuts: std::collections::BTreeSet<Vec<u32>> =
            (0..200).map(|key| sampler.encode(LINES[0], key).unwrap()).collect();
        assert!(cuts.len() > 20, "{}", cuts.len());
        assert_eq!(sampler.encode(LINES[0], 3).unwrap(), sampler.encode(LINES[0], 3).unwrap());
        for cut in cuts {
            assert_eq!(tokenizer.decode(&cut).unwrap(), LINES[0]);
        }
    }

    /// A word of one merge is left as two characters in p of all cases.
    #[test]
    fn a_merge_is_left_out_with_the_given_probability() {
        let tokenizer = Tokenizer::train(Kind::Bpe, &["ab ab", "ab"], 270, false).unwrap();
        let sampler = Sampler::new(&tokenizer, 0.25).unwrap();
        let whole = tokenizer.encode("ab").unwrap();
        let kept = (0..10_000).filter(|&key| sampler.encode("ab", key).unwrap() == whole).count();
        let merges = sampler.merges.len() as f64;
        // Whichever of its merges comes first, the next is drawn after it.
        let expected = 10_000.0 * 0.75 * 0.75f64.powf(merges - 1.0);
        assert!((kept as f64 - expected).abs() < 200.0, "{kept} {expected} {merges}");
    }

    #[test]
    fn other_kinds_are_refused() {
        for kind in [Kind::Word, Kind::Char] {
            let message = Sampler::new(&tokenizer(kind), 0.1).unwrap_err().to_string();
            assert!(message.contains("use --tokenizer bpe"), "{message}");
        }
    }
}
