//! The cache of the Hub, as `huggingface_hub` and hf-hub lay it out, so that a model is there once for all programs:
//! `models--OWNER--NAME/` with `blobs/` (contents, by what git or LFS calls them), `snapshots/COMMIT/` (links to them, by name) and
//! `refs/REVISION` (the commit that it was).

use super::wanted::wanted;
use super::{Cached, ModelId};
use crate::error::{Error, Result};
use hf_hub::{Cache, CacheRepo, Repo, RepoType};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// One model's part of the cache.
pub struct Shelf {
    id: ModelId,
    cache: CacheRepo,
    folder: PathBuf,
    locks: PathBuf,
}

impl Shelf {
    pub fn new(cache: &Path, id: &ModelId) -> Self {
        let repo = Repo::with_revision(id.name().to_string(), RepoType::Model, id.revision().to_string());
        let name = repo.folder_name();
        Shelf {
            id: id.clone(),
            cache: Cache::new(cache.to_path_buf()).repo(repo),
            folder: cache.join(&name),
            locks: cache.join(".locks").join(name),
        }
    }

    /// The model, if all of its files are there.
    pub fn complete(&self) -> Option<Cached> {
        let revision = self.id.revision();
        let named = fs::read_to_string(self.folder.join("refs").join(revision)).ok();
        // A revision may be a commit.
        let commit = named.map_or(revision.to_string(), |commit| commit.trim().to_string());
        let folder = self.snapshot(&commit);
        (is_commit(&commit) && is_complete(&folder)).then(|| Cached { id: self.id.clone(), commit, folder })
    }

    /// The folder of the files of a commit.
    pub fn snapshot(&self, commit: &str) -> PathBuf {
        self.cache.pointer_path(commit)
    }

    /// The path of a content.
    pub fn blob(&self, name: &str) -> PathBuf {
        self.folder.join("blobs").join(name)
    }

    /// Waits until no other process changes the model here; `busy` is called if one does. The system ends a lock with its process.
    pub fn lock(&self, busy: impl FnOnce()) -> Result<File> {
        let (file, path) = self.lock_file()?;
        let locked = match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                busy();
                file.lock()
            }
            Err(TryLockError::Error(error)) => Err(error),
            Ok(()) => Ok(()),
        };
        match locked {
            // Network folders without locks: two downloads at once would spoil each other's file, which is then fetched anew.
            Err(error) if error.kind() != io::ErrorKind::Unsupported => Err(Error::io(path, error)),
            _ => Ok(file),
        }
    }

    fn lock_file(&self) -> Result<(File, PathBuf)> {
        let path = self.locks.join("tx.lock");
        let file = fs::create_dir_all(&self.locks)
            .and_then(|()| File::options().create(true).append(true).open(&path))
            .map_err(|error| Error::io(&path, error))?;
        Ok((file, path))
    }

    /// Makes `blob` the file `name` of a commit.
    pub fn link(&self, commit: &str, name: &str, blob: &str) -> Result<()> {
        let pointer = self.snapshot(commit).join(name);
        let target = Path::new("../../blobs").join(blob);
        if fs::read_link(&pointer).is_ok_and(|there| there == target) {
            return Ok(());
        }
        let put = || {
            fs::create_dir_all(self.snapshot(commit))?;
            match fs::remove_file(&pointer) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            #[cfg(unix)]
            return std::os::unix::fs::symlink(&target, &pointer);
            // Links need a right there that few have.
            #[cfg(not(unix))]
            return fs::rename(self.blob(blob), &pointer);
        };
        put().map_err(|error| Error::io(&pointer, error))
    }

    /// Notes which commit the revision is; all its files are there.
    pub fn note(&self, commit: &str) -> Result<()> {
        let path = self.folder.join("refs").join(self.id.revision());
        if commit == self.id.revision() || fs::read_to_string(&path).is_ok_and(|there| there.trim() == commit)
        {
            return Ok(());
        }
        self.cache.create_ref(commit).map_err(|error| Error::io(&path, error))
    }

    /// Takes the model out of the cache, all revisions of it; gives the bytes that are free now.
    pub fn remove(&self) -> Result<u64> {
        if !self.folder.is_dir() {
            return Err(Error::Hub(format!("{} is not in the cache ({})", self.id, self.folder.display())));
        }
        let (lock, _) = self.lock_file()?;
        if matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) {
            return Err(Error::Hub(format!(
                "{} is being fetched by another process: end that first",
                self.id
            )));
        }
        let refuse = |error| Error::io(&self.folder, error);
        let bytes = size_of(&self.folder).map_err(refuse)?;
        fs::remove_dir_all(&self.folder).map_err(refuse)?;
        drop(lock);
        // An empty folder of locks that stays takes no space and harms nobody.
        let _ = fs::remove_dir_all(&self.locks);
        Ok(bytes)
    }

    /// What is complete here: the revisions, and the commits that were fetched by their own name.
    fn all(&self) -> Vec<Cached> {
        let mut ids = Vec::new();
        revisions(&self.folder.join("refs"), "", &mut ids);
        let named: Vec<Cached> = ids.iter().filter_map(|revision| self.revision(revision)).collect();
        let commits = names_in(&self.folder.join("snapshots")).into_iter();
        let unnamed = commits.filter(|commit| named.iter().all(|model| model.commit != *commit));
        let unnamed: Vec<Cached> = unnamed.filter_map(|commit| self.revision(&commit)).collect();
        named.into_iter().chain(unnamed).collect()
    }

    /// The complete model of a revision.
    fn revision(&self, revision: &str) -> Option<Cached> {
        let name = self.id.name();
        let cache = self.folder.parent()?;
        let main = ModelId::parse(name).filter(|id| id.revision() == revision);
        Shelf::new(cache, &main.or_else(|| ModelId::parse(&format!("{name}@{revision}")))?).complete()
    }
}

/// All models in a cache that are complete, by name.
pub fn all(cache: &Path) -> Vec<Cached> {
    let ids = names_in(cache).into_iter().filter_map(|folder| {
        let (owner, name) = folder.strip_prefix("models--")?.split_once("--")?;
        ModelId::parse(&format!("{owner}/{name}"))
    });
    ids.flat_map(|id| Shelf::new(cache, &id).all()).collect()
}

/// Whether a folder has the files of a model.
fn is_complete(folder: &Path) -> bool {
    // Links whose content is gone do not count.
    let names: Vec<String> =
        names_in(folder).into_iter().filter(|name| folder.join(name).is_file()).collect();
    wanted(&names).is_ok()
}

/// Hexadecimal digits, as git has them: it becomes a folder.
pub fn is_commit(text: &str) -> bool {
    (7..=64).contains(&text.len()) && text.chars().all(|c| c.is_ascii_hexdigit())
}

/// What a folder holds, sorted; nothing where there is none.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The files below `folder`, by their paths in it: a revision may have slashes.
fn revisions(folder: &Path, above: &str, found: &mut Vec<String>) {
    for name in names_in(folder) {
        let (path, name) = (folder.join(&name), format!("{above}{name}"));
        match path.is_dir() {
            true => revisions(&path, &format!("{name}/"), found),
            false => found.push(name),
        }
    }
}

/// Bytes of the files below a folder, links not followed.
fn size_of(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += match metadata.is_dir() {
            true => size_of(&entry.path())?,
            false if metadata.is_file() => metadata.len(),
            false => 0,
        };
    }
    Ok(bytes)
}
