//! The folder of a run: `step-N` directories with everything that training needs to go on, the pointer `last`, and
//! `weights/` with those of the best validations and of the average.
//!
//! A step directory is made as `.tmp`, synced, renamed; only then the pointer moves, and only then older ones go, renamed
//! to `.tmp` first: a kill at any moment leaves a complete one behind the pointer, and what looks complete is.

pub use super::progress::Origin;
use super::progress::Progress;
use super::state::{State, take};
use crate::checkpoint::{files, parse_json, tensors, write_json};
use crate::error::{Error, Result};
use crate::model::parameters::Weights;
use crate::text::Tokenizer;
use candle_core::{DType, Device};
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder `train` inside a model directory.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
}

const ORIGIN: &str = "origin.json";
const POINTER: &str = "last";
const LOCK: &str = "lock";
const PROGRESS: &str = "progress.json";
const WEIGHTS: &str = "model.safetensors";
const MOMENTS: &str = "optimizer.safetensors";
const EMA: &str = "ema.safetensors";
const KEPT_WEIGHTS: &str = "weights";
/// Of what is not complete, or about to go.
const UNFINISHED: &str = ".tmp";

/// How often, and after how long, a lock is tried again: one that was just let go is still held by a program that this process
/// is about to start.
const PATIENCE: usize = 10;
const MOMENT: std::time::Duration = std::time::Duration::from_millis(50);

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
        for _ in 0..PATIENCE {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(fs::TryLockError::WouldBlock) => std::thread::sleep(MOMENT),
                Err(fs::TryLockError::Error(error)) => return Err(Error::io(&path, error)),
            }
        }
        let what = "another tx train is writing here: wait for it, or choose another folder by --out";
        Err(Error::format(&self.path, what))
    }

    /// Begins a run.
    pub fn create(&self, origin: &Origin, tokenizer: &Tokenizer) -> Result<()> {
        fs::create_dir_all(&self.path).map_err(|error| Error::io(&self.path, error))?;
        for (name, bytes) in tokenizer.files() {
            files::write_atomically(&self.path.join(name), bytes)?;
        }
        write_json(&self.path.join(ORIGIN), &serde_json::json!(origin))
    }

    /// What the run here was started with, or last saved with.
    pub fn origin(&self) -> Result<Origin> {
        match self.last()? {
            Some(folder) => read_json(&folder.join(ORIGIN)).map_err(|error| self.unreadable(&folder, error)),
            None => read_json(&self.path.join(ORIGIN)),
        }
    }

    /// The run's tokenizer.
    pub fn tokenizer(&self) -> Result<Tokenizer> {
        Tokenizer::open_folder(&self.path)
    }

    /// The folder of the last saved state, if there is one.
    pub fn last(&self) -> Result<Option<PathBuf>> {
        let pointer = self.path.join(POINTER);
        if !pointer.is_file() {
            return Ok(None);
        }
        let name = String::from_utf8_lossy(&files::read(&pointer)?).trim().to_string();
        Ok(Some(self.path.join(name)))
    }

    /// Saves the state, then drops all but the last `origin.settings.keep`, and weights that none of them needs.
    pub fn save(&self, state: &State, origin: &Origin) -> Result<PathBuf> {
        let last = self.last()?;
        if let Some(last) = last.clone().filter(|last| last.is_dir()) {
            let is_same = read_json::<Progress>(&last.join(PROGRESS))? == state.progress
                && read_json::<Origin>(&last.join(ORIGIN))? == *origin;
            if is_same {
                return Ok(last);
            }
        }
        let folder = self.free_folder(state.progress.step, last.as_deref())?;
        let temporary = files::with_suffix(&folder, UNFINISHED);
        remove(&temporary)?;
        let io = |error| Error::io(&temporary, error);
        fs::create_dir_all(&temporary).map_err(io)?;
        let written = write_state(&temporary, state, origin).and_then(|()| {
            fs::rename(&temporary, &folder).map_err(io)?;
            files::sync_folder(&folder).map_err(io)
        });
        if let Err(error) = written {
            // The first error is the one to report; what cannot be removed is dropped by the next save.
            let _ = fs::remove_dir_all(&temporary);
            return Err(error);
        }
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        files::write_atomically(&self.path.join(POINTER), name.as_bytes())?;
        self.drop_old_states(&folder, state.progress.step, origin.settings.keep)?;
        self.drop_unused_weights(&state.progress)?;
        Ok(folder)
    }

    /// `step-N`, without what an earlier try left there; another name while the pointer is on it.
    fn free_folder(&self, step: u64, last: Option<&Path>) -> Result<PathBuf> {
        let plain = self.path.join(format!("step-{step}"));
        let folder = if last == Some(&plain) { self.path.join(format!("step-{step}-again")) } else { plain };
        remove(&folder)?;
        Ok(folder)
    }

    /// Keeps the newest `keep` states up to `step`; what came after it belongs to a future that is not this run's.
    fn drop_old_states(&self, newest: &Path, step: u64, keep: usize) -> Result<()> {
        let mut states = self.states()?;
        states.retain(|(_, folder)| folder != newest);
        states.sort();
        let old: Vec<_> = states.iter().filter(|(of, _)| *of <= step).map(|(_, folder)| folder).collect();
        let kept: BTreeSet<_> = old.into_iter().rev().take(keep - 1).collect();
        for (_, folder) in states.iter().filter(|(_, folder)| !kept.contains(folder)) {
            let going = files::with_suffix(folder, UNFINISHED);
            remove(&going)?;
            fs::rename(folder, &going).map_err(|error| Error::io(folder, error))?;
        }
        for entry in list(&self.path)? {
            if entry.to_string_lossy().ends_with(UNFINISHED) && entry.is_dir() {
                remove(&entry)?;
            }
        }
        Ok(())
    }

    /// Step and folder of every complete state.
    fn states(&self) -> Result<Vec<(u64, PathBuf)>> {
        let step = |path: &PathBuf| -> Option<u64> {
            let name = path.file_name()?.to_str()?.strip_prefix("step-")?;
            name.strip_suffix("-again").unwrap_or(name).parse().ok()
        };
        Ok(list(&self.path)?.into_iter().filter_map(|path| Some((step(&path)?, path))).collect())
    }

    /// Takes the last saved state back; false if nothing was saved yet. An error names the older states that are kept.
    pub fn load(&self, state: &mut State, device: &Device) -> Result<bool> {
        let Some(folder) = self.last()? else { return Ok(false) };
        let loaded = self.load_from(&folder, state, device);
        loaded.map(|()| true).map_err(|error| self.unreadable(&folder, error))
    }

    /// The error of a last state that is damaged, with the way back to an older one.
    fn unreadable(&self, folder: &Path, error: Error) -> Error {
        let others = self.states().unwrap_or_default().into_iter().map(|(_, path)| path);
        let names: Vec<String> = others
            .filter(|path| path != folder)
            .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
            .collect();
        let way_on = match names.is_empty() {
            true => "no older state is kept: start a new run".to_string(),
            false => format!(
                "older states are kept: {}; write the name of one into {} and --resume goes on from it",
                names.join(", "),
                self.path.join(POINTER).display()
            ),
        };
        Error::format(folder, format!("the last saved state cannot be read: {error}; {way_on}"))
    }

    fn load_from(&self, folder: &Path, state: &mut State, device: &Device) -> Result<()> {
        let in_file = |name: &str| {
            let path = folder.join(name);
            move |error: Error| match error {
                Error::Config(what) => Error::format(&path, what),
                other => other,
            }
        };
        let weights = tensors::read(&folder.join(WEIGHTS), device)?;
        take(&state.variables, &weights).map_err(in_file(WEIGHTS))?;
        state.optimizer.load(&tensors::read(&folder.join(MOMENTS), device)?).map_err(in_file(MOMENTS))?;
        if let Some(ema) = &mut state.ema {
            // Not there where it was asked for just now; then it starts at these weights.
            let path = folder.join(EMA);
            let saved = if path.is_file() { tensors::read(&path, device)? } else { weights };
            ema.load(&saved).map_err(in_file(EMA))?;
        }
        state.progress = read_json(&folder.join(PROGRESS))?;
        Ok(())
    }

    /// Keeps the weights of a validated step.
    pub fn keep_weights(&self, step: u64, weights: &Weights) -> Result<()> {
        let folder = self.path.join(KEPT_WEIGHTS);
        fs::create_dir_all(&folder).map_err(|error| Error::io(&folder, error))?;
        tensors::write(&self.weights_path(step), weights, DType::F32)
    }

    /// Where the weights of a validated step are kept.
    pub fn weights_path(&self, step: u64) -> PathBuf {
        self.path.join(KEPT_WEIGHTS).join(format!("step-{step}.safetensors"))
    }

    /// Drops kept weights that neither `progress` nor a saved state needs.
    pub fn drop_unused_weights(&self, progress: &Progress) -> Result<()> {
        let mut in_use: BTreeSet<PathBuf> =
            progress.weights_in_use().map(|step| self.weights_path(step)).collect();
        for (_, folder) in self.states()? {
            // A damaged state needs none any more.
            if let Ok(saved) = read_json::<Progress>(&folder.join(PROGRESS)) {
                in_use.extend(saved.weights_in_use().map(|step| self.weights_path(step)));
            }
        }
        for path in list(&self.path.join(KEPT_WEIGHTS))? {
            if !in_use.contains(&path) {
                fs::remove_file(&path).map_err(|error| Error::io(&path, error))?;
            }
        }
        Ok(())
    }
}

