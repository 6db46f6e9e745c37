//! Searches worked out by hand.
//!
//! The toys have the words a, b, c and know their probabilities by prefix; ln 0.6 = -0.510826, ln 0.4 = -0.916291.

use crate::search::toy::{
    A, B, C, EOS, Toy, VOCAB_SIZE, assert_close, distribution, ids, options, search, table, traced,
};
use crate::search::trace::{Fate, Stop};
use crate::search::{Finish, LengthPenalty, Like, Options, Sentence, Trace, greedy};

/// The likelier first word leads to the less likely sentence: a a is 0.6 · 0.5, b is 0.4.
fn garden_path() -> Toy<impl Fn(&[u32], &[u32]) -> Vec<f32>> {
    table(&[(&[], &[(A, 0.6), (B, 0.4)]), (&[A], &[(A, 0.5), (B, 0.3), (C, 0.2)])])
}

#[test]
fn greedy_takes_the_best_token_and_beam_search_the_better_sentence() {
    let outcomes = greedy(&garden_path(), &[Sentence::new(vec![], 9)], &options(1, 1), None).unwrap();
    let list = outcomes[0].as_ref().unwrap();
    assert_eq!(ids(list), [[A, A, EOS]]);
    assert_close(list[0].log_prob, 0.3f64.ln());
    assert_eq!(list[0].finish, Finish::Eos);

    let list = search(&garden_path(), 9, &options(2, 2));
    assert_eq!(ids(&list), [&[B, EOS][..], &[A, A, EOS]]);
    assert_close(list[0].log_prob, 0.4f64.ln());
}

/// `a c EOS` has log_prob ln 0.6 at 3 tokens, `b b b b b b b b EOS` ln 0.4 at 9.
fn three_or_nine() -> Toy<impl Fn(&[u32], &[u32]) -> Vec<f32>> {
    Toy::new(VOCAB_SIZE, |_, prefix| match prefix {
        [] => distribution(&[(A, 0.6), (B, 0.4)]),
        [A] => distribution(&[(C, 1.0)]),
        [B, ..] if prefix.len() < 8 => distribution(&[(B, 1.0)]),
        _ => distribution(&[(EOS, 1.0)]),
    })
}

/// The search goes on after the short one has ended, each is divided by its own length with EOS.
/// pow:1: -0.510826/3 = -0.170275, -0.916291/9 = -0.101810. gnmt:1: divisors 8/6 and 14/6 give -0.383119 and
/// -0.392696. gnmt:2: 16/9 and 49/9 give -0.287340 and -0.168298.
#[test]
fn a_longer_hypothesis_wins_if_its_own_length_says_so() {
    let long = [B, B, B, B, B, B, B, B, EOS];
    let cases = [
        (LengthPenalty::None, false, -0.510826, -0.916291),
        (LengthPenalty::Pow(1.0), true, -0.170275, -0.101810),
        (LengthPenalty::Gnmt(1.0), false, -0.383119, -0.392696),
        (LengthPenalty::Gnmt(2.0), true, -0.287340, -0.168298),
    ];
    for (length_penalty, long_wins, short_score, long_score) in cases {
        let list = search(&three_or_nine(), 20, &Options { length_penalty, ..options(2, 2) });
        let (first, second) = if long_wins { (&list[0], &list[1]) } else { (&list[1], &list[0]) };
        assert_eq!((&first.ids[..], &second.ids[..]), (&long[..], &[A, C, EOS][..]), "{length_penalty}");
        assert_close(first.score, long_score);
        assert_close(second.score, short_score);
    }
}

/// With one hypothesis wanted and no penalty the search ends with the short one, at step 3: -0.916 cannot become
/// more than -0.511. Under pow:1 and a limit of 20 the long one may still reach -0.916/20, so it goes on to 9.
#[test]
fn search_stops_when_the_bound_says_so_and_not_before() {
    for (length_penalty, steps, stop) in
        [(LengthPenalty::None, 3, Stop::Bound), (LengthPenalty::Pow(1.0), 9, Stop::NoCandidates)]
    {
        let toy = three_or_nine();
        let trace = traced(&toy, 20, &Options { length_penalty, ..options(2, 1) });
        assert_eq!((toy.steps.get(), trace.stop), (steps, Some(stop)), "{length_penalty}");
        let third = &trace.steps[2];
        assert_close(third.to_beat.unwrap(), length_penalty.score(0.6f64.ln(), 3));
        assert_close(third.bound.unwrap(), 0.4f64.ln() / length_penalty.divisor(20));
    }
    // A tie does not beat what finished earlier.
    let toy = table(&[(&[], &[(EOS, 0.5), (A, 0.5)])]);
    assert_eq!((traced(&toy, 20, &options(2, 1)).stop, toy.steps.get()), (Some(Stop::Bound), 1));
    // At a limit of 5 the long one can reach -0.916/5 = -0.183, under -0.170.
    let toy = three_or_nine();
    search(&toy, 5, &Options { length_penalty: LengthPenalty::Pow(1.0), ..options(2, 1) });
    assert_eq!(toy.steps.get(), 3);
}

