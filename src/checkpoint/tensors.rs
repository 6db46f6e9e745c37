//! The tensors of a file of weights, which is a safetensors file unless its name says otherwise. A file that is not one is named for what it looks like.

use super::files::{self, Contents};
use super::{bundle, names, torch};
use crate::error::{Error, Result};
use crate::model::parameters::{LOGITS_BIAS, Weights};
use crate::ops::Int8Matrix;
use candle_core::{DType, Device, Tensor};
use half::f16;
use half::slice::HalfFloatSliceExt;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use std::path::Path;

/// All tensors of a file as f32 on `device`.
pub fn read(path: &Path, device: &Device) -> Result<Weights> {
    parse(&files::map(path)?, path, device)
}

/// All tensors of `contents` as f32 on `device`; `path` is for messages.
pub fn parse(contents: &dyn Contents, path: &Path, device: &Device) -> Result<Weights> {
    if path.extension().is_some_and(|extension| extension == "bin") {
        return torch::parse(contents, path, device);
    }
    let file = open(contents.bytes(), path)?;
    let mut weights = Weights::new();
    for (name, view) in file.iter().filter(|(name, _)| !name.starts_with(bundle::FILE)) {
        if view.dtype() == Dtype::I8 {
            let tensor = dequantize(&file, name, &view).map_err(|what| Error::format(path, what))?;
            weights.insert(name.to_string(), tensor.to_device(device)?);
            contents.release(view.data());
            continue;
        }
        if name.strip_suffix(SCALE).is_some_and(|of| file.tensor(of).is_ok_and(|of| of.dtype() == Dtype::I8))
        {
            continue;
        }
        let dtype = match view.dtype() {
            Dtype::F32 => DType::F32,
            Dtype::F16 => DType::F16,
            Dtype::BF16 => DType::BF16,
            Dtype::F64 => DType::F64,
            other => {
                let what = format!("tensor {name} has type {other:?}, expected F32, F16, BF16, F64 or I8");
                return Err(Error::format(path, what));
            }
        };
        weights.insert(name.to_string(), to_f32(view.data(), dtype, view.shape())?.to_device(device)?);
        contents.release(view.data());
    }
    Ok(weights)
}

/// The tensors of a safetensors file as they are stored; `path` is for messages.
pub(super) fn open<'a>(bytes: &'a [u8], path: &Path) -> Result<SafeTensors<'a>> {
    let repeated = names::repeated_keys(header(bytes).unwrap_or_default());
    names::refuse(&repeated).map_err(|what| Error::format(path, what))?;
    SafeTensors::deserialize(bytes).map_err(|error| Error::format(path, diagnose(bytes, &error)))
}

/// The floating-point numbers `data` of type `dtype` as f32.
pub(super) fn to_f32(data: &[u8], dtype: DType, shape: &[usize]) -> Result<Tensor> {
    Ok(if dtype == DType::F16 {
        Tensor::from_vec(halves(data), shape, &Device::Cpu)?
    } else {
        Tensor::from_raw_buffer(data, dtype, shape, &Device::Cpu)?.to_dtype(DType::F32)?
    })
}

/// Numbers in half precision, eight by one instruction where there is one.
fn halves(bytes: &[u8]) -> Vec<f32> {
    let halves: Vec<f16> = bytes.as_chunks().0.iter().map(|&bytes| f16::from_le_bytes(bytes)).collect();
    let mut numbers = vec![0.0; halves.len()];
    halves.convert_to_f32_slice(&mut numbers);
    numbers
}

/// What is added to the name of an int8 matrix for that of the scales of its rows.
const SCALE: &str = ".scale";

/// The matrix `name` [o, i] of whole numbers times the scales \[o\] of its rows.
fn dequantize(file: &SafeTensors, name: &str, view: &TensorView) -> std::result::Result<Tensor, String> {
    let scales = file
        .tensor(&format!("{name}{SCALE}"))
        .map_err(|_| format!("{name} is int8: {name}{SCALE} is missing"))?;
    let &[n_out, n_in] = view.shape() else {
        return Err(format!("{name} is int8 of shape {:?}, expected a matrix", view.shape()));
    };
    if (scales.dtype(), scales.shape()) != (Dtype::F32, [n_out].as_slice()) {
        let (found, shape) = (scales.dtype(), scales.shape());
        return Err(format!("{name}{SCALE} is {found:?} {shape:?}, expected F32 [{n_out}]"));
    }
    let matrix = Int8Matrix {
        numbers: view.data().iter().map(|&q| q as i8).collect(),
        scales: scales.data().as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect(),
    };
    Tensor::from_vec(matrix.to_f32(), (n_out, n_in), &Device::Cpu).map_err(|error| format!("{name}: {error}"))
}

