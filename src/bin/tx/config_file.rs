//! `--config FILE`: a file of flags, put before those of the command line, so that the last one wins and there is no
//! second set of names to learn.

use anyhow::{Context, bail};
use std::ffi::OsString;

/// Replaces `--config FILE` by nothing and puts the flags of the file after the subcommand.
pub fn expand(mut args: Vec<OsString>) -> anyhow::Result<Vec<OsString>> {
    // Only a word of its own before `--` is the flag.
    let end = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
    let found = args[..end]
        .iter()
        .position(|arg| arg == "--config" || arg.to_str().is_some_and(|arg| arg.starts_with("--config=")));
    let (Some(at), true) = (found, args.len() > 2) else { return Ok(args) };
    let file = match args[at].to_str().and_then(|arg| arg.strip_prefix("--config=")) {
        Some(file) => OsString::from(file),
        None if at + 1 < end => args.remove(at + 1),
        // clap says that the value is missing.
        None => return Ok(args),
    };
    args.remove(at);
    let path = std::path::Path::new(&file);
    let text = std::fs::read_to_string(path).with_context(|| format!("--config {}", path.display()))?;
    let flags = parse(&text).with_context(|| format!("--config {}", path.display()))?;
    args.splice(2..2, flags);
    Ok(args)
}

/// One flag a line, its value after a blank or `=`; `#` begins a comment line.
fn parse(text: &str) -> anyhow::Result<Vec<OsString>> {
    let mut flags = Vec::new();
    for (number, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if !line.starts_with("--") {
            bail!("line {}: expected a flag such as `--max-steps 1000`, found {line:?}", number + 1);
        }
        if line == "--config" || line.starts_with("--config=") || line.starts_with("--config ") {
            bail!("line {}: a file of flags cannot name another", number + 1);
        }
        match line.split_once([' ', '\t']) {
            Some((flag, value)) => flags.push(format!("{flag}={}", value.trim()).into()),
            None => flags.push(line.into()),
        }
    }
    Ok(flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_the_file_come_before_those_of_the_command_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("flags");
        std::fs::write(&file, "# a recipe\n--seed 3\n\n--lowercase\n--lr=0.1\n").unwrap();
        let words = ["tx", "train", "data", "--seed", "4", "--config"].map(OsString::from);
        let args = expand(words.into_iter().chain([file.into_os_string()]).collect()).unwrap();
        assert_eq!(args, ["tx", "train", "--seed=3", "--lowercase", "--lr=0.1", "data", "--seed", "4"]);
    }

    #[test]
    fn a_line_that_is_no_flag_is_named() {
        let error = parse("--seed 1\nlr 0.1\n").unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("lr 0.1"), "{error}");
        let error = parse("\u{feff}--seed 1\n--config other\n").unwrap_err().to_string();
        assert!(error.contains("line 2: a file of flags cannot name another"), "{error}");
    }
}
