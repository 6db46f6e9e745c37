//! The folder of a run: `step-N` directories with everything that training needs to go on, and the pointer `last`.
//! A step directory is made as `.tmp`, synced, renamed; only then the pointer moves and older ones go, so that
//! a kill at any moment leaves a complete one.

use super::optim::Optimizer;
use super::settings::Settings;
use crate::checkpoint::{files, parse_json, tensors, write_json};
use crate::error::{Error, Result};
use crate::text::Tokenizer;
use candle_core::{DType, Device, Tensor, Var};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Where a run stands. With the weights, the moments and the settings this is all its state: masks, orders and
/// initial values are functions of seed, epoch and step.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Progress {
    /// Updates done.
    pub step: u64,
    /// The epoch of the next batch, from 0.
    pub epoch: u64,
    /// Batches of that epoch already used.
    pub batch: usize,
    /// Target tokens seen.
    pub tgt_tokens: u64,
    /// Steps whose gradient was not finite, which changed nothing.
    pub skipped: u64,
    /// The best validation so far.
    pub best: Option<Best>,
    /// Validations since then.
    pub without_improvement: u64,
}

/// A validation that was the best.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// After which step.
    pub step: u64,
    /// Its NLL per target token on dev: what the best is chosen by.
    pub nll: f64,
    /// Its BLEU on dev.
    pub bleu: f64,
    /// Its chrF on dev; none in a state saved before chrF was measured.
    #[serde(default)]
    pub chrf: Option<f64>,
}

/// What a run was started with, and what it was started on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// Resolved settings.
    pub settings: Settings,
    /// SHA-256 of the training text.
    pub data_sha256: String,
    /// SHA-256 of the tokenizer.
    pub tokenizer_sha256: String,
    /// Source language.
    pub src_lang: String,
    /// Target language.
    pub tgt_lang: String,
    /// Version of tx.
    pub version: String,
}

/// The folder `train` inside a model directory.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
}

const ORIGIN: &str = "origin.json";
const TOKENIZER: &str = "tokenizer.json";
const POINTER: &str = "last";
const LOCK: &str = "lock";
const PROGRESS: &str = "progress.json";
const WEIGHTS: &str = "model.safetensors";
const MOMENTS: &str = "optimizer.safetensors";

impl RunDir {
    /// The run folder of the model directory `out`.
    pub fn new(out: &Path) -> Self {
        RunDir { path: out.join("train") }
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// One JSON object a step.
    pub fn log_path(out: &Path) -> PathBuf {
        out.join("train.jsonl")
    }

    /// Whether a run has begun here.
    pub fn exists(&self) -> bool {
        self.path.join(ORIGIN).is_file()
    }

    /// Takes the folder for one process; the system lets go of it when that process ends, however it ends.
    pub fn lock(&self) -> Result<fs::File> {
        fs::create_dir_all(&self.path).map_err(|error| Error::io(&self.path, error))?;
        let path = self.path.join(LOCK);
        let file = fs::File::create(&path).map_err(|error| Error::io(&path, error))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(fs::TryLockError::WouldBlock) => {
                let what = "another tx train is writing here: wait for it, or choose another folder by --out";
                Err(Error::format(&self.path, what))
            }
            Err(fs::TryLockError::Error(error)) => Err(Error::io(&path, error)),
        }
    }

    /// Begins a run.
    pub fn create(&self, origin: &Origin, tokenizer: &Tokenizer) -> Result<()> {
        fs::create_dir_all(&self.path).map_err(|error| Error::io(&self.path, error))?;
        files::write_atomically(&self.path.join(TOKENIZER), tokenizer.to_json())?;
        write_json(&self.path.join(ORIGIN), &serde_json::json!(origin))
    }

    /// What the run here was started with.
    pub fn origin(&self) -> Result<Origin> {
        let path = self.path.join(ORIGIN);
        serde_json::from_value(parse_json(&path, &files::read(&path)?)?)
            .map_err(|error| Error::format(&path, error.to_string()))
    }

    /// The run's tokenizer.
    pub fn tokenizer(&self) -> Result<Tokenizer> {
        Tokenizer::open(self.path.join(TOKENIZER))
    }

    /// Saves the state and drops older ones.
    pub fn save(
        &self,
        progress: &Progress,
        variables: &BTreeMap<String, Var>,
        optimizer: &Optimizer,
    ) -> Result<PathBuf> {
        let name = format!("step-{}", progress.step);
        let (folder, temporary) = (self.path.join(&name), self.path.join(format!("{name}.tmp")));
        let io = |error| Error::io(&temporary, error);
        for leftover in [&temporary, &folder] {
            if leftover.exists() {
                fs::remove_dir_all(leftover).map_err(|error| Error::io(leftover, error))?;
            }
        }
        fs::create_dir_all(&temporary).map_err(io)?;
        let written = self.write_state(&temporary, progress, variables, optimizer).and_then(|()| {
            fs::rename(&temporary, &folder).map_err(io)?;
            files::sync_folder(&folder).map_err(io)
        });
        if let Err(error) = written {
            // The first error is the one to report; what cannot be removed is dropped by the next save.
            let _ = fs::remove_dir_all(&temporary);
            return Err(error);
        }
        files::write_atomically(&self.path.join(POINTER), name.as_bytes())?;
        self.drop_all_but(&name)?;
        Ok(folder)
    }

