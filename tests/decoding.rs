use crate::common::*;
use proptest::prelude::*;
use serde_json::Value;
use tx::candle_core::{Device, Tensor};
use tx::model::Pass;
use tx::model::linear::Kind;
use tx::ops::{Precision, Scores};
use tx::search::{self, Finish, LengthPenalty, Rules, Scorer, Sentence, TransformerScorer};
use tx::translate::forced::LeftOut;
use tx::translate::{Options, Translation, Translator};

fn translator() -> Translator {
    Translator::new(tiny(), &Device::Cpu, None).unwrap()
}

fn beam(beam_size: usize) -> Options {
    Options {
        beam_size: Some(beam_size),
        length_penalty: Some(LengthPenalty::Gnmt(0.6)),
        ..Options::default()
    }
}

fn translate(translator: &Translator, lines: &[&str], options: &Options) -> Vec<Translation> {
    let lines = lines.iter().enumerate().map(|(index, line)| (index as u64 + 1, line.to_string())).collect();
    translator.translate(lines, options).unwrap()
}

/// What must not differ of a hypothesis: ids, the bits of every log-probability, the score.
type Essence = (Vec<u32>, Vec<f32>, f64);

fn essence(translations: &[Translation]) -> Vec<Vec<Essence>> {
    let of = |translation: &Translation| {
        let each = translation.hypotheses.iter();
        each.map(|found| (found.ids.clone(), found.token_log_probs.clone(), found.score)).collect()
    };
    translations.iter().map(of).collect()
}

/// Ids and log-probabilities of `transformers`' greedy search, and beam 1.
#[test]
fn greedy_agrees_with_transformers() {
    let translator = translator();
    for expected in golden_json("model.json")["greedy"].as_array().unwrap() {
        let text = expected["text"].as_str().unwrap();
        let options = Options { max_length: Some(20), ..beam(1) };
        let found = &translate(&translator, &[text], &options)[0].hypotheses[0];
        let ids: Vec<u32> = serde_json::from_value(expected["ids"].clone()).unwrap();
        assert_eq!(found.ids, ids, "{text}");
        assert_eq!(found.text, expected["output"].as_str().unwrap());
        assert_eq!(found.finish == Finish::Cut, expected["finish"] == "cut");
        assert!((found.log_prob - expected["log_prob"].as_f64().unwrap()).abs() < 1e-4, "{text}");
        let sum: f64 = found.token_log_probs.iter().map(|&x| f64::from(x)).sum();
        assert!((found.log_prob - sum).abs() < 1e-6);
    }
}

/// Given targets, fed token by token, have the log-probabilities that `transformers` gives them.
#[test]
fn forced_log_probs_agree_with_transformers() {
    let model = transformer(&tiny(), Kind::Packed(Precision::F32));
    let scorer = TransformerScorer::new(&model);
    for case in golden_json("model.json")["forced"].as_array().unwrap() {
        let src: Vec<u32> = serde_json::from_value(case["src"].clone()).unwrap();
        let ids: Vec<u32> = serde_json::from_value(case["ids"].clone()).unwrap();
        let mut state = scorer.start(&[src]).unwrap();
        let (mut last, mut scores) = (2, Scores::default());
        let mut log_prob = 0.0;
        for id in ids {
            scorer.step(&mut state, &[last], &mut scores).unwrap();
            log_prob += f64::from(scores.norms[0].log_prob(scores.logits[id as usize]));
            last = id;
        }
        assert!((log_prob - case["log_prob"].as_f64().unwrap()).abs() < 1e-4, "{log_prob}");
    }
}

/// Given texts have the log-probabilities that `transformers` gives them, and the same bits alone as in company.
#[test]
fn forced_texts_agree_with_transformers() {
    let translator = translator();
    let json = golden_json("model.json");
    let cases = json["pairs"].as_array().unwrap();
    let text = |case: &Value, key: &str| case[key].as_str().unwrap().to_string();
    let pairs: Vec<(String, String)> =
        cases.iter().map(|case| (text(case, "text"), text(case, "target"))).collect();
    let together = translator.force(&pairs).unwrap();
    for ((case, pair), forced) in cases.iter().zip(&pairs).zip(&together) {
        assert_eq!(&translator.force(std::slice::from_ref(pair)).unwrap()[0], forced, "{pair:?}");
        let forced = forced.as_ref().unwrap();
        let ids: Vec<u32> = serde_json::from_value(case["ids"].clone()).unwrap();
        let expected: Vec<f32> = serde_json::from_value(case["token_log_probs"].clone()).unwrap();
        assert_eq!(forced.ids, ids, "{pair:?}");
        for (found, expected) in forced.token_log_probs.iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-4, "{pair:?}: {found} instead of {expected}");
        }
        assert!((forced.log_prob - case["log_prob"].as_f64().unwrap()).abs() < 1e-3);
    }
}

