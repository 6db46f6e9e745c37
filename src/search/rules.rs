//! What a hypothesis may go on with, whatever the model says: the forced prefix, what it must contain, the least length,
//! banned pieces and sequences, and what was said already.
//!
//! A token that is ruled out gets -∞ after the log-softmax and the others stay as they are: nothing is renormalised, so the
//! `log_prob` of a hypothesis is what the model gives it. The exceptions follow those who use them: CTranslate2's
//! least length, and the repetition penalty of `transformers`, which multiplies log-probabilities.

use crate::error::{Error, Result};
use crate::ops::Norm;
use crate::search::{Like, Options, Phrase, Sentence};

/// What `options` rule out and mark down.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Tokens that are never chosen. With the end mark among them every hypothesis runs to its limit.
    pub banned: Vec<u32>,
    /// Phrases that are never said as whole words.
    pub suppressed: Vec<Phrase>,
    /// No sequence of this many tokens occurs twice in a hypothesis; 0 turns it off.
    pub no_repeat_ngram: usize,
    /// What the log-probabilities of tokens that occurred already are multiplied by (Keskar et al. 2019, as `transformers` has
    /// it in beam search); 1 turns it off.
    pub repetition_penalty: f32,
}

impl Default for Rules {
    fn default() -> Self {
        Rules { banned: Vec::new(), suppressed: Vec::new(), no_repeat_ngram: 0, repetition_penalty: 1.0 }
    }
}

impl Rules {
    /// Whether what may follow depends on what was said.
    pub(super) fn look_back(&self) -> bool {
        !self.suppressed.is_empty() || self.no_repeat_ngram > 0 || self.repetition_penalty != 1.0
    }

    /// Refuses tokens outside the vocabulary and penalties that are none.
    pub(super) fn check(&self, vocab_size: usize) -> Result<()> {
        let penalty = self.repetition_penalty;
        if !(penalty.is_finite() && penalty > 0.0) {
            return Err(Error::Config(format!(
                "repetition penalty {penalty}: expected a number above 0; 1 turns it off, 1.2 is usual"
            )));
        }
        if self.suppressed.iter().any(Phrase::is_empty) {
            return Err(Error::Config("a blank text cannot be suppressed".into()));
        }
        match self.banned.iter().find(|&&id| id as usize >= vocab_size) {
            Some(id) => Err(Error::Config(format!(
                "banned id {id} lies outside the model's vocabulary of {vocab_size}: do tokenizer and model belong \
                 together?"
            ))),
            None => Ok(()),
        }
    }
}

/// Makes impossible, in the distribution of token `length` of a hypothesis of `sentence`, what may not follow `history` (without
/// BOS; looked at only if [`Rules::look_back`] says so, or if the sentence has constraints).
pub(super) fn apply(
    row: &mut [f32],
    norm: &mut Norm,
    options: &Options,
    sentence: &Sentence,
    history: &[u32],
    length: usize,
) {
    if let Some(&forced) = sentence.prefix.get(length - 1) {
        if length <= sentence.given {
            *norm = Norm::NONE;
            row[forced as usize] = 0.0;
        }
        leave_only(row, forced as usize);
        return;
    }
    let (rules, eos) = (&options.rules, options.eos as usize);
    if rules.look_back() {
        mark_down(row, *norm, rules.repetition_penalty, history);
        for phrase in &rules.suppressed {
            let seen = history.iter().fold(Phrase::START, |seen, &token| phrase.after_all(seen, token));
            for &token in &phrase.next(seen).complete {
                row[token as usize] = f32::NEG_INFINITY;
            }
        }
        ban_repeated(row, rules.no_repeat_ngram, history);
    }
    match options.like {
        Like::Tx | Like::Hf | Like::Marian if length < options.min_length => row[eos] = f32::NEG_INFINITY,
        Like::Ct2 if length <= options.min_length.max(1) => exclude_eos(row, norm, eos),
        Like::Fairseq if length == sentence.max_length => leave_only(row, eos),
        Like::Fairseq if length <= options.min_length.max(1) => row[eos] = f32::NEG_INFINITY,
        _ => {}
    }
    if !sentence.constraints.is_empty() {
        sentence.constraints.restrict(row, history, sentence.max_length - length, options.eos);
    }
    for &id in &rules.banned {
        row[id as usize] = f32::NEG_INFINITY;
    }
}

/// Makes all but one token impossible.
fn leave_only(row: &mut [f32], token: usize) {
    let kept = row[token];
    row.fill(f32::NEG_INFINITY);
    row[token] = kept;
}

/// Multiplies the log-probability of every token of `history`, once.
fn mark_down(row: &mut [f32], norm: Norm, penalty: f32, history: &[u32]) {
    if penalty == 1.0 {
        return;
    }
    let mut seen: Vec<u32> = history.to_vec();
    seen.sort_unstable();
    seen.dedup();
    for token in seen {
        let logit = &mut row[token as usize];
        // As a logit again: the norm makes the product of it.
        *logit = norm.log_prob(*logit) * penalty + norm.log_sum + norm.largest;
    }
}

/// Rules out what would end a sequence of `n` tokens that `history` has already.
fn ban_repeated(row: &mut [f32], n: usize, history: &[u32]) {
    let Some(before) = n.checked_sub(1).filter(|&before| before <= history.len()) else { return };
    let tail = &history[history.len() - before..];
    for ngram in history.windows(n) {
        if &ngram[..before] == tail {
            row[ngram[before] as usize] = f32::NEG_INFINITY;
        }
    }
}

