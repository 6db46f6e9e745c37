//! `tx quantize`, `tx convert` and `tx bundle`: a model in, the same in another form out.

use super::check_new_folder;
use super::which::Which;
use crate::cli::{BundleArgs, ConvertArgs, Form, QuantizeArgs};
use anyhow::{Context, ensure};
use std::path::Path;
use std::process::ExitCode;
use tx::candle_core::{DType, Device};
use tx::checkpoint::{bundle, weights_path};

/// Int8 matrices.
pub fn quantize(args: QuantizeArgs) -> anyhow::Result<ExitCode> {
    let QuantizeArgs { model, out } = args;
    check_new_folder(&out, "")?;
    let which = Which::named(&model)?;
    which.open(&Device::Cpu)?.save_int8(&out)?;
    said(&which, &out)
}

/// The form of another program.
pub fn convert(args: ConvertArgs) -> anyhow::Result<ExitCode> {
    let ConvertArgs { model, out, to, dtype } = args;
    check_new_folder(&out, "")?;
    let checkpoint = Which::named(&model)?.open(&Device::Cpu)?;
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
    let which = Which::named(&model)?;
    bundle(which.path()?, &out)?;
    said(&which, &out)
}

fn said(which: &Which, out: &Path) -> anyhow::Result<ExitCode> {
    let mebibytes = |size: u64| size as f64 / f64::from(1 << 20);
    let path = weights_path(out);
    let after = std::fs::metadata(&path).with_context(|| path.display().to_string())?.len();
    let before = which.weights_size().unwrap_or_default();
    let (before, after) = (mebibytes(before), mebibytes(after));
    say!("{}: {before:.1} MiB of weights are now {after:.1} MiB in {}", which.name(), out.display());
    Ok(ExitCode::SUCCESS)
}
