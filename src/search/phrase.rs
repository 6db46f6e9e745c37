//! Phrases, found in what tokens spell: whether a text says them does not depend on how it is cut into tokens.
//!
//! A phrase that begins with a letter or digit is found only where a word begins. It is looked for byte by byte
//! (Knuth, Morris and Pratt 1977), so of what was said only the longest beginning of the phrase that it ends with is kept.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

/// A byte, and whether it is part of a word.
type Letter = (u8, bool);

/// What every token of a vocabulary spells.
#[derive(Debug, PartialEq, Eq)]
pub struct Spelling {
    tokens: Vec<Box<[Letter]>>,
    /// All that one token spells.
    known: HashSet<Box<[u8]>>,
}

/// The letters of a text; `is_word` says which characters make words.
pub fn letters(text: &str, is_word: impl Fn(char) -> bool) -> Vec<Letter> {
    let of = |c: char| {
        let inside = is_word(c);
        c.to_string().into_bytes().into_iter().map(move |byte| (byte, inside))
    };
    text.chars().flat_map(of).collect()
}

impl Spelling {
    /// Of tokens with these letters, by id.
    pub fn new(tokens: impl IntoIterator<Item = Vec<Letter>>) -> Self {
        let tokens: Vec<Box<[Letter]>> = tokens.into_iter().map(Vec::into_boxed_slice).collect();
        let bytes = |token: &[Letter]| token.iter().map(|letter| letter.0).collect();
        let known = tokens.iter().map(|token| bytes(token)).collect();
        Spelling { tokens, known }
    }

    fn of(&self, token: u32) -> &[Letter] {
        self.tokens.get(token as usize).map_or(&[], |letters| letters)
    }
}

/// How much of a phrase there is at the end of a text, or whether the text has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Seen {
    /// Letters of the phrase; all of them if the text has it.
    letters: u16,
    /// Whether a word goes on.
    in_word: bool,
}

/// A phrase to look for in hypotheses.
#[derive(Debug, Clone)]
pub struct Phrase {
    letters: Arc<[Letter]>,
    /// Of every beginning, the longest shorter beginning that it ends with.
    fallback: Arc<[usize]>,
    /// Of every letter, the fewest tokens that spell what begins with it, if there are any.
    fewest: Arc<[Option<usize>]>,
    spelling: Arc<Spelling>,
    /// Tokens that spell it when nothing of it is there.
    tokens: Vec<u32>,
    /// By what was seen: tokens that bring more of it, and those that end with it or with it as whole words.
    found: Arc<Mutex<HashMap<Seen, Arc<Next>>>>,
}

/// What tokens do after something was seen.
#[derive(Debug, Default)]
pub(super) struct Next {
    /// These bring it further by a token or more.
    pub further: Vec<u32>,
    /// After these it is there as whole words, as far as they say.
    pub complete: Vec<u32>,
}

impl PartialEq for Phrase {
    fn eq(&self, other: &Self) -> bool {
        self.letters == other.letters && self.tokens == other.tokens
    }
}

impl Phrase {
    /// Letters that are kept of a phrase at most.
    pub const MOST: usize = u16::MAX as usize;

    /// The phrase of these letters, which `tokens` spell (with a blank before it, perhaps).
    pub fn new(mut letters: Vec<Letter>, tokens: Vec<u32>, spelling: Arc<Spelling>) -> Self {
        letters.truncate(Self::MOST);
        let mut fallback = vec![0; letters.len()];
        for at in 1..letters.len() {
            let mut shorter = fallback[at - 1];
            while shorter > 0 && letters[shorter].0 != letters[at].0 {
                shorter = fallback[shorter - 1];
            }
            fallback[at] = shorter + usize::from(letters[shorter].0 == letters[at].0);
        }
        let bytes: Vec<u8> = letters.iter().map(|letter| letter.0).collect();
        let mut fewest = vec![None; bytes.len() + 1];
        fewest[bytes.len()] = Some(0);
        for start in (0..bytes.len()).rev() {
            let mut ends =
                (start + 1..=bytes.len()).filter(|&end| spelling.known.contains(&bytes[start..end]));
            let best = ends.by_ref().filter_map(|end| fewest[end]).min();
            fewest[start] = best.map(|count: usize| count + 1);
        }
        Phrase {
            letters: letters.into(),
            fallback: fallback.into(),
            fewest: fewest.into(),
            spelling,
            tokens,
            found: Arc::default(),
        }
    }

