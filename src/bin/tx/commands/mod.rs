//! One file per subcommand, and what they share: which model, which device, and how to refuse wrong usage.

pub mod average;
pub mod beam;
pub mod convert;
pub mod doctor;
mod dry_run;
pub mod evaluate;
mod hub;
pub mod inspect_attention;
pub mod models;
pub mod score;
pub mod score_pairs;
mod scoring;
pub mod show;
pub mod tokenize;
pub mod train;
pub mod translate;
mod warnings;
mod which;

use crate::cli::{Batching, Cli, DeviceArg, LikeArg, OnUnkArg, PrecisionArg, Search, SplitArg};
use anyhow::{Context, bail};
use clap::CommandFactory;
use std::path::{Path, PathBuf};
use tx::candle_core::Device;
use tx::checkpoint::files::write_atomically;
use tx::data::Lines;
use tx::ops::Precision;
use tx::search::{LengthPenalty, Like};
use tx::translate::{OnUnk, Options, Translator};
use which::Which;

/// Batches that are sorted by length together.
const WINDOW_BATCHES: usize = 32;

/// The device of `--device`.
fn device(asked: DeviceArg) -> anyhow::Result<Device> {
    let without = |feature: &str| {
        format!(
            "--device {asked}: this tx was built without {feature}: leave --device away to use the CPU, or build it with `cargo build --release --features {feature}`"
        )
    };
    let device = match asked {
        DeviceArg::Cpu => Ok(Device::Cpu),
        DeviceArg::Cuda(_) if !cfg!(feature = "cuda") => bail!(without("cuda")),
        DeviceArg::Metal(_) if !cfg!(feature = "metal") => bail!(without("metal")),
        DeviceArg::Cuda(number) => Device::new_cuda(number),
        DeviceArg::Metal(number) => Device::new_metal(number),
    };
    device.with_context(|| format!("--device {asked}"))
}

/// Opens the models that the flags, the environment or the current folder name, and says which.
fn translator(search: &Search) -> anyhow::Result<Translator> {
    Ok(open_all(search)?.1)
}

/// [`translator`], with the names of the models.
fn open_all(search: &Search) -> anyhow::Result<(String, Translator)> {
    let Search { model: paths, weights, .. } = search;
    if !weights.is_empty() && weights.len() != paths.len() {
        let (numbers, models) = (weights.len(), paths.len());
        usage_error(format!(
            "--weights has {numbers} numbers for {models} models: expected one for each --model"
        ));
    }
    if !weights.is_empty()
        && let Err(error) = tx::search::log_weights(weights)
    {
        usage_error(format!("--weights: {error}"));
    }
    if let [] | [_] = paths.as_slice() {
        return open(paths.first().map(PathBuf::as_path), search);
    }
    let (mut names, mut members) = (Vec::new(), Vec::new());
    for (index, path) in paths.iter().enumerate() {
        let (name, member) = open(Some(path), search)?;
        names.push(name);
        members.push((member, weights.get(index).copied().unwrap_or(1.0)));
    }
    Ok((names.join(" + "), Translator::ensemble(members)?))
}

/// Writes a file and says how large it is.
fn keep(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    write_atomically(path, bytes)?;
    let size = match bytes.len() {
        size @ ..1_000_000 => format!("{} kB", size.div_ceil(1000)),
        size => format!("{:.1} MB", size as f64 / 1e6),
    };
    say!("tx: {}: {size}", path.display());
    Ok(())
}

/// A file of lines; `-` is standard input.
fn open_input(path: &Path) -> tx::Result<Lines> {
    if path.as_os_str() == "-" { Lines::new(std::io::stdin(), "standard input") } else { Lines::open(path) }
}

/// Opens the model that is given, or that is meant where none is, as `search` asks, says so and gives its name.
fn open(given: Option<&Path>, search: &Search) -> anyhow::Result<(String, Translator)> {
    let device = device(search.machine.device)?;
    let which = Which::find(given, search.from.as_deref(), search.to.as_deref())?;
    let checkpoint = which.open(&device)?;
    let precision = search.compute.map(|compute| match compute {
        PrecisionArg::F32 => Precision::F32,
        PrecisionArg::Bf16 => Precision::Bf16,
        PrecisionArg::Int8 => Precision::Int8,
        PrecisionArg::Auto => Precision::fastest(),
    });
    let mut translator = Translator::new(checkpoint, &device, precision)?;
    translator.set_direction(search.from.as_deref(), search.to.as_deref())?;
    let name = which.name();
    let languages = match translator.languages() {
        Some((src, tgt)) => format!(" ({src} → {tgt})"),
        None => String::new(),
    };
    tx::ops::keep_freed_memory();
    say!("tx: model: {name}{languages}");
    Ok((name.to_string(), translator))
}

