//! Every check on a small corpus or a damaged model that has what it looks for, and nothing on clean ones.

use super::*;
use crate::config::{Config, Preset};
use crate::ops::Precision;
use crate::text::{Kind, Tokenizer};
use candle_core::{DType, Device};
use std::collections::BTreeMap;
use std::path::PathBuf;
use tempfile::TempDir;

fn folder<T: AsRef<[u8]>>(files: &[(&str, T)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        std::fs::write(dir.path().join(name), content).unwrap();
    }
    dir
}

fn look(dir: &TempDir) -> Diagnosis {
    corpus(&Target::Folder(dir.path().to_path_buf()), None, None, None).unwrap()
}

/// Check, first line and count of every finding.
fn found(diagnosis: &Diagnosis) -> BTreeMap<&str, (Option<usize>, usize, Level)> {
    let entry = |f: &Finding| (f.check, (f.line, f.count, f.level));
    diagnosis.findings.iter().map(entry).collect()
}

#[test]
fn a_clean_corpus_has_no_findings() {
    let dir = folder(&[
        ("train.en", "one\ntwo\n"),
        ("train.de", "eins\nzwei\n"),
        ("dev.en", "three\n"),
        ("dev.de", "drei\n"),
    ]);
    let diagnosis = look(&dir);
    assert!(diagnosis.findings.is_empty(), "{diagnosis:?}");
    assert!(diagnosis.facts.iter().any(|fact| fact.starts_with("train: 2 pairs in ")), "{diagnosis:?}");
}

#[test]
fn every_check_finds_its_first_line_and_counts() {
    let en: &[u8] =
        b"\xEF\xBB\xBFone\r\ntwo\r\n\nfour\xFF\na\rb\nsix\xE2\x80\xA8x\nsix\xE2\x80\xA8x\nsame  here\n\n";
    let long = "sehr ".repeat(30);
    let de = format!("eins\n\ndrei\n{long}\nab\nsechs\nsechs\nsame here\n\n");
    let dir = folder(&[("train.en", en), ("train.de", de.as_bytes())]);
    let diagnosis = look(&dir);
    let expected = [
        ("bom", (Some(1), 1, Level::Note)),
        ("crlf", (Some(1), 2, Level::Note)),
        ("bad-utf8", (Some(4), 1, Level::Problem)),
        ("carriage-return", (Some(5), 1, Level::Problem)),
        ("line-break", (Some(6), 2, Level::Problem)),
        ("empty-source", (Some(3), 1, Level::Problem)),
        ("empty-target", (Some(2), 1, Level::Problem)),
        ("empty-both", (Some(9), 1, Level::Problem)),
        ("ratio", (Some(4), 1, Level::Problem)),
        ("duplicate", (Some(7), 1, Level::Problem)),
        ("copied", (Some(8), 1, Level::Problem)),
    ];
    assert_eq!(found(&diagnosis), BTreeMap::from(expected));
    assert_eq!((diagnosis.count(Level::Problem), diagnosis.count(Level::Note)), (9, 2));
}

/// What is natural while it is rare: a note below 1 % of the pairs.
#[test]
fn rare_copies_are_a_note() {
    let lines = |word: &str| (0..300).map(|i| format!("{word} {i}\n")).collect::<String>() + "OK\n";
    let dir = folder(&[("train.en", lines("a")), ("train.de", lines("b"))]);
    assert_eq!(found(&look(&dir)), BTreeMap::from([("copied", (Some(301), 1, Level::Note))]));
}

