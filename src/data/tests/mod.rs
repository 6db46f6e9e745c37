//! From a folder to batches, and the folders that other tools stumbled over.

mod finding;
mod loading;

use super::*;
use crate::Result;
use tempfile::TempDir;

const EN: &str = "The dog sleeps.\nThe cat eats fish.\nWe drink water.\nIt rains.\n";
const DE: &str = "Der Hund schläft.\nDie Katze frisst Fisch.\nWir trinken Wasser.\nEs regnet.\n";

/// A folder with these files.
fn folder<T: AsRef<[u8]>>(files: &[(&str, T)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        std::fs::write(dir.path().join(name), content).unwrap();
    }
    dir
}

fn find(dir: &TempDir) -> Result<Corpus> {
    Corpus::find(dir.path(), None, None)
}

fn load(dir: &TempDir) -> Result<Data> {
    Data::load(&find(dir)?, 1)
}
