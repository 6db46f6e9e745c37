//! Faults that decoders have shown, and settings that cannot be followed.

use crate::error::Error;
use crate::search::toy::{
    A, B, BOS, C, EOS, Toy, VOCAB_SIZE, assert_close, banned, distribution, ids, options, random, search,
    sentences, table, traced,
};
use crate::search::trace::Stop;
use crate::search::{Finish, Hypothesis, LengthPenalty, Like, Options, check_sizes, decode};

/// A model that loops and never ends gets its limit of steps, not one more, and what it said.
#[test]
fn a_model_that_never_ends_is_cut_at_the_limit() {
    for beam_size in [1, 4] {
        let toy = Toy::new(VOCAB_SIZE, |_, prefix| {
            assert!(prefix.len() < 7, "asked for a step beyond the positions of the model");
            distribution(&[(A, 0.9), (B, 0.1)])
        });
        let limit = Like::Tx.max_length(3, None, 0, 7);
        let list = decode(&toy, &sentences(&[vec![]], &[limit]), &options(beam_size, 1), None)
            .unwrap()
            .remove(0)
            .unwrap();
        assert_eq!((&list[0].ids[..], list[0].finish), (&[A; 7][..], Finish::Cut));
        assert_eq!(toy.steps.get(), 7);
    }
}

#[test]
fn step_limit_is_the_smaller_of_what_was_asked_and_what_the_model_has() {
    assert_eq!(Like::Tx.max_length(10, None, 0, 512), 60);
    assert_eq!(Like::Tx.max_length(500, None, 0, 512), 512);
    assert_eq!(Like::Tx.max_length(10, Some(7), 0, 512), 7);
    assert_eq!(Like::Tx.max_length(10, None, 80, 512), 130);
    assert_eq!(Like::Tx.max_length(10, Some(1000), 0, 512), 512);
}

/// The same scorer, B after A and B alone.
#[test]
fn nothing_is_left_over_from_the_sentence_before() {
    let toy = random(5, VOCAB_SIZE, 1 << 40);
    let run = |src: &[u32]| {
        decode(&toy, &sentences(&[src.to_vec()], &[8]), &options(4, 4), None).unwrap().remove(0).unwrap()
    };
    let alone = run(&[2, 3]);
    assert_ne!(run(&[1]), alone);
    assert_eq!(run(&[2, 3]), alone);
}

/// The first step starts from one hypothesis, so no list holds the same ids twice. That two of them may spell one
/// text is allowed.
#[test]
fn n_best_hypotheses_differ() {
    let toy = table(&[(&[], &[(A, 0.4), (B, 0.3), (C, 0.2), (EOS, 0.1)])]);
    let list = search(&toy, 9, &options(4, 4));
    assert_eq!(ids(&list), [&[A, EOS][..], &[B, EOS], &[C, EOS], &[EOS]]);
    assert_eq!(toy.most_rows.get(), 3);
}

/// A beam that the vocabulary cannot fill returns what there is.
#[test]
fn beam_wider_than_the_vocabulary_is_no_error() {
    let toy = table(&[(&[], &[(A, 0.7), (EOS, 0.3)])]);
    for beam_size in [5, 10, 1000] {
        let list = search(&toy, 3, &options(beam_size, 5));
        assert_eq!(ids(&list), [[A, EOS].as_slice(), &[EOS]]);
    }
}

/// Sizes that make no sense are refused in a sentence, without any model.
#[test]
fn beam_and_n_best_out_of_range_are_refused() {
    for (beam_size, n_best, part) in
        [(0, 1, "beam size 0"), (4, 0, "n-best 0"), (4, 10, "a beam of 10"), (100_000, 1, "at most 1000")]
    {
        let Err(Error::Config(message)) = check_sizes(beam_size, n_best) else {
            panic!("{beam_size} {n_best}")
        };
        assert!(message.contains(part), "{message}");
        let result = decode(&table(&[]), &sentences(&[vec![]], &[9]), &options(beam_size, n_best), None);
        assert_eq!(result.unwrap_err().to_string(), message);
    }
    assert!(check_sizes(1, 1).is_ok() && check_sizes(1000, 1000).is_ok());
}

#[test]
fn settings_that_do_not_fit_the_model_are_refused() {
    let refuse = |change: fn(&mut Options), limits: &[usize]| {
        let mut options = options(2, 1);
        change(&mut options);
        let result = decode(&table(&[]), &sentences(&[vec![]], limits), &options, None);
        let Err(Error::Config(message)) = result else { panic!("{options:?} was accepted") };
        message
    };
    assert!(refuse(|o| o.eos = 5, &[9]).contains("eos id 5"));
    assert!(refuse(|o| o.bos = 99, &[9]).contains("vocabulary of 5"));
    assert!(refuse(|o| o.rules.banned.push(7), &[9]).contains("banned id 7"));
    assert!(refuse(|o| o.length_penalty = LengthPenalty::Pow(f64::NAN), &[9]).contains("between"));
    assert!(
        refuse(|o| (o.like, o.length_penalty) = (Like::Ct2, LengthPenalty::Gnmt(0.6)), &[9]).contains("pow")
    );
    assert!(refuse(|_| (), &[0]).contains("step limit 0 for sentence 1"));
}

#[test]
fn an_empty_batch_never_reaches_the_model() {
    let toy = table(&[]);
    assert!(decode(&toy, &[], &options(2, 1), None).unwrap().is_empty());
    assert_eq!(toy.steps.get(), 0);
}

