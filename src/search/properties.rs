//! What must hold for every model, tried on random toys.

use proptest::prelude::*;

use crate::search::toy::{BOS, EOS, Toy, VOCAB_SIZE, banned, options, random, sentences};
use crate::search::trace::{Fate, Stop};
use crate::search::{Finish, Hypothesis, LengthPenalty, Like, Options, Trace, beam_search, decode, greedy};

/// Wide enough that nothing is pruned within `LIMIT` steps of three words and EOS: at most 3^4 · 4 candidates.
const WIDE: usize = 324;
const LIMIT: usize = 5;

fn penalty() -> impl Strategy<Value = LengthPenalty> {
    prop_oneof![
        Just(LengthPenalty::None),
        (-2.0..2.0).prop_map(LengthPenalty::Gnmt),
        (-2.0..2.0).prop_map(LengthPenalty::Pow),
    ]
}

/// How many different logits there are: few make ties, many make none.
fn levels() -> impl Strategy<Value = u64> {
    prop_oneof![Just(2u64), Just(5u64), Just(1 << 40)]
}

/// The n best hypotheses by trying all.
fn exhaustive<F>(toy: &Toy<F>, options: &Options, limit: usize) -> Vec<Hypothesis>
where
    F: Fn(&[u32], &[u32]) -> Vec<f32>,
{
    let mut prefixes = vec![Hypothesis {
        ids: vec![],
        token_log_probs: vec![],
        log_prob: 0.0,
        score: 0.0,
        finish: Finish::Cut,
    }];
    let mut found = Vec::new();
    while let Some(prefix) = prefixes.pop() {
        for (token, token_log_prob) in (0..BOS).zip(toy.next(&[], &prefix.ids)) {
            let mut one = prefix.clone();
            one.ids.push(token);
            one.token_log_probs.push(token_log_prob);
            one.log_prob += f64::from(token_log_prob);
            let len = one.ids.len();
            one.score =
                (one.log_prob - options.word_penalty * len as f64) / options.length_penalty.divisor(len);
            one.finish = if token == EOS { Finish::Eos } else { Finish::Cut };
            let ended = token == EOS || one.ids.len() == limit;
            if ended { &mut found } else { &mut prefixes }.push(one);
        }
    }
    found.sort_by(|a, b| b.score.total_cmp(&a.score));
    found.truncate(options.n_best);
    found
}

/// Decodes sentences that must not fail.
fn decoded<F>(toy: &Toy<F>, src: &[Vec<u32>], limits: &[usize], options: &Options) -> Vec<Vec<Hypothesis>>
where
    F: Fn(&[u32], &[u32]) -> Vec<f32>,
{
    decode(toy, &sentences(src, limits), options, None).unwrap().into_iter().map(Result::unwrap).collect()
}

