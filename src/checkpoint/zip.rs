//! The files inside a zip archive, as slices of it: PyTorch and numpy store them as they are, without compression
//! (APPNOTE.TXT of PKWARE, sections 4.3.7, 4.3.12 and 4.3.14 to 4.3.16). Nothing is copied, so memory stays that of the list.

/// A file in an archive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entry<'a> {
    /// Its path in the archive.
    pub name: &'a str,
    /// Its content.
    pub data: &'a [u8],
}

/// The number of `N` bytes at `at`, the smallest byte first.
fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(N)?)?;
    Some(field.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

fn two(bytes: &[u8], at: usize) -> Option<usize> {
    number::<2>(bytes, at).map(|n| n as usize)
}

fn slice(bytes: &[u8], at: u64, length: u64) -> Option<&[u8]> {
    let (start, end) = (usize::try_from(at).ok()?, usize::try_from(at.checked_add(length)?).ok()?);
    bytes.get(start..end)
}

/// What a field says that is too small for the truth, which is then in the extra field.
const SEE_EXTRA: u64 = u32::MAX as u64;

/// All files of the archive `bytes`, in the order of its directory.
pub fn entries(bytes: &[u8]) -> Result<Vec<Entry<'_>>, String> {
    let (mut rest, mut entries) = (directory(bytes).ok_or_else(|| cut(bytes))?, Vec::new());
    while !rest.is_empty() {
        let (entry, next) = entry(bytes, rest).unwrap_or_else(|| Err(cut(bytes)))?;
        entries.push(entry);
        rest = next;
    }
    // Files that overlap could make a small archive a large model.
    let total = entries.iter().fold(0usize, |sum, entry| sum.saturating_add(entry.data.len()));
    if total > bytes.len() { Err(cut(bytes)) } else { Ok(entries) }
}

fn cut(bytes: &[u8]) -> String {
    format!("the zip archive of {} bytes is cut or damaged: fetch it again", bytes.len())
}

/// The list of files, which stands at the end of the archive.
fn directory(bytes: &[u8]) -> Option<&[u8]> {
    // A comment of at most 65,535 bytes may follow the last record.
    let earliest = bytes.len().saturating_sub(22 + 65_535);
    let ends = |&at: &usize| {
        bytes[at..].starts_with(b"PK\x05\x06")
            && two(bytes, at + 20).is_some_and(|comment| at + 22 + comment == bytes.len())
    };
    let end = (earliest..=bytes.len().checked_sub(22)?).rev().find(ends)?;
    let (length, at) = (number::<4>(bytes, end + 12)?, number::<4>(bytes, end + 16)?);
    let locator = end.checked_sub(20).filter(|&at| bytes.get(at..at + 4) == Some(b"PK\x06\x07"));
    match locator {
        Some(locator) => {
            let record = usize::try_from(number::<8>(bytes, locator + 8)?).ok()?;
            let is_one = bytes.get(record..record.checked_add(4)?)? == b"PK\x06\x06";
            let (length, at) = (number::<8>(bytes, record + 40)?, number::<8>(bytes, record + 48)?);
            slice(bytes, at, length).filter(|_| is_one)
        }
        None => slice(bytes, at, length),
    }
}

/// The first file of the directory `list` of the archive `bytes`, and the rest of the directory.
fn entry<'a>(bytes: &'a [u8], list: &'a [u8]) -> Option<Result<(Entry<'a>, &'a [u8]), String>> {
    if !list.starts_with(b"PK\x01\x02") {
        return None;
    }
    let (names, extras, comments) = (two(list, 28)?, two(list, 30)?, two(list, 32)?);
    let name = std::str::from_utf8(list.get(46..46 + names)?).ok()?;
    let mut large = zip64(list.get(46 + names..46 + names + extras)?);
    let mut field = |at| match number::<4>(list, at)? {
        SEE_EXTRA => {
            let value = number::<8>(large, 0)?;
            large = &large[8..];
            Some(value)
        }
        value => Some(value),
    };
    // The order of the extra field: size, stored size, place.
    let (size, stored, at) = (field(24)?, field(20)?, field(42)?);
    if two(list, 10)? != 0 || size != stored {
        return Some(Err(format!(
            "{name} is compressed inside the archive, and tx reads stored files only: write it with torch.save or numpy.savez"
        )));
    }
    let header = slice(bytes, at, 30).filter(|header| header.starts_with(b"PK\x03\x04"))?;
    let before = 30 + two(header, 26)? as u64 + two(header, 28)? as u64;
    let data = slice(bytes, at.checked_add(before)?, size)?;
    Some(Ok((Entry { name, data }, list.get(46 + names + extras + comments..)?)))
}

/// The part of an extra field that has sizes of 8 bytes.
fn zip64(mut extra: &[u8]) -> &[u8] {
    while let (Some(kind), Some(length)) = (two(extra, 0), two(extra, 2)) {
        let Some(part) = extra.get(4..4 + length) else { return &[] };
        if kind == 1 {
            return part;
        }
        extra = &extra[4 + length..];
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive with one file `a` of content `xyz`, as `zip -0` writes it but for time and checksum.
    fn one(method: u8) -> Vec<u8> {
        let common = |out: &mut Vec<u8>| {
            out.extend([20, 0, 0, 0, method, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0]);
        };
        let mut bytes = b"PK\x03\x04".to_vec();
        common(&mut bytes);
        bytes.extend(b"axyz");
        let at = bytes.len() as u8;
        bytes.extend(b"PK\x01\x02\x14\0");
        common(&mut bytes);
        bytes.extend([0; 14]);
        bytes.extend(b"a");
        let length = bytes.len() as u8 - at;
        bytes.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
        bytes.extend([length, 0, 0, 0, at, 0, 0, 0, 0, 0]);
        bytes
    }

    #[test]
    fn stored_files_are_found_and_others_refused() {
        let bytes = one(0);
        assert_eq!(entries(&bytes).unwrap(), [Entry { name: "a", data: b"xyz" }]);
        assert!(entries(&one(8)).unwrap_err().contains("a is compressed"));
        for length in 0..bytes.len() {
            assert!(entries(&bytes[..length]).unwrap_err().contains("cut or damaged"));
        }
    }
}
