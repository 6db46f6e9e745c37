//! `tx average`: several models in, their mean out.

use super::check_new_folder;
use super::which::Which;
use crate::cli::AverageArgs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tx::checkpoint::average::average;

pub fn run(args: AverageArgs) -> anyhow::Result<ExitCode> {
    let AverageArgs { models, out, dtype } = args;
    check_new_folder(&out, " by --out")?;
    let folder = |model: &PathBuf| Which::named(model)?.path().map(Path::to_path_buf);
    let folders: Vec<_> = models.iter().map(folder).collect::<anyhow::Result<_>>()?;
    average(&folders)?.save(&out, dtype.into())?;
    say!("the average of {} models is in {}", models.len(), out.display());
    Ok(ExitCode::SUCCESS)
}
