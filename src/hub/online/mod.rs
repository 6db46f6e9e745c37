//! From an id to a folder: the order of things, which the other files here do.

mod cache;
mod client;
mod download;
mod listing;
mod settings;
mod wanted;

use super::ModelId;
use crate::error::{Error, Result};
use cache::Shelf;
use client::Client;
use download::{Downloads, Remote, fault_of};
use settings::Settings;
use std::path::PathBuf;

/// The Hub and its cache.
pub struct Hub(Settings);

/// A model in the cache.
#[derive(Debug, Clone)]
pub struct Cached {
    /// What it was asked for by.
    pub id: ModelId,
    /// The commit that this was.
    pub commit: String,
    /// Its files.
    pub folder: PathBuf,
}

/// What happens while a model is fetched.
#[derive(Debug)]
pub enum Event<'a> {
    /// Another process fetches the same model.
    Waiting,
    /// What will be fetched.
    Plan {
        /// Files that are not here yet.
        files: usize,
        /// Their bytes, as far as the server says.
        bytes: u64,
        /// Where they come from.
        endpoint: &'a str,
    },
    /// A file begins.
    File {
        /// Its name.
        name: &'a str,
        /// Its bytes, if the server says.
        size: Option<u64>,
    },
    /// So much of it is here.
    Progress {
        /// Bytes.
        bytes: u64,
    },
    /// A connection broke, and the next one goes on.
    Again {
        /// Of which file.
        file: &'a str,
        /// Why.
        cause: &'a str,
    },
    /// The file is here and was checked.
    Done,
}

impl Hub {
    /// As the environment says.
    pub fn from_env() -> Result<Self> {
        Settings::read(|name| std::env::var(name).ok(), std::env::home_dir()).map(Hub)
    }

    /// The folder of the cache.
    pub fn cache(&self) -> &std::path::Path {
        &self.0.cache
    }

    /// The model: from the cache if it is there, else from the Hub.
    pub fn get(&self, id: &ModelId, events: &mut dyn FnMut(Event)) -> Result<Cached> {
        let shelf = Shelf::new(&self.0.cache, id);
        match (shelf.complete(), self.0.offline) {
            (Some(model), _) => Ok(model),
            (None, Some(variable)) => Err(Error::Hub(format!(
                "{id} is not in the cache ({}), or not all of it, and {variable} is set: fetch it where there is a network, \
                 `tx models pull {id}`, or unset {variable}",
                self.0.cache.display()
            ))),
            (None, None) => {
                let _lock = shelf.lock(|| events(Event::Waiting))?;
                // Another process may have fetched it meanwhile.
                shelf.complete().map_or_else(|| self.fetch(&shelf, id, events), Ok)
            }
        }
    }

    /// The model as the Hub has it now; what is here already is checked and not fetched again.
    pub fn pull(&self, id: &ModelId, events: &mut dyn FnMut(Event)) -> Result<Cached> {
        if let Some(variable) = self.0.offline {
            return Err(Error::Hub(format!("{id}: {variable} is set: unset it to fetch from the Hub")));
        }
        let shelf = Shelf::new(&self.0.cache, id);
        let _lock = shelf.lock(|| events(Event::Waiting))?;
        self.fetch(&shelf, id, events)
    }

    /// All models in the cache that are complete, by name.
    pub fn list(&self) -> Vec<Cached> {
        cache::all(&self.0.cache)
    }

    /// Takes a model out of the cache, or one revision of it if the id names one; gives the bytes that are free now.
    pub fn remove(&self, id: &ModelId) -> Result<u64> {
        Shelf::new(&self.0.cache, id).remove()
    }

    /// Fetches what is missing. The lock is held.
    fn fetch(&self, shelf: &Shelf, id: &ModelId, events: &mut dyn FnMut(Event)) -> Result<Cached> {
        let client = Client::new(&self.0)?;
        let (commit, files) = listing::files(&client, id)?;
        let is_here = |file: &Remote| {
            [shelf.blob(&file.blob), shelf.snapshot(&commit).join(&file.name)]
                .iter()
                .any(|path| fault_of(path, file).is_ok_and(|fault| fault.is_none()))
        };
        let (here, missing): (Vec<Remote>, Vec<Remote>) = files.into_iter().partition(is_here);
        let bytes = missing.iter().filter_map(|file| file.size).sum();
        events(Event::Plan { files: missing.len(), bytes, endpoint: client.endpoint() });
        for file in here.iter().filter(|file| shelf.blob(&file.blob).is_file()) {
            shelf.link(&commit, &file.name, &file.blob)?;
        }
        let blobs = shelf.blob("");
        std::fs::create_dir_all(&blobs).map_err(|error| Error::io(&blobs, error))?;
        for file in &missing {
            events(Event::File { name: &file.name, size: file.size });
            let part = shelf.blob(&format!("{}.tx-part", file.blob));
            Downloads { client: &client, id, events: &mut *events }.fetch(
                file,
                &part,
                &shelf.blob(&file.blob),
            )?;
            shelf.link(&commit, &file.name, &file.blob)?;
            events(Event::Done);
        }
        shelf.note(&commit)?;
        let folder = shelf.snapshot(&commit);
        Ok(Cached { id: id.clone(), commit, folder })
    }
}