/// A blank side never reaches the model, one beyond its 64 positions cannot; the others keep their places.
#[test]
fn pairs_without_a_probability_are_left_out() {
    let (long, pair) = ("sea ".repeat(30), ("ja".to_string(), "a cat".to_string()));
    let blank = |src: &str, tgt: &str| (src.to_string(), tgt.to_string());
    let pairs = [blank(" ", "ja"), pair.clone(), blank("ja", ""), blank("ja", &long), blank(&long, "ja")];
    let found = translator().force(&pairs).unwrap();
    assert_eq!(found[1], translator().force(&[pair]).unwrap()[0]);
    let reasons: Vec<Option<LeftOut>> = found.into_iter().map(Result::err).collect();
    let (blank, too_long) = (Some(LeftOut::Blank), Some(LeftOut::TooLong));
    assert_eq!(reasons, [blank, None, blank, too_long, too_long]);
}

/// One decoder body: token by token with caches, rows reordered on the way, as with the whole sentence at once.
#[test]
fn cached_decoding_is_full_decoding() {
    let json = golden_json("model.json");
    let (src, tgt_in) = (sentences(&json["src"]), sentences(&json["tgt_in"]));
    for kind in [Kind::Plain, Kind::Packed(Precision::F32)] {
        let model = transformer(&tiny(), kind);
        let memory = model.encode(&src.concat(), &lengths(&src), &mut Pass::inference()).unwrap();
        let full =
            model.decode(&tgt_in.concat(), &lengths(&tgt_in), &memory, &mut Pass::inference()).unwrap();
        let mut state = model.start(&memory).unwrap();
        let mut scores = Scores::default();
        let mut live: Vec<usize> = (0..src.len()).collect();
        let firsts: Vec<usize> = (0..src.len()).map(|i| lengths(&tgt_in[..i]).iter().sum()).collect();
        for step in 0..lengths(&tgt_in).into_iter().max().unwrap() {
            // Sentences that are done leave the batch.
            let stay: Vec<usize> = (0..live.len()).filter(|&row| step < tgt_in[live[row]].len()).collect();
            state.reorder(&stay).unwrap();
            live = stay.into_iter().map(|row| live[row]).collect();
            let tokens: Vec<u32> = live.iter().map(|&sentence| tgt_in[sentence][step]).collect();
            model.step(&tokens, &mut state, &mut scores).unwrap();
            let logits =
                Tensor::from_vec(scores.logits.clone(), (tokens.len(), full.dim(1).unwrap()), &Device::Cpu)
                    .unwrap();
            for (row, &sentence) in live.iter().enumerate() {
                let expected = full.narrow(0, firsts[sentence] + step, 1).unwrap();
                assert_close("logits", &logits.narrow(0, row, 1).unwrap(), &expected, 1e-5);
            }
        }
    }
}

/// Beams that branch and die over many steps, so that what nobody looks at is let go on the way: every hypothesis has the bits
/// that it has when it is fed alone.
#[test]
fn a_hypothesis_keeps_its_own_past() {
    let model = transformer(&tiny(), Kind::Packed(Precision::F32));
    let src = &sentences(&golden_json("model.json")["src"])[..2];
    let memory = model.encode(&src.concat(), &lengths(src), &mut Pass::inference()).unwrap();
    let mut state = model.start(&memory).unwrap();
    let mut scores = Scores::default();
    let mut rng = tx::rng::Rng::new(5, "decoding");
    // Sentence and tokens of every row.
    let mut live: Vec<(usize, Vec<u32>)> = vec![(0, Vec::new()), (1, Vec::new())];
    for step in 0..30 {
        live.iter_mut().for_each(|(_, ids)| ids.push(if step == 0 { 2 } else { 4 + rng.below(20) as u32 }));
        let tokens: Vec<u32> = live.iter().map(|(_, ids)| ids[step]).collect();
        model.step(&tokens, &mut state, &mut scores).unwrap();
        for ((sentence, ids), row) in live.iter().zip(scores.logits.chunks_exact(model.config().tgt_vocab)) {
            let own = std::slice::from_ref(&src[*sentence]);
            let memory = model.encode(&own.concat(), &lengths(own), &mut Pass::inference()).unwrap();
            let full = model.decode(ids, &[ids.len()], &memory, &mut Pass::inference()).unwrap();
            let last =
                full.narrow(0, ids.len() - 1, 1).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
            assert!(last == row, "step {step}, sentence {sentence}");
        }
        // Up to four rows of each sentence go on, from any of its own.
        let rows: Vec<usize> = (0..2)
            .flat_map(|sentence| {
                let own: Vec<usize> = (0..live.len()).filter(|&row| live[row].0 == sentence).collect();
                (0..1 + rng.below(4)).map(|_| own[rng.below(own.len())]).collect::<Vec<_>>()
            })
            .collect();
        state.reorder(&rows).unwrap();
        live = rows.iter().map(|&row| live[row].clone()).collect();
    }
}