    /// Before the first token.
    pub(super) const START: Seen = Seen { letters: 0, in_word: false };

    /// The tokens that spell it.
    pub(super) fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Whether there is nothing of it.
    pub fn is_empty(&self) -> bool {
        self.letters.is_empty()
    }

    /// Whether all of it was seen.
    pub(super) fn is_said(&self, seen: Seen) -> bool {
        usize::from(seen.letters) == self.letters.len()
    }

    /// Whether a match may begin at letter `at` of the phrase.
    fn may_begin(&self, at: usize) -> bool {
        at == 0 || !(self.letters[at - 1].1 && self.letters[0].1)
    }

    /// What is seen after one more letter.
    fn after_letter(&self, seen: Seen, (byte, in_word): Letter) -> Seen {
        let mut met = usize::from(seen.letters);
        loop {
            let begins = met > 0 || !(seen.in_word && self.letters[0].1);
            if begins && self.letters[met].0 == byte {
                met += 1;
                break;
            }
            if met == 0 {
                break;
            }
            // The next shorter beginning that stands where a word begins.
            let mut shorter = self.fallback[met - 1];
            while shorter > 0 && !self.may_begin(met - shorter) {
                shorter = self.fallback[shorter - 1];
            }
            met = shorter;
        }
        Seen { letters: met as u16, in_word }
    }

    /// What is seen after `token`; what was said stays said.
    pub(super) fn after(&self, mut seen: Seen, token: u32) -> Seen {
        for &letter in self.spelling.of(token) {
            if self.is_said(seen) {
                return seen;
            }
            seen = self.after_letter(seen, letter);
        }
        seen
    }

    /// [`Phrase::after`] of a phrase that may be said more than once: what was said is looked for again.
    pub(super) fn after_all(&self, mut seen: Seen, token: u32) -> Seen {
        for &letter in self.spelling.of(token) {
            if self.is_said(seen) {
                seen.letters = 0;
            }
            seen = self.after_letter(seen, letter);
        }
        if self.is_said(seen) {
            seen.letters = 0;
        }
        seen
    }

    /// Whether `token` ends the phrase, and the word that it ends with too.
    fn completes(&self, mut seen: Seen, token: u32) -> bool {
        let letters = self.spelling.of(token);
        for (at, &letter) in letters.iter().enumerate() {
            if self.is_said(seen) {
                seen.letters = 0;
            }
            seen = self.after_letter(seen, letter);
            if self.is_said(seen) && !(letter.1 && letters.get(at + 1).is_some_and(|next| next.1)) {
                return true;
            }
        }
        false
    }

    /// Tokens of its own that are there: with `seen` of it, so many need not be said again.
    pub(super) fn tokens_seen(&self, seen: Seen) -> usize {
        if self.is_said(seen) {
            return self.tokens.len();
        }
        let (mut so_far, mut count) = (Self::START, 0);
        for &token in &self.tokens {
            so_far = self.after(so_far, token);
            if so_far.letters > seen.letters {
                break;
            }
            count += 1;
        }
        // A blank of its own before it is no part of it.
        if seen.letters == 0 { 0 } else { count }
    }

    /// Tokens that certainly say the rest: by its own letters from where it is, or all of it again.
    pub(super) fn missing(&self, seen: Seen) -> usize {
        if self.is_said(seen) {
            return 0;
        }
        let from = usize::from(seen.letters);
        if from == 0 && seen.in_word && self.letters[0].1 {
            return self.tokens.len();
        }
        self.fewest[from].map_or(self.tokens.len(), |count| count.min(self.tokens.len()))
    }

    /// What tokens do after `seen`.
    pub(super) fn next(&self, seen: Seen) -> Arc<Next> {
        // A panic elsewhere leaves the table whole: entries are added complete.
        let mut found = self.found.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        found.entry(seen).or_insert_with(|| Arc::new(self.look(seen))).clone()
    }

