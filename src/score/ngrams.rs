//! Counting n-grams without a hash table per order: every position of a sequence becomes one 128-bit key of the next
//! few symbols, the keys are sorted once, and equal n-grams of every order are then neighbours.

use std::collections::HashMap;

/// Numbers for words, from 1; equal words get equal numbers.
#[derive(Debug, Default)]
pub(super) struct Vocabulary<'a>(HashMap<&'a str, u32>);

impl<'a> Vocabulary<'a> {
    /// The numbers of `words`.
    pub fn ids(&mut self, words: impl Iterator<Item = &'a str>) -> Vec<u32> {
        words
            .map(|word| {
                let next = self.0.len() as u32 + 1;
                *self.0.entry(word).or_insert(next)
            })
            .collect()
    }
}

/// All n-grams up to some order of one sequence of symbols. 0 is not a symbol: it fills the key behind the end.
#[derive(Debug)]
pub(super) struct Ngrams {
    /// One key per position, sorted.
    keys: Vec<u128>,
    /// Bits of a symbol in a key.
    bits: u32,
    max_order: u32,
}

impl Ngrams {
    /// Up to 4-grams of word numbers.
    pub fn of_words(ids: &[u32]) -> Ngrams {
        Ngrams::new(ids.iter().copied(), 32, 4)
    }

    /// Up to 6-grams of characters: a Unicode character plus one fits 21 bits.
    pub fn of_chars(chars: &[char]) -> Ngrams {
        Ngrams::new(chars.iter().map(|&c| u32::from(c) + 1), 21, 6)
    }

    fn new(symbols: impl DoubleEndedIterator<Item = u32>, bits: u32, max_order: u32) -> Ngrams {
        let top = bits * (max_order - 1);
        let mut key = 0;
        let mut keys: Vec<u128> = symbols
            .rev()
            .map(|symbol| {
                key = (u128::from(symbol) << top) | (key >> bits);
                key
            })
            .collect();
        keys.sort_unstable();
        Ngrams { keys, bits, max_order }
    }

    /// Number of n-grams of order `n`, repeats included.
    pub fn count(&self, n: usize) -> usize {
        (self.keys.len() + 1).saturating_sub(n)
    }

    /// The distinct n-grams of order `n` in ascending order with how often each occurs.
    fn runs(&self, n: usize) -> impl Iterator<Item = (u128, usize)> {
        let shift = self.bits * (self.max_order - n as u32);
        let last = (1u128 << self.bits) - 1;
        let mut rest = &self.keys[..];
        std::iter::from_fn(move || {
            let ngram = rest.first()? >> shift;
            let count = rest.iter().take_while(|&&key| key >> shift == ngram).count();
            rest = &rest[count..];
            Some((ngram, count))
        })
        // A key whose n-th symbol is 0 starts too near the end.
        .filter(move |(ngram, _)| ngram & last != 0)
    }

    /// How many n-grams of order `n` occur in a reference too, each counted at most as often as in the reference that
    /// has it most often (the clipped count of BLEU).
    pub fn matches(&self, references: &[Ngrams], n: usize) -> usize {
        let mut others: Vec<_> = references.iter().map(|reference| reference.runs(n).peekable()).collect();
        let mut matches = 0;
        for (ngram, count) in self.runs(n) {
            let mut most = 0;
            for other in &mut others {
                while other.next_if(|(theirs, _)| *theirs < ngram).is_some() {}
                most = most.max(other.next_if(|(theirs, _)| *theirs == ngram).map_or(0, |(_, times)| times));
            }
            matches += count.min(most);
        }
        matches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Papineni et al. 2002, section 2.1: "the the the the the the the" has two matches in "The cat is on the mat".
    #[test]
    fn matches_are_clipped() {
        let mut vocabulary = Vocabulary::default();
        let hypothesis = vocabulary.ids("the the the the the the the".split(' '));
        let reference = vocabulary.ids("the cat is on the mat".split(' '));
        let (hypothesis, reference) = (Ngrams::of_words(&hypothesis), [Ngrams::of_words(&reference)]);
        assert_eq!((hypothesis.count(1), hypothesis.matches(&reference, 1)), (7, 2));
        assert_eq!((hypothesis.count(2), hypothesis.matches(&reference, 2)), (6, 0));
    }

    /// "abab" and "babb": a 2 of 1, b 2 of 2; ab 1, ba 1; bab 1; no 4-gram.
    #[test]
    fn every_order_from_one_sort() {
        let chars = |text: &str| Ngrams::of_chars(&text.chars().collect::<Vec<_>>());
        let (hypothesis, reference) = (chars("abab"), [chars("babb")]);
        let found: Vec<_> =
            (1..=6).map(|n| (hypothesis.count(n), hypothesis.matches(&reference, n))).collect();
        assert_eq!(found, [(4, 3), (3, 2), (2, 1), (1, 0), (0, 0), (0, 0)]);
    }

    /// The most from any one reference, not their sum.
    #[test]
    fn several_references_give_the_largest_count() {
        let words = |ids: &[u32]| Ngrams::of_words(ids);
        assert_eq!(words(&[1, 1, 1]).matches(&[words(&[1]), words(&[1, 2, 1])], 1), 2);
    }
}
