//! Arrays of numpy in a `.npz`, a zip archive of `.npy` files (numpy.lib.format): a line that describes each, then its numbers.

use super::{names, tensors, zip};
use candle_core::{DType, Tensor};
use std::collections::BTreeMap;

/// One array.
#[derive(Debug, Clone, PartialEq)]
pub struct Array<'a> {
    /// Type of its numbers as numpy writes it, without the order of bytes: `f4`, `i1`.
    pub kind: &'a str,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its numbers, row after row.
    pub data: &'a [u8],
}

/// All arrays of an archive by name. One that is not readable is named.
pub fn arrays(bytes: &[u8]) -> Result<BTreeMap<&str, Array<'_>>, String> {
    let entries = zip::entries(bytes)?;
    names::refuse(&names::repeated(entries.iter().map(|entry| plain(entry.name))))?;
    entries.into_iter().map(named).collect()
}

fn named(entry: zip::Entry<'_>) -> Result<(&str, Array<'_>), String> {
    let name = plain(entry.name);
    array(entry.data).map(|array| (name, array)).map_err(|what| format!("{}: {what}", short(name)))
}

/// The name of an array.
fn plain(name: &str) -> &str {
    name.strip_suffix(".npy").unwrap_or(name)
}

/// The array of a `.npy` file.
fn array(bytes: &[u8]) -> Result<Array<'_>, String> {
    let cut = || format!("not a whole .npy file ({} bytes): fetch the archive again", bytes.len());
    let rest = bytes.strip_prefix(b"\x93NUMPY").ok_or_else(cut)?;
    let (length, start) = match rest {
        [1, _, a, b, ..] => (usize::from(u16::from_le_bytes([*a, *b])), 4),
        [2 | 3, _, a, b, c, d, ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, 6),
        _ => return Err(cut()),
    };
    let (header, data) = rest.get(start..).and_then(|rest| rest.split_at_checked(length)).ok_or_else(cut)?;
    let header = std::str::from_utf8(header).map_err(|_| cut())?;
    let field = |name: &str| {
        let after = header.split_once(&format!("'{name}':")).map(|(_, after)| after.trim_start());
        after.ok_or_else(|| format!("its header has no {name}: {}", short(header)))
    };
    let kind = field("descr")?.split('\'').nth(1).unwrap_or_default();
    let kind =
        kind.strip_prefix(['<', '|', '=']).ok_or_else(|| format!("numbers of type {}", short(kind)))?;
    if !field("fortran_order")?.starts_with("False") {
        return Err("its numbers are column after column, expected row after row".into());
    }
    let shape = field("shape")?.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    let shape = shape
        .map(|(inside, _)| inside)
        .ok_or_else(|| format!("its header has no shape: {}", short(header)))?;
    let sides = shape.split(',').map(str::trim).filter(|side| !side.is_empty());
    let shape: Vec<usize> = sides
        .take(9)
        .map(|side| side.parse().map_err(|_| format!("a side of length {}", short(side))))
        .collect::<Result<_, String>>()?;
    let width = kind.get(1..).and_then(|width| width.parse::<usize>().ok()).unwrap_or(0);
    let expected = shape.iter().try_fold(width, |product, &side| product.checked_mul(side));
    if width == 0 || shape.len() > 8 || expected != Some(data.len()) {
        return Err(format!(
            "{} numbers of type {} in {} bytes",
            format_args!("{shape:?}"),
            short(kind),
            data.len()
        ));
    }
    Ok(Array { kind, shape, data })
}

impl Array<'_> {
    /// As f32.
    pub fn tensor(&self) -> Result<Tensor, String> {
        let dtype = match self.kind {
            "f4" => DType::F32,
            "f2" => DType::F16,
            "f8" => DType::F64,
            other => return Err(format!("numbers of type {}, expected f4, f2 or f8", short(other))),
        };
        tensors::to_f32(self.data, dtype, &self.shape).map_err(|error| error.to_string())
    }
}

/// A text for a message.
fn short(text: &str) -> String {
    text.chars().take(80).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        [b"\x93NUMPY\x01\0", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), data].concat()
    }

    #[test]
    fn arrays_are_read_and_others_named() {
        let good = file(
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }\n",
            &[0, 0, 128, 63, 0, 0, 0, 64],
        );
        let found = array(&good).unwrap();
        assert_eq!((found.kind, found.shape.as_slice()), ("f4", [1, 2].as_slice()));
        assert_eq!(found.tensor().unwrap().to_vec2::<f32>().unwrap(), [[1.0, 2.0]]);
        let message = |header: &str| array(&file(header, &[0; 8])).unwrap_err();
        assert!(message("{'descr': '>f4', 'fortran_order': False, 'shape': (2,)}").contains("type >f4"));
        assert!(
            message("{'descr': '<f4', 'fortran_order': True, 'shape': (2,)}").contains("column after column")
        );
        assert!(message("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}").contains("[3] numbers"));
        assert!(
            message("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}").contains("side of length -2")
        );
        assert!(message("{'descr': '<f4', 'fortran_order': False}").contains("no shape"));
        for length in 0..good.len() {
            assert!(array(&good[..length]).is_err());
        }
    }
}
