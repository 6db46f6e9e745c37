//! The cache of the Hub, as `huggingface_hub` and hf-hub lay it out, so that a model is there once for all programs:
//! `models--OWNER--NAME/` with `blobs/` (contents, by what git or LFS calls them), `snapshots/COMMIT/` (links to them, by name) and
//! `refs/REVISION` (the commit that it was).

use super::wanted::wanted;
use super::{Cached, ModelId};
use crate::error::{Error, Result};
use hf_hub::{Cache, CacheRepo, Repo, RepoType};
use std::collections::BTreeSet;
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
        let commit = self.commit()?;
        let folder = self.snapshot(&commit);
        is_complete(&folder).then(|| Cached { id: self.id.clone(), commit, folder })
    }

    /// The commit of the revision, as far as it is known here; a revision may be a commit.
    fn commit(&self) -> Option<String> {
        let revision = self.id.revision();
        self.named(revision).or(Some(revision.to_string())).filter(|commit| is_commit(commit))
    }

    /// The commit that a name of git's stood for.
    fn named(&self, revision: &str) -> Option<String> {
        let commit = fs::read_to_string(self.folder.join("refs").join(revision)).ok()?;
        Some(commit.trim().to_string())
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
        let revision = self.id.revision();
        if commit == revision || self.named(revision).as_deref() == Some(commit) {
            return Ok(());
        }
        let path = self.folder.join("refs").join(revision);
        self.cache.create_ref(commit).map_err(|error| Error::io(&path, error))
    }

    /// Takes the model out of the cache, all of it or the revision that its id names; gives the bytes that are free now.
    pub fn remove(&self) -> Result<u64> {
        let is_here = match self.id.names_revision() {
            true => self.commit().is_some_and(|commit| self.snapshot(&commit).is_dir()),
            false => self.folder.is_dir(),
        };
        if !is_here {
            return Err(Error::Hub(format!("{} is not in the cache ({})", self.id, self.folder.display())));
        }
        let (lock, _) = self.lock_file()?;
        if matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) {
            return Err(Error::Hub(format!(
                "{} is being fetched by another process: end that first",
                self.id
            )));
        }
        self.remove_files().map_err(|error| Error::io(&self.folder, error))
    }

    fn remove_files(&self) -> io::Result<u64> {
        let before = size_of(&self.folder)?;
        if self.id.names_revision() {
            self.remove_revision()?;
        }
        if !self.id.names_revision() || names_in(&self.folder.join("snapshots")).is_empty() {
            fs::remove_dir_all(&self.folder)?;
            // An empty folder of locks that stays takes no space and harms nobody.
            let _ = fs::remove_dir_all(&self.locks);
            return Ok(before);
        }
        Ok(before.saturating_sub(size_of(&self.folder)?))
    }

    /// Forgets the revision, and where no other name stands for its commit, removes that with the contents that no other has. Of a commit
    /// all names are forgotten.
    fn remove_revision(&self) -> io::Result<()> {
        let (revision, Some(commit)) = (self.id.revision(), self.commit()) else { return Ok(()) };
        let is_name = self.named(revision).is_some();
        let names = files_below(&self.folder.join("refs"), "").into_iter();
        let names = names.filter(|name| self.named(name).as_ref() == Some(&commit));
        let (gone, kept): (Vec<String>, Vec<String>) = names.partition(|name| !is_name || name == revision);
        for name in gone {
            fs::remove_file(self.folder.join("refs").join(name))?;
        }
        if !kept.is_empty() {
            return Ok(());
        }
        let blobs = self.blobs(&commit);
        fs::remove_dir_all(self.snapshot(&commit))?;
        let others = names_in(&self.folder.join("snapshots")).into_iter();
        let needed: BTreeSet<PathBuf> = others.flat_map(|commit| self.blobs(&commit)).collect();
        blobs.difference(&needed).try_for_each(fs::remove_file)
    }

    /// The contents that the files of a commit are links to.
    fn blobs(&self, commit: &str) -> BTreeSet<PathBuf> {
        let folder = self.snapshot(commit);
        let files = files_below(&folder, "").into_iter();
        let targets = files.filter_map(|name| fs::read_link(folder.join(name)).ok());
        let blobs = targets.filter_map(|target| Some(self.blob(target.file_name()?.to_str()?)));
        blobs.filter(|blob| blob.is_file()).collect()
    }

    /// What is complete here: the revisions, and the commits that were fetched by their own name.
    fn all(&self) -> Vec<Cached> {
        let names = files_below(&self.folder.join("refs"), "");
        let named: Vec<Cached> = names.iter().filter_map(|name| self.revision(name)).collect();
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
    let ids = names_in(cache)
        .into_iter()
        .filter_map(|folder| ModelId::parse(&folder.strip_prefix("models--")?.replacen("--", "/", 1)));
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

/// The files below `folder`, by their paths in it, each with `above` before it: a name of git's may have slashes.
fn files_below(folder: &Path, above: &str) -> Vec<String> {
    let below = |name: String| {
        let (path, name) = (folder.join(&name), format!("{above}{name}"));
        if path.is_dir() { files_below(&path, &format!("{name}/")) } else { vec![name] }
    };
    names_in(folder).into_iter().flat_map(below).collect()
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
