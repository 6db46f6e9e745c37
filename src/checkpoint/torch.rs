//! `pytorch_model.bin`: the weights as `torch.save` writes them since PyTorch 1.6, a zip archive of one pickle that describes the
//! tensors and one file for each storage. Nothing in it is executed ([`super::pickle`]).

use super::files::Contents;
use super::pickle::{self, TensorPlace};
use super::{names, tensors, zip};
use crate::error::{Error, Result};
use crate::model::parameters::Weights;
use candle_core::{DType, Device, Tensor};
use std::collections::BTreeMap;
use std::path::Path;

/// How a form of the weights that tx does not read becomes one that it reads.
pub const WAY_OUT: &str = "open the model in `transformers` once and save it with `save_pretrained`, which writes model.safetensors";

/// All tensors of `contents` as f32 on `device`; `path` is for messages.
pub fn parse(contents: &dyn Contents, path: &Path, device: &Device) -> Result<Weights> {
    let refuse = |what: String| Error::format(path, what);
    let bytes = contents.bytes();
    if let Some(what) = tensors::not_weights(bytes) {
        return Err(refuse(what));
    }
    if bytes.starts_with(&[0x80]) {
        let what =
            format!("this is the pickle form of PyTorch before 1.6, which tx does not read: {WAY_OUT}");
        return Err(refuse(what));
    }
    let archive = Archive::new(bytes).map_err(refuse)?;
    let described = pickle::tensors(archive.pickle).map_err(|what| refuse(format!("data.pkl: {what}")))?;
    names::refuse(&names::repeated(described.iter().map(|(name, _)| *name))).map_err(refuse)?;
    let places = archive.places(&described).map_err(refuse)?;
    let (mut weights, mut read) = (Weights::new(), BTreeMap::<(&str, usize, &[usize]), Tensor>::new());
    for ((name, place), data) in described.iter().zip(places) {
        // Matrices that are one in the model are one in memory.
        let key = (place.storage, place.offset, place.shape.as_slice());
        let tensor = match read.get(&key) {
            Some(tensor) => tensor.clone(),
            None => tensors::to_f32(data, place.dtype, &place.shape)?.to_device(device)?,
        };
        read.insert(key, tensor.clone());
        weights.insert((*name).to_string(), tensor);
    }
    read.clear();
    contents.release(bytes);
    Ok(weights)
}

struct Archive<'a> {
    length: usize,
    pickle: &'a [u8],
    /// By their key.
    storages: BTreeMap<&'a str, &'a [u8]>,
}

impl<'a> Archive<'a> {
    fn new(bytes: &'a [u8]) -> std::result::Result<Self, String> {
        let entries = zip::entries(bytes)?;
        names::refuse(&names::repeated(entries.iter().map(|entry| entry.name)))?;
        let main = entries.iter().find_map(|entry| Some((entry.name.strip_suffix("data.pkl")?, entry.data)));
        let Some((folder, pickle)) = main else {
            return Err(format!("a zip archive without data.pkl, so not one of torch.save: {WAY_OUT}"));
        };
        let inside =
            || entries.iter().filter_map(|entry| Some((entry.name.strip_prefix(folder)?, entry.data)));
        if inside().any(|(name, data)| name == "byteorder" && data != b"little") {
            return Err(format!(
                "its numbers have the largest byte first, which tx does not read: {WAY_OUT}"
            ));
        }
        let storages =
            inside().filter_map(|(name, data)| Some((name.strip_prefix("data/")?, data))).collect();
        Ok(Archive { length: bytes.len(), pickle, storages })
    }

    /// The bytes of each tensor; what does not fit is listed.
    fn places(&self, described: &[(&str, TensorPlace)]) -> std::result::Result<Vec<&'a [u8]>, String> {
        let (mut places, mut problems) = (Vec::new(), Vec::new());
        let mut numbers = BTreeMap::new();
        for (name, place) in described {
            match self.place(place) {
                Ok(data) => {
                    numbers.insert(
                        (place.storage, place.offset, &place.shape),
                        data.len() / place.dtype.size_in_bytes(),
                    );
                    places.push(data);
                }
                Err(what) => problems.push(format!("{name} {:?} {what}", place.shape)),
            }
        }
        // Views that overlap could make a small file a large model.
        let numbers: usize = numbers.values().sum();
        if problems.is_empty()
            && numbers.saturating_mul(4) > self.length.saturating_mul(2).saturating_add(1 << 20)
        {
            problems.push(format!(
                "its tensors have {numbers} numbers, more than a file of {} bytes holds",
                self.length
            ));
        }
        if problems.is_empty() { Ok(places) } else { Err(problems.join("; ")) }
    }

    fn place(&self, place: &TensorPlace) -> std::result::Result<&'a [u8], String> {
        let size = place.dtype.size_in_bytes();
        if place.dtype == DType::I64 {
            return Err("has whole numbers, expected floating-point ones".into());
        }
        if !row_after_row(&place.shape, &place.stride) {
            return Err(format!("lies with strides {:?}, expected row after row: {WAY_OUT}", place.stride));
        }
        let data = self
            .storages
            .get(place.storage)
            .ok_or_else(|| format!("lacks its storage data/{}", place.storage))?;
        let bytes = place.shape.iter().try_fold(size, |product, &side| product.checked_mul(side));
        let start = place.offset.checked_mul(size);
        let end = start.zip(bytes).and_then(|(start, bytes)| start.checked_add(bytes));
        start.zip(end).and_then(|(start, end)| data.get(start..end)).ok_or_else(|| {
            format!("from number {} on is more than its storage of {} bytes holds", place.offset, data.len())
        })
    }
}

/// Whether neighbours of the last side are neighbours in memory, and so on; a side of 1 has no neighbours.
fn row_after_row(shape: &[usize], stride: &[usize]) -> bool {
    let mut expected = 1usize;
    shape.len() == stride.len()
        && shape.iter().zip(stride).rev().all(|(&side, &stride)| {
            let fits = side == 1 || stride == expected;
            expected = expected.saturating_mul(side);
            fits
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rows_after_rows_are_read_as_such() {
        assert!(row_after_row(&[2, 3], &[3, 1]));
        assert!(row_after_row(&[1, 3], &[7, 1]));
        assert!(!row_after_row(&[3, 2], &[1, 3]));
        assert!(!row_after_row(&[3], &[0]));
        assert!(!row_after_row(&[3], &[]));
    }

    #[test]
    fn what_is_no_archive_of_torch_is_named() {
        let message = |bytes: &[u8]| {
            parse(&bytes, Path::new("pytorch_model.bin"), &Device::Cpu).unwrap_err().to_string()
        };
        assert!(message(b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.").contains("before 1.6"));
        assert!(message(b"version https://git-lfs.github.com/spec/v1\n").contains("git lfs pull"));
        assert!(message(b"<html>").contains("HTML"));
        assert!(message(b"PK\x03\x04").contains("cut or damaged"));
    }
}