/// Refuses to write a model directory over something else.
fn check_new_folder(out: &Path, choose: &str) -> anyhow::Result<()> {
    if out.exists() {
        let is_empty = std::fs::read_dir(out).with_context(|| out.display().to_string())?.next().is_none();
        if !is_empty {
            bail!("{} is not an empty folder: choose another{choose}", out.display());
        }
    }
    Ok(())
}

/// Refuses, before the work, a file that could not be written after it.
fn check_folder(path: &Path) -> anyhow::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    anyhow::ensure!(
        folder.is_dir() && !path.is_dir(),
        "{}: expected the name of a file in a folder that exists",
        path.display()
    );
    Ok(())
}

/// Bytes that training keeps for each parameter: weight, gradient and two moments in f32.
const TRAINED_BYTES: usize = 4 * 4;

/// Most memory that this process had, in bytes, where the system tells.
fn peak_memory() -> Option<usize> {
    told_memory("/proc/self/status", "VmHWM:")
}

/// Memory of the machine, in bytes, where the system tells.
fn machine_memory() -> Option<usize> {
    told_memory("/proc/meminfo", "MemTotal:")
}

/// What a line of a file of Linux tells, in bytes.
fn told_memory(file: &str, name: &str) -> Option<usize> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()? * 1024)
}

/// The library's options for the flags.
fn options(search: &Search) -> Options {
    let paper_penalty = (search.like == LikeArg::Paper).then_some(LengthPenalty::Gnmt(0.6));
    Options {
        beam_size: search.beam.or((search.like == LikeArg::Paper).then_some(4)),
        length_penalty: search.length_penalty.or(paper_penalty),
        like: match search.like {
            LikeArg::Tx | LikeArg::Paper => Like::Tx,
            LikeArg::Ct2 => Like::Ct2,
            LikeArg::Hf => Like::Hf,
            LikeArg::Fairseq => Like::Fairseq,
            LikeArg::Marian => Like::Marian,
        },
        max_length: search.max_length,
        min_length: search.min_length.unwrap_or(0),
        word_penalty: search.rules.word_penalty,
        on_unk: search.rules.on_unk.map(|what| match what {
            OnUnkArg::Keep => OnUnk::Keep,
            OnUnkArg::Copy => OnUnk::Copy,
            OnUnkArg::Ban => OnUnk::Ban,
        }),
        suppress: search.rules.suppress.clone(),
        no_repeat_ngram: search.rules.no_repeat_ngram,
        repetition_penalty: search.rules.repetition_penalty,
        ..Options::default()
    }
}

/// Says so if `tx translate` would not translate `text` as the one sentence that is looked at.
fn warn_of_sentences(translator: &Translator, text: &str, options: &Options) {
    let count = translator.sentences(&tx::text::clean(text), options).len();
    if count > 1 {
        say!(
            "tx: note: `tx translate` translates these {count} sentences one by one, unless told --split never"
        );
    }
}

/// `options` with what `batching` says.
fn batched(options: Options, batching: &Batching) -> Options {
    Options { batch_size: batching.batch_size, split: batching.split == SplitArg::Auto, ..options }
}

/// Ends the program as clap does when flags contradict each other: usage of the subcommand on stderr, exit code 2.
fn usage_error(message: impl std::fmt::Display) -> ! {
    let mut command = Cli::command();
    command.build();
    let subcommand = std::env::args_os().nth(1).unwrap_or_default();
    let command = match command.find_subcommand_mut(&subcommand) {
        Some(found) => found,
        None => &mut command,
    };
    command.error(clap::error::ErrorKind::ValueValidation, message).exit()
}

/// Refuses, before a model is loaded, numbers of hypotheses that cannot be had.
fn check_beam(beam: Option<usize>, n_best: usize) {
    // Without --beam the model has a say in its width, but it holds n_best.
    if let Err(error) = tx::search::check_sizes(beam.unwrap_or(n_best.max(1)), n_best) {
        usage_error(error);
    }
}
