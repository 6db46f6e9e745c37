//! What became of given translations in searches worked out by hand.

use crate::search::toy::{
    A, B, C, EOS, Toy, VOCAB_SIZE, assert_close, banned, distribution, options, phrase, random, table, traced,
};
use crate::search::trace::Fate;
use crate::search::why::{How, Verdict, WIDEST_TRIED, Why, why};
use crate::search::{Constraints, Hypothesis, Options, Sentence, Trace, decode};

/// The likelier first word leads to the less likely sentence: a a is 0.6 · 0.5, b is 0.4.
fn garden_path() -> Toy<impl Fn(&[u32], &[u32]) -> Vec<f32>> {
    table(&[(&[], &[(A, 0.6), (B, 0.4)]), (&[A], &[(A, 0.5), (B, 0.3), (C, 0.2)])])
}

fn asked<F>(toy: &Toy<F>, limit: usize, options: &Options, target: &[u32]) -> Why
where
    F: Fn(&[u32], &[u32]) -> Vec<f32>,
{
    why(toy, &Sentence::new(vec![], limit), options, target).unwrap().2
}

/// Greedy search takes a (0.6) and not b (0.4), the better sentence: ln 0.6 - ln 0.4 were missing. A beam of 2 finds it.
#[test]
fn a_search_error_by_hand() {
    let why = asked(&garden_path(), 9, &options(1, 1), &[B, EOS]);
    assert_eq!(why.verdict, Verdict::SearchError { found_by: Some(2), tried: 2 });
    assert_close(why.log_prob, 0.4f64.ln());
    let left = why.left.unwrap();
    assert_eq!((left.step, left.token, left.how), (1, B, How::Pruned));
    assert_eq!((left.rank, left.of), (Some(1), Some(2)));
    assert_close(left.gap.unwrap(), 1.5f64.ln());
}

#[test]
fn the_winner_and_the_second_by_hand() {
    let why = asked(&garden_path(), 9, &options(2, 2), &[B, EOS]);
    assert_eq!((why.verdict, why.left), (Verdict::Winner, None));
    let why = asked(&garden_path(), 9, &options(2, 2), &[A, A, EOS]);
    assert_eq!((why.verdict, why.left), (Verdict::Listed { place: 2 }, None));
    assert_eq!(why.standings.iter().map(|one| one.rank).collect::<Vec<_>>(), [0, 1, 0]);
}

/// After a and b: b EOS 0.4, a a 0.3, a b 0.18, a c 0.12. The two that go on are a a and a b. Greedy search weighs two only, but
/// the rank is that among all.
#[test]
fn a_model_error_by_hand() {
    for (beam, rank, of, gap) in [(2, 3, 4, 1.5f64), (1, 2, 3, 2.5)] {
        let why = asked(&garden_path(), 9, &options(beam, beam), &[A, C, EOS]);
        assert_eq!(why.verdict, Verdict::ModelError, "beam {beam}");
        assert_close(why.log_prob, 0.12f64.ln());
        let left = why.left.unwrap();
        assert_eq!((left.step, left.how, left.rank, left.of), (2, How::Pruned, Some(rank), Some(of)));
        assert_close(left.gap.unwrap(), gap.ln());
    }
}

/// c is third at first; beams of 1 and 2 lose it, 4 finds it, and so does 3.
#[test]
fn the_smallest_beam_is_found_in_between() {
    const THIRDS: &[(u32, f64)] = &[(A, 0.34), (B, 0.33), (C, 0.33)];
    let toy = table(&[(&[], &[(A, 0.4), (B, 0.35), (C, 0.25)]), (&[A], THIRDS), (&[B], THIRDS)]);
    let why = asked(&toy, 9, &options(1, 1), &[C, EOS]);
    assert_eq!(why.verdict, Verdict::SearchError { found_by: Some(3), tried: 4 });
}

/// 194 words are better at first than the one that ends for sure; the others go on for ever at 1/195.
#[test]
fn a_search_error_that_no_beam_mends() {
    let toy = Toy::new(200, |_, prefix| {
        let mut log_probs = vec![f32::NEG_INFINITY; 200];
        match prefix {
            [199] => log_probs[EOS as usize] = 0.0,
            _ => log_probs[5..].fill((1.0f32 / 195.0).ln()),
        }
        log_probs
    });
    let why = asked(&toy, 3, &options(2, 1), &[199, EOS]);
    assert_eq!(why.verdict, Verdict::SearchError { found_by: None, tried: WIDEST_TRIED });
    assert_eq!((why.left.clone().unwrap().rank, why.left.unwrap().gap), (Some(194), Some(0.0)));
}