/// The distribution that the softmax gives if the logit of EOS is -inf: log p - log(1 - p(EOS)).
fn exclude_eos(row: &mut [f32], norm: &mut Norm, eos: usize) {
    let p = f64::from(norm.log_prob(row[eos])).exp();
    // If there is nothing but EOS, nothing is shared out; NaN is left for the search to report.
    if p < 1.0 {
        norm.log_sum = (f64::from(norm.log_sum) + (-p).ln_1p()) as f32;
    }
    row[eos] = if p.is_nan() { f32::NAN } else { f32::NEG_INFINITY };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::toy::{
        A, B, BOS, C, EOS, Toy, VOCAB_SIZE, assert_close, distribution, ids, options, phrase,
    };
    use crate::search::{Hypothesis, decode};

    /// a is always likelier than b, b than c, c than the end.
    fn chatterbox() -> Toy<impl Fn(&[u32], &[u32]) -> Vec<f32>> {
        Toy::new(VOCAB_SIZE, |_, _| distribution(&[(A, 0.4), (B, 0.3), (C, 0.2), (EOS, 0.1)]))
    }

    fn search(rules: Rules, beam_size: usize, limit: usize, prefix: &[u32]) -> Vec<Hypothesis> {
        let rules = Rules { banned: vec![BOS], ..rules };
        let options = Options { rules, ..options(beam_size, beam_size) };
        let sentence = Sentence { prefix: prefix.to_vec(), ..Sentence::new(vec![], limit) };
        decode(&chatterbox(), &[sentence], &options, None).unwrap().remove(0).unwrap()
    }

    /// No token twice: a b c end. No pair twice: a a b a c a end? a a, a b, b a, a c, c a are all different, then a may be
    /// followed by the end alone.
    #[test]
    fn no_ngram_occurs_twice() {
        let once = |n| search(Rules { no_repeat_ngram: n, ..Rules::default() }, 1, 20, &[]).remove(0).ids;
        assert_eq!(once(1), [A, B, C, EOS]);
        assert_eq!(once(2), [A, A, B, A, C, A, EOS]);
        for hypothesis in search(Rules { no_repeat_ngram: 2, ..Rules::default() }, 4, 12, &[]) {
            let mut pairs: Vec<&[u32]> = hypothesis.ids.windows(2).collect();
            pairs.sort_unstable();
            assert!(pairs.windows(2).all(|two| two[0] != two[1]), "{:?}", hypothesis.ids);
        }
    }

    #[test]
    fn suppressed_sequences_never_occur() {
        let rules = Rules { suppressed: vec![phrase(&[A, A]), phrase(&[B])], ..Rules::default() };
        let list = search(rules, 1, 4, &[]);
        assert_eq!(list[0].ids, [A, C, A, C]);
        assert_close(list[0].log_prob, (0.4f64 * 0.2 * 0.4 * 0.2).ln());
    }

    /// ln 0.4 · 2 = ln 0.16, so after a comes b (0.3), then c (0.2), then all are marked down and a is best again: 0.16.
    #[test]
    fn repetition_costs_what_it_says() {
        let list = search(Rules { repetition_penalty: 2.0, ..Rules::default() }, 1, 4, &[]);
        assert_eq!(list[0].ids, [A, B, C, A]);
        assert_close(list[0].log_prob, (0.4f64 * 0.3 * 0.2 * 0.16).ln());
    }

    /// A forced token counts as the model weighs it, also one that is banned, and every hypothesis has the prefix.
    #[test]
    fn a_prefix_is_forced() {
        let list = search(Rules::default(), 3, 4, &[C, C]);
        assert_eq!(ids(&list), [[C, C, A, A], [C, C, A, B], [C, C, B, A]]);
        assert_close(list[0].log_prob, (0.2f64 * 0.2 * 0.4 * 0.4).ln());
        let greedy = search(Rules { suppressed: vec![phrase(&[C])], ..Rules::default() }, 1, 3, &[C, B]);
        assert_eq!(greedy[0].ids, [C, B, A]);
    }

    #[test]
    fn what_is_given_is_certain() {
        let sentence = Sentence { prefix: vec![C, C], given: 1, ..Sentence::new(vec![], 3) };
        let found = decode(&chatterbox(), &[sentence], &options(2, 1), None).unwrap().remove(0).unwrap();
        assert_eq!(found[0].token_log_probs[..2], [0.0, 0.2f32.ln()]);
    }

    #[test]
    fn mistakes_are_named() {
        let message = |rules: Rules| rules.check(5).unwrap_err().to_string();
        assert!(message(Rules { repetition_penalty: 0.0, ..Rules::default() }).contains("above 0"));
        assert!(message(Rules { suppressed: vec![phrase(&[])], ..Rules::default() }).contains("blank text"));
        assert!(message(Rules { banned: vec![1, 5], ..Rules::default() }).contains("id 5"));
        let options = options(1, 1);
        let sentence = Sentence { prefix: vec![A, B, C], ..Sentence::new(vec![], 3) };
        let message = decode(&chatterbox(), &[sentence], &options, None).unwrap_err().to_string();
        assert!(message.contains("a prefix of 3 tokens does not fit the limit of 3"), "{message}");
    }
}
