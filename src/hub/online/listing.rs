//! What the Hub says of a model: its commit and its files, with sizes and hashes, in one answer
//! (`/api/models/ID/revision/REVISION?blobs=true`). Mirrors that leave sizes and hashes out say them in the headers of each file.

use super::client::{Client, Failure, text_of};
use super::download::{Hash, Remote};
use super::wanted::wanted;
use super::{ModelId, cache};
use crate::error::{Error, Result};
use serde_json::Value;
use sha2::{Digest, Sha256};
use ureq::http::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG};

/// The commit of a revision, and the files that make the model.
pub fn files(client: &Client, id: &ModelId) -> Result<(String, Vec<Remote>)> {
    let revision = id.revision().replace('/', "%2F");
    let text = client.text(id, &format!("api/models/{}/revision/{revision}?blobs=true", id.name()))?;
    let garbled = |what: &str| {
        let endpoint = client.endpoint();
        Error::Hub(format!(
            "{id}: the answer of {endpoint} is {what}: check HF_ENDPOINT, and whether a login page is in the way"
        ))
    };
    let json: Value = serde_json::from_str(&text).map_err(|_| garbled("no list of files"))?;
    let Some(siblings) = json["siblings"].as_array() else { return Err(garbled("no list of files")) };
    let Some(commit) = json["sha"].as_str().filter(|sha| cache::is_commit(sha)) else {
        return Err(garbled("a list of files without a commit"));
    };
    let name = |file: &Value| file["rfilename"].as_str().map(str::to_string);
    let names: Vec<String> = siblings.iter().filter_map(name).collect();
    let wanted = wanted(&names).map_err(|what| Error::Hub(format!("{id}: {what}")))?;
    let described = siblings.iter().filter_map(|file| Some((name(file)?, file)));
    let described: std::collections::BTreeMap<String, &Value> = described.collect();
    let remote = |name: String| {
        let url = format!("{}/{}/resolve/{commit}/{name}", client.endpoint(), id.name());
        match described.get(&name).and_then(|file| of_list(file, &name, &url)) {
            Some(remote) => Ok(remote),
            None => of_headers(client, id, name, url),
        }
    };
    let files = wanted.into_iter().map(remote).collect::<Result<_>>()?;
    Ok((commit.to_string(), files))
}

/// A file as the list describes it, if it does.
fn of_list(file: &Value, name: &str, url: &str) -> Option<Remote> {
    let lfs = &file["lfs"];
    let (blob, hash) = match lfs.is_null() {
        true => (file["blobId"].as_str()?, Hash::git as fn(&str) -> Option<Hash>),
        false => (lfs["sha256"].as_str().or(lfs["oid"].as_str())?, Hash::sha256 as _),
    };
    is_blob(blob).then(|| Remote {
        name: name.to_string(),
        url: url.to_string(),
        blob: blob.to_string(),
        size: lfs["size"].as_u64().or(file["size"].as_u64()),
        hash: hash(blob),
    })
}

/// A file as the headers of its answer describe it: those of the Hub before those of where it redirects to.
fn of_headers(client: &Client, id: &ModelId, name: String, url: String) -> Result<Remote> {
    let (mut linked_tag, mut linked_size) = (None, None);
    let mut see = |response: &_| {
        let text = |header| text_of(response, header).map(bare);
        linked_tag = linked_tag.take().or_else(|| text("x-linked-etag"));
        linked_size = linked_size.or_else(|| text("x-linked-size")?.parse().ok());
    };
    let answer =
        client.get(id, &url, Some("bytes=0-0".to_string()), &mut see).map_err(|failure| match failure {
            Failure::Refused(error) => error,
            Failure::Broken(what) => Error::Hub(format!("{id}: {name}: {what}; try again")),
        })?;
    // An empty file has no first byte.
    if !answer.status().is_success() && answer.status().as_u16() != 416 {
        return Err(client.refusal(id, &url, &answer));
    }
    let total = text_of(&answer, CONTENT_RANGE.as_str()).and_then(|range| range.rsplit('/').next());
    let whole = text_of(&answer, CONTENT_LENGTH.as_str()).filter(|_| answer.status().as_u16() == 200);
    let tag = linked_tag.clone().or_else(|| text_of(&answer, ETAG.as_str()).map(bare)).unwrap_or_default();
    // What cannot be the name of a file, or says nothing, is replaced by a hash of all that is known.
    let blob =
        if is_blob(&tag) { tag.clone() } else { format!("{:x}", Sha256::digest(format!("{url} {tag}"))) };
    let size = linked_size.or_else(|| total.or(whole)?.parse().ok());
    let hash = linked_tag.as_deref().and_then(Hash::sha256).or_else(|| Hash::git(&tag));
    Ok(Remote { name, url, blob, size, hash })
}

/// An entity tag without its quotes.
fn bare(tag: &str) -> String {
    tag.trim().trim_start_matches("W/").trim_matches('"').to_string()
}

/// Whether a hash of the server's can be the name of a file.
fn is_blob(text: &str) -> bool {
    (7..=128).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}
