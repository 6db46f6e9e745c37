//! One file from the Hub into the cache: gone on with where it stopped, and believed only when size and hash are those that
//! the server said.

use super::client::{Client, Failure, text_of};
use super::{Event, ModelId};
use crate::error::{Error, Result};
use sha1::Sha1;
use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;
use ureq::http::StatusCode;
use ureq::http::header::CONTENT_RANGE;

/// Connections in a row that may break without having brought anything.
const FRUITLESS: u32 = 3;
const BUFFER: usize = 64 << 10;

/// A file of a model, as the server describes it.
#[derive(Debug)]
pub struct Remote {
    /// Its name in the repository.
    pub name: String,
    /// Where it is.
    pub url: String,
    /// Its name in the cache: what git or LFS calls its content.
    pub blob: String,
    /// Its length.
    pub size: Option<u64>,
    /// What its content is known by, if the server says.
    pub hash: Option<Hash>,
}

/// A hash in hexadecimal.
#[derive(Debug)]
pub enum Hash {
    /// The SHA-256 of the content: of files in LFS, which are the large ones.
    Sha256(String),
    /// What git calls the content, the SHA-1 of `blob LENGTH\0` and the content: of all others.
    Git(String),
}

impl Hash {
    /// `text` as a hash that git gives.
    pub fn git(text: &str) -> Option<Self> {
        is_hash(text, 40).then(|| Hash::Git(text.to_string()))
    }

    /// `text` as a hash that LFS gives.
    pub fn sha256(text: &str) -> Option<Self> {
        is_hash(text, 64).then(|| Hash::Sha256(text.to_string()))
    }

    /// What is wrong with the content of the file at `path`, if anything is.
    fn fault_of(&self, path: &Path) -> io::Result<Option<String>> {
        let mut file = File::open(path)?;
        let (name, expected, found) = match self {
            Hash::Sha256(expected) => {
                let mut hash = Sha256::new();
                io::copy(&mut file, &mut hash)?;
                ("SHA-256", expected, format!("{:x}", hash.finalize()))
            }
            Hash::Git(expected) => {
                let mut hash = Sha1::new_with_prefix(format!("blob {}\0", file.metadata()?.len()));
                io::copy(&mut file, &mut hash)?;
                ("hash of git's", expected, format!("{:x}", hash.finalize()))
            }
        };
        Ok((found != *expected).then(|| format!("its {name} is {found}, announced was {expected}")))
    }
}

fn is_hash(text: &str, length: usize) -> bool {
    text.len() == length && text.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'))
}

/// What one connection brought.
enum Part {
    /// All there was, as the server says.
    End,
    /// Something that does not follow on what is there.
    Useless(String),
}

/// Downloads of one model.
pub struct Downloads<'a> {
    pub client: &'a Client,
    pub id: &'a ModelId,
    pub events: &'a mut dyn FnMut(Event),
}

