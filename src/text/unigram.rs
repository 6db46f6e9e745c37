//! Learning a unigram language model (Kudo 2018, "Subword Regularization", section 3.2): from all frequent parts of
//! words, those that do least for the likelihood of the corpus are dropped until few enough are left.
//!
//! Not the trainer of the `tokenizers` crate: its result depends on the order of hash maps, and it begins with parts
//! counted once per different word, so that frequent short words (Japanese `▁は`) are dropped before their turn. Here all
//! counts are those of the corpus, and the result is a function of the word counts alone.

use super::rules::is_reserved;
use rayon::prelude::*;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Characters of a piece at most.
const MAX_PIECE: usize = 16;

/// Characters of the words that are looked at; the most frequent words come first, and rarer ones would change little.
const MAX_CHARS: usize = 2_000_000;

/// Parts of words that learning starts from, for each piece that is to be left.
const SEEDS: usize = 20;

/// A round keeps this share of the pieces.
const KEPT: f64 = 0.75;

/// Parts of the corpus that are summed apart.
const PARTS: usize = 16;

/// A piece that is expected less often in the corpus is dropped.
const MIN_EXPECTED: f64 = 0.5;

/// Pieces with log-probabilities.
type Pieces = Vec<(String, f64)>;

/// A word and how often it occurs.
type Word = (String, f64);

/// Pieces with their log-probabilities, the most probable first: all of `alphabet`, and others until there are
/// `n_pieces`, if the words have as many. Characters outside the alphabet cut a word, so that no piece can span them.
pub(super) fn learn(words: &[(String, u64)], alphabet: &[String], n_pieces: usize) -> Pieces {
    let words = parts(words, alphabet);
    let mut pieces = seeds(&words, alphabet, SEEDS * n_pieces);
    let nearly = (n_pieces * 11 / 10).max(alphabet.len());
    loop {
        for _ in 0..2 {
            pieces = maximise(&pieces, &expect(&Lattice::new(&pieces), &words));
        }
        if pieces.len() <= nearly {
            break;
        }
        let kept = nearly.max((pieces.len() as f64 * KEPT) as usize);
        pieces = prune(&pieces, &words, kept);
    }
    // Single characters stay, whatever their probability.
    pieces.sort_by(|(a, p), (b, q)| {
        is_single(b).cmp(&is_single(a)).then(q.total_cmp(p)).then_with(|| a.cmp(b))
    });
    pieces.truncate(n_pieces);
    pieces.sort_by(|(a, p), (b, q)| q.total_cmp(p).then_with(|| a.cmp(b)));
    pieces
}

fn is_single(piece: &str) -> bool {
    piece.chars().nth(1).is_none()
}

/// The words between characters outside `alphabet`, sorted; the most frequent of them if there are too many.
fn parts(words: &[(String, u64)], alphabet: &[String]) -> Vec<Word> {
    let known: HashSet<char> = alphabet.iter().flat_map(|c| c.chars()).collect();
    let mut parts: BTreeMap<&str, f64> = BTreeMap::new();
    for (word, count) in words {
        for part in word.split(|c| !known.contains(&c)).filter(|part| !part.is_empty()) {
            *parts.entry(part).or_default() += *count as f64;
        }
    }
    let mut parts: Vec<Word> = parts.into_iter().map(|(part, count)| (part.to_string(), count)).collect();
    parts.sort_by(|(_, m), (_, n)| n.total_cmp(m));
    let mut chars = 0;
    let many = |(word, _): &Word| {
        chars += word.chars().count();
        chars > MAX_CHARS
    };
    let enough = parts.iter().position(many).unwrap_or(parts.len()).max(1);
    parts.truncate(enough);
    parts.sort_by(|(a, _), (b, _)| a.cmp(b));
    parts
}

/// All single characters and the `n` parts that cover most of the text, with probabilities in proportion.
fn seeds(words: &[Word], alphabet: &[String], n: usize) -> Pieces {
    let mut covers: Vec<(f64, &str)> = vec![];
    let mut chars: HashMap<&str, f64> = HashMap::new();
    let mut shorter: HashMap<&str, f64> = HashMap::new();
    for length in 1..=MAX_PIECE {
        let mut counts: HashMap<&str, f64> = HashMap::new();
        for (word, count) in words {
            let ends: Vec<usize> = word.char_indices().map(|(at, _)| at).chain([word.len()]).collect();
            for window in ends.windows(length + 1) {
                let (from, before, to) = (window[0], window[length - 1], window[length]);
                // What occurs once is no piece, and neither is what is longer.
                if length == 1 || length == 2 || shorter.contains_key(&word[from..before]) {
                    *counts.entry(&word[from..to]).or_default() += count;
                }
            }
        }
        if length == 1 {
            chars = counts;
            continue;
        }
        counts.retain(|_, count| *count >= 2.0);
        let plain = counts.iter().filter(|(part, _)| !is_reserved(part));
        covers.extend(plain.map(|(part, count)| (count * length as f64, *part)));
        shorter = counts;
    }
    covers.sort_by(|(m, a), (n, b)| n.total_cmp(m).then_with(|| a.cmp(b)));
    let singles =
        alphabet.iter().map(|c| (c.as_str(), chars.get(c.as_str()).copied().unwrap_or(MIN_EXPECTED)));
    let all: Vec<(&str, f64)> =
        singles.chain(covers.into_iter().take(n).map(|(cover, part)| (part, cover))).collect();
    let total: f64 = all.iter().map(|(_, cover)| cover).sum();
    all.into_iter().map(|(part, cover)| (part.to_string(), (cover / total).ln())).collect()
}