/// A batch: sources, limits, and a search.
fn batch() -> impl Strategy<Value = (Vec<Vec<u32>>, Vec<usize>, Options)> {
    let sentence = (prop::collection::vec(0..3u32, 1..4), 1..9usize);
    let like = prop_oneof![
        3 => Just(Like::Tx), 1 => Just(Like::Ct2), 1 => Just(Like::Hf), 1 => Just(Like::Fairseq), 1 => Just(Like::Marian)
    ];
    (prop::collection::vec(sentence, 1..7), 1..5usize, 1..5usize, penalty(), like).prop_map(
        |(sentences, beam_size, n_best, mut length_penalty, like)| {
            let (src, limits) = sentences.into_iter().unzip();
            if let (Like::Ct2, LengthPenalty::Gnmt(alpha)) = (like, length_penalty) {
                length_penalty = LengthPenalty::Pow(alpha);
            }
            (src, limits, Options { length_penalty, like, ..options(beam_size, n_best.min(beam_size)) })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// With room for everything the search finds the best there is under every penalty,
    /// those closed at the limit included.
    #[test]
    fn wide_beam_is_exhaustive_search(
        seed: u64, levels in levels(), length_penalty in penalty(), limit in 1..=LIMIT, n_best in 1..20usize,
        word_penalty in prop_oneof![Just(0.0), -1.0..1.0f64],
    ) {
        let toy = random(seed, VOCAB_SIZE, levels);
        let options = Options { length_penalty, word_penalty, ..options(WIDE, n_best) };
        let found = decoded(&toy, &[vec![]], &[limit], &options).remove(0);
        let expected = exhaustive(&toy, &options, limit);
        let scores = |list: &[Hypothesis]| list.iter().map(|one| one.score).collect::<Vec<_>>();
        prop_assert_eq!(scores(&found), scores(&expected));
        if levels > 100 {
            prop_assert_eq!(found, expected);
        }
    }

    /// Ties included, whatever id EOS has, the penalty and the rules.
    #[test]
    fn beam_of_one_is_greedy(
        seed: u64, levels in levels(), eos in 0..6u32, limit in 1..30usize, length_penalty in penalty(),
        like in prop_oneof![Just(Like::Tx), Just(Like::Hf), Just(Like::Fairseq), Just(Like::Marian)],
    ) {
        let toy = random(seed, 6, levels);
        let rules = banned(vec![(eos + 1) % 6]);
        let options = Options { eos, rules, length_penalty, like, ..options(1, 1) };
        let sentence = sentences(&[vec![7, 8]], &[limit]);
        let narrow = beam_search(&toy, &sentence, &options, None).unwrap().remove(0).unwrap();
        let greedy = greedy(&toy, &sentence, &options, None).unwrap().remove(0).unwrap();
        prop_assert_eq!(narrow, greedy);
    }

    /// The company, the order and earlier runs change nothing, to the last bit.
    #[test]
    fn a_sentence_does_not_depend_on_its_company(seed: u64, levels in levels(), (src, limits, options) in batch()) {
        let toy = random(seed, VOCAB_SIZE, levels);
        let together = decoded(&toy, &src, &limits, &options);
        let alone: Vec<_> = (0..src.len())
            .map(|i| decoded(&toy, &src[i..=i], &limits[i..=i], &options).remove(0))
            .collect();
        prop_assert_eq!(&together, &alone);
        let backwards = |x: &[usize]| x.iter().rev().copied().collect::<Vec<_>>();
        let src_backwards: Vec<_> = src.iter().rev().cloned().collect();
        let mut reversed = decoded(&toy, &src_backwards, &backwards(&limits), &options);
        reversed.reverse();
        prop_assert_eq!(&together, &reversed);
    }

    /// The list is distinct, in order, within its limit, and can be recomputed.
    #[test]
    fn n_best_lists_are_sound(seed: u64, levels in levels(), (src, limits, options) in batch()) {
        let toy = random(seed, VOCAB_SIZE, levels);
        for ((list, &limit), src) in decoded(&toy, &src, &limits, &options).iter().zip(&limits).zip(&src) {
            prop_assert!(!list.is_empty() && list.len() <= options.n_best);
            prop_assert!(list.is_sorted_by(|a, b| a.score >= b.score));
            for (i, one) in list.iter().enumerate() {
                prop_assert!(list[..i].iter().all(|other| other.ids != one.ids));
                prop_assert_eq!(one.ids.contains(&EOS), one.finish == Finish::Eos);
                prop_assert_eq!(one.ids.iter().filter(|&&id| id == EOS || id == BOS).count(),
                    usize::from(one.ids.last() == Some(&EOS)));
                prop_assert!(one.ids.len() <= limit && (one.finish == Finish::Eos || one.ids.len() == limit));
                let own: Vec<f32> = (0..one.ids.len())
                    .map(|t| toy.next(src, &one.ids[..t])[one.ids[t] as usize]).collect();
                // CTranslate2's rules change the first distribution.
                let changed = usize::from(options.like == Like::Ct2);
                prop_assert_eq!(&one.token_log_probs[changed..], &own[changed..]);
                let sum: f64 = one.token_log_probs.iter().map(|&x| f64::from(x)).sum();
                prop_assert!((sum - one.log_prob).abs() < 1e-12);
                let divisor = options.length_penalty.divisor(one.ids.len());
                prop_assert!((one.score * divisor - one.log_prob).abs() < 1e-12);
            }
        }
    }

    /// Recording changes nothing, and the record tells how every result came about.
    #[test]
    fn a_trace_explains_the_result(seed: u64, levels in levels(), (src, limits, options) in batch()) {
        let toy = random(seed, VOCAB_SIZE, levels);
        let mut traces = Vec::new();
        let outcomes = decode(&toy, &sentences(&src, &limits), &options, Some(&mut traces)).unwrap();
        let recorded: Vec<_> = outcomes.into_iter().map(Result::unwrap).collect();
        prop_assert_eq!(&recorded, &decoded(&toy, &src, &limits, &options));
        prop_assert_eq!(traces.len(), src.len());
        for (trace, list) in traces.iter().zip(&recorded) {
            check_trace(trace, list, &options)?;
        }
    }
}

fn check_trace(trace: &Trace, list: &[Hypothesis], options: &Options) -> Result<(), TestCaseError> {
    let returned: Vec<_> = trace.hypotheses.iter().map(|ranked| ranked.hypothesis.clone()).collect();
    prop_assert_eq!(&returned[..], list);
    let stop = trace.stop.unwrap();
    prop_assert!(stop != Stop::Limit || trace.steps.len() == trace.max_length);
    prop_assert!(trace.steps.len() < trace.max_length || matches!(stop, Stop::Limit | Stop::Eos));
    for (i, step) in trace.steps.iter().enumerate() {
        prop_assert_eq!(step.step, i + 1);
        prop_assert!(step.candidates.len() <= 2 * options.beam_size);
        prop_assert!(step.candidates.is_sorted_by(|a, b| a.log_prob >= b.log_prob));
        let kept = step.candidates.iter().filter(|c| matches!(c.fate, Fate::Live | Fate::Cut)).count();
        prop_assert!(kept <= options.beam_size);
        for (rank, candidate) in step.candidates.iter().enumerate() {
            prop_assert_eq!(candidate.rank, rank);
            prop_assert_eq!(candidate.id.is_none(), candidate.fate == Fate::Pruned);
            let parent = step.live.iter().find(|live| live.id == candidate.parent).unwrap();
            prop_assert_eq!(candidate.log_prob, parent.log_prob + f64::from(candidate.token_log_prob));
        }
        // The live hypotheses of a step are those that the step before let live, in that order.
        if i > 0 {
            let before = trace.steps[i - 1].candidates.iter().filter(|c| c.fate == Fate::Live);
            let before: Vec<_> =
                before.map(|c| (c.id.unwrap(), Some(c.parent), c.token, c.log_prob)).collect();
            let live: Vec<_> = step.live.iter().map(|l| (l.id, l.parent, l.token, l.log_prob)).collect();
            prop_assert_eq!(live, before);
        }
    }
    for ranked in &trace.hypotheses {
        let (mut id, mut ids) = (ranked.id, Vec::new());
        while id != 0 {
            let mut candidates = trace.steps.iter().flat_map(|step| &step.candidates);
            let candidate = candidates.find(|candidate| candidate.id == Some(id)).unwrap();
            ids.insert(0, candidate.token);
            id = candidate.parent;
        }
        prop_assert_eq!(&ids, &ranked.hypothesis.ids);
    }
    Ok(())
}
