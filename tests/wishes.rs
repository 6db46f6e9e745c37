use crate::common::*;
use serde_json::Value;

fn translated(args: &[&str], stdin: &str) -> (String, String, Option<i32>) {
    let output = run(&[&["translate"], args].concat(), stdin.as_bytes());
    (String::from_utf8(output.stdout.clone()).unwrap(), stderr(&output), output.status.code())
}

fn hypotheses(args: &[&str], stdin: &str) -> Vec<Vec<Value>> {
    let (out, err, code) = translated(&[args, &["--format", "jsonl"]].concat(), stdin);
    assert_eq!(code, Some(0), "{err}");
    let list =
        |line: &str| serde_json::from_str::<Value>(line).unwrap()["hypotheses"].as_array().unwrap().clone();
    out.lines().map(list).collect()
}

fn texts(hypotheses: &[Value]) -> Vec<&str> {
    hypotheses.iter().map(|one| one["text"].as_str().unwrap()).collect()
}

#[test]
fn what_must_be_said_is_said_in_every_hypothesis() {
    let beam = ["--beam", "3", "--n-best", "3", "--must-contain", "the cat", "--must-contain", "ja"];
    for more in
        [&[][..], &["--like", "marian"], &["--like", "fairseq"], &["--like", "hf"], &["--max-length", "12"]]
    {
        for list in hypotheses(&[&beam[..], more].concat(), "we see\nthe sea and the cat") {
            for text in texts(&list) {
                let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric()).collect();
                assert!(
                    text.contains("the cat") && words.iter().any(|word| word.starts_with("ja")),
                    "{text}"
                );
            }
        }
    }
    for list in hypotheses(&["--sample", "--n-best", "5", "--must-contain", "cat"], "we see") {
        assert!(texts(&list).iter().all(|text| text.contains("cat")));
    }
}

/// Terms hold where their words are, and nothing changes elsewhere.
#[test]
fn terms_hold_where_their_words_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("terms.tsv");
    std::fs::write(&path, "sea\tthe cat\nthe sea\tja\n").unwrap();
    let terms = ["--terms", path.to_str().unwrap()];
    let lines = "we see\nwe sea\nthe sea\nseas\n";
    let free = hypotheses(&[], lines);
    let found = hypotheses(&terms, lines);
    assert_eq!((&found[0], &found[3]), (&free[0], &free[3]));
    assert!(texts(&found[1])[0].contains("the cat"), "{:?}", found[1]);
    assert!(texts(&found[2])[0].contains("ja"), "{:?}", found[2]);
    std::fs::write(&path, "sea the cat\n").unwrap();
    let (_, err, code) = translated(&terms, "we");
    assert!(
        code == Some(1) && err.contains("terms.tsv") && err.contains("line 1: expected a source phrase"),
        "{err}"
    );
}

/// What cannot be said is told of with its line, and the rest is translated.
#[test]
fn what_cannot_be_said_is_told_of() {
    let plain = translated(&[], "we see").0;
    for (args, part) in [
        (
            &["--must-contain", "λ"][..],
            "line 1: the translation does not contain \"λ\": the model has no pieces",
        ),
        (&["--must-contain", "the sea", "--max-length", "3"], "no room within the limit of 3 steps"),
        (
            &["--must-contain", "cat", "--suppress", "cat"],
            "does not contain \"cat\": other rules leave no translation",
        ),
    ] {
        let (out, err, code) = translated(args, "we see");
        assert!(code == Some(1) && err.contains(part), "{err}");
        assert_eq!(out.lines().count(), 1);
        if !part.contains("room") && !args.contains(&"--suppress") {
            assert_eq!(out, plain);
        }
    }
}

/// The same model twice gives what it gives alone, with whatever weights.
#[test]
fn an_ensemble_of_one_model_is_the_model() {
    let model = golden("tiny-marian");
    let model = model.to_str().unwrap();
    let lines = "we see\n\nthe sea\n";
    let alone = hypotheses(&["--model", model, "--n-best", "2"], lines);
    let twice = ["--model", model, "--model", model, "--weights", "2,0.5", "--n-best", "2"];
    for (alone, twice) in alone.iter().flatten().zip(hypotheses(&twice, lines).iter().flatten()) {
        assert_eq!(alone["ids"], twice["ids"]);
        assert!((alone["log_prob"].as_f64().unwrap() - twice["log_prob"].as_f64().unwrap()).abs() < 1e-4);
    }
    let (_, err, code) = translated(&["--model", model, "--model", model, "--weights", "1"], "we");
    assert!(code == Some(2) && err.contains("1 numbers for 2 models"), "{err}");
    let (_, err, code) = translated(
        &["--model", model, "--model", concat!(env!("CARGO_MANIFEST_DIR"), "/assets/en-de")],
        "we",
    );
    assert!(code == Some(1) && err.contains("model 2 has other pieces than the first"), "{err}");
    let output = run(&["inspect-attention", "--model", model, "--model", model, "we"], b"");
    assert!(stderr(&output).contains("attention is that of one model"), "{}", stderr(&output));
}