/// The pieces by their text.
struct Lattice<'a> {
    ids: HashMap<&'a str, usize>,
    log_probs: Vec<f64>,
}

/// A piece in a word: where it starts and ends, in characters, and which it is.
#[derive(Clone, Copy)]
struct Edge {
    from: usize,
    to: usize,
    id: usize,
}

impl<'a> Lattice<'a> {
    fn new(pieces: &'a Pieces) -> Self {
        Lattice {
            ids: pieces.iter().enumerate().map(|(id, (piece, _))| (piece.as_str(), id)).collect(),
            log_probs: pieces.iter().map(|(_, log_prob)| *log_prob).collect(),
        }
    }

    /// All pieces in `word`, by where they start, and its number of characters.
    fn edges(&self, word: &str) -> (Vec<Edge>, usize) {
        let ends: Vec<usize> = word.char_indices().map(|(at, _)| at).chain([word.len()]).collect();
        let n = ends.len() - 1;
        let mut edges = vec![];
        for from in 0..n {
            for to in from + 1..=n.min(from + MAX_PIECE) {
                if let Some(&id) = self.ids.get(&word[ends[from]..ends[to]]) {
                    edges.push(Edge { from, to, id });
                }
            }
        }
        (edges, n)
    }

    /// The ids of the most probable way to cut `word`; not into `without` alone.
    fn best(&self, word: &str, without: Option<usize>) -> Vec<usize> {
        let (edges, n) = self.edges(word);
        let mut best = vec![(f64::NEG_INFINITY, None); n + 1];
        best[0].0 = 0.0;
        for edge in edges.iter().filter(|edge| Some(edge.id) != without) {
            let score = best[edge.from].0 + self.log_probs[edge.id];
            if score > best[edge.to].0 {
                best[edge.to] = (score, Some(*edge));
            }
        }
        let (mut ids, mut at) = (vec![], n);
        while let Some(edge) = best[at].1 {
            ids.push(edge.id);
            at = edge.from;
        }
        ids
    }
}

/// The sum over all words of what `add` adds for each, on all threads; parts of a fixed number are summed in order, so that
/// the bits do not depend on the threads.
fn over_words(words: &[Word], n: usize, add: impl Fn(&Word, &mut [f64]) + Sync) -> Vec<f64> {
    let of_part = |part: &[Word]| {
        let mut sums = vec![0.0; n];
        part.iter().for_each(|word| add(word, &mut sums));
        sums
    };
    let parts: Vec<Vec<f64>> = words.par_chunks(words.len().div_ceil(PARTS).max(1)).map(of_part).collect();
    let mut sums = vec![0.0; n];
    for part in parts {
        sums.iter_mut().zip(part).for_each(|(sum, more)| *sum += more);
    }
    sums
}

/// How often each piece is expected in the corpus, over all ways to cut it (the E step).
fn expect(lattice: &Lattice, words: &[Word]) -> Vec<f64> {
    over_words(words, lattice.log_probs.len(), |(word, count), expected| {
        let (edges, n) = lattice.edges(word);
        let (mut before, mut after) = (vec![f64::NEG_INFINITY; n + 1], vec![f64::NEG_INFINITY; n + 1]);
        (before[0], after[n]) = (0.0, 0.0);
        for Edge { from, to, id } in edges.iter().copied() {
            before[to] = log_sum(before[to], before[from] + lattice.log_probs[id]);
        }
        for Edge { from, to, id } in edges.iter().rev().copied() {
            after[from] = log_sum(after[from], after[to] + lattice.log_probs[id]);
        }
        for Edge { from, to, id } in edges {
            expected[id] += count * (before[from] + lattice.log_probs[id] + after[to] - before[n]).exp();
        }
    })
}

/// ln(eᵃ + eᵇ).
fn log_sum(a: f64, b: f64) -> f64 {
    let (small, large) = if a < b { (a, b) } else { (b, a) };
    if small == f64::NEG_INFINITY { large } else { large + (small - large).exp().ln_1p() }
}