fn write_state(folder: &Path, state: &State, origin: &Origin) -> Result<()> {
    tensors::write(&folder.join(WEIGHTS), &state.weights(), DType::F32)?;
    tensors::write(&folder.join(MOMENTS), &state.optimizer.to_tensors(), DType::F32)?;
    if let Some(ema) = &state.ema {
        tensors::write(&folder.join(EMA), &ema.weights(), DType::F32)?;
    }
    write_json(&folder.join(ORIGIN), &serde_json::json!(origin))?;
    write_json(&folder.join(PROGRESS), &serde_json::json!(state.progress))
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    serde_json::from_value(parse_json(path, &files::read(path)?)?)
        .map_err(|error| Error::format(path, error.to_string()))
}

/// What is in a folder; nothing if there is no such folder.
fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let io = |error| Error::io(folder, error);
    fs::read_dir(folder).map_err(io)?.map(|entry| Ok(entry.map_err(io)?.path())).collect()
}

/// Removes a folder, if it is there.
fn remove(folder: &Path) -> Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    fs::remove_dir_all(folder).map_err(|error| Error::io(folder, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Preset};
    use crate::train::Settings;
    use crate::train::progress::Scored;

    fn state() -> State {
        let settings = Settings { ema: 0.5, ..Settings::new(Preset::Tiny, 10) };
        let mut config = Config::new(Preset::Tiny, 10);
        (config.d_model, config.encoder.layers, config.decoder.layers) = (4, 1, 1);
        State::new(&config, &settings, &Device::Cpu).unwrap()
    }

    fn origin(keep: usize) -> Origin {
        Origin {
            settings: Settings { keep, ..Settings::new(Preset::Tiny, 10) },
            data_sha256: String::new(),
            tokenizer_sha256: String::new(),
            src_lang: "a".into(),
            tgt_lang: "b".into(),
            version: String::new(),
            init_from: None,
        }
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = list(folder)
            .unwrap()
            .iter()
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_last_state_is_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::new(folder.path());
        let (mut saved, mut fresh) = (state(), state());
        assert!(!run.load(&mut fresh, &Device::Cpu).unwrap());
        let name = "model.encoder.layers.0.fc1.bias";
        let ones = saved.variables[name].ones_like().unwrap();
        saved.variables[name].set(&ones).unwrap();
        saved.ema.as_mut().unwrap().update(&saved.variables, 0.5, 10).unwrap();
        saved.progress.step = 7;
        saved.progress.best = vec![Scored { step: 5, loss: 1.5, nll: 1.25, bleu: 3.0, chrf: 20.0 }];
        run.save(&saved, &origin(1)).unwrap();
        assert!(run.load(&mut fresh, &Device::Cpu).unwrap());
        assert_eq!(fresh.progress, saved.progress);
        let bias = |weights: Weights| weights[name].to_vec1::<f32>().unwrap()[0];
        assert_eq!((bias(fresh.weights()), bias(fresh.ema.unwrap().weights())), (1.0, 0.5));
    }

    /// The last `keep` states and the weights that they need stay; a leftover of a kill goes.
    #[test]
    fn older_states_and_weights_go_after_the_new_one_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::new(folder.path());
        let path = folder.path().join("train");
        let mut state = state();
        fs::create_dir_all(path.join("step-3.tmp")).unwrap();
        for step in [2, 4, 6, 8] {
            state.progress.step = step;
            state.progress.remember(2);
            run.keep_weights(step, &state.weights()).unwrap();
            run.save(&state, &origin(2)).unwrap();
        }
        let weights = |step: u64| format!("step-{step}.safetensors");
        assert_eq!(names(&path), ["last", "step-6", "step-8", "weights"]);
        assert_eq!(names(&path.join("weights")), [weights(4), weights(6), weights(8)]);
        assert_eq!(run.last().unwrap(), Some(path.join("step-8")));
        // The same step again, but another state: the old one stays until the new one is there.
        state.progress.skipped = 1;
        assert_eq!(run.save(&state, &origin(1)).unwrap(), path.join("step-8-again"));
        assert_eq!(names(&path), ["last", "step-8-again", "weights"]);
        assert_eq!(run.save(&state, &origin(1)).unwrap(), path.join("step-8-again"));
        // A state from before: what is newer is not of this run any more.
        state.progress.step = 7;
        run.save(&state, &origin(5)).unwrap();
        assert_eq!(names(&path), ["last", "step-7", "weights"]);
    }
}
