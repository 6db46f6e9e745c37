//! `tx doctor`: what is wrong with a corpus or a model.

use super::{usage_error, which};
use crate::cli::{DoctorArgs, DoctorFormat};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use tx::checkpoint::weights_path;
use tx::doctor::{self, Diagnosis, Level, Target};
use tx::text::Tokenizer;

pub fn run(mut args: DoctorArgs) -> anyhow::Result<ExitCode> {
    // A name alone is rather that of a corpus which is not there than of one of the oldest models of the Hub.
    if let [model] = &mut args.paths[..]
        && model.components().count() > 1
    {
        *model = which::path(model)?;
    }
    if let Some(absent) = args.paths.iter().find(|path| !path.exists()) {
        usage_error(format!("{} does not exist", absent.display()));
    }
    let diagnosis = match &args.paths[..] {
        [path] if is_model(path) => doctor::model(path)?,
        [path] => corpus(&args, &if path.is_dir() { Target::Folder(path.clone()) } else { table(path) })?,
        [src, tgt] if src.is_file() && tgt.is_file() => {
            corpus(&args, &Target::Files(src.clone(), tgt.clone()))?
        }
        _ => usage_error("two paths are the two files of a corpus; a folder stands alone"),
    };
    let mut out = std::io::stdout().lock();
    match args.format {
        DoctorFormat::Json => writeln!(out, "{}", serde_json::json!(diagnosis))?,
        DoctorFormat::Text => print(&mut out, &diagnosis)?,
    }
    Ok(if diagnosis.count(Level::Problem) == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn is_model(path: &Path) -> bool {
    path.join("config.json").is_file() || weights_path(path).is_file()
}

fn table(path: &Path) -> Target {
    let name = path.to_string_lossy();
    if [".tsv", ".tsv.gz", ".tsv.zst"].iter().any(|ending| name.ends_with(ending)) {
        return Target::Table(path.to_path_buf());
    }
    usage_error(format!("{name}: expected a folder, a table that ends in .tsv, or two files"))
}

fn corpus(args: &DoctorArgs, target: &Target) -> anyhow::Result<Diagnosis> {
    let tokenizer = args.tokenizer.as_deref().map(Tokenizer::open).transpose()?;
    Ok(doctor::corpus(target, args.from.as_deref(), args.to.as_deref(), tokenizer.as_ref())?)
}

fn print(out: &mut impl Write, diagnosis: &Diagnosis) -> std::io::Result<()> {
    diagnosis.facts.iter().try_for_each(|fact| writeln!(out, "{fact}"))?;
    for finding in &diagnosis.findings {
        let level = if finding.level == Level::Problem { "problem" } else { "note" };
        let line = finding.line.map_or(String::new(), |line| format!(":{line}"));
        let times = match (finding.line, finding.count) {
            (Some(_), 1) => "1 line: ".to_string(),
            (Some(_), count) => format!("{count} lines, this the first: "),
            (None, _) => String::new(),
        };
        writeln!(out, "{level}: {}{line}: {times}{} [{}]", finding.file, finding.what, finding.check)?;
    }
    let count = |level, name: &str| match diagnosis.count(level) {
        1 => format!("1 {name}"),
        n => format!("{n} {name}s"),
    };
    writeln!(out, "{}, {}", count(Level::Problem, "problem"), count(Level::Note, "note"))
}
