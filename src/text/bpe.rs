//! Byte pair encoding (Sennrich, Haddow and Birch 2016): the most frequent pair of neighbouring pieces
//! becomes a new piece, again and again.
//!
//! Departs from the usual trainers: a tie goes to the pair with the smaller ids, so the result is a
//! function of the word counts alone; a pair seen once is not worth a piece; and no merge spells a
//! reserved piece, so a corpus full of `</s>` cannot turn typed text into end marks.

use super::rules::is_reserved;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// A pair must occur this often to become a piece.
const MIN_COUNT: u64 = 2;

type Pair = (u32, u32);

/// What was learnt: all pieces (the alphabet first) and the merges in the order of their rank.
pub(super) struct Learnt {
    pub pieces: Vec<String>,
    pub merges: Vec<(String, String)>,
}

/// Learns merges from counted `words` until there are `n_pieces` pieces or no pair is left.
pub(super) fn learn(words: &[(String, u64)], alphabet: Vec<String>, n_pieces: usize) -> Learnt {
    let mut ids: HashMap<String, u32> = (0..).zip(&alphabet).map(|(id, c)| (c.clone(), id)).collect();
    let mut pieces = alphabet;
    let mut merges = vec![];
    let mut corpus = Corpus::new(words, &ids);
    while pieces.len() < n_pieces
        && let Some(pair) = corpus.most_frequent()
    {
        let (left, right) = (&pieces[pair.0 as usize], &pieces[pair.1 as usize]);
        let piece = format!("{left}{right}");
        if is_reserved(&piece) {
            continue;
        }
        merges.push((left.clone(), right.clone()));
        let id = *ids.entry(piece).or_insert_with_key(|piece| {
            // Two ways to spell one piece are two merges to one id.
            pieces.push(piece.clone());
            pieces.len() as u32 - 1
        });
        corpus.merge(pair, id);
    }
    Learnt { pieces, merges }
}

/// The words as pieces, and for each pair of neighbours how often and in which words it occurs.
struct Corpus {
    words: Vec<(Vec<u32>, u64)>,
    pairs: HashMap<Pair, Occurrences>,
    /// Counts at the time of pushing. A pair that became rarer since is put back when it comes up.
    queue: BinaryHeap<(u64, Reverse<Pair>)>,
}

#[derive(Default)]
struct Occurrences {
    count: u64,
    /// Indices of words; some may be listed twice or hold the pair no more.
    words: Vec<u32>,
}

impl Corpus {
    /// Characters outside the alphabet cut a word: no piece can span them.
    fn new(words: &[(String, u64)], ids: &HashMap<String, u32>) -> Self {
        let mut corpus = Corpus { words: vec![], pairs: HashMap::new(), queue: BinaryHeap::new() };
        for (word, count) in words {
            let known: Vec<Option<u32>> =
                word.chars().map(|c| ids.get(c.encode_utf8(&mut [0; 4]) as &str).copied()).collect();
            for part in known.split(|id| id.is_none()).filter(|part| part.len() > 1) {
                corpus.words.push((part.iter().flatten().copied().collect(), *count));
            }
        }
        for index in 0..corpus.words.len() {
            let (word, count) = std::mem::take(&mut corpus.words[index]);
            corpus.add(&word, count, index as u32);
            corpus.words[index] = (word, count);
        }
        corpus.queue = corpus.pairs.iter().map(|(&pair, seen)| (seen.count, Reverse(pair))).collect();
        corpus
    }

    /// Takes the most frequent pair out of the queue.
    fn most_frequent(&mut self) -> Option<Pair> {
        while let Some((count, Reverse(pair))) = self.queue.pop() {
            let now = self.pairs.get(&pair).map_or(0, |seen| seen.count);
            if now == count && count >= MIN_COUNT {
                return Some(pair);
            }
            if now < count && now >= MIN_COUNT {
                self.queue.push((now, Reverse(pair)));
            }
        }
        None
    }

    /// Puts the piece `id` in place of every `pair`, leftmost first.
    fn merge(&mut self, pair: Pair, id: u32) {
        let mut found =
            self.pairs.get_mut(&pair).map(|seen| std::mem::take(&mut seen.words)).unwrap_or_default();
        found.sort_unstable();
        found.dedup();
        let mut changed = vec![];
        for index in found {
            let (old, count) = std::mem::take(&mut self.words[index as usize]);
            let new = replace(&old, pair, id);
            // Only neighbours of what changed are counted anew.
            let start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
            let room = new.len() - start;
            let end = old.iter().rev().zip(new.iter().rev()).take(room).take_while(|(a, b)| a == b).count();
            let near = |word: &[u32]| (start.saturating_sub(1), (word.len() - end + 1).min(word.len()));
            let (from, to) = near(&old);
            self.remove(&old[from..to], count);
            let (from, to) = near(&new);
            self.add(&new[from..to], count, index);
            changed.extend(new[from..to].windows(2).map(|w| (w[0], w[1])));
            self.words[index as usize] = (new, count);
        }
        changed.sort_unstable();
        changed.dedup();
        self.queue.extend(changed.into_iter().map(|pair| (self.pairs[&pair].count, Reverse(pair))));
    }

