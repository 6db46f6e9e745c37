//! Tensors in safetensors files. A file that is not one is named for what it looks like.

use super::files;
use crate::error::{Error, Result};
use crate::model::parameters::Weights;
use candle_core::{DType, Device, Tensor};
use safetensors::{Dtype, SafeTensors};
use std::path::Path;

/// All tensors of a file as f32 on `device`.
pub fn read(path: &Path, device: &Device) -> Result<Weights> {
    parse(&files::read(path)?, path, device)
}

/// All tensors of `bytes` as f32 on `device`; `path` is for messages.
pub fn parse(bytes: &[u8], path: &Path, device: &Device) -> Result<Weights> {
    let file =
        SafeTensors::deserialize(bytes).map_err(|error| Error::format(path, diagnose(bytes, &error)))?;
    let mut weights = Weights::new();
    for (name, view) in file.iter() {
        let dtype = match view.dtype() {
            Dtype::F32 => DType::F32,
            Dtype::F16 => DType::F16,
            Dtype::BF16 => DType::BF16,
            Dtype::F64 => DType::F64,
            other => {
                let what = format!("tensor {name} has type {other:?}, expected F32, F16, BF16 or F64");
                return Err(Error::format(path, what));
            }
        };
        let tensor = Tensor::from_raw_buffer(view.data(), dtype, view.shape(), &Device::Cpu)?;
        weights.insert(name.to_string(), tensor.to_dtype(DType::F32)?.to_device(device)?);
    }
    Ok(weights)
}

/// Writes `weights` as `dtype`, sorted by name, replacing `path` at once.
pub fn write(path: &Path, weights: &Weights, dtype: DType) -> Result<()> {
    let mut tensors = Vec::new();
    for (name, tensor) in weights {
        let tensor = tensor.to_device(&Device::Cpu)?;
        let stored = tensor.to_dtype(dtype)?.contiguous()?;
        if is_finite(&tensor)? && !is_finite(&stored)? {
            let what = format!("{name} has values that {dtype:?} cannot hold: store it as f32");
            return Err(Error::format(path, what));
        }
        tensors.push((name, stored));
    }
    // `transformers` asks for this entry.
    let metadata = Some([("format".to_string(), "pt".to_string())].into());
    let bytes = safetensors::serialize(tensors, metadata)
        .map_err(|error| Error::format(path, format!("the tensors could not be serialised: {error}")))?;
    files::write_atomically(path, &bytes)
}

fn is_finite(tensor: &Tensor) -> Result<bool> {
    Ok(tensor
        .to_dtype(DType::F32)?
        .abs()?
        .flatten_all()?
        .sum_all()?
        .to_dtype(DType::F64)?
        .to_scalar::<f64>()?
        .is_finite())
}

/// What is wrong with a file that does not parse, and the way out.
fn diagnose(bytes: &[u8], error: &safetensors::SafeTensorError) -> String {
    let start = &bytes[..bytes.len().min(64)];
    if start.starts_with(b"version https://git-lfs") {
        return "this is a Git LFS pointer, not the weights themselves: run `git lfs pull` where it came from".into();
    }
    if start.trim_ascii_start().starts_with(b"<") {
        return "this is an HTML or XML page, not weights: the download went wrong, fetch the file again"
            .into();
    }
    if start.starts_with(b"PK") || start.starts_with(&[0x80]) {
        return "this is a PyTorch pickle, not a safetensors file: save the model with `safe_serialization=True`".into();
    }
    match expected_size(bytes) {
        Some(expected) if expected != bytes.len() as u64 => format!(
            "the file has {} bytes, its header asks for {expected}: it was cut or damaged, fetch it again ({error})",
            bytes.len()
        ),
        _ => format!("not a readable safetensors file of {} bytes: {error}", bytes.len()),
    }
}

/// Size of the whole file as its header gives it; of the header alone if that is cut.
fn expected_size(bytes: &[u8]) -> Option<u64> {
    let header_length = u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?);
    let header_end = header_length.checked_add(8)?;
    let Some(header) = usize::try_from(header_end).ok().and_then(|end| bytes.get(8..end)) else {
        return Some(header_end).filter(|_| header_length < 100_000_000);
    };
    let header: serde_json::Value = serde_json::from_slice(header).ok()?;
    let ends = header.as_object()?.values().filter_map(|entry| entry["data_offsets"][1].as_u64());
    Some(header_end + ends.max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> (tempfile::TempDir, std::path::PathBuf, Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let tensor = Tensor::new(&[[1f32, 2.], [3., 4.]], &Device::Cpu).unwrap();
        write(&path, &Weights::from([("a".into(), tensor.clone()), ("b".into(), tensor)]), DType::F32)
            .unwrap();
        let bytes = std::fs::read(&path).unwrap();
        (folder, path, bytes)
    }

    #[test]
    fn what_is_written_is_read_back() {
        let (_folder, path, _) = good();
        let weights = read(&path, &Device::Cpu).unwrap();
        assert_eq!(weights.keys().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(weights["a"].to_vec2::<f32>().unwrap(), [[1., 2.], [3., 4.]]);
    }

    #[test]
    fn values_beyond_half_precision_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let weights = Weights::from([("big".into(), Tensor::new(&[1f32, 1e6], &Device::Cpu).unwrap())]);
        write(&path, &weights, DType::F32).unwrap();
        let message = write(&path, &weights, DType::F16).unwrap_err().to_string();
        assert!(message.contains("big has values that F16 cannot hold"), "{message}");
    }

    #[test]
    fn damaged_files_are_named_for_what_they_are() {
        let (_folder, path, bytes) = good();
        let message = |bytes: &[u8]| parse(bytes, &path, &Device::Cpu).unwrap_err().to_string();
        let cut = message(&bytes[..bytes.len() - 10]);
        assert!(
            cut.contains(&format!("has {} bytes, its header asks for {}", bytes.len() - 10, bytes.len())),
            "{cut}"
        );
        assert!(message(&bytes[..40]).contains("its header asks for"));
        assert!(message(&bytes[..7]).contains("not a readable safetensors file of 7 bytes"));
        let longer = message(&[bytes.clone(), vec![0; 16]].concat());
        assert!(longer.contains(&format!(
            "has {} bytes, its header asks for {}",
            bytes.len() + 16,
            bytes.len()
        )));
        assert!(message(b"version https://git-lfs.github.com/spec/v1\n").contains("git lfs pull"));
        assert!(message(b"<!DOCTYPE html>").contains("HTML"));
        assert!(message(b"PK\x03\x04data").contains("pickle"));
        assert!(message(b"").contains("0 bytes"));
    }
}
