//! Scores against those of sacreBLEU 2.6.0 and rouge-score 0.1.2 (`tests/golden/make_scores.py` made the numbers).

use serde_json::Value;

use super::*;

fn golden() -> Value {
    serde_json::from_str(include_str!("../../tests/golden/scores.json")).unwrap()
}

fn lines(golden: &Value, name: &Value) -> Vec<String> {
    let lines = golden["texts"][name.as_str().unwrap()].as_array().unwrap();
    lines.iter().map(|line| line.as_str().unwrap().to_string()).collect()
}

fn texts(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// The metric that a case of the file describes.
fn metric_of(case: &Value) -> Metric {
    if case["metric"] == "ter" {
        return Metric::Ter(Ter { case_sensitive: case["case_sensitive"].as_bool().unwrap() });
    }
    let tokenizer = case["tokenizer"].as_str().map_or(Tokenizer::V13a, |t| Tokenizer::from_name(t).unwrap());
    Metric::from_name(texts(&case["metric"]), tokenizer, case["lowercase"].as_bool().unwrap_or(false))
        .unwrap()
}

/// sacreBLEU's text with this crate's version in it.
fn as_ours(text: &str) -> String {
    let version = concat!("tx-", env!("CARGO_PKG_VERSION"));
    text.replace("version:2.6.0", &format!("version:{version}"))
        .replace("\"version\": \"2.6.0\"", &format!("\"version\": \"{version}\""))
}

/// Runs `check` on every case of the file that `wanted` holds for, with its corpus.
fn for_cases(wanted: impl Fn(&str) -> bool, check: impl Fn(&Value, Metric, &Corpus)) {
    let golden = golden();
    let mut seen = 0;
    for case in golden["cases"].as_array().unwrap().iter().filter(|case| wanted(texts(&case["metric"]))) {
        let hypotheses = lines(&golden, &case["hyp"]);
        let references: Vec<_> =
            case["refs"].as_array().unwrap().iter().map(|name| lines(&golden, name)).collect();
        check(case, metric_of(case), &Corpus::new(&hypotheses, &references).unwrap());
        seen += 1;
    }
    assert!(seen >= 30, "only {seen} cases");
}

fn check_sentences(case: &Value, metric: Metric, corpus: &Corpus) {
    if let Some(expected) = case["sentences"].as_str() {
        let scores = metric.sentence_scores(corpus);
        let found: Vec<String> = scores.iter().map(|score| format!("{:.2}", score.score)).collect();
        assert_eq!(found.join(" "), expected, "sentences of {} {:?}", case["hyp"], metric);
    }
}

/// Every tokenizer, case and number of references, on every kind of hypothesis; corpus, sentences, json.
#[test]
fn bleu_chrf_and_ter_are_those_of_sacrebleu() {
    for_cases(
        |metric| !metric.starts_with("rouge"),
        |case, metric, corpus| {
            let score = metric.corpus_score(corpus);
            assert_eq!(score.format(2), as_ours(texts(&case["line"])), "{} {metric:?}", case["hyp"]);
            assert!((score.score - case["score"].as_f64().unwrap()).abs() < 1e-9);
            check_sentences(case, metric, corpus);
            if let Some(text) = case["json"].as_str() {
                assert_eq!(json_text(&[score.to_json(1)]), format!("[\n{}\n]", as_ours(text)));
            }
        },
    );
}

#[test]
fn rouge_is_that_of_rouge_score() {
    for_cases(
        |metric| metric.starts_with("rouge"),
        |case, metric, corpus| {
            let score = metric.corpus_score(corpus);
            let Parts::Rouge { precision, recall } = score.parts else { panic!("{:?}", score.parts) };
            for (found, key) in [(score.score, "score"), (precision, "precision"), (recall, "recall")] {
                assert!(
                    (found - case[key].as_f64().unwrap()).abs() < 1e-9,
                    "{key} of {} {metric:?}",
                    case["hyp"]
                );
            }
            check_sentences(case, metric, corpus);
        },
    );
}

#[test]
fn odd_lines_are_cut_and_scored_as_by_sacrebleu() {
    let golden = golden();
    let odd = golden["odd"].as_array().unwrap();
    assert!(odd.len() >= 20);
    for pair in odd {
        let (hypothesis, reference) = (texts(&pair["hyp"]), texts(&pair["ref"]));
        let hypotheses = [hypothesis];
        for (name, expected) in pair["tokens"].as_object().unwrap() {
            let line = Tokenizer::from_name(name).unwrap().tokenize(hypothesis);
            let found: Vec<&str> = tokenize::words(&line).collect();
            assert_eq!(found.join(" "), texts(expected), "{name} on {hypothesis:?}");
        }
        let references = [[reference]];
        let corpus = Corpus::new(&hypotheses, &references).unwrap();
        let scores = Metric::Bleu(Bleu::default()).sentence_scores(&corpus);
        assert_eq!(scores[0].format(2), as_ours(texts(&pair["line"])), "{hypothesis:?} {reference:?}");
    }
}

/// 10,000 trials each, with other random numbers: means agree to a twentieth of the interval, p-values within four
/// standard deviations of sqrt(p (1 - p) / n) on both sides, at most 0.02.
#[test]
fn significance_is_statistically_that_of_sacrebleu() {
    let golden = golden();
    let text = |name: &str| lines(&golden, &Value::from(name));
    let (damaged, truncated, references) = (text("damaged"), text("truncated"), [text("first")]);
    let damaged = Corpus::new(&damaged, &references).unwrap();
    let truncated = Corpus::new(&truncated, &references).unwrap();
    for (test, key) in [(Test::Bootstrap, "bs"), (Test::Randomization, "ar")] {
        for (name, label) in [("bleu", "BLEU"), ("chrf", "chrF2")] {
            let expected = &golden["tests"][key][label];
            let number = |of: &str, what: &str| expected[of][what].as_f64().unwrap();
            let metric = Metric::from_name(name, Tokenizer::V13a, false).unwrap();
            let found = compare(&metric, &damaged, &truncated, test, 10_000, 1).unwrap();
            assert!((found.baseline - number("baseline", "score")).abs() < 1e-5);
            assert!((found.system - number("system", "score")).abs() < 1e-5);
            assert!((found.p_value - number("system", "p_value")).abs() < 0.02, "{key} {label} {found:?}");
            for (interval, of) in [(found.baseline_interval, "baseline"), (found.system_interval, "system")] {
                assert_eq!(interval.is_some(), key == "bs");
                if let Some(Interval { mean, ci }) = interval {
                    let width = number(of, "ci");
                    assert!((mean - number(of, "mean")).abs() < width / 20.0, "{label} {found:?}");
                    assert!((ci / width - 1.0).abs() < 0.05, "{label} {found:?}");
                }
            }
            let signature = metric.signature(1).with_test(test, 10_000, 1).to_string();
            assert_eq!(signature, as_ours(texts(&expected["signature"])));
        }
    }
}

/// One thread and many give the same bits.
#[test]
fn results_do_not_depend_on_threads() {
    let golden = golden();
    let (hypotheses, references) = (lines(&golden, &"damaged".into()), [lines(&golden, &"first".into())]);
    let corpus = Corpus::new(&hypotheses, &references).unwrap();
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let metric = Metric::from_name("rouge1", Tokenizer::V13a, false).unwrap();
            let compared = compare(&metric, &corpus, &corpus, Test::Bootstrap, 50, 3).unwrap();
            (metric.corpus_score(&corpus), compared)
        })
    };
    assert_eq!(run(1), run(7));
}
