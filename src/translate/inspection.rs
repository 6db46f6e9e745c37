//! What `tx inspect-attention` shows: the attention weights of a translation, with the tokens they are between, and the
//! same between words or without the marks.

use super::alignment::Unit;
use super::{Line, Options, Translator};
use crate::error::{Error, Result};
use crate::model::Transformer;
use crate::model::trace::Kind;
use crate::text::Tokenizer;
use candle_core::Tensor;
use serde::{Serialize, Serializer};

/// Weights as \[layer\]\[head\]\[query\]\[key\]; every row sums to 1.
pub type Weights = Vec<Vec<Matrix>>;

/// The weights of one head, or a mean of several, as \[query\]\[key\].
pub type Matrix = Vec<Vec<f32>>;

/// The attention weights of one translation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Inspection {
    /// The source as it was given.
    pub src: String,
    /// The translation that was looked at.
    pub tgt: String,
    /// Source pieces and end mark: queries and keys of `encoder_self`, keys of `cross`.
    pub src_tokens: Axis,
    /// What the decoder was fed: keys of `decoder_self`.
    pub tgt_in: Axis,
    /// What it had to answer: queries of `decoder_self` and `cross`.
    pub tgt_out: Axis,
    /// Source looks at source.
    pub encoder_self: Weights,
    /// Target looks at the target before it.
    pub decoder_self: Weights,
    /// Target looks at source.
    pub cross: Weights,
}

/// The tokens along one side of a matrix, and the words that they make. Serialized as the list of its pieces.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Axis {
    /// Pieces and marks as the vocabulary stores them.
    pub pieces: Vec<String>,
    /// The number of the word that each of them belongs to, from 0; a mark is one by itself.
    pub word_of: Vec<usize>,
    /// What each word says; a mark as it is stored.
    pub words: Vec<String>,
    /// Which pieces are marks: start, end, padding, the name of a language.
    pub is_mark: Vec<bool>,
}

impl Serialize for Axis {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.pieces.serialize(serializer)
    }
}

/// What a map is between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// Words or pieces.
    pub unit: Unit,
    /// Whether marks are among them.
    pub marks: bool,
}

/// A matrix as it is drawn, with the labels of its rows and columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Map {
    /// Rows.
    pub queries: Vec<String>,
    /// Columns.
    pub keys: Vec<String>,
    /// \[query\]\[key\]; a row sums to 1, or to 0 where a query looks at nothing that is shown.
    pub weights: Matrix,
}

/// One kind of attention with its axes.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// `encoder_self`, `decoder_self` or `cross`.
    pub name: &'static str,
    /// Rows.
    pub queries: &'a Axis,
    /// Columns.
    pub keys: &'a Axis,
    /// All layers and heads.
    pub weights: &'a Weights,
}

impl Axis {
    /// Of `ids`, among which `is_mark` tells the marks.
    fn new(tokenizer: &Tokenizer, ids: &[u32], is_mark: impl Fn(u32) -> bool) -> Result<Self> {
        let mut axis = Axis::default();
        for run in ids.chunk_by(|&left, &right| !is_mark(left) && !is_mark(right)) {
            let first = axis.words.len();
            let marks = run.first().is_some_and(|&id| is_mark(id));
            let word_of = if marks { vec![0] } else { tokenizer.words(run) };
            for word in 0..=word_of.last().copied().unwrap_or(0) {
                let of_word = run.iter().zip(&word_of).filter(|(_, of)| **of == word);
                let ids: Vec<u32> = of_word.map(|(&id, _)| id).collect();
                let pieces = || ids.iter().map(|&id| tokenizer.piece(id)).collect::<String>();
                let text = if marks { String::new() } else { tokenizer.decode(&ids)? };
                // What is not known, or is a part of a character, says nothing by itself.
                axis.words.push(if text.is_empty() { pieces() } else { text });
            }
            axis.word_of.extend(word_of.iter().map(|word| first + word));
            axis.is_mark.extend(run.iter().map(|_| marks));
            axis.pieces.extend(run.iter().map(|&id| tokenizer.piece(id).to_string()));
        }
        Ok(axis)
    }

    /// What is shown of it: labels, and for each piece the number of its label, none if it is hidden.
    fn shown(&self, shown: Shown) -> (Vec<String>, Vec<Option<usize>>) {
        let (mut labels, mut places, mut last) = (Vec::new(), Vec::new(), None);
        for (piece, &word) in self.word_of.iter().enumerate() {
            if self.is_mark[piece] && !shown.marks {
                places.push(None);
                continue;
            }
            if shown.unit == Unit::Pieces || last != Some(word) {
                let label = if shown.unit == Unit::Words { &self.words[word] } else { &self.pieces[piece] };
                labels.push(label.clone());
            }
            last = Some(word);
            places.push(Some(labels.len() - 1));
        }
        (labels, places)
    }
}

