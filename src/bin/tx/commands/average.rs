//! `tx average`: several models in, their mean out.

use super::{check_new_folder, hub};
use crate::cli::AverageArgs;
use std::process::ExitCode;
use tx::checkpoint::average::average;

pub fn run(args: AverageArgs) -> anyhow::Result<ExitCode> {
    let AverageArgs { models, out, dtype } = args;
    check_new_folder(&out, " by --out")?;
    let folders: Vec<_> = models.iter().map(|model| hub::folder(model)).collect::<anyhow::Result<_>>()?;
    average(&folders)?.save(&out, dtype.into())?;
    say!("the average of {} models is in {}", models.len(), out.display());
    Ok(ExitCode::SUCCESS)
}
