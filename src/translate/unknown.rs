//! Translations with unknown pieces in them, where the model may say these.

use super::alignment::{Alignment, largest};
use crate::error::Result;
use crate::text::Tokenizer;

/// What becomes of the unknown piece in translations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUnk {
    /// The model may say it; in the text it is `⁇`.
    Keep,
    /// The model may say it; in the text stands what the alignment says it is the translation of.
    Copy,
    /// The model may not say it.
    Ban,
}

/// What stands in a text for a piece that is unknown.
pub const MARK: &str = "⁇";

/// The text of `ids` with `mark(i)` for the unknown piece at place i.
pub fn spell(tokenizer: &Tokenizer, ids: &[u32], mark: impl Fn(usize) -> String) -> Result<String> {
    let unk = tokenizer.special_ids().unk;
    // A vocabulary that has the blank as a piece of its own says it before an unknown piece; where it has not, the unknown piece
    // is a word with its blank.
    let has_blank = tokenizer.id("▁").is_some();
    let (mut text, mut place) = (String::new(), 0);
    for (index, run) in ids.split(|&id| id == unk).enumerate() {
        if index > 0 {
            if !has_blank && !text.is_empty() {
                text.push(' ');
            }
            text.push_str(&mark(place - 1));
        }
        let starts_word = |id: &u32| tokenizer.piece(*id).starts_with('▁');
        if index > 0 && run.first().is_some_and(starts_word) {
            text.push(' ');
        }
        let (run_text, last) = (tokenizer.decode(run)?, run.last());
        text.push_str(run_text.trim());
        let is_last = place + run.len() == ids.len();
        if !is_last
            && !text.is_empty()
            && !text.ends_with(' ')
            && last.is_some_and(|&id| tokenizer.piece(id) == "▁")
        {
            text.push(' ');
        }
        place += run.len() + 1;
    }
    Ok(text)
}

/// What the unknown piece at place `tgt` of a translation is the translation of: the text under the source piece that it is linked
/// to if this is unknown too, else under the word around it. `surfaces` are the texts under the source pieces, `words` the numbers
/// of their words.
pub(super) fn copied(
    pieces: &Alignment,
    tgt: usize,
    src: &[u32],
    unk: u32,
    surfaces: &[String],
    words: &[usize],
) -> String {
    let linked = pieces.weights.get(tgt).and_then(|row| largest(row));
    let Some(place) = linked.filter(|&place| place < surfaces.len() && place < words.len()) else {
        return MARK.to_string();
    };
    let text = if src.get(place) == Some(&unk) {
        surfaces[place].clone()
    } else {
        let of_word = surfaces.iter().zip(words).filter(|(_, word)| **word == words[place]);
        of_word.map(|(surface, _)| surface.as_str()).collect()
    };
    let text = text.trim();
    if text.is_empty() { MARK.to_string() } else { text.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Kind;

    /// Pieces `names` of a vocabulary of single letters, in which <unk> is what it lacks.
    fn ids(tokenizer: &Tokenizer, names: &[&str]) -> Vec<u32> {
        let id = |name: &&str| tokenizer.id(name).unwrap_or(tokenizer.special_ids().unk);
        names.iter().map(id).collect()
    }

    #[test]
    fn blanks_stand_where_the_pieces_say() {
        let letters = Tokenizer::train(Kind::Char, &["ab ba"], 20, false).unwrap();
        let spelt = |names: &[&str]| spell(&letters, &ids(&letters, names), |i| format!("<{i}>")).unwrap();
        assert_eq!(spelt(&["▁", "a", "?", "b"]), "a<2>b");
        assert_eq!(spelt(&["▁", "a", "▁", "?", "▁", "b", "?"]), "a <3> b<6>");
        assert_eq!(spelt(&["▁", "?", "?", "▁", "?"]), "<1><2> <4>");
        assert_eq!(spelt(&["?"]), "<0>");
        let words = Tokenizer::train(Kind::Word, &["ab ba"], 20, false).unwrap();
        let spelt = |names: &[&str]| spell(&words, &ids(&words, names), |i| format!("<{i}>")).unwrap();
        assert_eq!(spelt(&["▁ab", "?", "▁ba"]), "ab <1> ba");
    }

    /// The unknown piece is linked to an unknown one of the source, to part of a word, to nothing.
    #[test]
    fn copies_are_of_what_is_linked() {
        let row = |place: usize| (0..4).map(|i| f32::from(u8::from(i == place))).collect::<Vec<_>>();
        let pieces = Alignment::new(vec![row(3), row(1), row(9)], 4);
        let surfaces = ["Zü", "rich", " is", " λ"].map(String::from);
        let copy = |tgt| copied(&pieces, tgt, &[5, 6, 7, 1], 1, &surfaces, &[0, 0, 1, 2]);
        assert_eq!([copy(0), copy(1), copy(2), copy(7)], ["λ", "Zürich", MARK, MARK]);
    }
}
