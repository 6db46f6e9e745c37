//! `tx models`: which models are here; those of the Hugging Face Hub fetched and removed.

use super::which;
use crate::cli::{ModelsAction, ModelsArgs};
use crate::render::pad;
use indicatif::HumanBytes;
use serde_json::Value;
use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use tx::bundled::Bundled;
use tx::checkpoint::{config_json, files, parse_json};
use unicode_width::UnicodeWidthStr;

/// A model in the list: name, languages, size, origin.
type Row = [String; 4];

pub fn run(args: ModelsArgs) -> anyhow::Result<ExitCode> {
    match args.action {
        None => list()?,
        Some(ModelsAction::Pull { id }) => hub::pull(&id)?,
        Some(ModelsAction::Rm { id }) => hub::rm(&id)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list() -> anyhow::Result<()> {
    let bundled = |model: &Bundled| {
        let ((src, tgt), size) = (model.languages(), HumanBytes(model.size()).to_string());
        [model.name(), format!("{src} → {tgt}"), size, "inside tx".into()]
    };
    let mut rows: Vec<Row> = tx::bundled::MODELS.iter().map(bundled).collect();
    rows.extend(which::from_env().filter(|path| path.exists()).map(|path| local(&path, "$TX_MODEL")));
    let trained = tx::train::default_out();
    rows.extend(Some(trained).filter(|path| path.is_dir()).map(|path| local(&path, "trained here")));
    rows.extend(hub::rows()?);
    let mut out = std::io::stdout().lock();
    let width = |column: usize| rows.iter().map(|row| row[column].width()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2)];
    for [name, languages, size, origin] in &rows {
        let [name, languages, size] = [(name, widths[0]), (languages, widths[1]), (size, widths[2])]
            .map(|(text, width)| pad(text, width));
        writeln!(out, "{name}  {languages}  {size}  {origin}")?;
    }
    Ok(())
}

/// A model at a path.
fn local(path: &Path, origin: &str) -> Row {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let size =
        if path.is_dir() { size_of(path) } else { std::fs::metadata(path).map_or(0, |file| file.len()) };
    let languages = languages(path, name).unwrap_or("?".to_string());
    [path.display().to_string(), languages, HumanBytes(size).to_string(), origin.to_string()]
}

/// Bytes of the files of a model directory, links followed; what lies in folders of it belongs to its training.
fn size_of(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let files =
        entries.filter_map(|entry| std::fs::metadata(entry.path()).ok()).filter(|file| file.is_file());
    files.map(|file| file.len()).sum()
}

/// The languages of a model: what `tx train` noted, else what it is called by. None where it is none that tx opens.
fn languages(folder: &Path, name: &str) -> Option<String> {
    let path = folder.join("config.json");
    if !path.is_file() {
        return Some(by_name(name)); // a model of Marian's, or not to be read, which opening it will say
    }
    let json: Value = files::read(&path).and_then(|bytes| parse_json(&path, &bytes)).ok()?;
    let (_, info) = config_json::from_json(&json).ok()?;
    Some(info.map_or_else(|| by_name(name), |info| format!("{} → {}", info.src_lang, info.tgt_lang)))
}

/// `opus-mt-en-de` and `opus-mt-tc-big-en-tr` say their languages; others do not.
fn by_name(name: &str) -> String {
    let pair = name.strip_prefix("opus-mt-").map(|rest| {
        ["tc-big-", "tc-base-", "tiny-"].iter().find_map(|kind| rest.strip_prefix(kind)).unwrap_or(rest)
    });
    match pair.and_then(|pair| pair.split_once('-')) {
        Some((src, tgt)) => format!("{src} → {tgt}"),
        None => "?".to_string(),
    }
}

#[cfg(feature = "hub")]
mod hub {
    //! The part that needs the Hub's cache.

    use super::{Row, languages, size_of};
    use crate::commands::hub::short;
    use crate::render::download_bar::DownloadBar;
    use anyhow::Context;
    use indicatif::HumanBytes;
    use std::io::Write;
    use tx::hub::{Hub, ModelId};

    /// The models in the cache that tx opens; how many others there are is said.
    pub fn rows() -> anyhow::Result<Vec<Row>> {
        let hub = Hub::from_env()?;
        let models = hub.list();
        let count = models.len();
        let row = |model: tx::hub::Cached| -> Option<Row> {
            let name = model.id.name().rsplit('/').next().unwrap_or_default();
            let languages = languages(&model.folder, name)?;
            let origin = format!("Hub, commit {}", short(&model.commit));
            Some([model.id.to_string(), languages, HumanBytes(size_of(&model.folder)).to_string(), origin])
        };
        let rows: Vec<Row> = models.into_iter().filter_map(row).collect();
        if rows.len() < count {
            let others = count - rows.len();
            say!(
                "tx: note: {others} more in {} are no translation models that tx opens",
                hub.cache().display()
            );
        }
        Ok(rows)
    }

    pub fn pull(id: &str) -> anyhow::Result<()> {
        let id = parse(id)?;
        let mut bar = DownloadBar::new(&id);
        let model = Hub::from_env()?.pull(&id, &mut |event| bar.show(event))?;
        say!("tx: {id}: here, commit {}", model.commit);
        writeln!(std::io::stdout(), "{}", model.folder.display()).context("standard output")
    }

    pub fn rm(id: &str) -> anyhow::Result<()> {
        let id = parse(id)?;
        let freed = Hub::from_env()?.remove(&id)?;
        say!("tx: {id}: removed, {} are free", HumanBytes(freed));
        Ok(())
    }

    fn parse(id: &str) -> anyhow::Result<ModelId> {
        ModelId::parse(id).with_context(|| {
            format!("{id:?} is no id of a model on the Hub: expected owner/name, owner/name@revision, or the name of one without an owner")
        })
    }
}

#[cfg(not(feature = "hub"))]
mod hub {
    //! What there is to say without the Hub.

    use super::Row;

    pub fn rows() -> anyhow::Result<Vec<Row>> {
        Ok(Vec::new())
    }

    pub fn pull(id: &str) -> anyhow::Result<()> {
        refuse(id)
    }

    pub fn rm(id: &str) -> anyhow::Result<()> {
        refuse(id)
    }

    fn refuse(id: &str) -> anyhow::Result<()> {
        anyhow::bail!(
            "{id}: this tx was built without the Hugging Face Hub: build it with `cargo build --release --features hub`"
        )
    }
}
