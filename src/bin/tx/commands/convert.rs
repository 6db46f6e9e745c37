//! `tx quantize`, `tx convert` and `tx bundle`: a model in, the same in another form out.

use super::{check_new_folder, hub};
use crate::cli::{BundleArgs, ConvertArgs, Form, QuantizeArgs};
use anyhow::{Context, ensure};
use std::path::Path;
use std::process::ExitCode;
use tx::candle_core::{DType, Device};
use tx::checkpoint::{Checkpoint, bundle, weights_path};

/// Int8 matrices.
pub fn quantize(args: QuantizeArgs) -> anyhow::Result<ExitCode> {
    let QuantizeArgs { model, out } = args;
    check_new_folder(&out, "")?;
    let model = hub::folder(&model)?;
    Checkpoint::open(&model, &Device::Cpu)?.save_int8(&out)?;
    said(&model, &out)
}

/// The form of another program.
pub fn convert(args: ConvertArgs) -> anyhow::Result<ExitCode> {
    let ConvertArgs { model, out, to, dtype } = args;
    check_new_folder(&out, "")?;
    let checkpoint = Checkpoint::open(&hub::folder(&model)?, &Device::Cpu)?;
    match to {
        Form::Hf => checkpoint.save(&out, DType::from(dtype))?,
        Form::Ct2 => checkpoint.save_ct2(&out)?,
    }
    say!("{}: written to {}", model.display(), out.display());
    Ok(ExitCode::SUCCESS)
}

/// One file.
pub fn one_file(args: BundleArgs) -> anyhow::Result<ExitCode> {
    let BundleArgs { model, out } = args;
    let is_named = out.extension().is_some_and(|extension| extension == "safetensors");
    ensure!(is_named, "{}: expected a name that ends with .safetensors", out.display());
    ensure!(!out.exists(), "{} is there already: choose another name", out.display());
    let model = hub::folder(&model)?;
    bundle(&model, &out)?;
    said(&model, &out)
}

fn said(model: &Path, out: &Path) -> anyhow::Result<ExitCode> {
    let (before, after) = (mebibytes(model)?, mebibytes(out)?);
    say!("{}: {before:.1} MiB of weights are now {after:.1} MiB in {}", model.display(), out.display());
    Ok(ExitCode::SUCCESS)
}

/// Size of the weights of a model.
fn mebibytes(model: &Path) -> anyhow::Result<f64> {
    let path = weights_path(model);
    let size = std::fs::metadata(&path).with_context(|| path.display().to_string())?.len();
    Ok(size as f64 / f64::from(1 << 20))
}