/// pow:-1 multiplies by the length: EOS alone has ln 0.3 · 1 = -1.203973, `a EOS` has ln 0.7 · 2 = -0.713350. After
/// step 1 the bound of a is at its next token, -0.713350; that at the limit, -0.356675 · 20, would end the search.
#[test]
fn bound_for_a_negative_exponent_is_at_the_next_token() {
    let toy = table(&[(&[], &[(A, 0.7), (EOS, 0.3)])]);
    let trace = traced(&toy, 20, &Options { length_penalty: LengthPenalty::Pow(-1.0), ..options(2, 1) });
    assert_eq!(trace.hypotheses[0].hypothesis.ids, [A, EOS]);
    assert_close(trace.steps[0].bound.unwrap(), -0.713350);
    assert_close(trace.steps[0].to_beat.unwrap(), -1.203973);
}

/// EOS alone is the best sentence (0.2; the others share 0.5 and 0.3 in three), but with beam 2 it stands at rank 2
/// and falls off; with beam 3 it finishes.
#[test]
fn end_mark_finishes_only_at_a_rank_within_the_beam() {
    const THIRDS: &[(u32, f64)] = &[(A, 1.0 / 3.0), (B, 1.0 / 3.0), (C, 1.0 / 3.0)];
    let toy = table(&[(&[], &[(A, 0.5), (B, 0.3), (EOS, 0.2)]), (&[A], THIRDS), (&[B], THIRDS)]);
    assert_eq!(ids(&search(&toy, 9, &options(2, 1))), [[A, A, EOS]]);
    assert_eq!(ids(&search(&toy, 9, &options(3, 1))), [[EOS]]);
    let fates: Vec<Fate> =
        traced(&toy, 9, &options(2, 1)).steps[0].candidates.iter().map(|c| c.fate).collect();
    assert_eq!(fates, [Fate::Live, Fate::Live, Fate::Pruned]);
}

/// Both live hypotheses end at the ranks 0 and 1; the two at the ranks 2 and 3 take their places.
#[test]
fn twice_the_beam_keeps_the_beam_full() {
    const ENDS: &[(u32, f64)] = &[(EOS, 0.8), (A, 0.15), (B, 0.05)];
    let toy = table(&[(&[], &[(A, 0.5), (B, 0.5)]), (&[A], ENDS), (&[B], ENDS)]);
    let trace = traced(&toy, 9, &options(2, 2));
    let second: Vec<_> = trace.steps[1].candidates.iter().map(|c| (c.parent, c.token, c.fate)).collect();
    let (end, live) = (Fate::Finished, Fate::Live);
    assert_eq!(second, [(1, EOS, end), (2, EOS, end), (1, A, live), (2, A, live)]);
    assert_eq!(trace.stop, Some(Stop::Bound));
}

/// All words alike: the lower row comes first, then the lower id, in the beam and in the list.
#[test]
fn ties_go_to_the_lower_row_then_the_lower_id() {
    let toy = Toy::new(VOCAB_SIZE, |_, _| distribution(&[(A, 0.25), (B, 0.25), (C, 0.25), (EOS, 0.25)]));
    let trace = traced(&toy, 2, &options(3, 3));
    let order = |step: usize| -> Vec<(u32, u32)> {
        trace.steps[step].candidates.iter().map(|c| (c.parent, c.token)).collect()
    };
    assert_eq!(order(0), [(0, EOS), (0, A), (0, B), (0, C)]);
    // Ids 1 is the finished one; 2, 3, 4 are a, b, c.
    assert_eq!(order(1), [(2, EOS), (2, A), (2, B), (2, C), (3, EOS), (3, A)]);
    assert_eq!(ids(&search(&toy, 2, &options(3, 3))), [&[EOS][..], &[A, EOS], &[A, A]]);
}

/// What has not ended at the limit is returned as cut, and competes: a at 0.6 beats EOS at 0.4.
#[test]
fn cut_hypotheses_compete_at_the_limit() {
    let toy = table(&[(&[], &[(A, 0.6), (EOS, 0.4)])]);
    let list = search(&toy, 1, &options(2, 2));
    assert_eq!(ids(&list), [[A], [EOS]]);
    assert_eq!((list[0].finish, list[1].finish), (Finish::Cut, Finish::Eos));
    assert_eq!(list[0].token_log_probs.len(), 1);
    let trace = traced(&toy, 1, &options(2, 2));
    assert_eq!(trace.stop, Some(Stop::Limit));
    assert_eq!(trace.steps[0].candidates[0].fate, Fate::Cut);
}

