//! Decoding in f32, bf16 and int8, and models stored as int8.

use crate::common::*;
use serde_json::Value;
use std::path::Path;
use tx::candle_core::Device;
use tx::ops::Precision;
use tx::translate::Translator;

const LINES: &str = "we see the sea\nja\na cat\n\nthe sea\nwe see a cat, ja\n";

fn jsonl(args: &[&str]) -> String {
    let output = run(&[&["translate", "--format", "jsonl"], args].concat(), LINES.as_bytes());
    assert!(output.status.success(), "{}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Within each type the company of a line changes not a bit of its scores.
#[test]
fn the_company_of_a_line_never_matters_in_any_precision() {
    for compute in ["f32", "bf16", "int8", "auto"] {
        let expected = jsonl(&["--compute", compute, "--batch-size", "1", "--threads", "1"]);
        for (batch_size, threads) in [("2", "2"), ("64", "1"), ("64", "3")] {
            let found = jsonl(&["--compute", compute, "--batch-size", batch_size, "--threads", threads]);
            assert_eq!(found, expected, "{compute}, batches of {batch_size}, {threads} threads");
        }
    }
}

/// The drift from f32: how much the log-probability of a given translation moves by token.
#[test]
fn bf16_and_int8_drift_little_from_f32() {
    let pairs = [
        ("Tom is in the kitchen.", "Tom ist in der Küche."),
        ("Where is the station?", "Wo ist der Bahnhof?"),
        ("I love you.", "Ich liebe dich."),
        ("She has never been to Boston.", "Sie war noch nie in Boston."),
    ];
    let log_probs = |precision| -> Vec<f64> {
        let model = tx::bundled::MODELS[0].open(&Device::Cpu).unwrap();
        let translator = Translator::new(model, &Device::Cpu, Some(precision)).unwrap();
        let forced = translator.force(&pairs).unwrap();
        forced.into_iter().map(Result::unwrap).map(|one| one.log_prob / one.ids.len() as f64).collect()
    };
    let expected = log_probs(Precision::F32);
    for (precision, drift) in [(Precision::Bf16, 0.02), (Precision::Int8, 0.05)] {
        for (found, expected) in log_probs(precision).iter().zip(&expected) {
            let error = (found - expected).abs();
            assert!(error > 0.0 && error < drift, "{precision:?}: {found} for {expected}");
        }
    }
}

/// A model that was quantised gives what int8 gives with the original, to the last bit; only tx opens it.
#[test]
fn a_quantised_model_is_int8() {
    let folder = tempfile::tempdir().unwrap();
    let (original, out) = (golden("tiny-marian"), folder.path().join("int8"));
    let output = run(&["quantize", path(&original), path(&out)], b"");
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("MiB of weights are now"), "{}", stderr(&output));
    assert_eq!(jsonl(&["--model", path(&out)]), jsonl(&["--compute", "int8"]));
    assert!(!out.join("model.safetensors").exists());
    let config: Value = serde_json::from_slice(&std::fs::read(out.join("config.json")).unwrap()).unwrap();
    assert_eq!(config["model_type"], "tx_int8");
    assert!(run(&["doctor", path(&out)], b"").status.success());
    // Again is the same file.
    let again = folder.path().join("again");
    assert!(run(&["quantize", path(&out), path(&again)], b"").status.success());
    let weights = |folder: &Path| std::fs::read(folder.join("model.int8.safetensors")).unwrap();
    assert_eq!(weights(&again), weights(&out));
    // Nothing is written over what is there.
    let refused = run(&["quantize", path(&original), path(&out)], b"");
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("is not an empty folder"), "{}", stderr(&refused));
    // Cut in half.
    std::fs::write(again.join("model.int8.safetensors"), &weights(&out)[..weights(&out).len() / 2]).unwrap();
    let damaged = run(&["translate", "--model", path(&again)], b"ja\n");
    assert_eq!(damaged.status.code(), Some(1));
    assert!(stderr(&damaged).contains("model.int8.safetensors"), "{}", stderr(&damaged));
}

#[test]
fn a_report_counts_what_was_done() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let lines = jsonl(&["--report", path(&file)]);
    let lengths = lines.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["hypotheses"][0]["ids"].as_array().unwrap().len()
    });
    let report: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let keys: Vec<&String> = report.as_object().unwrap().keys().collect();
    assert_eq!(
        keys[..7],
        ["lines", "src_tokens", "tgt_tokens", "seconds", "tgt_tok_s", "load_s", "peak_mib"]
    );
    assert_eq!(
        (report["lines"].as_u64(), report["tgt_tokens"].as_u64()),
        (Some(6), Some(lengths.sum::<usize>() as u64))
    );
    let (seconds, speed) = (report["seconds"].as_f64().unwrap(), report["tgt_tok_s"].as_f64().unwrap());
    assert!(seconds > 0.0 && (speed * seconds / report["tgt_tokens"].as_f64().unwrap() - 1.0).abs() < 1e-6);
    assert!(report["load_s"].as_f64().unwrap() > 0.0);
    // Where it cannot be written nothing is translated.
    let missing = folder.path().join("no/report.json");
    let output = run(&["translate", "--report", path(&missing)], b"ja\n");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    assert!(stderr(&output).contains("in a folder that exists"), "{}", stderr(&output));
}

/// `tx` counts the end mark among the steps, CTranslate2 does not.
#[test]
fn translations_have_the_length_that_is_asked_for() {
    let ids = |args: &[&str]| -> Vec<Vec<u64>> {
        let lines = jsonl(&[&["--min-length", "9", "--max-length", "9"], args].concat());
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let ids = lines.map(|line| serde_json::from_value(line["hypotheses"][0]["ids"].clone()).unwrap());
        ids.filter(|ids: &Vec<u64>| !ids.is_empty()).collect()
    };
    const EOS: u64 = 3;
    for (args, eos) in [(["--like", "tx"], true), (["--like", "ct2"], false)] {
        for ids in ids(&args) {
            assert!(ids.len() == 9 && !ids[..8].contains(&EOS), "{args:?}: {ids:?}");
            assert!(eos || ids[8] != EOS, "{args:?}: {ids:?}");
        }
    }
    let output = run(&["translate", "--min-length", "9", "--max-length", "5"], b"ja\n");
    assert_ne!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("at least 9 tokens does not fit the limit of 5"), "{}", stderr(&output));
}
