//! Scorers whose distributions are functions of the source and the prefix, for tests.
//!
//! They also hold the search to the contract of [`Scorer`]: one token per row, BOS first, rows of a sentence adjacent.

use std::cell::Cell;
use std::sync::Arc;

use crate::error::Result;
use crate::ops::{Norm, Scores};
use crate::rng::hash;
use crate::search::{
    Hypothesis, LengthPenalty, Options, Phrase, Rules, Scorer, Sentence, Spelling, Trace, beam_search, decode,
};

/// Ids of the toys: one end mark, three words, and a start mark.
pub const EOS: u32 = 0;
pub const A: u32 = 1;
pub const B: u32 = 2;
pub const C: u32 = 3;
pub const BOS: u32 = 4;
pub const VOCAB_SIZE: usize = 5;

/// What these tokens spell: a, b, c, of which any makes words with any.
pub fn phrase(tokens: &[u32]) -> Phrase {
    let spelt = |token: u32| match token {
        A..=C => vec![(b'a' + (token - A) as u8, false)],
        _ => Vec::new(),
    };
    let letters = tokens.iter().flat_map(|&token| spelt(token)).collect();
    Phrase::new(letters, tokens.to_vec(), Arc::new(Spelling::new((0..VOCAB_SIZE as u32).map(spelt))))
}

/// Rules that ban these.
pub fn banned(banned: Vec<u32>) -> Rules {
    Rules { banned, ..Rules::default() }
}

/// Options for a toy: no penalty, BOS banned.
pub fn options(beam_size: usize, n_best: usize) -> Options {
    let length_penalty = LengthPenalty::None;
    Options { beam_size, n_best, length_penalty, rules: banned(vec![BOS]), ..Options::new(BOS, EOS) }
}

/// `next(src, prefix)` gives the log-probabilities after a prefix (without BOS).
pub struct Toy<F> {
    next: F,
    vocab_size: usize,
    /// Calls of `step` since the start.
    pub steps: Cell<usize>,
    /// The most rows that a step had.
    pub most_rows: Cell<usize>,
}

impl<F: Fn(&[u32], &[u32]) -> Vec<f32>> Toy<F> {
    pub fn new(vocab_size: usize, next: F) -> Self {
        Toy { next, vocab_size, steps: Cell::new(0), most_rows: Cell::new(0) }
    }

    /// The log-probabilities after a prefix, outside any search.
    pub fn next(&self, src: &[u32], prefix: &[u32]) -> Vec<f32> {
        (self.next)(src, prefix)
    }
}

/// One live hypothesis of a toy.
#[derive(Clone)]
pub struct Row {
    sentence: usize,
    src: Vec<u32>,
    /// With BOS.
    prefix: Vec<u32>,
}

impl<F: Fn(&[u32], &[u32]) -> Vec<f32>> Scorer for Toy<F> {
    type State = Vec<Row>;

    fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    fn start(&self, src: &[Vec<u32>]) -> Result<Vec<Row>> {
        assert!(!src.is_empty(), "an empty batch must not reach the model");
        let rows = src.iter().enumerate();
        Ok(rows.map(|(sentence, src)| Row { sentence, src: src.clone(), prefix: Vec::new() }).collect())
    }

    fn step(&self, rows: &mut Vec<Row>, tokens: &[u32], scores: &mut Scores) -> Result<()> {
        assert_eq!(tokens.len(), rows.len());
        self.steps.set(self.steps.get() + 1);
        self.most_rows.set(self.most_rows.get().max(rows.len()));
        let mut log_probs = Vec::new();
        for (row, &token) in rows.iter_mut().zip(tokens) {
            row.prefix.push(token);
            assert_eq!(row.prefix[0], BOS, "every hypothesis starts from BOS");
            log_probs.extend((self.next)(&row.src, &row.prefix[1..]));
        }
        *scores = Scores { logits: log_probs, norms: vec![Norm::NONE; tokens.len()] };
        Ok(())
    }

    fn reorder(&self, rows: &mut Vec<Row>, kept: &[usize]) -> Result<()> {
        *rows = kept.iter().map(|&row| rows[row].clone()).collect();
        assert!(
            rows.is_sorted_by_key(|row| row.sentence),
            "rows of one sentence must be adjacent, sentences in order"
        );
        Ok(())
    }
}

/// A distribution over the toy vocabulary from (token, probability) pairs; the rest is impossible.
pub fn distribution(pairs: &[(u32, f64)]) -> Vec<f32> {
    let mut log_probs = vec![f32::NEG_INFINITY; VOCAB_SIZE];
    for &(token, p) in pairs {
        log_probs[token as usize] = p.ln() as f32;
    }
    log_probs
}

/// A prefix and what can follow.
type Entry = (&'static [u32], &'static [(u32, f64)]);

/// Distributions by prefix; after a prefix that is not listed only EOS can come.
pub fn table(entries: &'static [Entry]) -> Toy<impl Fn(&[u32], &[u32]) -> Vec<f32>> {
    Toy::new(VOCAB_SIZE, move |_, prefix| {
        let listed = entries.iter().find(|(listed, _)| *listed == prefix);
        distribution(listed.map_or(&[(EOS, 1.0)], |(_, pairs)| pairs))
    })
}

/// A random distribution for every source and prefix, fixed by `seed`. `levels` of different logits: few of them
/// make many ties.
pub fn random(seed: u64, vocab_size: usize, levels: u64) -> Toy<impl Fn(&[u32], &[u32]) -> Vec<f32>> {
    Toy::new(vocab_size, move |src, prefix| {
        let key = [src, &[u32::MAX], prefix].concat().iter().fold(seed, |key, &id| hash(key, u64::from(id)));
        let logits: Vec<f64> =
            (0..vocab_size as u64).map(|id| 4.0 * (hash(key, id) % levels) as f64 / levels as f64).collect();
        let log_sum = logits.iter().map(|x| x.exp()).sum::<f64>().ln();
        logits.iter().map(|x| (x - log_sum) as f32).collect()
    })
}

/// Sentences of these sources and limits.
pub fn sentences(src: &[Vec<u32>], limits: &[usize]) -> Vec<Sentence> {
    src.iter().zip(limits).map(|(src, &limit)| Sentence::new(src.clone(), limit)).collect()
}

/// The n best of one sentence by beam search.
pub fn search<F>(toy: &Toy<F>, limit: usize, options: &Options) -> Vec<Hypothesis>
where
    F: Fn(&[u32], &[u32]) -> Vec<f32>,
{
    beam_search(toy, &[Sentence::new(vec![], limit)], options, None).unwrap().remove(0).unwrap()
}

/// The record of decoding one sentence.
pub fn traced<F>(toy: &Toy<F>, limit: usize, options: &Options) -> Trace
where
    F: Fn(&[u32], &[u32]) -> Vec<f32>,
{
    let mut traces = Vec::new();
    decode(toy, &[Sentence::new(vec![], limit)], options, Some(&mut traces)).unwrap();
    traces.remove(0)
}

pub fn ids(list: &[Hypothesis]) -> Vec<&[u32]> {
    list.iter().map(|one| &one.ids[..]).collect()
}

#[track_caller]
pub fn assert_close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-6, "found {found}, expected {expected}");
}
