//! A stand-in for the Hugging Face Hub on this machine, which answers as the Hub does (headers, redirects, ranges, refusals), or
//! as no server should.

use crate::common::golden;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The model that it has.
pub const ID: &str = "some-one/opus-mt-en-de";
/// What it was called before models had owners.
pub const OLD_ID: &str = "opus-mt-en-de";

/// What is out of the ordinary.
#[derive(Clone, Copy, Default)]
pub struct Quirks {
    /// Answers to the list of files: a status with more headers and a body.
    pub list: Option<(u16, &'static str, &'static str)>,
    /// The same for files.
    pub file: Option<(u16, &'static str, &'static str)>,
    /// Bytes of weights that a connection brings before it breaks.
    pub cut: Option<usize>,
    /// So many answers with weights have a wrong byte.
    pub wrong: usize,
    /// A small file has a wrong byte, but its length.
    pub wrong_small: bool,
    /// So many answers with weights are too short, by their own headers too.
    pub short: usize,
    /// A range is answered with the whole.
    pub no_ranges: bool,
    /// A range is answered with another one.
    pub other_range: bool,
    /// The list has names alone.
    pub bare_list: bool,
    /// Each answer takes a while.
    pub slow: bool,
}

/// A request: address, where it went, range and token.
#[derive(Debug, Clone)]
pub struct Asked {
    pub path: String,
    pub is_cdn: bool,
    pub range: Option<String>,
    pub token: Option<String>,
}

pub struct StandIn {
    pub endpoint: String,
    state: Arc<State>,
}

struct State {
    /// Files by revision; the commit of a revision is its hash.
    revisions: BTreeMap<String, Vec<(String, Vec<u8>)>>,
    quirks: Mutex<Quirks>,
    asked: Mutex<Vec<Asked>>,
    hub: String,
    cdn: String,
    tls: Option<Arc<ServerConfig>>,
}

pub fn sha256(bytes: impl AsRef<[u8]>) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// The commit of a revision.
pub fn commit(revision: &str) -> String {
    sha256(revision)[..40].to_string()
}

impl StandIn {
    /// Serves folders as revisions of [`ID`], with files that nobody needs beside theirs.
    pub fn new(revisions: &[(&str, &Path)], quirks: Quirks) -> Self {
        Self::start(revisions, quirks, None)
    }

    /// The same, encrypted, with a certificate that `tls/ca.pem` of the goldens vouches for.
    pub fn encrypted(revisions: &[(&str, &Path)]) -> Self {
        let chain = vec![CertificateDer::from_pem_file(golden("tls/server.pem")).unwrap()];
        let key = PrivateKeyDer::from_pem_file(golden("tls/server.key")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let tls = versions.unwrap().with_no_client_auth().with_single_cert(chain, key).unwrap();
        Self::start(revisions, Quirks::default(), Some(Arc::new(tls)))
    }

    fn start(revisions: &[(&str, &Path)], quirks: Quirks, tls: Option<Arc<ServerConfig>>) -> Self {
        let files = |folder: &Path| {
            let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder)
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .map(|path| {
                    (path.file_name().unwrap().to_str().unwrap().to_string(), std::fs::read(path).unwrap())
                })
                .collect();
            files.push(("README.md".to_string(), b"read me".to_vec()));
            files.push(("tf_model.h5".to_string(), vec![0; 1000]));
            files.sort();
            files
        };
        let revisions =
            revisions.iter().map(|(revision, folder)| (revision.to_string(), files(folder))).collect();
        let (hub, cdn) = (listener(), listener());
        let state = Arc::new(State {
            revisions,
            quirks: Mutex::new(quirks),
            asked: Mutex::default(),
            hub: address(&hub, tls.is_some()),
            cdn: address(&cdn, tls.is_some()),
            tls,
        });
        for (listener, is_cdn) in [(hub, false), (cdn, true)] {
            let state = state.clone();
            std::thread::spawn(move || {
                for stream in listener.incoming().filter_map(Result::ok) {
                    let state = state.clone();
                    std::thread::spawn(move || state.serve(stream, is_cdn));
                }
            });
        }
        StandIn { endpoint: state.hub.clone(), state }
    }

