//! `tx average`: several models in, their mean out.

use crate::cli::AverageArgs;
use anyhow::{Context, bail};
use std::process::ExitCode;
use tx::checkpoint::average::average;

pub fn run(args: AverageArgs) -> anyhow::Result<ExitCode> {
    let AverageArgs { models, out, dtype } = args;
    if out.exists() {
        let is_empty = std::fs::read_dir(&out).with_context(|| out.display().to_string())?.next().is_none();
        if !is_empty {
            bail!("{} is not an empty folder: choose another by --out", out.display());
        }
    }
    average(&models)?.save(&out, dtype.into())?;
    say!("the average of {} models is in {}", models.len(), out.display());
    Ok(ExitCode::SUCCESS)
}
