//! `--verify-resume`: the proof, on the user's own text, that a run that was stopped and resumed is the run that never was.

use super::run_dir::RunDir;
use super::{Event, Prepared, Request, prepare, train};
use crate::checkpoint::{files, parse_json};
use crate::error::{Error, Result};
use candle_core::Device;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Dev pairs that are looked at: validations are part of what is proved, but a greedy translation of all of dev by a model
/// that has learnt nothing takes its time.
const DEV_PAIRS: usize = 16;

/// A file of both runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    /// Relative to the model directory.
    pub name: String,
    /// Its size in bytes; of the log, without the times in it.
    pub bytes: usize,
    /// Whether it is the same in both, to the byte.
    pub is_same: bool,
}

/// Trains `steps` steps in one go and in two halves, each in a folder below `scratch`, the second half from the files that
/// the first one left; compares all that decides how training goes on.
pub fn verify_resume(
    request: &Request,
    steps: u64,
    scratch: &Path,
    device: &Device,
    tell: &mut dyn FnMut(String),
) -> Result<Vec<Compared>> {
    let half = (steps / 2).max(1);
    let [straight, stopped] = ["straight", "stopped"].map(|name| scratch.join(name));
    let request = |out: &Path, resume: bool| {
        let mut request = Request { out: out.to_path_buf(), resume, max_time: None, ..request.clone() };
        for (name, value) in [("max_steps", steps), ("valid_every", half), ("save_every", half)] {
            request.given.insert(name.into(), json!(value));
        }
        request.given.insert("patience".into(), json!(0));
        request
    };
    let mut prepared = prepare(&request(&straight, false), tell)?;
    shorten_dev(&mut prepared);
    tell(format!("steps 1 to {steps}"));
    run(&prepared, &straight, steps, device)?;
    tell(format!("steps 1 to {half}"));
    RunDir::new(&stopped).create(&prepared.origin, &prepared.tokenizer)?;
    run(&prepared, &stopped, half, device)?;
    drop(prepared);
    tell(format!("steps {} to {steps}, after a fresh start from the files", half + 1));
    let resumed = Request { init_from: None, ..request(&stopped, true) };
    let mut prepared = prepare(&resumed, &mut |_| ())?;
    shorten_dev(&mut prepared);
    run(&prepared, &stopped, steps, device)?;
    compare(&straight, &stopped)
}

/// Trains, and stops as on Ctrl-C after the update `last` unless that is the end.
fn run(prepared: &Prepared, out: &Path, last: u64, device: &Device) -> Result<()> {
    let (interrupt, end) = (AtomicBool::new(false), prepared.origin.settings.max_steps);
    let mut observe = |event: Event| {
        if let Event::Step(report) = event {
            interrupt.store(report.step == last && last < end, Ordering::Relaxed);
        }
    };
    train(prepared, out, device, &interrupt, &mut observe)?;
    Ok(())
}

fn shorten_dev(prepared: &mut Prepared) {
    prepared.dev.truncate(DEV_PAIRS);
    prepared.dev_text.src.truncate(DEV_PAIRS);
    prepared.dev_text.tgt.truncate(DEV_PAIRS);
}

/// Weights, moments, moving average and progress of the last state, the weights kept for best and average, the model, the log.
fn compare(straight: &Path, stopped: &Path) -> Result<Vec<Compared>> {
    let Some(last) = RunDir::new(straight).last()? else {
        return Err(Error::format(straight, "no state was saved"));
    };
    let mut names = vec![PathBuf::from("model.safetensors")];
    let relative = |path: PathBuf| path.strip_prefix(straight).map(Path::to_path_buf).unwrap_or(path);
    for folder in [last, straight.join("train/weights")].into_iter().filter(|folder| folder.is_dir()) {
        let io = |error| Error::io(&folder, error);
        for entry in std::fs::read_dir(&folder).map_err(io)? {
            names.push(relative(entry.map_err(io)?.path()));
        }
    }
    names.sort();
    let mut compared = Vec::new();
    for name in names {
        let (one, other) = (files::read(&straight.join(&name))?, files::read(&stopped.join(&name)).ok());
        let (name, is_same) = (name.display().to_string(), Some(&one) == other.as_ref());
        compared.push(Compared { name, bytes: one.len(), is_same });
    }
    let [one, other] = [log_without_times(straight)?, log_without_times(stopped)?];
    compared.push(Compared { name: "train.jsonl".into(), bytes: one.len(), is_same: one == other });
    Ok(compared)
}

/// `train.jsonl` without what a clock decides.
fn log_without_times(out: &Path) -> Result<String> {
    let path = RunDir::log_path(out);
    let mut rows = String::new();
    for line in files::read(&path)?.split_inclusive(|&byte| byte == b'\n') {
        let mut row = parse_json(&path, line)?;
        if let Value::Object(row) = &mut row {
            row.retain(|name, _| !["seconds", "tgt_tok_s"].contains(&name.as_str()));
        }
        rows += &format!("{row}\n");
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times in the log do not count; anything else does.
    #[test]
    fn a_difference_is_found_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
        for (out, seconds, moments) in [(&one, 1.5, "m"), (&other, 2.5, "n")] {
            let state = out.join("train/step-4");
            std::fs::create_dir_all(&state).unwrap();
            std::fs::write(out.join("model.safetensors"), "w").unwrap();
            std::fs::write(out.join("train/last"), "step-4").unwrap();
            std::fs::write(state.join("optimizer.safetensors"), moments).unwrap();
            let row = json!({"step": 1, "loss": 3.5, "seconds": seconds, "tgt_tok_s": seconds});
            std::fs::write(out.join("train.jsonl"), format!("{row}\n")).unwrap();
        }
        let compared = compare(&one, &other).unwrap();
        let found: Vec<_> = compared.iter().map(|file| (file.name.as_str(), file.is_same)).collect();
        let moments = "train/step-4/optimizer.safetensors";
        assert_eq!(found, [("model.safetensors", true), (moments, false), ("train.jsonl", true)]);
    }
}
