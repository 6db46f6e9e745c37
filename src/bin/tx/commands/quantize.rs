//! `tx quantize`: a model directory in, one with int8 matrices out.

use super::{check_new_folder, hub};
use crate::cli::QuantizeArgs;
use anyhow::Context;
use std::path::Path;
use std::process::ExitCode;
use tx::candle_core::Device;
use tx::checkpoint::{Checkpoint, weights_path};

pub fn run(args: QuantizeArgs) -> anyhow::Result<ExitCode> {
    let QuantizeArgs { model, out } = args;
    check_new_folder(&out, "")?;
    let folder = hub::folder(&model)?;
    Checkpoint::open(&folder, &Device::Cpu)?.save_int8(&out)?;
    let (before, after) = (mebibytes(&folder)?, mebibytes(&out)?);
    say!("{}: {before:.1} MiB of weights are now {after:.1} MiB in {}", model.display(), out.display());
    Ok(ExitCode::SUCCESS)
}

/// Size of the weights of a model.
fn mebibytes(model: &Path) -> anyhow::Result<f64> {
    let path = weights_path(model);
    let size = std::fs::metadata(&path).with_context(|| path.display().to_string())?.len();
    Ok(size as f64 / f64::from(1 << 20))
}
