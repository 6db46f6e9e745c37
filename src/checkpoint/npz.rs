//! Arrays of numpy in a `.npz`, a zip archive of `.npy` files (numpy.lib.format): a line that describes each, then its numbers.

use super::names::{self, short};
use super::{tensors, zip};
use candle_core::{DType, Tensor};
use std::collections::BTreeMap;

/// More sides than any tensor has.
const MAX_DIMS: usize = 8;

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
    let (header, data) = parts(bytes).ok_or_else(cut)?;
    let field = |name: &str| {
        let after = header.split_once(&format!("'{name}':")).map(|(_, after)| after.trim_start());
        after.ok_or_else(|| format!("its header has no {name}: {}", short(header)))
    };
    let kind = field("descr")?.split('\'').nth(1).unwrap_or_default();
    let kind = kind.strip_prefix(['<', '|', '=']).ok_or_else(|| {
        format!("numbers of type {}, expected those with the smallest byte first (<f4)", short(kind))
    })?;
    if !field("fortran_order")?.starts_with("False") {
        return Err("its numbers are column after column, expected row after row".into());
    }
    let shape = shape(field("shape")?)?;
    let width = kind.get(1..).and_then(|width| width.parse::<usize>().ok()).unwrap_or(0);
    let expected = shape.iter().try_fold(width, |product, &side| product.checked_mul(side));
    if width == 0 || expected != Some(data.len()) {
        return Err(format!("{shape:?} numbers of type {} in {} bytes", short(kind), data.len()));
    }
    Ok(Array { kind, shape, data })
}

/// The header of a `.npy` file, and the numbers after it.
fn parts(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let rest = bytes.strip_prefix(b"\x93NUMPY")?;
    let (length, start) = match rest {
        [1, _, a, b, ..] => (usize::from(u16::from_le_bytes([*a, *b])), 4),
        [2 | 3, _, a, b, c, d, ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, 6),
        _ => return None,
    };
    let (header, data) = rest.get(start..)?.split_at_checked(length)?;
    Some((std::str::from_utf8(header).ok()?, data))
}

/// The sides in a text that begins as `(2, 3)`.
fn shape(text: &str) -> Result<Vec<usize>, String> {
    let inside = text.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    let (inside, _) = inside.ok_or_else(|| format!("its shape is {}, expected (N, N)", short(text)))?;
    let sides: Vec<&str> = inside.split(',').map(str::trim).filter(|side| !side.is_empty()).collect();
    if sides.len() > MAX_DIMS {
        return Err(format!("an array of {} sides", sides.len()));
    }
    sides.iter().map(|side| side.parse().map_err(|_| format!("a side of length {}", short(side)))).collect()
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
        let sides = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}),}}", "1,".repeat(9));
        assert_eq!(message(&sides), "an array of 9 sides");
        assert!(message("{'descr': '<f4', 'fortran_order': False, 'shape': 2}").contains("its shape is 2}"));
        for length in 0..good.len() {
            assert!(array(&good[..length]).is_err());
        }
    }
}