    fn write_state(
        &self,
        folder: &Path,
        progress: &Progress,
        variables: &BTreeMap<String, Var>,
        optimizer: &Optimizer,
    ) -> Result<()> {
        let weights = crate::model::parameters::as_weights(variables);
        tensors::write(&folder.join(WEIGHTS), &weights, DType::F32)?;
        tensors::write(&folder.join(MOMENTS), &optimizer.to_tensors(), DType::F32)?;
        write_json(&folder.join(PROGRESS), &serde_json::json!(progress))
    }

    fn drop_all_but(&self, keep: &str) -> Result<()> {
        for entry in fs::read_dir(&self.path).map_err(|error| Error::io(&self.path, error))? {
            let entry = entry.map_err(|error| Error::io(&self.path, error))?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with("step-") && name != keep {
                fs::remove_dir_all(entry.path()).map_err(|error| Error::io(entry.path(), error))?;
            }
        }
        Ok(())
    }

    /// Takes the last saved state back; the start of the run if nothing was saved yet.
    pub fn load(
        &self,
        variables: &BTreeMap<String, Var>,
        optimizer: &mut Optimizer,
        device: &Device,
    ) -> Result<Progress> {
        let pointer = self.path.join(POINTER);
        if !pointer.is_file() {
            return Ok(Progress::default());
        }
        let name = String::from_utf8_lossy(&files::read(&pointer)?).trim().to_string();
        let folder = self.path.join(name);
        let path = folder.join(WEIGHTS);
        let weights: BTreeMap<String, Tensor> = tensors::read(&path, device)?;
        for (name, var) in variables {
            match weights.get(name).filter(|saved| saved.shape() == var.shape()) {
                Some(saved) => var.set(saved)?,
                None => return Err(Error::format(&path, format!("lacks {name} {:?}", var.dims()))),
            }
        }
        optimizer.load(&tensors::read(&folder.join(MOMENTS), device)?)?;
        let path = folder.join(PROGRESS);
        serde_json::from_value(parse_json(&path, &files::read(&path)?)?)
            .map_err(|error| Error::format(&path, error.to_string()))
    }
}

/// `train.jsonl`, written through after every row.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: fs::File,
}

impl Log {
    /// Opens the log and cuts it to its first `steps` rows: those after the last save will be written again.
    pub fn open(path: PathBuf, steps: u64) -> Result<Self> {
        let io = |error| Error::io(&path, error);
        let text = if path.is_file() { fs::read_to_string(&path).map_err(io)? } else { String::new() };
        let rows = text.split_inclusive('\n').filter(|row| row.ends_with('\n'));
        let kept: usize =
            rows.take_while(|row| step_of(row).is_some_and(|step| step <= steps)).map(str::len).sum();
        let file = fs::OpenOptions::new().create(true).append(true).open(&path).map_err(io)?;
        file.set_len(kept as u64).map_err(io)?;
        Ok(Log { path, file })
    }

    /// Adds a row.
    pub fn write(&mut self, row: &serde_json::Value) -> Result<()> {
        writeln!(self.file, "{row}").map_err(|error| Error::io(&self.path, error))
    }
}

fn step_of(row: &str) -> Option<u64> {
    serde_json::from_str::<serde_json::Value>(row).ok()?["step"].as_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_cut_to_the_saved_step() {
        let folder = tempfile::tempdir().unwrap();
        let path = RunDir::log_path(folder.path());
        fs::write(&path, "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n{\"st").unwrap();
        let mut log = Log::open(path.clone(), 2).unwrap();
        log.write(&serde_json::json!({"step": 3, "again": true})).unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "{\"step\":1}\n{\"step\":2}\n{\"step\":3,\"again\":true}\n"
        );
    }

    #[test]
    fn a_best_without_chrf_is_still_read() {
        let best: Best = serde_json::from_str(r#"{"step":5,"nll":1.25,"bleu":3.0}"#).unwrap();
        assert_eq!(best, Best { step: 5, nll: 1.25, bleu: 3.0, chrf: None });
    }

    #[test]
    fn the_last_state_is_taken_back_and_older_ones_go() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::new(folder.path());
        let variables =
            |x: f32| BTreeMap::from([("a".to_string(), Var::new(&[x, 2.0], &Device::Cpu).unwrap())]);
        let (saved, fresh) = (variables(1.0), variables(0.0));
        let mut optimizer = Optimizer::new(&saved).unwrap();
        assert_eq!(run.load(&fresh, &mut optimizer, &Device::Cpu).unwrap(), Progress::default());
        let best = Best { step: 5, nll: 1.25, bleu: 3.0, chrf: Some(20.0) };
        for step in [5, 7] {
            let progress = Progress { step, best: Some(best), ..Progress::default() };
            run.save(&progress, &saved, &optimizer).unwrap();
        }
        let progress = run.load(&fresh, &mut optimizer, &Device::Cpu).unwrap();
        assert_eq!((progress.step, progress.best), (7, Some(best)));
        assert_eq!(fresh["a"].to_vec1::<f32>().unwrap(), [1.0, 2.0]);
        assert!(!folder.path().join("train/step-5").exists());
    }
}