/// CTranslate2's rules at beam 2 under pow:1: two have finished after step 3, which is enough, though `b b b ...` at
/// ln 0.04 / 10 would have won.
#[test]
fn like_ct2_stops_at_beam_size_finished() {
    let toy = Toy::new(VOCAB_SIZE, |_, prefix| match prefix {
        [] => distribution(&[(A, 0.6), (B, 0.4)]),
        [A] => distribution(&[(C, 0.9), (EOS, 0.1)]),
        [B] => distribution(&[(B, 0.1), (EOS, 0.9)]),
        [B, ..] if prefix.len() < 9 => distribution(&[(B, 1.0)]),
        _ => distribution(&[(EOS, 1.0)]),
    });
    let ct2 = Options { like: Like::Ct2, length_penalty: LengthPenalty::Pow(1.0), ..options(2, 2) };
    let trace = traced(&toy, 20, &ct2);
    assert_eq!((trace.stop, trace.steps.len()), (Some(Stop::Enough), 3));
    let list: Vec<_> = trace.hypotheses.iter().map(|ranked| &ranked.hypothesis).collect();
    assert_eq!((&list[0].ids[..], &list[1].ids[..]), (&[A, C, EOS][..], &[B, EOS][..]));
    assert_close(list[0].score, 0.54f64.ln() / 3.0);
    assert_close(list[1].score, 0.36f64.ln() / 2.0);
}

/// CTranslate2's rules at the limit: the beam's best extensions are closed whatever they are. Of EOS 0.5, a 0.3,
/// b 0.2 the two best are returned; by the rules of `tx` a and b would both compete.
#[test]
fn like_ct2_closes_the_best_extensions_at_the_limit() {
    let toy = table(&[(&[], &[(C, 1.0)]), (&[C], &[(EOS, 0.5), (A, 0.3), (B, 0.2)])]);
    let fates = |like| -> Vec<Fate> {
        let trace = traced(&toy, 2, &Options { like, ..options(2, 2) });
        trace.steps[1].candidates.iter().map(|candidate| candidate.fate).collect()
    };
    assert_eq!(fates(Like::Tx), [Fate::Finished, Fate::Cut, Fate::Cut]);
    assert_eq!(fates(Like::Ct2), [Fate::Finished, Fate::Cut, Fate::Pruned]);
}

/// CTranslate2's rules without a penalty: `c EOS` at 0.4 has finished after step 2 but was not the best extension, so the
/// search goes on to `c a EOS` at 0.54.
#[test]
fn like_ct2_without_a_penalty_waits_until_the_best_extension_is_the_end_mark() {
    let toy =
        table(&[(&[], &[(C, 1.0)]), (&[C], &[(A, 0.6), (EOS, 0.4)]), (&[C, A], &[(EOS, 0.9), (B, 0.1)])]);
    let trace = traced(&toy, 9, &Options { like: Like::Ct2, ..options(2, 1) });
    assert_eq!((trace.stop, trace.steps.len()), (Some(Stop::Enough), 3));
    assert_eq!(trace.hypotheses[0].hypothesis.ids, [C, A, EOS]);
}

/// CTranslate2's rules give no empty translation: EOS has 0.6 at first, which goes to a and b, 0.3/0.4 and 0.1/0.4.
#[test]
fn like_ct2_excludes_the_end_mark_from_the_first_step() {
    let toy = table(&[(&[], &[(EOS, 0.6), (A, 0.3), (B, 0.1)])]);
    for beam_size in [1, 2] {
        let trace = traced(&toy, 9, &Options { like: Like::Ct2, ..options(beam_size, beam_size) });
        let first = &trace.steps[0].candidates;
        assert_eq!(first.iter().map(|candidate| candidate.token).collect::<Vec<_>>(), [A, B]);
        assert_close(first[0].log_prob, 0.75f64.ln());
        assert_close(first[1].log_prob, 0.25f64.ln());
    }
}

/// What fell off lacked what the last one kept had: an end mark at rank 2 the rank 1 (0.3 over 0.2), a word the place of the second
/// word (0.18 over 0.12, whatever has ended).
#[test]
fn gaps_by_hand() {
    let toy = table(&[(&[], &[(A, 0.5), (B, 0.3), (EOS, 0.2)])]);
    let gaps = |trace: Trace, step: usize| -> Vec<Option<f64>> {
        trace.steps[step].candidates.iter().map(|one| one.gap).collect()
    };
    let first = gaps(traced(&toy, 9, &options(2, 2)), 0);
    assert_eq!(first[..2], [None, None]);
    assert_close(first[2].unwrap(), 1.5f64.ln());
    let second = gaps(traced(&garden_path(), 9, &options(2, 2)), 1);
    assert_eq!(second[..3], [None, None, None]);
    assert_close(second[3].unwrap(), 1.5f64.ln());
}
