//! What the tests share: goldens, comparisons, and the program.

use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tx::candle_core::{Device, Tensor};
use tx::checkpoint::{Checkpoint, tensors};
use tx::model::parameters::Weights;
use tx::model::{Transformer, linear};

/// A file below `tests/golden`.
pub fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

pub fn golden_json(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(golden(name)).unwrap()).unwrap()
}

pub fn golden_tensors(name: &str) -> Weights {
    tensors::read(&golden(name), &Device::Cpu).unwrap()
}

/// The small model of the goldens.
pub fn tiny() -> Checkpoint {
    Checkpoint::open(&golden("tiny-marian"), &Device::Cpu).unwrap()
}

pub fn transformer(checkpoint: &Checkpoint, kind: linear::Kind) -> Transformer {
    Transformer::new(&checkpoint.config, checkpoint.weights.clone(), kind).unwrap()
}

/// `[[1, 2], [3]]` as ids.
pub fn sentences(json: &Value) -> Vec<Vec<u32>> {
    serde_json::from_value(json.clone()).unwrap()
}

pub fn lengths(sentences: &[Vec<u32>]) -> Vec<usize> {
    sentences.iter().map(Vec::len).collect()
}

/// The rows of real tokens of a padded [b, width, d] tensor, one after the other.
pub fn unpad(padded: &Tensor, lengths: &[usize]) -> Tensor {
    let rows: Vec<Tensor> = lengths
        .iter()
        .enumerate()
        .map(|(sentence, &length)| padded.get(sentence).unwrap().narrow(0, 0, length).unwrap())
        .collect();
    Tensor::cat(&rows, 0).unwrap()
}

pub fn flat(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

/// max |Δ| ≤ `tolerance` · max |expected|, with where and what on failure.
pub fn assert_close(what: &str, found: &Tensor, expected: &Tensor, tolerance: f32) {
    assert_eq!(found.dims(), expected.dims(), "{what}");
    let (found, expected) = (flat(found), flat(expected));
    let scale = expected.iter().fold(0f32, |max, x| max.max(x.abs()));
    for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let difference = (found - expected).abs();
        assert!(difference <= tolerance * scale, "{what}[{at}]: {found} instead of {expected}");
    }
}

/// The program with the small model of the goldens.
pub fn tx(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tx"));
    command.args(args).env("TX_MODEL", golden("tiny-marian")).current_dir(std::env::temp_dir());
    // A name that stands for nothing is no question to a server.
    command.env("HF_HUB_OFFLINE", "1");
    command
}

pub fn run(args: &[&str], stdin: &[u8]) -> Output {
    let mut child =
        tx(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let stdin = stdin.to_vec();
    let writer = std::thread::spawn(move || {
        // The program may have refused its input.
        let _ = input.write_all(&stdin);
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Small files in a folder of their own.
pub struct Files(tempfile::TempDir);

impl Files {
    pub fn new() -> Self {
        Files(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_string()
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        std::fs::write(self.path(name), content).unwrap();
        self.path(name)
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }
}

/// What it printed, once it has succeeded.
pub fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn assert_parts(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}