    fn look(&self, seen: Seen) -> Next {
        let mut next = Next::default();
        let missing = self.missing(seen);
        for token in 0..self.spelling.tokens.len() as u32 {
            let after = self.after(seen, token);
            if self.missing(after) < missing {
                next.further.push(token);
            }
            if self.completes(seen, token) {
                next.complete.push(token);
            }
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens as the pieces of a vocabulary spell them, a blank for `▁`.
    const TOKENS: [&str; 9] = [" dich", " dich.", " d", "ich", "!", " mich", " ", "dich", " dichter"];

    fn phrase(text: &str, tokens: &[u32]) -> Phrase {
        let spelt = |text: &str| letters(text, char::is_alphanumeric);
        Phrase::new(spelt(text), tokens.to_vec(), Arc::new(Spelling::new(TOKENS.map(spelt))))
    }

    fn seen(phrase: &Phrase, tokens: &[u32]) -> Seen {
        tokens.iter().fold(Phrase::START, |seen, &token| phrase.after(seen, token))
    }

    #[test]
    fn a_phrase_is_found_however_it_is_cut() {
        let dich = phrase("dich", &[0]);
        for tokens in [&[0][..], &[1], &[2, 3], &[5, 1], &[6, 7], &[4, 7], &[8], &[5, 2, 3, 4]] {
            assert!(dich.is_said(seen(&dich, tokens)), "{tokens:?}");
        }
        // Within a word it is not the phrase: michdich, ddich.
        for tokens in [&[5, 7][..], &[2, 7], &[2, 4, 3], &[6]] {
            assert!(!dich.is_said(seen(&dich, tokens)), "{tokens:?}");
        }
    }

    /// As whole words: not in dichter, whose letters go on, and which a search that may not say it can still say.
    #[test]
    fn whole_words_are_complete() {
        let dich = phrase("dich", &[0]);
        assert_eq!(dich.next(Phrase::START).complete, [0, 1, 7]);
        assert_eq!(dich.next(seen(&dich, &[2])).complete, [0, 1, 3]);
        assert_eq!(dich.next(seen(&dich, &[5])).complete, [0, 1]);
    }

    #[test]
    fn what_is_missing_by_hand() {
        let dich = phrase("dich", &[0]);
        assert_eq!(
            [&[][..], &[2], &[5], &[6], &[0]].map(|said| dich.missing(seen(&dich, said))),
            [1, 1, 1, 1, 0]
        );
        let two = phrase("dich!", &[0, 4]);
        assert_eq!([&[][..], &[0], &[2], &[5]].map(|said| two.missing(seen(&two, said))), [2, 1, 2, 2]);
        assert_eq!(
            [&[][..], &[0], &[2], &[0, 4]].map(|said| two.tokens_seen(seen(&two, said))),
            [0, 1, 0, 2]
        );
        assert_eq!(two.next(seen(&two, &[2])).further, [0, 3]);
    }

    /// Where the blank is a token of its own, it is the first step from within a word.
    #[test]
    fn a_blank_may_be_a_step() {
        let spelling =
            Arc::new(Spelling::new([" ", "d", "a"].map(|text| letters(text, char::is_alphanumeric))));
        let phrase = Phrase::new(letters("da", char::is_alphanumeric), vec![0, 1, 2], spelling);
        let inside = seen(&phrase, &[2]);
        assert_eq!((phrase.missing(inside), phrase.missing(Phrase::START)), (3, 2));
        assert_eq!(phrase.next(inside).further, [0]);
        assert_eq!(phrase.next(Phrase::START).further, [1]);
    }

    /// In "da dada" the beginning "da da" of "da da!" goes on after its first word.
    #[test]
    fn beginnings_that_overlap_go_on() {
        let spelling = Arc::new(Spelling::new([" da", "!"].map(|text| letters(text, char::is_alphanumeric))));
        let phrase = Phrase::new(letters("da da!", char::is_alphanumeric), vec![0, 0, 1], spelling);
        assert!(phrase.is_said(seen(&phrase, &[0, 0, 0, 1])));
        assert!(!phrase.is_said(seen(&phrase, &[0, 1, 0, 1])));
    }
}