/// Probabilities from expected counts, through the digamma function, which makes rare pieces rarer (the M step, as
/// SentencePiece does it).
fn maximise(pieces: &Pieces, expected: &[f64]) -> Pieces {
    let counted =
        pieces.iter().zip(expected).filter(|((piece, _), n)| is_single(piece) || **n >= MIN_EXPECTED);
    let counted: Vec<(&str, f64)> =
        counted.map(|((piece, _), n)| (piece.as_str(), n.max(MIN_EXPECTED))).collect();
    let total = digamma(counted.iter().map(|(_, n)| n).sum());
    counted.into_iter().map(|(piece, n)| (piece.to_string(), digamma(n) - total)).collect()
}

/// The derivative of ln Γ, by recurrence up to 7 and its asymptotic series.
fn digamma(mut x: f64) -> f64 {
    let mut sum = 0.0;
    while x < 7.0 {
        sum -= x.recip();
        x += 1.0;
    }
    let square = (x * x).recip();
    sum + x.ln() - 0.5 / x - square * (1.0 / 12.0 - square * (1.0 / 120.0 - square / 252.0))
}

/// The single characters and those others, `kept` in all, without which the likelihood would fall most. What becomes of a
/// piece that is dropped: it is cut in the next best way.
fn prune(pieces: &Pieces, words: &[Word], kept: usize) -> Pieces {
    let lattice = Lattice::new(pieces);
    let found = over_words(words, pieces.len(), |(word, count), found| {
        lattice.best(word, None).into_iter().for_each(|id| found[id] += count);
    });
    let sum: f64 = found.iter().sum();
    let loss = |id: usize, piece: &str| {
        let others = lattice.best(piece, Some(id));
        let sum_after = sum + found[id] * (others.len() as f64 - 1.0);
        let after: f64 = others.iter().map(|&other| ((found[other] + found[id]) / sum_after).ln()).sum();
        found[id] * ((found[id] / sum).ln() - after)
    };
    let mut losses: Vec<(f64, usize)> = pieces
        .iter()
        .enumerate()
        .filter(|&(id, (piece, _))| is_single(piece) || found[id] > 0.0)
        .map(|(id, (piece, _))| (if is_single(piece) { f64::INFINITY } else { loss(id, piece) }, id))
        .collect();
    losses.sort_by(|(m, a), (n, b)| n.total_cmp(m).then(a.cmp(b)));
    let mut left: Vec<usize> = losses.into_iter().take(kept).map(|(_, id)| id).collect();
    left.sort_unstable();
    left.into_iter().map(|id| pieces[id].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learnt(words: &[(&str, u64)], n_pieces: usize) -> Pieces {
        let words: Vec<(String, u64)> = words.iter().map(|(w, n)| (w.to_string(), *n)).collect();
        learn(&words, &["▁", "a", "b", "c", "d"].map(String::from), n_pieces)
    }

    #[test]
    fn frequent_words_and_all_characters_are_pieces() {
        let pieces = learnt(&[("▁abcd", 50), ("▁ab", 20), ("▁a", 900), ("▁dcx", 3), ("▁<unk>", 9)], 8);
        let text: HashSet<&str> = pieces.iter().map(|(piece, _)| piece.as_str()).collect();
        assert!(["▁", "a", "b", "c", "d", "▁abcd", "▁a"].iter().all(|p| text.contains(p)), "{pieces:?}");
        assert!(text.len() == 8 && pieces.is_sorted_by(|(_, p), (_, q)| p >= q), "{pieces:?}");
        assert!(pieces.iter().map(|(_, p)| p.exp()).sum::<f64>() < 1.0 + 1e-9);
    }

    /// ab is cut as a+b or ab: with p(a) = p(b) = 1/2 and p(ab) = 1/4 both are as probable.
    #[test]
    fn expected_counts_are_those_of_all_ways_to_cut() {
        let pieces =
            [("a", 0.5f64), ("b", 0.5), ("ab", 0.25)].map(|(piece, p)| (piece.to_string(), p.ln())).to_vec();
        let expected = expect(&Lattice::new(&pieces), &[("ab".into(), 3.0), ("b".into(), 1.0)]);
        assert!(
            expected.iter().zip([1.5, 2.5, 1.5]).all(|(n, right)| (n - right).abs() < 1e-12),
            "{expected:?}"
        );
    }

    /// ψ(1) = -γ and ψ(x+1) = ψ(x) + 1/x.
    #[test]
    fn digamma_is_right() {
        assert!((digamma(1.0) + 0.577_215_664_901_532_9).abs() < 1e-8);
        assert!([0.5, 3.2, 40.0].iter().all(|x| (digamma(x + 1.0) - digamma(*x) - 1.0 / x).abs() < 1e-8));
    }

    #[test]
    fn hardly_any_room_is_room_for_the_most_probable_characters() {
        assert_eq!(learnt(&[("▁aab", 5)], 2).len(), 2);
        assert_eq!(learnt(&[("▁", 1)], 9).len(), 5);
    }
}