/// The banned token has 0.7 and never appears; the others keep their probabilities, nothing is renormalised.
#[test]
fn banned_tokens_are_never_chosen_and_the_others_keep_their_scores() {
    let toy = table(&[(&[], &[(C, 0.7), (A, 0.2), (B, 0.1)]), (&[A], &[(C, 0.9), (EOS, 0.1)])]);
    for beam_size in [1, 2] {
        let options = Options { rules: banned(vec![BOS, C]), ..options(beam_size, 1) };
        let list = decode(&toy, &sentences(&[vec![]], &[9]), &options, None).unwrap().remove(0).unwrap();
        let best: &[u32] = if beam_size == 1 { &[A, EOS] } else { &[B, EOS] };
        assert_eq!(list[0].ids, best);
        assert_close(list[0].log_prob, if beam_size == 1 { 0.02f64.ln() } else { 0.1f64.ln() });
    }
}

/// With EOS banned every hypothesis has exactly the limit's length.
#[test]
fn banned_end_mark_gives_a_fixed_length() {
    let toy = random(1, VOCAB_SIZE, 1 << 40);
    let options = Options { rules: banned(vec![BOS, EOS]), ..options(3, 3) };
    let list = search(&toy, 6, &options);
    assert!(list.iter().all(|one| one.ids.len() == 6 && one.finish == Finish::Cut));
    assert_eq!(list.len(), 3);
}

/// NaN is an error of its own sentence with its step, the neighbours are translated.
#[test]
fn nan_fails_its_own_sentence_only() {
    for beam_size in [1, 3] {
        let toy = Toy::new(VOCAB_SIZE, |src, prefix| {
            let mut log_probs = random(2, VOCAB_SIZE, 1 << 40).next(src, prefix);
            if src == [1] && prefix.len() == 1 {
                log_probs[C as usize] = f32::NAN;
            }
            log_probs[EOS as usize] -= 9.0;
            log_probs
        });
        let (options, src) = (options(beam_size, 1), sentences(&[vec![0], vec![1], vec![2]], &[5; 3]));
        let mut traces = Vec::new();
        let outcomes = decode(&toy, &src, &options, Some(&mut traces)).unwrap();
        for i in [0, 2] {
            let alone = decode(&toy, &src[i..=i], &options, None).unwrap().remove(0).unwrap();
            assert_eq!(outcomes[i].as_ref().unwrap(), &alone);
        }
        let Err(Error::Numeric(message)) = &outcomes[1] else { panic!("NaN went unseen") };
        assert!(
            message.contains("step 2") && message.contains("NaN") && message.contains("id 3"),
            "{message}"
        );
        assert_eq!(traces.len(), 3);
        assert!(traces[1].stop.is_none() && traces[1].hypotheses.is_empty());
    }
}

/// -inf everywhere: what there is comes back as cut, be it nothing.
#[test]
fn when_no_token_is_possible_the_live_ones_are_returned() {
    for beam_size in [1, 2] {
        let toy = Toy::new(VOCAB_SIZE, |_, prefix| match prefix {
            [] => distribution(&[(A, 0.75), (B, 0.25)]),
            _ => distribution(&[]),
        });
        let pow = |n_best| Options { length_penalty: LengthPenalty::Pow(1.0), ..options(beam_size, n_best) };
        let trace = traced(&toy, 9, &pow(beam_size));
        assert_eq!(trace.stop, Some(Stop::NoCandidates));
        assert_eq!(trace.hypotheses.len(), beam_size);
        assert_eq!((&trace.hypotheses[0].hypothesis.ids[..], trace.hypotheses[0].id), (&[A][..], 1));
        assert_close(trace.hypotheses[0].hypothesis.score, 0.75f64.ln());

        let nothing = Toy::new(VOCAB_SIZE, |_, _| distribution(&[]));
        let trace = traced(&nothing, 9, &pow(1));
        let empty = Hypothesis {
            ids: vec![],
            token_log_probs: vec![],
            log_prob: 0.0,
            score: 0.0,
            finish: Finish::Cut,
        };
        assert_eq!(trace.hypotheses[0].hypothesis, empty);
    }
}

#[test]
fn an_answer_of_the_wrong_size_is_refused() {
    let toy = Toy::new(VOCAB_SIZE, |_, _| vec![-1.0; VOCAB_SIZE - 1]);
    let error = decode(&toy, &sentences(&[vec![], vec![]], &[9, 9]), &options(2, 1), None).unwrap_err();
    assert!(error.to_string().contains("8 log-probabilities in 2 rows, expected 2 rows of 5"), "{error}");
}

/// A finished sentence leaves the batch: the first ends at step 2, and from step 3 on only the two rows of the second
/// reach the model.
#[test]
fn finished_sentences_leave_the_batch() {
    let rows = std::cell::RefCell::new(Vec::new());
    let toy = Toy::new(VOCAB_SIZE, |src, prefix| {
        rows.borrow_mut().push(prefix.len());
        let ended = prefix.len() == src[0] as usize;
        distribution(if ended { &[(EOS, 1.0)] } else { &[(A, 0.6), (B, 0.4)] })
    });
    let outcomes = decode(&toy, &sentences(&[vec![1], vec![4]], &[9, 9]), &options(2, 1), None).unwrap();
    let lengths: Vec<usize> = outcomes.iter().map(|list| list.as_ref().unwrap()[0].ids.len()).collect();
    assert_eq!(lengths, [2, 5]);
    let rows_at = |step: usize| rows.borrow().iter().filter(|&&length| length == step).count();
    assert_eq!([0, 1, 2, 3, 4].map(rows_at), [2, 4, 2, 2, 2]);
}
