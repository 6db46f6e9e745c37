//! `tx`'s side of the table of training speed in the README, and how cost grows with the sizes.
//!
//!     cargo bench --bench training                  # synthetic text of 8,000 words, 4 to 24 words a line
//!     cargo bench --bench training -- DATA          # a folder of parallel text instead (its own tokenizer is learnt)
//!     cargo bench --bench training -- growth        # tokens/s and memory over d, vocabulary, batch and threads

use std::path::Path;
use std::process::Command;
use tx::rng::Rng;

/// Pairs of the synthetic corpus: more than the largest run uses.
const PAIRS: usize = 30_000;

/// The model of the table.
const MODEL: &str = "--layers 3 --d-model 256 --heads 4 --ff 1024 --batch-tokens 4096 --threads 2";

fn main() {
    let folder = std::env::temp_dir().join(format!("tx-bench-{}", std::process::id()));
    let argument = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    match argument.as_deref() {
        Some("growth") => growth(&folder),
        Some(data) => table(Path::new(data), "--vocab-size 8000", &folder),
        None => {
            write_corpus(&folder.join("data"), 8_000);
            table(&folder.join("data"), "--tokenizer word --vocab-size 8000", &folder);
        }
    }
    std::fs::remove_dir_all(&folder).expect("the bench's own folder");
}

/// The rows that are compared with PyTorch.
fn table(data: &Path, tokenizer: &str, folder: &Path) {
    println!("| training | target tokens/s | MiB at most |\n|---|---|---|");
    for (name, flags) in [
        ("f32", format!("{MODEL} --compute f32")),
        ("bf16", format!("{MODEL} --compute bf16")),
        ("`tiny` preset, f32", "--preset tiny --batch-tokens 4096 --threads 2 --compute f32".to_string()),
        ("`tiny` preset, bf16", "--preset tiny --batch-tokens 4096 --threads 2 --compute bf16".to_string()),
    ] {
        let (speed, memory) = train(data, folder, &format!("{flags} {tokenizer}"), 30);
        println!("| {name} | {speed} | {memory} |");
    }
}

/// One size at a time away from d 256, 8,000 words, 4,096 tokens and 2 threads.
fn growth(folder: &Path) {
    println!(
        "| d | vocabulary | batch tokens | threads | target tokens/s | MiB at most |\n|---|---|---|---|---|---|"
    );
    let base = (256, 8_000, 4_096, 2);
    let mut rows = vec![base];
    rows.extend([128, 512, 1024].map(|d| (d, base.1, base.2, base.3)));
    rows.extend([2_000, 16_000, 32_000, 64_000].map(|vocab| (base.0, vocab, base.2, base.3)));
    rows.extend([1_024, 2_048, 8_192, 16_384].map(|batch| (base.0, base.1, batch, base.3)));
    rows.push((base.0, base.1, base.2, 1));
    for (d, vocab, batch, threads) in rows {
        let data = folder.join(format!("data-{vocab}"));
        if !data.exists() {
            write_corpus(&data, vocab);
        }
        let heads = (d / 64).max(4);
        let flags = format!(
            "--layers 3 --d-model {d} --heads {heads} --ff {} --batch-tokens {batch} --threads {threads} --compute f32 \
             --tokenizer word --vocab-size {vocab}",
            4 * d
        );
        let steps = (64 * 1024 * 256 / (batch * d)).clamp(6, 20);
        let (speed, memory) = train(&data, folder, &flags, steps);
        println!("| {d} | {vocab} | {batch} | {threads} | {speed} | {memory} |");
    }
}

/// Pairs of 4 to 24 words, drawn evenly from `vocab`.
fn write_corpus(folder: &Path, vocab: usize) {
    let mut rng = Rng::new(1, "bench");
    let mut line = || {
        let words = (0..4 + rng.below(21)).map(|_| format!("w{}", rng.below(vocab)));
        words.collect::<Vec<_>>().join(" ") + "\n"
    };
    let mut text = |lines: usize| (0..lines).map(|_| line()).collect::<String>();
    std::fs::create_dir_all(folder).expect("a folder for the corpus");
    for (name, lines) in [("train.en", PAIRS), ("train.de", PAIRS), ("dev.en", 4), ("dev.de", 4)] {
        std::fs::write(folder.join(name), text(lines)).expect("the corpus can be written");
    }
}

/// Target tokens a second in a step of the faster quarter (what else runs on the machine only ever slows a step down), and
/// peak memory, as `tx train` tells it at the end.
fn train(data: &Path, folder: &Path, flags: &str, steps: usize) -> (String, String) {
    let out = folder.join("model");
    if out.exists() {
        std::fs::remove_dir_all(&out).expect("the last run's folder");
    }
    let run = Command::new(env!("CARGO_BIN_EXE_tx"))
        .arg("train")
        .arg(data)
        .arg("--out")
        .arg(&out)
        .args(["--from", "en", "--to", "de", "--patience", "0", "--valid-every", "1000000"])
        .args(["--max-steps", &steps.to_string()])
        .args(flags.split_whitespace())
        .output()
        .expect("tx runs");
    let text = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(run.status.success(), "{text}");
    let memory = text.split_once(" MiB of memory").and_then(|(before, _)| before.rsplit(' ').next());
    let rows = std::fs::read_to_string(out.join("train.jsonl")).expect("the log of the run");
    let speed = |row: &str| serde_json::from_str::<serde_json::Value>(row).ok()?["tgt_tok_s"].as_f64();
    let mut speeds: Vec<f64> = rows.lines().filter_map(speed).collect();
    speeds.sort_by(f64::total_cmp);
    (format!("{:.0}", speeds[speeds.len() * 3 / 4]), memory.unwrap_or("?").to_string())
}