    fn add(&mut self, word: &[u32], count: u64, index: u32) {
        for w in word.windows(2) {
            let seen = self.pairs.entry((w[0], w[1])).or_default();
            seen.count += count;
            if seen.words.last() != Some(&index) {
                seen.words.push(index);
            }
        }
    }

    fn remove(&mut self, word: &[u32], count: u64) {
        for w in word.windows(2) {
            if let Some(seen) = self.pairs.get_mut(&(w[0], w[1])) {
                seen.count -= count;
            }
        }
    }
}

/// `word` with `id` in place of every `pair`, leftmost first.
fn replace(word: &[u32], pair: Pair, id: u32) -> Vec<u32> {
    let mut new = Vec::with_capacity(word.len());
    let mut i = 0;
    while i < word.len() {
        let here = i + 1 < word.len() && (word[i], word[i + 1]) == pair;
        new.push(if here { id } else { word[i] });
        i += if here { 2 } else { 1 };
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learnt(words: &[(&str, u64)], n_pieces: usize) -> Learnt {
        let words: Vec<(String, u64)> = words.iter().map(|(w, n)| (w.to_string(), *n)).collect();
        let mut alphabet: Vec<String> =
            words.iter().flat_map(|(w, _)| w.chars()).map(|c| c.to_string()).collect();
        alphabet.sort();
        alphabet.dedup();
        learn(&words, alphabet, n_pieces)
    }

    fn joined(merges: &[(String, String)]) -> Vec<String> {
        merges.iter().map(|(a, b)| format!("{a} {b}")).collect()
    }

    /// The example of the paper (its section 3.2), the end of word written `·`. Worked out by hand:
    /// e+s 9, then es+t and t+· 9 each (t and · are the older pieces), es+t· 9, l+o 7, lo+w 7, then
    /// e+w 6, n+ew 6, new+est· 6, low+· 5.
    #[test]
    fn the_example_of_the_paper() {
        let words = [("low·", 5), ("lower·", 2), ("newest·", 6), ("widest·", 3)];
        let learnt = learnt(&words, 11 + 9);
        assert_eq!(
            joined(&learnt.merges),
            ["e s", "t ·", "es t·", "l o", "lo w", "e w", "n ew", "new est·", "low ·"]
        );
        assert_eq!(learnt.pieces.len(), 20);
        assert_eq!(learnt.pieces[11], "es");
    }

    /// aaaa holds a+a three times by neighbours, but is merged twice; then aa+aa.
    #[test]
    fn overlapping_pairs_are_merged_from_the_left() {
        assert_eq!(replace(&[7, 7, 7, 7, 7], (7, 7), 9), [9, 9, 7]);
        let learnt = learnt(&[("aaaa", 2), ("aaab", 1)], 100);
        // a+a 8; then aa+aa 2 against aa+a 1 and a+b 1.
        assert_eq!(joined(&learnt.merges), ["a a", "aa aa"]);
    }

    #[test]
    fn a_pair_seen_once_is_no_piece() {
        assert!(learnt(&[("abcd", 1), ("efgh", 1)], 100).merges.is_empty());
    }

    #[test]
    fn no_merge_spells_a_reserved_piece() {
        let learnt = learnt(&[("</s>", 90), ("x</s>", 9), ("<0x41>", 50), ("<unk>", 70)], 1000);
        assert!(learnt.merges.len() > 10);
        assert!(learnt.merges.iter().all(|(a, b)| !is_reserved(&format!("{a}{b}"))), "{:?}", learnt.merges);
    }

    /// The bookkeeping of counts against counting everything anew at every step.
    #[test]
    fn equals_the_naive_algorithm() {
        let mut rng = crate::rng::Rng::new(1, "bpe");
        let words: Vec<(String, u64)> = (0..60)
            .map(|_| {
                let word = (0..1 + rng.below(9)).map(|_| ['a', 'b', 'c'][rng.below(3)]).collect();
                (word, 1 + rng.below(3) as u64)
            })
            .collect();
        let alphabet = ["a", "b", "c"].map(String::from).to_vec();
        let learnt = learn(&words, alphabet.clone(), 45);
        let mut pieces = alphabet;
        let mut split: Vec<Vec<u32>> =
            words.iter().map(|(w, _)| w.bytes().map(|b| u32::from(b - b'a')).collect()).collect();
        for (left, right) in &learnt.merges {
            let mut counts: HashMap<Pair, u64> = HashMap::new();
            for (word, (_, n)) in split.iter().zip(&words) {
                word.windows(2).for_each(|w| *counts.entry((w[0], w[1])).or_default() += n);
            }
            let best = counts.into_iter().map(|(pair, n)| (n, Reverse(pair))).max();
            let (_, Reverse(pair)) = best.unwrap();
            assert_eq!((&pieces[pair.0 as usize], &pieces[pair.1 as usize]), (left, right));
            let piece = format!("{left}{right}");
            let id = pieces.iter().position(|p| *p == piece).unwrap_or_else(|| {
                pieces.push(piece);
                pieces.len() - 1
            });
            split.iter_mut().for_each(|word| *word = replace(word, pair, id as u32));
        }
        assert_eq!(pieces, learnt.pieces);
        assert_eq!(pieces.len(), 45);
    }
}
