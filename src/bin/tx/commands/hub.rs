//! Models by their id on the Hugging Face Hub, wherever a model directory is named.

use super::which::Which;
use tx::hub::ModelId;

/// Where the cache has a model, which is fetched first if it is not there.
#[cfg(feature = "hub")]
pub fn fetched(id: &ModelId) -> anyhow::Result<Which> {
    let mut bar = crate::render::download_bar::DownloadBar::new(id);
    let model = tx::hub::Hub::from_env()?.get(id, &mut |event| bar.show(event))?;
    let name = format!("{id}, commit {}", short(&model.commit));
    Ok(Which::Path { path: model.folder, name })
}

#[cfg(not(feature = "hub"))]
pub fn fetched(id: &ModelId) -> anyhow::Result<Which> {
    anyhow::bail!(
        "{id}: this tx was built without the Hub: give a model directory, or build it with `cargo build --release --features hub`"
    )
}

/// As much of a commit as people read.
#[cfg(feature = "hub")]
pub fn short(commit: &str) -> &str {
    commit.get(..7).unwrap_or(commit)
}
