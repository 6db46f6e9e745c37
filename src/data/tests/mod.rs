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

/// A corpus with its train text in memory too, as it is on disk.
struct Loaded {
    data: Data,
    train: Text,
    _spool: TempDir,
}

fn load(dir: &TempDir) -> Result<Loaded> {
    load_with(&[Source::new(dir.path())], &Filters::new(100), 1)
}

fn load_with(sources: &[Source], filters: &Filters, seed: u64) -> Result<Loaded> {
    let spool = tempfile::tempdir().unwrap();
    let corpora = Corpora::find(sources, None, None)?;
    let data = Data::load(&corpora, filters, seed, &spool.path().join("spool"))?;
    let pairs = data.train.chunks()?.flat_map(|chunk| chunk.unwrap());
    let (src, tgt) = pairs.unzip();
    Ok(Loaded { train: Text { name: "train".into(), src, tgt, notices: vec![] }, data, _spool: spool })
}

fn read(split: &Split) -> Result<Text> {
    split.read(&mut vec![])
}