/// Writes `weights` with the matrices as int8 and the scales of their rows, everything else as f32, replacing `path` at once.
pub fn write_int8(path: &Path, weights: &Weights) -> Result<()> {
    let mut tensors: Vec<(String, Dtype, Vec<usize>, Vec<u8>)> = Vec::new();
    let bytes = |numbers: &[f32]| numbers.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    for (name, tensor) in weights {
        let shape = tensor.dims().to_vec();
        let numbers = tensor.to_device(&Device::Cpu)?.flatten_all()?.to_vec1::<f32>()?;
        match *shape.as_slice() {
            [_, n_in] if name != LOGITS_BIAS => {
                let matrix = Int8Matrix::new(&numbers, n_in);
                let matrix = matrix.map_err(|error| Error::format(path, format!("{name}: {error}")))?;
                let scales = bytes(&matrix.scales);
                tensors.push((format!("{name}{SCALE}"), Dtype::F32, vec![matrix.scales.len()], scales));
                let whole = matrix.numbers.iter().map(|&q| q as u8).collect();
                tensors.push((name.clone(), Dtype::I8, shape, whole));
            }
            _ => tensors.push((name.clone(), Dtype::F32, shape, bytes(&numbers))),
        }
    }
    let views: Vec<(&str, TensorView)> = tensors
        .iter()
        .map(|(name, dtype, shape, data)| Ok((name.as_str(), TensorView::new(*dtype, shape.clone(), data)?)))
        .collect::<std::result::Result<_, safetensors::SafeTensorError>>()
        .map_err(|error| Error::format(path, error.to_string()))?;
    let bytes = safetensors::serialize(views, None)
        .map_err(|error| Error::format(path, format!("the tensors could not be serialised: {error}")))?;
    files::write_atomically(path, &bytes)
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

/// What a file is that stands in the place of weights of any form, and the way out.
pub(super) fn not_weights(bytes: &[u8]) -> Option<String> {
    let start = bytes.get(..64).unwrap_or(bytes);
    let what = if start.starts_with(b"version https://git-lfs") {
        "this is a Git LFS pointer, not the weights themselves: run `git lfs pull` where it came from"
    } else if start.trim_ascii_start().starts_with(b"<") {
        "this is an HTML or XML page, not weights: the download went wrong, fetch the file again"
    } else {
        return None;
    };
    Some(what.into())
}

/// What is wrong with a file that does not parse, and the way out.
fn diagnose(bytes: &[u8], error: &safetensors::SafeTensorError) -> String {
    if let Some(what) = not_weights(bytes) {
        return what;
    }
    if bytes.starts_with(b"PK") || bytes.starts_with(&[0x80]) {
        return format!(
            "this is a PyTorch pickle, not a safetensors file: call it pytorch_model.bin, or {}",
            torch::WAY_OUT
        );
    }
    match expected_size(bytes) {
        Some(expected) if expected != bytes.len() as u64 => format!(
            "the file has {} bytes, its header asks for {expected}: it was cut or damaged, fetch it again ({error})",
            bytes.len()
        ),
        _ => format!("not a readable safetensors file of {} bytes: {error}", bytes.len()),
    }
}

/// Where the header ends.
fn header_end(bytes: &[u8]) -> Option<u64> {
    u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?).checked_add(8)
}

/// The header, if all of it is there.
fn header(bytes: &[u8]) -> Option<&[u8]> {
    bytes.get(8..usize::try_from(header_end(bytes)?).ok()?)
}

/// Size of the whole file as its header gives it; of the header alone if that is cut.
fn expected_size(bytes: &[u8]) -> Option<u64> {
    let header_end = header_end(bytes)?;
    let Some(header) = header(bytes) else {
        return Some(header_end).filter(|&end| end < 100_000_000);
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
        let message = |bytes: &[u8]| parse(&bytes, &path, &Device::Cpu).unwrap_err().to_string();
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