/// The mean of two distributions, as their probabilities for a given text say it.
#[test]
fn an_ensemble_gives_the_mean_probability() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let model = golden("tiny-marian").to_str().unwrap().to_string();
    let quantized = run(&["quantize", &model, &path("other")], b"");
    assert!(quantized.status.success(), "{}", stderr(&quantized));
    for (name, text) in [("src", "we see the sea\n"), ("tgt", "ja we\n")] {
        std::fs::write(path(name), text).unwrap();
    }
    let probabilities = |models: &[&str]| -> Vec<f64> {
        let mut args = vec!["score-pairs", "--format", "jsonl"];
        models.iter().for_each(|model| args.extend(["--model", model]));
        let (src, tgt) = (path("src"), path("tgt"));
        args.extend([src.as_str(), tgt.as_str()]);
        if models.len() > 1 {
            args.extend(["--weights", "3,1"]);
        }
        let printed: Value = serde_json::from_slice(&run(&args, b"").stdout).unwrap();
        printed["token_log_probs"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap().exp()).collect()
    };
    let other = path("other");
    let (one, two) = (probabilities(&[&model]), probabilities(&[&other]));
    assert_ne!(one, two);
    for ((one, two), both) in one.iter().zip(&two).zip(probabilities(&[&model, &other])) {
        assert!((0.75 * one + 0.25 * two - both).abs() < 1e-6, "{one} {two} {both}");
    }
}

/// The small model has random weights, so it says its unknown piece now and then if it may.
#[test]
fn unknown_pieces_are_kept_copied_or_banned() {
    let lines = "we see\nthe sea\nthe cat λ\na cat and we\n";
    let flags = ["--sample", "--n-best", "20", "--on-unk"];
    let all = |what: &'static str| hypotheses(&[&flags[..], &[what]].concat(), lines).concat();
    let unknown = |one: &Value| one["ids"].as_array().unwrap().iter().filter(|id| **id == 1).count();
    assert_eq!(all("ban").iter().map(unknown).sum::<usize>(), 0);
    assert_eq!(hypotheses(&flags[..3], lines).concat(), all("ban"));
    let kept = all("keep");
    assert!(kept.iter().map(unknown).sum::<usize>() > 0);
    for one in &kept {
        assert_eq!(one["text"].as_str().unwrap().matches('⁇').count(), unknown(one), "{one}");
    }
    for (kept, copied) in kept.iter().zip(all("copy")) {
        assert_eq!(kept["ids"], copied["ids"]);
        let text = copied["text"].as_str().unwrap();
        assert!(!text.contains('⁇') && !text.contains("<unk>"), "{text}");
        if unknown(kept) == 0 {
            assert_eq!(kept["text"], copied["text"]);
        }
    }
}

/// Sentences of a line are translated one by one and joined, in every format and with their numbers added up.
#[test]
fn sentences_are_translated_one_by_one() {
    let parts = hypotheses(&[], "We see.\nThe sea!\n");
    let whole = hypotheses(&[], "We see. The sea!\n");
    assert_eq!(texts(&whole[0])[0], format!("{} {}", texts(&parts[0])[0], texts(&parts[1])[0]));
    let log_prob = |list: &[Value]| list[0]["log_prob"].as_f64().unwrap();
    assert!((log_prob(&whole[0]) - log_prob(&parts[0]) - log_prob(&parts[1])).abs() < 1e-6);
    let never = hypotheses(&["--split", "never"], "We see. The sea!\n");
    assert_ne!(never, whole);
    for like in ["hf", "marian", "fairseq"] {
        let lines = ["We see. The sea!\n"; 2];
        let [auto, never] = [&["--like", like][..], &["--like", like, "--split", "never"]]
            .map(|args| hypotheses(args, lines[0]));
        assert_eq!(auto, never);
    }
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let (_, err, _) = translated(&["--strict", "--report", report.to_str().unwrap()], "We see. The sea!\n");
    assert!(!err.contains("parts"), "{err}");
    let report: Value = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
    assert_eq!((&report["lines"], &report["sentences"]), (&Value::from(1), &Value::from(2)));
}
