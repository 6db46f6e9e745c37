//! `tx average`: several models in, their mean out.

use super::{check_new_folder, which};
use crate::cli::AverageArgs;
use std::process::ExitCode;
use tx::checkpoint::average::average;

pub fn run(args: AverageArgs) -> anyhow::Result<ExitCode> {
    let AverageArgs { models, out, dtype } = args;
    check_new_folder(&out, " by --out")?;
    let folders: Vec<_> = models.iter().map(|model| which::path(model)).collect::<anyhow::Result<_>>()?;
    average(&folders)?.save(&out, dtype.into())?;
    say!("the average of {} models is in {}", models.len(), out.display());
    Ok(ExitCode::SUCCESS)
}