/// What may not be said has the log_prob that the model gives it.
#[test]
fn what_is_ruled_out_by_hand() {
    let rules = banned(vec![crate::search::toy::BOS, B]);
    let why = asked(&garden_path(), 9, &Options { rules, ..options(2, 2) }, &[B, EOS]);
    assert_eq!((why.verdict, why.left.unwrap().how), (Verdict::RuledOut { step: 1 }, How::RuledOut));
    assert_close(why.log_prob, 0.4f64.ln());

    let toy = Toy::new(VOCAB_SIZE, |_, _| distribution(&[(A, 0.4), (EOS, 0.3), (B, 0.2), (C, 0.1)]));
    let constraints = Constraints::new(vec![phrase(&[C])]);
    let sentence = Sentence { constraints, ..Sentence::new(vec![], 6) };
    let (_, trace, why) = why_of(&toy, &sentence, &[A, EOS]);
    let left = why.left.unwrap();
    assert_eq!((why.verdict, left.step, left.how), (Verdict::RuledOut { step: 2 }, 2, How::RuledOut));
    // Of those without c the beam of 1 keeps a and b falls off; c competes with nothing.
    let first = trace.steps[0].candidates.iter();
    let first: Vec<_> = first.map(|one| (one.token, one.bank, one.fate, one.gap.is_some())).collect();
    assert_eq!(
        first,
        [(A, Some(0), Fate::Live, false), (B, Some(0), Fate::Pruned, true), (C, Some(1), Fate::Live, false)]
    );
    assert_close(trace.steps[0].candidates[1].gap.unwrap(), 2f64.ln());
}

fn why_of<F>(toy: &Toy<F>, sentence: &Sentence, target: &[u32]) -> (Vec<Hypothesis>, Trace, Why)
where
    F: Fn(&[u32], &[u32]) -> Vec<f32>,
{
    why(toy, sentence, &options(1, 1), target).unwrap()
}

/// `b b b b b b b b EOS` at 0.4 cannot beat `a c EOS` at 0.6, so the search ends at step 3, before it. A limit of 5 is too
/// short for it, and a limit of 2 cuts `a a`.
#[test]
fn ends_before_the_target_by_hand() {
    let toy = Toy::new(VOCAB_SIZE, |_, prefix: &[u32]| match prefix {
        [] => distribution(&[(A, 0.6), (B, 0.4)]),
        [A] => distribution(&[(C, 1.0)]),
        [B, ..] if prefix.len() < 8 => distribution(&[(B, 1.0)]),
        _ => distribution(&[(EOS, 1.0)]),
    });
    let long = [B, B, B, B, B, B, B, B, EOS];
    let why = asked(&toy, 20, &options(2, 1), &long);
    let left = why.left.unwrap();
    assert_eq!((why.verdict, left.step, left.how), (Verdict::ModelError, 4, How::Stopped));
    assert_eq!(asked(&toy, 5, &options(2, 2), &long).verdict, Verdict::TooLong { limit: 5 });
    let why = asked(&garden_path(), 2, &options(2, 2), &[A, A, EOS]);
    assert_eq!(why.verdict, Verdict::TooLong { limit: 2 });
    assert_eq!((why.left.clone().unwrap().step, why.left.unwrap().how), (2, How::Cut));
}

/// The search with an eye on a target is the search without, bit by bit, and so is its record.
#[test]
fn watching_changes_nothing() {
    for (seed, beam) in (0..30).zip([1, 2, 3, 9].into_iter().cycle()) {
        let (toy, options) = (random(seed, VOCAB_SIZE, 50), options(beam, beam));
        let plain = decode(&toy, &[Sentence::new(vec![], 7)], &options, None).unwrap().remove(0).unwrap();
        let target = if seed % 2 == 0 { &plain[0].ids } else { &vec![A, B, EOS] };
        if target.last() != Some(&EOS) {
            continue;
        }
        let (found, trace, why) = why(&toy, &Sentence::new(vec![], 7), &options, target).unwrap();
        assert_eq!(found, plain);
        assert_eq!(trace, traced(&toy, 7, &options));
        if let Some(same) = plain.iter().find(|one| one.ids == why.ids) {
            assert_eq!((same.log_prob, same.score), (why.log_prob, why.score));
        }
    }
}
