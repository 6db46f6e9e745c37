//! `tx train --dry-run`: the plan of a run and what it takes, by a few real steps in a folder that is removed.

use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tx::candle_core::Device;
use tx::model::parameters::parameters;
use tx::train::{Event, Prepared, Request, StepReport, prepare, train};

/// Steps that are measured; the first is not counted.
const STEPS: u64 = 4;

/// A folder that goes with its owner.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing is to be done about a file that cannot be removed.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Prints the plan on stdout.
pub fn run(request: Request, device: &Device) -> anyhow::Result<ExitCode> {
    let folder = std::env::temp_dir().join(format!("tx-dry-run-{}", std::process::id()));
    std::fs::create_dir(&folder).with_context(|| format!("{}", folder.display()))?;
    let scratch = Scratch(folder);
    let out = scratch.0.join("model");
    let start = Instant::now();
    let prepared = prepare(&Request { out: out.clone(), ..request }, &mut |notice| say!("{notice}"))?;
    let preparation = start.elapsed().as_secs_f64();
    model(&prepared);
    epochs(&prepared)?;
    println(format!("preparation: {preparation:.1} s (read, tokenizer, encoding)"));
    measure(&prepared, &out, device)?;
    println("nothing was trained and nothing is left on disk".into());
    Ok(ExitCode::SUCCESS)
}

/// A line of the plan. A reader that went away has seen enough.
fn println(line: String) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Parameters by part.
fn model(prepared: &Prepared) {
    let settings = &prepared.origin.settings;
    let config = settings.config(prepared.tokenizer.vocab_sizes(), prepared.tokenizer.special_ids());
    let all = parameters(&config);
    let count = |of: &dyn Fn(&str) -> bool| -> usize {
        all.iter().filter(|p| of(&p.name)).map(|p| p.shape.iter().product::<usize>()).sum()
    };
    let (encoder, decoder) =
        (count(&|name| name.contains("encoder.layers")), count(&|name| name.contains("decoder.layers")));
    let total = count(&|_| true);
    println(match prepared.tokenizer.vocab_sizes() {
        [src, _] if prepared.tokenizer.is_joint() => format!("vocabulary: {src} pieces"),
        [src, tgt] => format!("vocabularies: {src} and {tgt} pieces"),
    });
    println(format!(
        "parameters: {total}: encoder {encoder}, decoder {decoder}, embeddings and output {}",
        total - encoder - decoder
    ));
}

/// Batches and steps.
fn epochs(prepared: &Prepared) -> anyhow::Result<()> {
    let settings = &prepared.origin.settings;
    let epoch = prepared.epoch(0)?;
    let [src, tgt] = epoch.tokens();
    let batches = epoch.len().max(1);
    println(format!(
        "epoch: {} batches of {} pairs on average, {} source and {} target tokens each (at most {} with padding)",
        epoch.len(),
        epoch.pairs() / batches,
        src / batches as u64,
        tgt / batches as u64,
        settings.batch_tokens
    ));
    println(format!(
        "steps: at most {}, which are {:.1} epochs; validation every {}, patience {}",
        settings.max_steps,
        settings.max_steps as f64 / batches as f64,
        settings.valid_every,
        settings.patience
    ));
    Ok(())
}

/// Time and memory of a few steps.
fn measure(prepared: &Prepared, out: &Path, device: &Device) -> anyhow::Result<()> {
    let settings = &prepared.origin.settings;
    let interrupt = AtomicBool::new(false);
    let mut steps: Vec<StepReport> = vec![];
    let mut numbers = 0;
    train(prepared, out, device, &interrupt, &mut |event| match event {
        Event::Begin { parameters, .. } => numbers = parameters,
        Event::Step(report) => {
            steps.push(report.clone());
            interrupt.store(report.step >= STEPS, Ordering::Relaxed);
        }
        _ => {}
    })?;
    let counted = &steps[steps.len().min(1)..];
    let seconds: f64 = counted.iter().map(|step| step.seconds).sum();
    if counted.is_empty() || seconds <= 0.0 {
        println("time: unknown, since --max-steps leaves no step to measure after the first".into());
    } else {
        let each = seconds / counted.len() as f64;
        let tokens: usize = counted.iter().map(|step| step.tgt_tokens).sum();
        println(format!(
            "time: {each:.3} s a step by {} steps ({:.0} target tokens/s), so {} for all steps, without validation",
            counted.len(),
            tokens as f64 / seconds,
            duration(each * settings.max_steps as f64)
        ));
    }
    let megabytes = |bytes: usize| bytes / (1 << 20);
    let fixed = megabytes(super::TRAINED_BYTES * numbers);
    println(match super::peak_memory() {
        Some(peak) => format!(
            "memory: {} MiB at the peak so far, {fixed} of it for weights, gradient and moments",
            megabytes(peak)
        ),
        None => format!(
            "memory: {fixed} MiB for weights, gradient and moments; how much activations add is measured on Linux only"
        ),
    });
    Ok(())
}

fn duration(seconds: f64) -> String {
    match seconds {
        ..120.0 => format!("{seconds:.0} s"),
        ..7200.0 => format!("{:.0} min", seconds / 60.0),
        ..172_800.0 => format!("{:.1} h", seconds / 3600.0),
        _ => format!("{:.1} days", seconds / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_readable() {
        let texts = [3.2, 600.0, 9000.0, 864_000.0].map(duration);
        assert_eq!(texts, ["3 s", "10 min", "2.5 h", "10.0 days"]);
    }
}