#[test]
fn counts_columns_and_overlap() {
    let dir = folder(&[("train.en", "a\nb\nc\n"), ("train.de", "x\ny\n")]);
    assert_eq!(found(&look(&dir)), BTreeMap::from([("line-count", (None, 1, Level::Problem))]));
    let dir = folder(&[("train.tsv", "a\tx\nb\nc\ty\tz\n")]);
    let table = Target::Table(dir.path().join("train.tsv"));
    let diagnosis = corpus(&table, None, None, None).unwrap();
    assert_eq!(found(&diagnosis)["columns"].1, 2);
    let dir = folder(&[
        ("train.en", "Hello\nNo\n"),
        ("train.de", "Hallo\nNein\n"),
        ("test.en", "HELLO\nYes\n"),
        ("test.de", "hallo\nJa\n"),
    ]);
    let diagnosis = look(&dir);
    assert_eq!(found(&diagnosis), BTreeMap::from([("overlap", (None, 1, Level::Problem))]));
    assert!(
        diagnosis.findings[0].what.starts_with("test shares sentences with train: 1 of 2 whole pairs (0 to")
    );
    let missing = look(&folder(&[("train.en", "x\n")]));
    assert_eq!(found(&missing)["files"].2, Level::Problem);
}

#[test]
fn a_tokenizer_finds_unknown_characters() {
    let dir = folder(&[("a", "abc\nabd\n"), ("b", "cba\ncab\n")]);
    let target = Target::Files(dir.path().join("a"), dir.path().join("b"));
    let tokenizer = Tokenizer::train(Kind::Char, &["abc"], 20, false).unwrap();
    let diagnosis = corpus(&target, None, None, Some(&tokenizer)).unwrap();
    assert_eq!(found(&diagnosis), BTreeMap::from([("unknown", (Some(2), 1, Level::Problem))]));
}

/// A small model that is as it should be.
fn healthy() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model");
    let tokenizer = Tokenizer::train(Kind::Char, &["abc"], 20, false).unwrap();
    let config = Config::new(Preset::Tiny, tokenizer.vocab_size());
    let variables = crate::model::parameters::initial(&config, 1, &Device::Cpu).unwrap();
    crate::checkpoint::Checkpoint {
        weights: crate::model::parameters::as_weights(&variables),
        config,
        tokenizer,
        info: None,
        generation: Default::default(),
        precision: Precision::F32,
    }
    .save(&path, DType::F32)
    .unwrap();
    (dir, path)
}

#[test]
fn a_healthy_model_has_no_findings() {
    let (_dir, path) = healthy();
    let diagnosis = model(&path).unwrap();
    assert!(diagnosis.findings.is_empty(), "{diagnosis:?}");
    assert_eq!(diagnosis.facts.len(), 2);
}

#[test]
fn damaged_tensors_are_listed() {
    let (_dir, path) = healthy();
    let file = path.join("model.safetensors");
    let mut weights = crate::checkpoint::tensors::read(&file, &Device::Cpu).unwrap();
    weights.remove("model.encoder.layers.0.fc1.bias");
    let nan = (&weights["model.encoder.layers.0.fc2.bias"] / 0.0).unwrap();
    weights.insert("model.encoder.layers.0.fc2.bias".into(), nan.clone());
    weights.insert("extra".into(), nan.zeros_like().unwrap());
    crate::checkpoint::tensors::write(&file, &weights, DType::F32).unwrap();
    std::fs::remove_file(path.join("generation_config.json")).unwrap();
    let diagnosis = model(&path).unwrap();
    let of = |check: &str| -> Vec<String> {
        let of_check = diagnosis.findings.iter().filter(|finding| finding.check == check);
        of_check.map(|finding| finding.what.clone()).collect()
    };
    assert!(of("tensor")[0].contains("layers.0.fc1.bias [256] is missing"), "{diagnosis:?}");
    assert!(of("tensor")[1].contains("extra"), "{diagnosis:?}");
    assert_eq!(of("not-finite"), ["model.encoder.layers.0.fc2.bias: 128 of 128 numbers are not finite"]);
    assert_eq!(diagnosis.count(Level::Note), 1);
}

#[test]
fn missing_and_unreadable_files_are_listed() {
    let (_dir, path) = healthy();
    std::fs::remove_file(path.join("tokenizer.json")).unwrap();
    std::fs::write(path.join("model.safetensors"), "version https://git-lfs.github.com/spec/v1\n").unwrap();
    let diagnosis = model(&path).unwrap();
    assert_eq!(diagnosis.count(Level::Problem), 2, "{diagnosis:?}");
    assert!(diagnosis.findings.iter().any(|finding| finding.what.contains("git lfs pull")));
}
