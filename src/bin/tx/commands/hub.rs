//! Models by their id on the Hugging Face Hub, wherever a model directory is named.

use anyhow::Context;
use std::path::{Path, PathBuf};
use tx::hub::ModelId;

/// A model directory, and what to call it.
pub struct Found {
    pub folder: PathBuf,
    pub name: String,
}

/// The folder of the model that `given` names: itself, or where the cache has what is an id and no path. Of what is neither, both are said.
pub fn find(given: &Path) -> anyhow::Result<Found> {
    match given.to_str().filter(|_| !given.exists()).and_then(ModelId::parse) {
        Some(id) => {
            fetched(&id).with_context(|| format!("there is no {id} here; as a model of the Hugging Face Hub"))
        }
        None => Ok(Found { folder: given.to_path_buf(), name: given.display().to_string() }),
    }
}

/// [`find`] for those that only open it.
pub fn folder(given: &Path) -> anyhow::Result<PathBuf> {
    find(given).map(|found| found.folder)
}

#[cfg(feature = "hub")]
fn fetched(id: &ModelId) -> anyhow::Result<Found> {
    let mut bar = crate::render::download_bar::DownloadBar::new(id);
    let model = tx::hub::Hub::from_env()?.get(id, &mut |event| bar.show(event))?;
    let name = format!("{id}, commit {}", short(&model.commit));
    Ok(Found { folder: model.folder, name })
}

#[cfg(not(feature = "hub"))]
fn fetched(id: &ModelId) -> anyhow::Result<Found> {
    anyhow::bail!(
        "{id}: this tx was built without the Hub: give a model directory, or build it with `cargo build --release --features hub`"
    )
}

/// As much of a commit as people read.
#[cfg(feature = "hub")]
pub fn short(commit: &str) -> &str {
    commit.get(..7).unwrap_or(commit)
}
