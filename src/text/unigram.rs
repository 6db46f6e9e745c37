//! Learning a unigram language model (Kudo 2018, "Subword Regularization", section 3.2): from all frequent parts of
//! words, those that do least for the likelihood of the corpus are dropped until few enough are left.
//!
//! The trainer is that of the `tokenizers` crate, with what makes its result a function of the word counts alone: the
//! words come sorted, on one thread, each character is also a word of its own (the crate gives characters that it has
//! lost scores in the order of a hash map), and the result is sorted by score, then by text.
//!
//! The crate starts from parts that occur before two different characters, whatever their counts, and would miss a
//! frequent word that begins no other: the most frequent words are also given once with a blank behind them.

use super::rules::is_reserved;
use crate::{Error, Result};
use std::collections::{BTreeMap, HashSet};
use tokenizers::models::unigram::{Unigram, UnigramTrainer};

/// Longer words are cut: the crate's lattice grows with the square of their length.
const MAX_WORD: usize = 256;

/// Pieces with their log-probabilities, the most probable first: all of `alphabet`, and others until there are
/// `n_pieces`, if the words have as many. Characters outside the alphabet cut a word, so that no piece can span them.
pub(super) fn learn(
    words: &[(String, u64)],
    alphabet: &[String],
    n_pieces: usize,
) -> Result<Vec<(String, f64)>> {
    let failed = |what: String| Error::Tokenizer(format!("learning a unigram model: {what}"));
    let size = u32::try_from(n_pieces).map_err(|_| failed(format!("{n_pieces} pieces are too many")))?;
    let trainer = UnigramTrainer::builder().show_progress(false).vocab_size(size).build();
    let trainer = trainer.map_err(|e| failed(e.to_string()))?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().map_err(|e| failed(e.to_string()))?;
    let words = parts(words, alphabet, n_pieces);
    let mut model = Unigram::default();
    pool.install(|| trainer.do_train(words, &mut model)).map_err(|e| failed(e.to_string()))?;
    let mut pieces: Vec<(String, f64)> =
        model.iter().filter(|(piece, _)| !is_reserved(piece)).cloned().collect();
    pieces.sort_by(|(a, p), (b, q)| q.total_cmp(p).then_with(|| a.cmp(b)));
    // With room for nothing but the alphabet the crate does not stop.
    pieces.truncate(n_pieces);
    Ok(pieces)
}

/// The words between characters outside `alphabet`, cut at [`MAX_WORD`] characters, each character of it once, and the
/// `n` most frequent words once with a blank behind them; sorted.
fn parts(words: &[(String, u64)], alphabet: &[String], n: usize) -> Vec<(String, u32)> {
    let known: HashSet<char> = alphabet.iter().flat_map(|c| c.chars()).collect();
    let mut parts: BTreeMap<String, u32> = BTreeMap::new();
    for (word, count) in words {
        for part in word.split(|c| !known.contains(&c)) {
            let chars: Vec<char> = part.chars().collect();
            for piece in chars.chunks(MAX_WORD) {
                let sum = parts.entry(piece.iter().collect()).or_default();
                *sum = sum.saturating_add(u32::try_from(*count).unwrap_or(u32::MAX));
            }
        }
    }
    let mut frequent: Vec<(u32, String)> = parts.iter().map(|(word, &count)| (count, word.clone())).collect();
    frequent.sort_unstable_by(|(m, a), (n, b)| n.cmp(m).then_with(|| a.cmp(b)));
    let ended = frequent.into_iter().take(n).map(|(_, word)| word + "▁");
    for once in alphabet.iter().cloned().chain(ended) {
        parts.entry(once).and_modify(|count| *count = count.saturating_add(1)).or_insert(1);
    }
    scaled(parts.into_iter().collect())
}

/// The crate adds all counts in 32 bits.
fn scaled(mut parts: Vec<(String, u32)>) -> Vec<(String, u32)> {
    let total: u64 = parts.iter().map(|&(_, n)| u64::from(n)).sum();
    let by = u32::try_from(total / (1 << 31) + 1).unwrap_or(u32::MAX);
    parts.iter_mut().for_each(|(_, n)| *n = n.div_ceil(by));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learnt(words: &[(&str, u64)], n_pieces: usize) -> Vec<(String, f64)> {
        let words: Vec<(String, u64)> = words.iter().map(|(w, n)| (w.to_string(), *n)).collect();
        let alphabet: Vec<String> = ["▁", "a", "b", "c", "d"].map(String::from).to_vec();
        learn(&words, &alphabet, n_pieces).unwrap()
    }

    #[test]
    fn frequent_words_and_all_characters_are_pieces() {
        let pieces = learnt(&[("▁abcd", 50), ("▁ab", 20), ("▁dcx", 3), ("▁<unk>", 9)], 9);
        let text: HashSet<&str> = pieces.iter().map(|(piece, _)| piece.as_str()).collect();
        assert!(
            ["▁", "a", "b", "c", "d", "▁abcd", "▁ab"].iter().all(|piece| text.contains(piece)),
            "{pieces:?}"
        );
        assert!(text.len() <= 9 && pieces.is_sorted_by(|(_, p), (_, q)| p >= q), "{pieces:?}");
    }

    #[test]
    fn counts_fit_into_what_the_crate_adds_up() {
        let words = [("▁ab".to_string(), u64::MAX), ("▁cd".to_string(), 1 << 31)];
        let parts = parts(&words, &["▁", "a", "b", "c", "d"].map(String::from), 10);
        assert!(parts.iter().map(|&(_, n)| u64::from(n)).sum::<u64>() <= u64::from(u32::MAX), "{parts:?}");
    }
}