    pub fn set(&self, quirks: Quirks) {
        *self.state.quirks.lock().unwrap() = quirks;
    }

    /// What was asked since the last call.
    pub fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.state.asked.lock().unwrap())
    }
}

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

fn address(listener: &TcpListener, is_encrypted: bool) -> String {
    format!("http{}://{}", if is_encrypted { "s" } else { "" }, listener.local_addr().unwrap())
}

impl State {
    /// One request a connection. Clients go away when they like.
    fn serve(&self, stream: TcpStream, is_cdn: bool) {
        match &self.tls {
            None => self.exchange(stream, is_cdn),
            Some(tls) => {
                let connection = ServerConnection::new(tls.clone()).unwrap();
                self.exchange(StreamOwned::new(connection, stream), is_cdn);
            }
        }
    }

    fn exchange(&self, mut stream: impl Read + Write, is_cdn: bool) {
        let Some(asked) = read(&mut stream, is_cdn) else { return };
        self.asked.lock().unwrap().push(asked.clone());
        if self.quirks.lock().unwrap().slow {
            std::thread::sleep(Duration::from_millis(150));
        }
        let _ = stream.write_all(&self.answer(&asked)).and_then(|()| stream.flush());
    }

    fn answer(&self, asked: &Asked) -> Vec<u8> {
        let path = asked.path.as_str();
        let quirks = *self.quirks.lock().unwrap();
        if asked.is_cdn {
            let content = self.files().find(|(_, _, bytes)| path.ends_with(&sha256(bytes)));
            return content.map_or(not_found("EntryNotFound"), |(.., bytes)| self.weights(asked, bytes));
        }
        for place in ["/api/models/", "/"] {
            if let Some(rest) = path.strip_prefix(&format!("{place}{OLD_ID}/")) {
                return answer(307, &format!("location: {place}{ID}/{rest}\r\n"), b"");
            }
        }
        if let Some(rest) = path.strip_prefix(&format!("/api/models/{ID}/revision/")) {
            return match quirks.list {
                Some((status, headers, body)) => answer(status, headers, body.as_bytes()),
                None => self.list(rest.split('?').next().unwrap(), quirks.bare_list),
            };
        }
        if path.starts_with("/api/models/") {
            return not_found("RepoNotFound");
        }
        if let Some((status, headers, body)) = quirks.file {
            return answer(status, headers, body.as_bytes());
        }
        let found = |prefix: &str| {
            self.files()
                .find(|(revision, name, _)| path == format!("{prefix}{ID}/{}/{name}", commit(revision)))
        };
        if let Some((_, name, bytes)) = found("/api/resolve-cache/models/") {
            let tag = format!("etag: \"{}\"\r\n", blob(name, bytes));
            let mut bytes = bytes.to_vec();
            if quirks.wrong_small && name == "config.json" {
                bytes.rotate_left(1);
            }
            return self.ranged(asked, &bytes, &tag, quirks);
        }
        let resolve = format!("/{ID}/resolve/");
        let found = path.strip_prefix(&resolve).and_then(|rest| {
            self.files().find(|(revision, name, _)| rest == format!("{}/{name}", commit(revision)))
        });
        let Some((revision, name, bytes)) = found else { return not_found("EntryNotFound") };
        let commit = commit(revision);
        let location = match is_large(name) {
            true => format!("{}/xet/{}", self.cdn, sha256(bytes)),
            false => format!("/api/resolve-cache/models/{ID}/{commit}/{name}"),
        };
        let linked =
            format!("x-linked-etag: \"{}\"\r\nx-linked-size: {}\r\n", blob(name, bytes), bytes.len());
        let headers = format!("location: {location}\r\nx-repo-commit: {commit}\r\n{linked}");
        answer(if is_large(name) { 302 } else { 307 }, &headers, b"Found. Redirecting")
    }