/// Row 53: nothing of sentence A is left when B follows.
#[test]
fn no_state_leaks_from_one_sentence_to_the_next() {
    let translator = translator();
    let (a, b) = ("we see the sea", "ja");
    let alone = essence(&translate(&translator, &[b], &beam(4)));
    translate(&translator, &[a], &beam(4));
    assert_eq!(essence(&translate(&translator, &[b], &beam(4))), alone);
    assert_eq!(essence(&translate(&translator, &[a, b], &beam(4)))[1], alone[0]);
}

#[test]
fn beam_1_is_greedy() {
    let model = transformer(&tiny(), Kind::Packed(Precision::F32));
    let scorer = TransformerScorer::new(&model);
    let options = search::Options {
        beam_size: 1,
        n_best: 1,
        length_penalty: LengthPenalty::None,
        rules: Rules { banned: vec![0, 1, 2], ..Rules::default() },
        ..search::Options::new(2, 3)
    };
    for src in sentences(&golden_json("model.json")["src"]) {
        let greedy = search::greedy(&scorer, &[Sentence::new(src.clone(), 20)], &options, None).unwrap();
        let beam = search::beam_search(&scorer, &[Sentence::new(src, 20)], &options, None).unwrap();
        assert_eq!(greedy[0].as_ref().unwrap(), beam[0].as_ref().unwrap());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Batch size, order and number of threads change neither a token nor a bit of its log-probability.
    #[test]
    fn the_company_of_a_line_never_matters(
        lines in prop::collection::vec("[a-zäöü .,?!]{0,14}", 1..9),
        batch_size in 1usize..9,
        threads in 1usize..4,
        beam_size in 1usize..6,
    ) {
        let translator = translator();
        let options = |batch_size| Options { batch_size: Some(batch_size), n_best: Some(beam_size), ..beam(beam_size) };
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let alone: Vec<_> = lines.iter().map(|line| essence(&translate(&translator, &[line], &options(1))).remove(0)).collect();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let together = pool.install(|| essence(&translate(&translator, &lines, &options(batch_size))));
        prop_assert_eq!(&together, &alone);
        let reversed: Vec<&str> = lines.iter().rev().copied().collect();
        let mut reversed = essence(&translate(&translator, &reversed, &options(batch_size)));
        reversed.reverse();
        prop_assert_eq!(&reversed, &alone);
    }
}

/// A line of more pieces than positions is translated in parts, none of it dropped.
#[test]
fn a_line_that_is_too_long_is_split() {
    let translator = translator();
    let limit = translator.model().config().max_positions;
    let line = "we see the sea. ".repeat(20);
    let found = &translate(&translator, &[&line, "ja"], &beam(2))[0];
    let pieces = translator.encode(&line).unwrap().len();
    assert!(pieces > limit);
    let parts = match found.notices.as_slice() {
        [tx::translate::Notice::Split { pieces: said, limit: of, parts }, ..] => {
            assert_eq!((*said, *of), (pieces, limit));
            *parts
        }
        other => panic!("{other:?}"),
    };
    assert!(parts >= pieces.div_ceil(limit));
    assert!(!found.hypotheses[0].text.is_empty());
}

/// Repetition penalty, n-grams that must not occur twice, least lengths and prefixes, greedy and with beams.
#[test]
fn rules_agree_with_transformers() {
    let model = transformer(&tiny(), Kind::Packed(Precision::F32));
    for case in golden_json("decoding.json").as_array().unwrap() {
        let ids = |key: &str| serde_json::from_value::<Vec<u32>>(case[key].clone()).unwrap_or_default();
        let number = |key: &str| case[key].as_u64().unwrap_or(0) as usize;
        let options = search::Options {
            beam_size: number("beam"),
            length_penalty: LengthPenalty::Pow(case["alpha"].as_f64().unwrap_or(0.0)),
            rules: Rules {
                banned: vec![0, 1, 2],
                no_repeat_ngram: number("no_repeat_ngram"),
                repetition_penalty: case["repetition_penalty"].as_f64().unwrap_or(1.0) as f32,
                ..Rules::default()
            },
            min_length: number("min_length"),
            like: if case["like"] == "hf" { search::Like::Hf } else { search::Like::Tx },
            ..search::Options::new(2, 3)
        };
        let sentence = Sentence { prefix: ids("prefix"), ..Sentence::new(ids("src"), 20) };
        let found = search::decode(&TransformerScorer::new(&model), &[sentence], &options, None).unwrap();
        assert_eq!(found[0].as_ref().unwrap()[0].ids, ids("ids"), "{case}");
    }
}

/// A draw depends on the seed and the line, not on the company; the most probable piece alone is greedy search.
#[test]
fn draws_do_not_depend_on_the_company() {
    let translator = translator();
    let texts = ["a cat", "the sea", "ja", "a cat"];
    let lines = |numbers: std::ops::Range<usize>| -> Vec<(u64, String)> {
        numbers.map(|i| (i as u64 + 1, texts[i].to_string())).collect()
    };
    let sampling = Some(search::Sampling::default());
    let options = Options { sampling, n_best: Some(3), max_length: Some(12), seed: 5, ..Options::default() };
    let together = translator.translate(lines(0..4), &options).unwrap();
    let ids = |one: &Translation| one.hypotheses.iter().map(|one| one.ids.clone()).collect::<Vec<_>>();
    for (i, one) in together.iter().enumerate() {
        let alone =
            translator.translate(lines(i..i + 1), &Options { batch_size: Some(1), ..options.clone() });
        assert_eq!(ids(one), ids(&alone.unwrap()[0]));
    }
    // The same text on another line, or with another seed.
    assert_ne!(ids(&together[0]), ids(&together[3]));
    let other = translator.translate(lines(0..1), &Options { seed: 6, ..options.clone() }).unwrap();
    assert_ne!(ids(&together[0]), ids(&other[0]));
    let one = Some(search::Sampling { top_k: 1, ..search::Sampling::default() });
    let drawn = translator
        .translate(lines(0..4), &Options { sampling: one, n_best: None, ..options.clone() })
        .unwrap();
    let greedy = Options { beam_size: Some(1), max_length: Some(12), ..Options::default() };
    let greedy = translator.translate(lines(0..4), &greedy).unwrap();
    for (drawn, greedy) in drawn.iter().zip(&greedy) {
        assert_eq!(drawn.hypotheses[0].ids, greedy.hypotheses[0].ids);
    }
}

/// A prefix is where a translation begins; one that does not fit fails its own line.
#[test]
fn prefixes_belong_to_their_lines() {
    let line = |number: u64, prefix: Option<&str>| tx::translate::Line {
        number,
        text: "a cat".into(),
        prefix: prefix.map(str::to_string),
    };
    let options = Options { max_length: Some(8), ..Options::default() };
    let long = "the sea ".repeat(6);
    let lines = vec![line(1, None), line(2, Some("sea")), line(3, Some(&long)), line(4, Some(" "))];
    let found = translator().translate(lines, &options).unwrap();
    assert_eq!(found[0].hypotheses[0].ids, found[3].hypotheses[0].ids);
    let prefix = translator().encode("sea").unwrap();
    assert!(found[1].hypotheses[0].ids.starts_with(&prefix[..prefix.len() - 1]));
    assert!(
        found[2].hypotheses[0].text.is_empty() && format!("{:?}", found[2].notices).contains("does not fit")
    );
    let options = Options { suppress: vec!["sea".into()], ..options };
    let translator = translator();
    let search = translator.search_options(&options).unwrap();
    assert_eq!(search.rules.suppressed.len(), 1);
    let free = translate(&translator, &["the sea"], &Options { suppress: vec![], ..options.clone() });
    let said = free[0].hypotheses[0].text.split(' ').next().unwrap().to_string();
    let suppress = Options { suppress: vec![said.clone()], ..options.clone() };
    let found = translate(&translator, &["the sea"], &suppress);
    assert!(
        !found[0].hypotheses[0].text.split(' ').any(|word| word == said),
        "{said}: {:?}",
        found[0].hypotheses[0]
    );
    let blank = Options { suppress: vec![" ".into()], ..options };
    assert!(translator.search_options(&blank).unwrap_err().to_string().contains("blank"));
}
