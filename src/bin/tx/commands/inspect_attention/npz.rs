//! Weights and tokens as arrays of numpy: a zip of files in the NPY format 1.0.

use std::io::{Cursor, Write};
use tx::model::trace::Kind;
use tx::translate::inspection::{Inspection, Weights};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// The archive; of several sentences the names begin with the number of the line.
pub fn archive(found: &[(u64, Inspection)]) -> anyhow::Result<Vec<u8>> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (line, inspection) in found {
        let mut arrays: Vec<(&str, Vec<u8>)> = vec![
            ("src", strings(std::slice::from_ref(&inspection.src), "")),
            ("tgt", strings(std::slice::from_ref(&inspection.tgt), "")),
        ];
        for (name, axis) in [
            ("src_tokens", &inspection.src_tokens),
            ("tgt_in", &inspection.tgt_in),
            ("tgt_out", &inspection.tgt_out),
        ] {
            arrays.push((name, strings(&axis.pieces, &format!("{},", axis.pieces.len()))));
        }
        for &kind in Kind::ALL {
            let view = inspection.view(kind);
            arrays.push((view.name, floats(view.weights)));
        }
        for (name, bytes) in arrays {
            let prefix = if found.len() > 1 { format!("{line}/") } else { String::new() };
            zip.start_file(format!("{prefix}{name}.npy"), options)?;
            zip.write_all(&bytes)?;
        }
    }
    Ok(zip.finish()?.into_inner())
}

/// [layer, head, query, key] as f32.
fn floats(weights: &Weights) -> Vec<u8> {
    let heads = weights.first().map_or(0, Vec::len);
    let rows = weights.iter().flatten().next();
    let (queries, keys) = (rows.map_or(0, Vec::len), rows.and_then(|rows| rows.first()).map_or(0, Vec::len));
    let mut bytes = header("<f4", &format!("{}, {heads}, {queries}, {keys}", weights.len()));
    bytes.extend(weights.iter().flatten().flatten().flatten().flat_map(|weight| weight.to_le_bytes()));
    bytes
}

/// Text in UTF-32, all as long as the longest.
fn strings(texts: &[String], shape: &str) -> Vec<u8> {
    let longest = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0).max(1);
    let mut bytes = header(&format!("<U{longest}"), shape);
    for text in texts {
        let codes = text.chars().map(u32::from).chain(std::iter::repeat(0)).take(longest);
        bytes.extend(codes.flat_map(u32::to_le_bytes));
    }
    bytes
}

/// Magic, version and description, together a multiple of 64 bytes.
fn header(descr: &str, shape: &str) -> Vec<u8> {
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    let fill = (64 - (10 + text.len() + 1) % 64) % 64;
    text.push_str(&" ".repeat(fill));
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Byte by byte as the format has them.
    #[test]
    fn arrays_by_hand() {
        let start = |descr: &str, shape: &str| {
            let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
            let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
            bytes.extend(format!("{text:<117}\n").bytes());
            bytes
        };
        let floats = floats(&vec![vec![vec![vec![1.0, -2.0]]]]);
        let numbers = [0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0];
        assert_eq!(floats, [start("<f4", "(1, 1, 1, 2)"), numbers.to_vec()].concat());
        let texts = strings(&["a".to_string(), "€b".to_string()], "2,");
        let codes = [0x61, 0, 0, 0, 0, 0, 0, 0, 0xac, 0x20, 0, 0, 0x62, 0, 0, 0];
        assert_eq!(texts, [start("<U2", "(2,)"), codes.to_vec()].concat());
        assert_eq!(strings(&["".to_string()], ""), [start("<U1", "()"), vec![0; 4]].concat());
    }
}