impl View<'_> {
    /// `weights` \[query\]\[key\] of this view as `shown`. Without the marks a row is divided by what it gives to the rest. For words
    /// the weights of the pieces that are looked at are added up, and the rows of the pieces that look are averaged, but for
    /// those that look at nothing.
    pub fn map(&self, weights: &Matrix, shown: Shown) -> Map {
        let ((queries, rows), (keys, columns)) = (self.queries.shown(shown), self.keys.shown(shown));
        let mut sums = vec![vec![0.0; keys.len()]; queries.len()];
        let mut counts = vec![0; queries.len()];
        for (row, place) in weights.iter().zip(rows) {
            let Some(place) = place else { continue };
            let seen = || row.iter().zip(&columns).filter_map(|(&weight, column)| Some((weight, (*column)?)));
            let rest = if shown.marks { 1.0 } else { seen().map(|(weight, _)| weight).sum() };
            if rest > 0.0 {
                counts[place] += 1;
                seen().for_each(|(weight, column)| sums[place][column] += weight / rest);
            }
        }
        for (row, count) in sums.iter_mut().zip(counts) {
            row.iter_mut().for_each(|weight| *weight /= count.max(1) as f32);
        }
        Map { queries, keys, weights: sums }
    }
}

/// The mean over the first axis of \[head\]\[query\]\[key\].
pub fn mean(heads: &[Matrix]) -> Matrix {
    let Some(first) = heads.first() else { return Vec::new() };
    let cell = |q: usize, k: usize| heads.iter().map(|head| head[q][k]).sum::<f32>() / heads.len() as f32;
    first.iter().enumerate().map(|(q, row)| (0..row.len()).map(|k| cell(q, k)).collect()).collect()
}

impl Inspection {
    /// One of its three kinds.
    pub fn view(&self, kind: Kind) -> View<'_> {
        let (src, tgt_in, tgt_out) = (&self.src_tokens, &self.tgt_in, &self.tgt_out);
        let (name, queries, keys, weights) = match kind {
            Kind::EncoderSelf => ("encoder_self", src, src, &self.encoder_self),
            Kind::DecoderSelf => ("decoder_self", tgt_out, tgt_in, &self.decoder_self),
            Kind::Cross => ("cross", tgt_out, src, &self.cross),
        };
        View { name, queries, keys, weights }
    }
}

impl Translator {
    /// Looks at the attention of the translation that `options` and the prefix of `line` give, or of `target`.
    pub fn inspect(&self, line: &Line, target: Option<&str>, options: &Options) -> Result<Inspection> {
        let (model, Decoded { src: src_ids, tgt_in, tgt_out: tgt_ids }) =
            self.decoded(line, target, options)?;
        let bos = model.config().special.bos;
        let trace = model.trace(Kind::ALL, (&src_ids, &[src_ids.len()]), (&tgt_in, &[tgt_in.len()]))?;
        let axis = |tokenizer: &Tokenizer, ids: &[u32]| {
            let special = tokenizer.special_ids();
            let is_mark = |id| special.contains(id) && id != special.unk || id == bos;
            Axis::new(tokenizer, ids, |id| is_mark(id) || self.direction.marks.contains(&id))
        };
        let (src_tokenizer, tgt_tokenizer) = (self.tokenizer(), self.tgt_tokenizer());
        Ok(Inspection {
            src: line.text.clone(),
            tgt: self.text(&tgt_ids)?,
            src_tokens: axis(src_tokenizer, &src_ids)?,
            tgt_in: axis(tgt_tokenizer, &tgt_in)?,
            tgt_out: axis(tgt_tokenizer, &tgt_ids)?,
            encoder_self: to_vec(&trace.encoder_self)?,
            decoder_self: to_vec(&trace.decoder_self)?,
            cross: to_vec(&trace.cross)?,
        })
    }
}

/// What is looked at: ids of a source, of what the decoder is fed and of what it has to answer.
pub(super) struct Decoded {
    pub src: Vec<u32>,
    pub tgt_in: Vec<u32>,
    pub tgt_out: Vec<u32>,
}

impl Translator {
    /// The only model, and what it is given: the translation that `options` and the prefix of `line` give, or `target`.
    pub(super) fn decoded(
        &self,
        line: &Line,
        target: Option<&str>,
        options: &Options,
    ) -> Result<(&Transformer, Decoded)> {
        let [model] = self.models() else {
            return Err(Error::Config(
                "attention is that of one model: look at the models one by one".into(),
            ));
        };
        let src = self.encode_one(&line.text)?;
        let tgt_out = match target {
            Some(target) => self.one(self.encode_target(target)?)?,
            None => {
                let prefix = self.pieces(line.prefix.as_deref().unwrap_or_default())?;
                let sentence = self.sentence(src.clone(), prefix, 0, options)?;
                self.search_sentence(&sentence, options, None)?.swap_remove(0).ids
            }
        };
        let bos = model.config().special.bos;
        let tgt_in = [bos].into_iter().chain(tgt_out.iter().copied()).take(tgt_out.len()).collect();
        Ok((model, Decoded { src, tgt_in, tgt_out }))
    }
}