impl Downloads<'_> {
    /// Puts `remote` at `path`, by way of `part`, where what came so far stays if it does not succeed.
    pub fn fetch(&mut self, remote: &Remote, part: &Path, path: &Path) -> Result<()> {
        let mut fault = String::new();
        for _ in 0..2 {
            self.transfer(remote, part)?;
            match fault_of(part, remote).map_err(|error| Error::io(part, error))? {
                None => return fs::rename(part, path).map_err(|error| Error::io(path, error)),
                Some(found) => fault = found,
            }
            fs::remove_file(part).map_err(|error| Error::io(part, error))?;
        }
        Err(Error::Hub(format!(
            "{}: {} came twice from {} and was wrong: {fault}; it was removed; try again later, or another HF_ENDPOINT",
            self.id,
            remote.name,
            self.client.endpoint()
        )))
    }

    /// Fills `part` up, over as many connections as it takes while they bring anything.
    fn transfer(&mut self, remote: &Remote, part: &Path) -> Result<()> {
        let (mut most, mut fruitless) = (length(part), 0);
        loop {
            let here = length(part);
            (self.events)(Event::Progress { bytes: here });
            if remote.size.is_some_and(|size| here >= size && part.is_file()) {
                return Ok(());
            }
            let cause = match self.connection(remote, part, here) {
                Ok(Part::End) if remote.size.is_none_or(|size| length(part) >= size) => return Ok(()),
                Ok(Part::End) => "the answer ended early".to_string(),
                Ok(Part::Useless(what)) | Err(Failure::Broken(what)) => what,
                Err(Failure::Refused(error)) => return Err(error),
            };
            fruitless = if length(part) > most { 0 } else { fruitless + 1 };
            most = most.max(length(part));
            if fruitless == FRUITLESS {
                let size = remote.size.map_or(String::new(), |size| format!(" of {size}"));
                let what = format!(
                    "{}: {} stopped after {} bytes{size}: {cause}; the same command goes on from there",
                    self.id,
                    remote.name,
                    length(part)
                );
                return Err(Error::Hub(what));
            }
            (self.events)(Event::Again { file: &remote.name, cause: &cause });
            std::thread::sleep(Duration::from_millis(500 * u64::from(fruitless)));
        }
    }

    /// Adds what one connection brings to the `here` bytes of `part`.
    fn connection(&mut self, remote: &Remote, part: &Path, here: u64) -> Result<Part, Failure> {
        let range = (here > 0).then(|| format!("bytes={here}-"));
        let response = self.client.get(self.id, &remote.url, range, &mut |_| ())?;
        let refuse = |error: io::Error| Failure::Refused(Error::io(part, error));
        let begins_at = match response.status() {
            StatusCode::OK => 0, // also where a range was asked for and the server has none
            StatusCode::PARTIAL_CONTENT => match start(text_of(&response, CONTENT_RANGE.as_str())) {
                Some(start) if start == here => here,
                _ => {
                    start_anew(part).map_err(refuse)?;
                    return Ok(Part::Useless("the server gave another part than was asked for".to_string()));
                }
            },
            StatusCode::RANGE_NOT_SATISFIABLE => {
                start_anew(part).map_err(refuse)?;
                return Ok(Part::Useless("the server's file is shorter than what is here".to_string()));
            }
            status if status.is_server_error() => {
                return Ok(Part::Useless(format!("the server is out of order (status {})", status.as_u16())));
            }
            _ => return Err(Failure::Refused(self.client.refusal(self.id, &remote.url, &response))),
        };
        let mut file = OpenOptions::new().create(true).append(true).open(part).map_err(refuse)?;
        file.set_len(begins_at).map_err(refuse)?;
        // One byte more than expected is enough to see that something is wrong.
        let most = remote.size.map_or(u64::MAX, |size| size.saturating_add(1).saturating_sub(begins_at));
        let mut body = response.into_body().into_reader().take(most);
        self.copy(&mut body, &mut file, begins_at, part)?;
        file.sync_all().map_err(refuse)?;
        Ok(Part::End)
    }

    fn copy(&mut self, body: &mut impl Read, file: &mut File, from: u64, part: &Path) -> Result<(), Failure> {
        let (mut buffer, mut position) = (vec![0; BUFFER], from);
        loop {
            let count = match body.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Failure::Broken(format!("the connection broke ({error})"))),
            };
            file.write_all(&buffer[..count]).map_err(|error| Failure::Refused(Error::io(part, error)))?;
            position += count as u64;
            (self.events)(Event::Progress { bytes: position });
        }
    }
}

/// What is wrong with the file at `path`, if anything is.
pub fn fault_of(path: &Path, remote: &Remote) -> io::Result<Option<String>> {
    let length = fs::metadata(path)?.len();
    if let Some(size) = remote.size.filter(|&size| size != length) {
        let found = if length > size { "more".to_string() } else { length.to_string() };
        return Ok(Some(format!("{size} bytes were announced and {found} came")));
    }
    remote.hash.as_ref().map_or(Ok(None), |hash| hash.fault_of(path))
}

/// The first byte of `bytes START-END/SIZE`.
fn start(range: Option<&str>) -> Option<u64> {
    range?.strip_prefix("bytes ")?.split('-').next()?.trim().parse().ok()
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

fn start_anew(part: &Path) -> io::Result<()> {
    File::create(part).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash is that of `printf 'hello\n' | git hash-object --stdin`.
    #[test]
    fn contents_have_the_names_that_git_gives_them() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "hello\n").unwrap();
        let hash = Hash::git("ce013625030ba8dba906f756967f9e9ca394464a").unwrap();
        assert_eq!(hash.fault_of(file.path()).unwrap(), None);
        fs::write(file.path(), "hellO\n").unwrap();
        let fault = hash.fault_of(file.path()).unwrap().unwrap();
        assert!(fault.contains("announced was ce0136"), "{fault}");
        assert!(Hash::git("CE013625030ba8dba906f756967f9e9ca394464a").is_none());
        assert!(Hash::sha256("ce013625030ba8dba906f756967f9e9ca394464a").is_none());
    }
}
