//! `tx train`: a folder of parallel text in, a model directory out.

use super::{device, usage_error, which};
use crate::cli::{ComputeArg, DeviceArg, TrainArgs};
use crate::render::progress::Progress;
use crate::render::report::Report;
use anyhow::{Context, bail};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tx::checkpoint::Checkpoint;
use tx::config::{Config, Positions, SpecialIds};
use tx::data::Source;
use tx::model::parameters::parameters;
use tx::ops::{Bf16Level, Compute, bf16_level};
use tx::text::Kind;
use tx::train::run_dir::RunDir;
use tx::train::settings::{Given, Settings};
use tx::train::validate::scores;
use tx::train::verify::{Compared, verify_resume};
use tx::train::{Ending, Event, Prepared, Request, prepare, train};
use tx::translate::{Notice, Options, Translation, Translator, numbered};

/// What a shell expects of a program that was interrupted.
const INTERRUPTED: u8 = 130;
/// Bytes of a GiB.
const GIB: f64 = (1u64 << 30) as f64;
/// Steps of `--verify-resume` unless told otherwise: about a minute for a model that suits the machine.
const VERIFIED_STEPS: u64 = 10;

pub fn run(args: TrainArgs) -> anyhow::Result<ExitCode> {
    tx::ops::keep_freed_memory();
    let device = device(args.machine.device)?;
    let (given, tokenizer_file) = given(&args);
    // What no corpus can make right is refused before one is read.
    let settings = Settings::resolve(&given, 0).and_then(|settings| settings.check().map(|()| settings));
    let config = settings.and_then(|settings| {
        let config = settings.config([1 << 16; 2], SpecialIds::default());
        config.check().map(|()| config)
    });
    match config {
        Ok(config) if device.is_cpu() => check_memory(&config),
        Ok(_) => {}
        Err(error) => usage_error(error),
    }
    let request = Request {
        data: args.data.clone(),
        out: args.out.clone(),
        from: args.corpus.from.clone(),
        to: args.corpus.to.clone(),
        tokenizer_file,
        resume: args.resume,
        given,
        init_from: args.life.init_from.as_deref().map(which::path).transpose()?,
        resets: args.life.reset.clone(),
        max_time: args.life.max_time,
    };
    if args.dry_run {
        return super::dry_run::run(request, &device);
    }
    if args.life.verify_resume {
        return verify(&request, args.optim.max_steps, &device);
    }
    let prepared = prepare(&request, &mut |notice| say!("{notice}"))?;
    let interrupt = stop_on_interrupt()?;
    let settings = &prepared.origin.settings;
    if device.is_cpu() {
        say!("{}", compute_notice(settings.compute));
    }
    let mut progress = Progress::new(settings);
    let report = Report::new(&args.out, &prepared.origin);
    let outcome = train(&prepared, &args.out, &device, &interrupt, &mut |event| {
        progress.show(&event);
        if let Event::Validated { step, validation, is_best, .. } = event
            && let Err(error) = report.add(step, validation, is_best)
        {
            say!("tx: warning: the report is not up to date: {error}");
        }
    });
    progress.finish();
    let outcome = outcome.with_context(|| way_on(&args.out))?;
    let skipped = outcome.progress.skipped;
    if skipped > 0 {
        say!("warning: {skipped} steps of this run were skipped: their gradient was not finite");
    }
    let (data, out) = (shell_words(&args.data), shell_word(&args.out));
    let here = if args.out == tx::train::default_out() { String::new() } else { format!(" --out {out}") };
    if outcome.ending == Ending::Interrupted {
        say!("interrupted after step {}; to go on: tx train {data}{here} --resume", outcome.progress.step);
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let why = match outcome.ending {
        Ending::Patience => {
            format!("dev {} did not improve {} times in a row", settings.metric.name(), settings.patience)
        }
        Ending::MaxEpochs => format!("{} epochs are done", settings.max_epochs),
        Ending::MaxTime => format!("--max-time is over; to go on: tx train {data}{here} --resume"),
        Ending::MaxSteps | Ending::Interrupted => "all steps are done".to_string(),
    };
    let memory = super::peak_memory()
        .map_or(String::new(), |bytes| format!(", at most {} MiB of memory", bytes >> 20));
    say!(
        "ended after step {}: {why}; {:.0} target tokens/s{memory}",
        outcome.progress.step,
        outcome.tgt_tok_s
    );
    score_tests(&prepared, &args.out, &device)?;
    if settings.positions != Positions::Halves {
        let layout = serde_json::to_value(settings.positions)?;
        say!(
            "--positions {}: the directory does not open in `transformers`, which lays positions out as halves",
            layout.as_str().unwrap_or_default()
        );
    }
    let model = if here.is_empty() { String::new() } else { format!(" --model {out}") };
    say!("the model is in {}; try it: tx translate{model} --text {}", args.out.display(), example(&prepared));
    Ok(ExitCode::SUCCESS)
}

/// Refuses layers whose weights, gradient and two moments are more than the memory of the machine, where the system tells.
fn check_memory(config: &Config) {
    let Some(memory) = super::machine_memory() else { return };
    // The vocabulary is not known yet. As f64: what is asked for may exceed any whole number.
    let layers = parameters(&Config { src_vocab: 1, tgt_vocab: 1, ..config.clone() });
    let size = |shape: &[usize]| shape.iter().map(|&length| length as f64).product::<f64>();
    let numbers: f64 = layers.iter().map(|parameter| size(&parameter.shape)).sum();
    let (needed, there) = (super::TRAINED_BYTES as f64 * numbers / GIB, memory as f64 / GIB);
    if needed > there {
        usage_error(format!(
            "layers of {:.0} million parameters: weights, gradient and moments take {needed:.0} GiB, and this machine has \
             {there:.0}: choose a smaller --preset, --d-model or --ff, or fewer --layers",
            numbers / 1e6
        ));
    }
}

/// Where a run that failed can be taken up again.
fn way_on(out: &Path) -> String {
    match RunDir::new(out).last() {
        Ok(Some(saved)) => {
            format!("training failed; the last saved state is {}", saved.display())
        }
        _ => "training failed before the first save".to_string(),
    }
}

/// Proves on the user's text that resuming is exact.
fn verify(
    request: &Request,
    max_steps: Option<u64>,
    device: &tx::candle_core::Device,
) -> anyhow::Result<ExitCode> {
    let scratch = tempfile::tempdir().context("could not make a temporary folder")?;
    let steps = max_steps.unwrap_or(VERIFIED_STEPS).max(2);
    let compared = verify_resume(request, steps, scratch.path(), device, &mut |notice| say!("{notice}"))?;
    for Compared { name, bytes, is_same } in &compared {
        say!("  {} {name} ({bytes} bytes)", if *is_same { "same     " } else { "DIFFERENT" });
    }
    if compared.iter().all(|file| file.is_same) {
        say!(
            "resuming is exact: {steps} steps in one go and in two halves left the same {} files",
            compared.len()
        );
        return Ok(ExitCode::SUCCESS);
    }
    say!("resuming is NOT exact: the files above differ");
    Ok(ExitCode::FAILURE)
}

/// The settings that were given, by the library's names, and the tokenizer if it is a file.
fn given(args: &TrainArgs) -> (Given, Option<PathBuf>) {
    let TrainArgs { corpus, shape, optim, life, .. } = args;
    let kind = corpus.tokenizer.as_deref().filter(|name| Kind::NAMES.contains(name));
    let file = corpus.tokenizer.as_ref().filter(|_| kind.is_none()).map(PathBuf::from);
    if let Some(file) = &file {
        if !file.exists() {
            usage_error(format!(
                "--tokenizer {}: expected {}, a tokenizer.json, a SentencePiece .model or a folder with one of them",
                file.display(),
                Kind::NAMES.join(", ")
            ));
        }
        if corpus.vocab_size.is_some() || corpus.lowercase {
            let file = file.display();
            usage_error(format!(
                "--vocab-size and --lowercase belong to a tokenizer that is learnt; {file} is finished"
            ));
        }
    }
    // Two objects: one macro cannot hold them all.
    let shape = json!({
        "preset": shape.preset,
        "d_model": shape.d_model,
        "encoder_layers": shape.encoder_layers.or(shape.layers),
        "decoder_layers": shape.decoder_layers.or(shape.layers),
        "heads": shape.heads,
        "d_ff": shape.ff,
        "activation": shape.activation,
        "vocab": corpus.vocab,
        "tie": shape.tie,
        "norm": shape.norm,
        "positions": shape.positions,
        "max_positions": shape.max_positions,
        "dropout": shape.dropout,
        "attention_dropout": shape.attention_dropout,
        "activation_dropout": shape.activation_dropout,
    });
    let others = json!({
        "tokenizer": kind,
        "vocab_size": corpus.vocab_size,
        "lowercase": corpus.lowercase.then_some(true),
        "sample_tokens": corpus.sample_tokens,
        "max_ratio": corpus.max_ratio,
        "drop_duplicates": corpus.drop_duplicates.then_some(true),
        "drop_identical": corpus.drop_identical.then_some(true),
        "seed": optim.seed,
        "batch_tokens": optim.batch_tokens,
        "lr": optim.lr,
        "warmup_steps": optim.warmup,
        "cooldown": optim.cooldown,
        "label_smoothing": optim.label_smoothing,
        "clip_norm": optim.clip_norm,
        "max_steps": optim.max_steps,
        "valid_every": optim.valid_every,
        "save_every": optim.save_every,
        "patience": optim.patience,
        "accumulate": life.accumulate,
        "max_epochs": life.max_epochs,
        "save_minutes": life.save_minutes,
        "keep": life.keep,
        "keep_best": life.keep_best,
        "metric": life.metric,
        "min_change": life.min_change,
        "average": life.average,
        "ema": life.ema,
        "compute": compute(args),
        "dtype": optim.dtype,
    });
    let all = [&shape, &others].into_iter().filter_map(serde_json::Value::as_object).flatten();
    let given = all.filter(|(_, value)| !value.is_null());
    (given.map(|(name, value)| (name.clone(), value.clone())).collect(), file)
}

/// The numbers to multiply; none where a resumed run decides.
fn compute(args: &TrainArgs) -> Option<Compute> {
    let on_cpu = args.machine.device == DeviceArg::Cpu;
    match args.optim.compute {
        ComputeArg::F32 => Some(Compute::F32),
        ComputeArg::Bf16 if on_cpu => Some(Compute::Bf16),
        ComputeArg::Bf16 => usage_error("--compute bf16 is for --device cpu; leave it out elsewhere"),
        ComputeArg::Auto if args.resume => None,
        ComputeArg::Auto => Some(if on_cpu { Compute::fastest() } else { Compute::F32 }),
    }
}

/// How the products of training are computed, and why.
fn compute_notice(compute: Compute) -> String {
    let level = match bf16_level() {
        Bf16Level::Amx => "AMX",
        Bf16Level::Avx512 => "AVX512-BF16",
        Bf16Level::Plain => "no instructions for them",
    };
    match (compute, bf16_level()) {
        (Compute::Bf16, Bf16Level::Plain) => {
            "warning: products in bf16, for which this CPU has no instructions: --compute f32 is faster"
                .into()
        }
        (Compute::Bf16, _) => {
            format!("products in bf16 ({level}), sums and weights in f32 (--compute f32 for all in f32)")
        }
        (Compute::F32, Bf16Level::Plain) => "products in f32".into(),
        (Compute::F32, _) => format!("products in f32 (--compute bf16 is faster: this CPU has {level})"),
    }
}

/// The first Ctrl-C (or SIGTERM) asks training to save and stop, another one a second later ends the program. Sooner
/// ones are the same request: `timeout`, for one, signals a program and its group.
fn stop_on_interrupt() -> anyhow::Result<Arc<AtomicBool>> {
    let interrupt = Arc::new(AtomicBool::new(false));
    let (flag, first) = (interrupt.clone(), OnceLock::new());
    ctrlc::set_handler(move || {
        let first: &Instant = first.get_or_init(Instant::now);
        if first.elapsed() > Duration::from_secs(1) {
            std::process::exit(i32::from(INTERRUPTED));
        }
        flag.store(true, Ordering::Relaxed);
    })
    .context("could not listen for Ctrl-C")?;
    Ok(interrupt)
}

/// BLEU and chrF of the best model on every test set, with the search that `tx translate` uses.
fn score_tests(prepared: &Prepared, out: &Path, device: &tx::candle_core::Device) -> anyhow::Result<()> {
    if prepared.tests.is_empty() {
        return Ok(());
    }
    let translator = Translator::new(Checkpoint::open(out, device)?, device, None)?;
    for text in &prepared.tests {
        let translations = translator.translate(numbered(&text.src), &Options::default())?;
        let is_failed = |translation: &&Translation| {
            translation.notices.iter().any(|notice| matches!(notice, Notice::Failed(_)))
        };
        if let Some(failed) = translations.iter().find(is_failed) {
            bail!("{}: line {} could not be translated: {:?}", text.name, failed.line, failed.notices);
        }
        let hypotheses: Vec<String> = translations.into_iter().map(Translation::into_text).collect();
        for score in scores(&hypotheses, &text.tgt)? {
            say!("{}: {} ({} lines, beam 4)", text.name, score.format(2), text.len());
        }
    }
    Ok(())
}

/// A source sentence of dev to try the model on.
fn example(prepared: &Prepared) -> String {
    let sentence = prepared.dev_text.src.iter().find(|line| !line.trim().is_empty());
    shell_word(sentence.map_or("Hello.", |line| line))
}

/// The corpora as they were named.
fn shell_words(sources: &[Source]) -> String {
    let word = |source: &Source| match source.weight {
        1.0 => shell_word(&source.path),
        weight => format!("{}={weight}", shell_word(&source.path)),
    };
    sources.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// `text` as one word of a shell.
fn shell_word(text: impl AsRef<std::ffi::OsStr>) -> String {
    let text = text.as_ref().to_string_lossy();
    if !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "._-/=:,+@".contains(c)) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_words_survive_a_shell() {
        assert_eq!(shell_word("data/en-de"), "data/en-de");
        assert_eq!(shell_word("I'm here."), "'I'\\''m here.'");
    }
}