/// The weights of the only sentence.
fn to_vec(layers: &[Vec<Tensor>]) -> Result<Weights> {
    layers.iter().flat_map(|sentences| sentences.first()).map(|weights| Ok(weights.to_vec3()?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(pieces: &[&str], word_of: &[usize], words: &[&str], marks: &[usize]) -> Axis {
        let owned = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect();
        let is_mark = (0..pieces.len()).map(|piece| marks.contains(&piece)).collect();
        Axis { pieces: owned(pieces), word_of: word_of.to_vec(), words: owned(words), is_mark }
    }

    fn shown(unit: Unit, marks: bool) -> Shown {
        Shown { unit, marks }
    }

    /// Source `▁a b ▁c </s>`, target `▁d e </s>`.
    #[test]
    fn words_and_rows_without_marks_by_hand() {
        let keys = axis(&["▁a", "b", "▁c", "</s>"], &[0, 0, 1, 2], &["ab", "c", "</s>"], &[3]);
        let queries = axis(&["▁d", "e", "</s>"], &[0, 0, 1], &["de", "</s>"], &[2]);
        let heads = vec![vec![
            vec![vec![0.1, 0.3, 0.4, 0.2], vec![0.0, 0.0, 0.0, 1.0], vec![0.25, 0.25, 0.0, 0.5]],
            vec![vec![0.3, 0.1, 0.4, 0.2], vec![0.0, 0.0, 0.5, 0.5], vec![0.25, 0.25, 0.0, 0.5]],
        ]];
        let view = View { name: "cross", queries: &queries, keys: &keys, weights: &heads };
        let check = |weights: &Matrix, shown: Shown, labels: [&[&str]; 2], expected: &[&[f32]]| {
            let map = view.map(weights, shown);
            assert_eq!(
                (&map.queries[..], &map.keys[..]),
                (&labels[0].map_owned()[..], &labels[1].map_owned()[..])
            );
            assert_eq!(map.weights.len(), expected.len());
            for (row, expected) in map.weights.iter().zip(expected) {
                assert_eq!(row.len(), expected.len());
                assert!(row.iter().zip(*expected).all(|(a, b)| (a - b).abs() < 1e-6), "{row:?} {expected:?}");
            }
        };
        let first = &heads[0][0];
        check(
            first,
            shown(Unit::Pieces, true),
            [&["▁d", "e", "</s>"], &["▁a", "b", "▁c", "</s>"]],
            &[&[0.1, 0.3, 0.4, 0.2], &[0.0, 0.0, 0.0, 1.0], &[0.25, 0.25, 0.0, 0.5]],
        );
        // 0.1 / 0.8, ...; the second piece looks at the end mark alone.
        check(
            first,
            shown(Unit::Pieces, false),
            [&["▁d", "e"], &["▁a", "b", "▁c"]],
            &[&[0.125, 0.375, 0.5], &[0.0, 0.0, 0.0]],
        );
        // (0.4 + 0) / 2, (0.4 + 0) / 2, (0.2 + 1) / 2
        check(
            first,
            shown(Unit::Words, true),
            [&["de", "</s>"], &["ab", "c", "</s>"]],
            &[&[0.2, 0.2, 0.6], &[0.5, 0.0, 0.5]],
        );
        // The first piece alone: the second looks at nothing that is shown.
        check(first, shown(Unit::Words, false), [&["de"], &["ab", "c"]], &[&[0.5, 0.5]]);
        // The second head: (0.5 + 0) / 2, (0.5 + 1) / 2.
        check(&heads[0][1], shown(Unit::Words, false), [&["de"], &["ab", "c"]], &[&[0.25, 0.75]]);
        let both = mean(&heads[0]);
        check(
            &both,
            shown(Unit::Pieces, true),
            [&["▁d", "e", "</s>"], &["▁a", "b", "▁c", "</s>"]],
            &[&[0.2, 0.2, 0.4, 0.2], &[0.0, 0.0, 0.25, 0.75], &[0.25, 0.25, 0.0, 0.5]],
        );
    }

    trait Owned {
        fn map_owned(&self) -> Vec<String>;
    }

    impl Owned for &[&str] {
        fn map_owned(&self) -> Vec<String> {
            self.iter().map(|text| text.to_string()).collect()
        }
    }

    /// Marks are words of their own, wherever they stand; a word says what its pieces say together.
    #[test]
    fn axes_know_words_and_marks() {
        let tokenizer = crate::bundled::MODELS[0].tokenizer().unwrap();
        let mut ids = vec![2];
        ids.extend(tokenizer.encode("I love dogs €.").unwrap());
        let axis = Axis::new(&tokenizer, &ids, |id| [2, 3].contains(&id)).unwrap();
        assert_eq!(
            axis.pieces.concat(),
            format!("<s>{}</s>", axis.pieces[1..axis.pieces.len() - 1].concat())
        );
        assert_eq!(axis.words, ["<s>", "I", "love", "dogs", "€.", "</s>"]);
        assert_eq!((axis.is_mark[0], axis.is_mark[1], axis.is_mark.last()), (true, false, Some(&true)));
        assert_eq!((axis.word_of[0], axis.word_of[1], *axis.word_of.last().unwrap()), (0, 1, 5));
        assert_eq!(serde_json::to_value(&axis).unwrap(), serde_json::json!(axis.pieces));
    }
}