    fn files(&self) -> impl Iterator<Item = (&str, &str, &[u8])> {
        self.revisions.iter().flat_map(|(revision, files)| {
            files.iter().map(move |(name, bytes)| (revision.as_str(), name.as_str(), bytes.as_slice()))
        })
    }

    fn list(&self, revision: &str, bare: bool) -> Vec<u8> {
        let revision = revision.replace("%2F", "/");
        let mut files = self.files().filter(|(there, ..)| *there == revision).peekable();
        if files.peek().is_none() {
            return not_found("RevisionNotFound");
        }
        let sibling = |(_, name, bytes): (&str, &str, &[u8])| {
            if bare {
                return json!({"rfilename": name});
            }
            let mut file = json!({"rfilename": name, "size": bytes.len(), "blobId": git(bytes)});
            if is_large(name) {
                file["lfs"] = json!({"sha256": sha256(bytes), "size": bytes.len(), "pointerSize": 134});
            }
            file
        };
        let list =
            json!({"id": ID, "sha": commit(&revision), "siblings": files.map(sibling).collect::<Vec<_>>()});
        answer(200, "content-type: application/json\r\n", list.to_string().as_bytes())
    }

    /// Large files come from elsewhere, where most goes wrong.
    fn weights(&self, asked: &Asked, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        let mut kept = self.quirks.lock().unwrap();
        let quirks = *kept;
        if quirks.wrong > 0 {
            kept.wrong -= 1;
            *bytes.last_mut().unwrap() ^= 1;
        }
        if quirks.short > 0 {
            kept.short -= 1;
            bytes.pop();
        }
        drop(kept);
        let mut answer = self.ranged(asked, &bytes, "etag: \"of-the-cdn\"\r\n", quirks);
        if let Some(cut) = quirks.cut {
            let head = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
            answer.truncate(head + cut);
        }
        answer
    }

    fn ranged(&self, asked: &Asked, bytes: &[u8], headers: &str, quirks: Quirks) -> Vec<u8> {
        let range = asked.range.as_ref().filter(|_| !quirks.no_ranges);
        let Some((start, end)) = range.and_then(|range| range.strip_prefix("bytes=")?.split_once('-')) else {
            return answer(200, headers, bytes);
        };
        let start: usize = start.parse::<usize>().unwrap() + usize::from(quirks.other_range);
        let end = end.parse().unwrap_or(bytes.len().saturating_sub(1));
        if start >= bytes.len() {
            return answer(416, &format!("content-range: bytes */{}\r\n", bytes.len()), b"");
        }
        let headers = format!("{headers}content-range: bytes {start}-{end}/{}\r\n", bytes.len());
        answer(206, &headers, &bytes[start..=end])
    }
}

fn read(stream: impl Read, is_cdn: bool) -> Option<Asked> {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let path = lines.next()?.split(' ').nth(1)?.to_string();
    let headers: Vec<(String, String)> = lines
        .take_while(|line| !line.is_empty())
        .filter_map(|line| {
            line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_string()))
        })
        .collect();
    let header = |wanted| headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
    Some(Asked { path, is_cdn, range: header("range"), token: header("authorization") })
}

fn answer(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status} Status\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

fn not_found(code: &str) -> Vec<u8> {
    answer(404, &format!("x-error-code: {code}\r\n"), b"not found")
}

/// What git or LFS calls a content.
fn blob(name: &str, bytes: &[u8]) -> String {
    if is_large(name) { sha256(bytes) } else { git(bytes) }
}

fn git(bytes: &[u8]) -> String {
    format!(
        "{:x}",
        Sha1::new().chain_update(format!("blob {}\0", bytes.len())).chain_update(bytes).finalize()
    )
}

fn is_large(name: &str) -> bool {
    [".safetensors", ".bin", ".npz", ".h5"].iter().any(|ending| name.ends_with(ending))
}
