//! Mutations of a zip archive of stored files: one file changes, and all of sizes, places and checksums are right again.

use libfuzzer_sys::fuzzer_mutate;

/// Name and content of a file.
type Member = (Vec<u8>, Vec<u8>);

fn number(bytes: &[u8], at: usize, width: usize) -> Option<usize> {
    Some(bytes.get(at..at + width)?.iter().rev().fold(0, |n, &byte| n << 8 | usize::from(byte)))
}

/// The files of an archive as its directory lists them; none if it is damaged.
fn members(bytes: &[u8]) -> Option<Vec<Member>> {
    let end = bytes.windows(4).rposition(|four| four == b"PK\x05\x06")?;
    let (mut at, mut members) = (number(bytes, end + 16, 4)?, Vec::new());
    while bytes.get(at..)?.starts_with(b"PK\x01\x02") {
        let (size, name) = (number(bytes, at + 24, 4)?, number(bytes, at + 28, 2)?);
        let (extra, comment) = (number(bytes, at + 30, 2)?, number(bytes, at + 32, 2)?);
        let local = number(bytes, at + 42, 4)?;
        let start = local + 30 + number(bytes, local + 26, 2)? + number(bytes, local + 28, 2)?;
        members
            .push((bytes.get(at + 46..at + 46 + name)?.to_vec(), bytes.get(start..start + size)?.to_vec()));
        at += 46 + name + extra + comment;
    }
    Some(members).filter(|members| !members.is_empty())
}

/// An archive of `members`.
fn archive(members: &[Member]) -> Vec<u8> {
    let (mut bytes, mut list) = (Vec::new(), Vec::new());
    for (name, data) in members {
        let at = bytes.len() as u32;
        let size = data.len() as u32;
        let mut common = vec![20, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        common.extend([crc32fast::hash(data), size, size].iter().flat_map(|n| n.to_le_bytes()));
        common.extend((name.len() as u16).to_le_bytes());
        common.extend([0, 0]);
        bytes.extend([b"PK\x03\x04", &common[..], name, data].concat());
        list.extend([b"PK\x01\x02\x14\0", &common[..], &[0; 10], &at.to_le_bytes(), name].concat());
    }
    let (at, size, count) = (bytes.len() as u32, list.len() as u32, members.len() as u16);
    bytes.extend(list);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend([count, count].iter().flat_map(|n| n.to_le_bytes()));
    bytes.extend([size, at].iter().flat_map(|n| n.to_le_bytes()));
    bytes.extend([0, 0]);
    bytes
}

/// Mutates the first `size` of `bytes`: mostly one file inside, by `inner` (what of a file is a text of its own), else anything. Half of the
/// changes are of the file whose name ends in `favourite`.
pub fn mutate(
    bytes: &mut [u8],
    size: usize,
    seed: u32,
    favourite: &str,
    inner: impl FnOnce(&mut Vec<u8>, u32),
) -> usize {
    let Some(mut members) = members(&bytes[..size]).filter(|_| !seed.is_multiple_of(8)) else {
        return fuzzer_mutate(bytes, size, bytes.len());
    };
    let favoured = members.iter().position(|(name, _)| name.ends_with(favourite.as_bytes()));
    let any = (seed / 16) as usize % members.len();
    let chosen = favoured.filter(|_| (seed / 8).is_multiple_of(2)).unwrap_or(any);
    match seed / 1024 % 16 {
        0 => _ = members.remove(chosen),
        1 => members.push(members[chosen].clone()),
        2 => change(&mut members[chosen].0, 16),
        _ => inner(&mut members[chosen].1, seed / 1024 / 16),
    }
    let made = archive(&members);
    if made.len() > bytes.len() {
        return fuzzer_mutate(bytes, size, bytes.len());
    }
    bytes[..made.len()].copy_from_slice(&made);
    made.len()
}

/// Mutates a text that may become longer by `more`.
pub fn change(text: &mut Vec<u8>, more: usize) {
    let size = text.len();
    text.resize(size + more, 0);
    let size = fuzzer_mutate(text, size, size + more);
    text.truncate(size);
}
