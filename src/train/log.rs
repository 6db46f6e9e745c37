//! `train.jsonl`: a row for each update.

use crate::error::{Error, Result};
use std::fs;
use std::io::Write;
use std::path::PathBuf;

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

    /// Waits until the rows so far are on the disk: a saved state never knows of more steps than the log.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| Error::io(&self.path, error))
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
        let path = folder.path().join("train.jsonl");
        fs::write(&path, "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n{\"st").unwrap();
        let mut log = Log::open(path.clone(), 2).unwrap();
        log.write(&serde_json::json!({"step": 3, "again": true})).unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "{\"step\":1}\n{\"step\":2}\n{\"step\":3,\"again\":true}\n"
        );
    }
}
