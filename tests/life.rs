use crate::common::*;
use crate::training::{given, request, run as train, toy, weights};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tx::candle_core::Device;
use tx::checkpoint::{Checkpoint, average, tensors};
use tx::rng::Rng;
use tx::train::finish::Candidate;
use tx::train::resume::Reset;
use tx::train::{Ending, Event, Request};

/// The bytes of what decides how a run goes on, by name; of the log, all but the times.
fn state(out: &Path) -> BTreeMap<String, Vec<u8>> {
    let last = std::fs::read_to_string(out.join("train/last")).unwrap();
    let mut files = BTreeMap::from([("model".to_string(), weights(out))]);
    for folder in [out.join("train").join(last), out.join("train/weights")] {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(&folder).unwrap().display().to_string();
            files.insert(name, std::fs::read(&path).unwrap());
        }
    }
    files.insert("log".into(), format!("{:?}", log(out)).into_bytes());
    files
}

fn assert_same_state(one: &Path, other: &Path) {
    let (one, other) = (state(one), state(other));
    assert_eq!(one.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>());
    for (name, bytes) in &one {
        assert!(*bytes == other[name], "{name} differs");
    }
}

/// Step, loss and learning rate of every row of the log.
fn log(out: &Path) -> Vec<(u64, f64, f64)> {
    let text = std::fs::read_to_string(out.join("train.jsonl")).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.map(|row| {
        (row["step"].as_u64().unwrap(), row["loss"].as_f64().unwrap(), row["lr"].as_f64().unwrap())
    })
    .collect()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn provenance(out: &Path) -> Value {
    let config: Value = serde_json::from_slice(&std::fs::read(out.join("config.json")).unwrap()).unwrap();
    config["tx"]["provenance"].clone()
}

fn message(request: &Request) -> String {
    train(request, &mut |_, _| ()).unwrap_err().to_string()
}

/// Flags of a run that uses all that a state holds: EMA, average, best few, patience, accumulation.
const RICH: &str = "--d-model 32 --ff 64 --heads 2 --layers 1 --vocab-size 400 --batch-tokens 300 --warmup 20 --max-steps 60 \
     --valid-every 4 --save-every 3 --ema 0.9 --average 3 --keep 2 --keep-best 2 --patience 50 --accumulate 2 --cooldown 20 --threads 1";

fn start(out: &Path, more: &[&str]) -> Child {
    let mut args =
        vec!["train", concat!(env!("CARGO_MANIFEST_DIR"), "/assets/toy"), "--out", out.to_str().unwrap()];
    args.extend(RICH.split_whitespace());
    args.extend(more);
    tx(&args).stderr(Stdio::null()).spawn().unwrap()
}

/// Rows 97, 99 and 101: killed at any moment, also while it saves, a run goes on to the same bytes.
#[cfg(unix)]
#[test]
fn a_killed_run_goes_on_to_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (straight, killed) = (folder.path().join("straight"), folder.path().join("killed"));
    let begin = std::time::Instant::now();
    assert!(start(&straight, &[]).wait().unwrap().success());
    let whole = begin.elapsed();
    let mut rng = Rng::new(3, "kills");
    let mut child = start(&killed, &[]);
    for _ in 0..5 {
        std::thread::sleep(whole.mul_f64(0.1 + 0.4 * rng.uniform()));
        child.kill().unwrap();
        child.wait().unwrap();
        let resume: &[&str] = if killed.join("train/origin.json").is_file() { &["--resume"] } else { &[] };
        if resume.is_empty() && killed.exists() {
            std::fs::remove_dir_all(&killed).unwrap();
        }
        child = start(&killed, resume);
    }
    assert!(child.wait().unwrap().success());
    assert_same_state(&straight, &killed);
}

/// A write that fails, as on a full disk, is an error that names the file, and the state saved before it is whole.
#[cfg(unix)]
#[test]
fn a_full_disk_keeps_the_last_save() {
    let folder = tempfile::tempdir().unwrap();
    let (straight, full) = (folder.path().join("straight"), folder.path().join("full"));
    let toy = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/toy");
    let args = format!("train {toy} {RICH} --cooldown 0 --max-steps 8 --save-every 4");
    let run = |out: &Path, limit: &str, more: &str| {
        let tx = env!("CARGO_BIN_EXE_tx");
        let script = format!("{limit} exec {tx} {args} --out {} {more}", out.display());
        Command::new("sh").arg("-c").arg(script).output().unwrap()
    };
    assert!(run(&straight, "", "").status.success());
    assert!(run(&full, "", "--max-steps 4").status.success());
    let before = state(&full);
    // Blocks of 512 bytes: less than the weights take. The signal of the limit is ignored, so that the write fails.
    let output = run(&full, "trap '' XFSZ; ulimit -f 20;", "--resume");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_parts(&stderr(&output), &["could not write", ".safetensors", "the last saved state is", "step-4"]);
    let after = state(&full);
    assert!(
        ["model.safetensors", "optimizer.safetensors", "progress.json"]
            .iter()
            .all(|name| before[*name] == after[*name])
    );
    assert!(run(&full, "", "--resume").status.success());
    assert_same_state(&straight, &full);
}

/// The last states by number, the best weights by metric; nothing else stays.
#[test]
fn the_last_states_and_the_best_weights_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let mut nlls = Vec::new();
    let more =
        json!({"max_steps": 20, "valid_every": 2, "save_every": 5, "keep": 2, "keep_best": 3, "average": 0});
    train(&request(&toy(), &out, given(more)), &mut |event, _| {
        if let Event::Validated { step, validation, .. } = event {
            nlls.push((validation.nll, step));
        }
    })
    .unwrap();
    assert_eq!(
        names(&out.join("train")),
        ["cache", "last", "lock", "origin.json", "step-15", "step-20", "tokenizer.json", "weights"]
    );
    nlls.sort_by(|a, b| a.0.total_cmp(&b.0));
    // The state of step 15 needs the best three up to there.
    let best = |most: u64| nlls.iter().filter(move |(_, step)| *step <= most).take(3).map(|(_, step)| *step);
    let mut expected: Vec<String> =
        best(20).chain(best(15)).map(|step| format!("step-{step}.safetensors")).collect();
    expected.sort();
    expected.dedup();
    assert_eq!(names(&out.join("train/weights")), expected);
}

/// Rows 99 and 103: a changed option is refused with the way to take it, and taken with that.
#[test]
fn what_a_resumed_run_may_change_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let resume = |more: Value, resets: &[Reset]| Request {
        resume: true,
        resets: resets.to_vec(),
        ..request(&toy(), &out, given(more))
    };
    train(&request(&toy(), &out, given(json!({"max_steps": 10}))), &mut |_, _| ()).unwrap();
    let tokens = message(&resume(json!({"batch_tokens": 500}), &[]));
    assert_parts(&tokens, &["batch_tokens is 500, the run has 400 (--reset data takes the new one)"]);
    assert_parts(&message(&resume(json!({"lr": 0.5}), &[])), &["lr is 0.5", "--reset schedule"]);
    assert_parts(
        &message(&resume(json!({"metric": "bleu"}), &[Reset::Data])),
        &["metric is", "--reset best"],
    );
    assert_parts(&message(&resume(json!({"ema": 0.5}), &[])), &["ema is 0.5", "--reset optimizer"]);

    let next = |more: Value, resets: &[Reset]| train(&resume(more, resets), &mut |_, _| ()).unwrap().progress;
    // Without a reset the rate goes on: 20 steps of warmup, so it peaks at step 20.
    next(json!({"max_steps": 14}), &[]);
    let rates: Vec<f64> = log(&out).iter().map(|row| row.2).collect();
    assert!(rates.windows(2).all(|pair| (pair[1] - pair[0] - rates[0]).abs() < 1e-9), "{rates:?}");
    let before = next(json!({"max_steps": 16, "lr": 0.001}), &[Reset::Schedule]);
    let rates: Vec<f64> = log(&out).iter().map(|row| row.2).collect();
    assert!((rates[14] - 0.001 / 20.0).abs() < 1e-9 && (rates[15] - 0.001 / 10.0).abs() < 1e-9, "{rates:?}");
    // The change was saved with the state.
    let settings = json!({"max_steps": 18, "batch_tokens": 500, "lr": 0.001});
    let after = next(settings.clone(), &[Reset::Data, Reset::Best, Reset::Optimizer]);
    assert_eq!((after.epoch, after.optimizer_from), (before.epoch + 1, 16));
    assert!(after.best.iter().all(|best| best.step > 16));
    next(json!({"max_steps": 20, "batch_tokens": 500, "lr": 0.001}), &[]);
    assert_eq!(log(&out).len(), 20);
    // Of a cooldown of three steps the last has a quarter of its rate.
    next(json!({"max_steps": 24, "cooldown": 3, "batch_tokens": 500, "lr": 0.001}), &[]);
    let rates: Vec<f64> = log(&out).iter().map(|row| row.2).collect();
    for (step, rate) in [(21, 0.001 * 7.0 / 20.0), (24, 0.001 * 10.0 / 20.0 / 4.0)] {
        assert!((rates[step - 1] - rate).abs() < 1e-9, "step {step}: {}", rates[step - 1]);
    }
}

/// Row 91: a step of eight sentences in one batch, in some, or each alone is one and the same.
#[test]
fn accumulated_batches_are_one_batch() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let line = |at: usize| {
        "a b c d e f g h i j k l".split(' ').cycle().skip(at).take(2 + at).collect::<Vec<_>>().join(" ")
    };
    let text = |lines: usize| (0..lines).map(|at| line(at) + "\n").collect::<String>();
    for (name, lines) in [("train", 8), ("dev", 2)] {
        std::fs::write(data.join(format!("{name}.en")), text(lines)).unwrap();
        std::fs::write(data.join(format!("{name}.de")), text(lines).replace(' ', " x ")).unwrap();
    }
    let moments = |batch_tokens: usize, accumulate: usize| {
        let out = folder.path().join(batch_tokens.to_string());
        let more = json!({
            "tokenizer": "word", "dropout": 0.0, "max_steps": 1, "batch_tokens": batch_tokens, "accumulate": accumulate,
        });
        let mut tokens = 0;
        let outcome = train(&request(&data, &out, given(more)), &mut |event, _| {
            if let Event::Step(report) = event {
                tokens = report.tgt_tokens;
            }
        });
        let progress = outcome.unwrap().progress;
        assert_eq!((progress.step, progress.epoch, progress.batch), (1, 1, 0));
        let moments = tensors::read(&out.join("train/step-1/optimizer.safetensors"), &Device::Cpu).unwrap();
        (tokens, log(&out)[0].1, moments)
    };
    let (tokens, loss, whole) = moments(1000, 1);
    for (batch_tokens, accumulate) in [(40, 8), (1, 8)] {
        let (other_tokens, other_loss, other) = moments(batch_tokens, accumulate);
        assert_eq!(other_tokens, tokens);
        assert!((other_loss - loss).abs() < 1e-5, "{other_loss} instead of {loss}");
        // The first moment is a tenth of the gradient.
        for (name, moment) in
            whole.iter().filter(|(name, _)| name.starts_with("m.") && !name.ends_with("k_proj.bias"))
        {
            assert_close(name, &other[name], moment, 1e-4);
        }
    }
}

/// The last, best, averaged and EMA weights are tried, and the best of them is the model, with the numbers in it.
#[test]
fn the_winner_on_dev_becomes_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let more = json!({"max_steps": 30, "valid_every": 4, "average": 3, "keep_best": 2, "ema": 0.8, "metric": "loss"});
    let (mut losses, mut chosen) = (Vec::new(), 0);
    train(&request(&toy(), &out, given(more)), &mut |event, _| {
        if let Event::Finished(choice) = event {
            let loss = |candidate: &Candidate| (candidate.kind.name(), candidate.validation.loss);
            losses = choice.candidates.iter().map(loss).collect();
            chosen = choice.winner.unwrap();
        }
    })
    .unwrap();
    assert_eq!(losses.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["best", "last", "average", "ema"]);
    assert!(losses.iter().all(|(_, loss)| *loss >= losses[chosen].1), "{losses:?}");
    let provenance = provenance(&out);
    assert_eq!(provenance["weights"], losses[chosen].0);
    assert_eq!(provenance["candidates"].as_array().unwrap().len(), 4);
    for (at, (_, loss)) in losses.iter().enumerate() {
        assert_eq!(provenance["candidates"][at]["dev"]["loss"].as_f64().unwrap(), *loss);
        assert!(
            ["nll", "bleu", "chrf"].iter().all(|key| provenance["candidates"][at]["dev"][key].is_number())
        );
    }
    assert_eq!(provenance["candidates"][2]["steps"], json!([20, 24, 28]));
    Checkpoint::open(&out, &Device::Cpu).unwrap();
}

/// `tx average` of the kept weights, of a state, and of whole models: each tensor is the mean, and what does not match is refused.
#[test]
fn weights_are_averaged_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let more = json!({"max_steps": 8, "valid_every": 4, "average": 2});
    train(&request(&toy(), &out, given(more)), &mut |_, _| ()).unwrap();
    let kept = |step: u64| out.join(format!("train/weights/step-{step}.safetensors"));
    let path = |path: &PathBuf| path.to_str().unwrap().to_string();
    let mean = folder.path().join("mean");
    let args = ["average", &path(&kept(4)), &path(&out.join("train/step-8")), "--out", &path(&mean)];
    let output = run(&args, b"");
    assert!(output.status.success(), "{}", stderr(&output));
    let [four, eight] = [4, 8].map(|step| tensors::read(&kept(step), &Device::Cpu).unwrap());
    let found = Checkpoint::open(&mean, &Device::Cpu).unwrap().weights;
    for (name, tensor) in &four {
        let expected = ((tensor + &eight[name]).unwrap() / 2.0).unwrap();
        assert_close(name, &found[name], &expected, 1e-6);
    }
    assert_eq!(run(&args, b"").status.code(), Some(1), "the folder is taken");
    // A model with itself is itself.
    let same = average::average(&[out.clone(), out.clone()]).unwrap().weights;
    for (name, tensor) in Checkpoint::open(&out, &Device::Cpu).unwrap().weights {
        assert_eq!(flat(&same[&name]), flat(&tensor), "{name}");
    }
    let refused = average::average(&[out, golden("tiny-marian")]).unwrap_err().to_string();
    assert_parts(&refused, &["tiny-marian", "its shape (config.json) is not that of"]);
}

/// Fine-tuning keeps tokenizer and shape, starts where the model is, and refuses what contradicts it.
#[test]
fn a_run_starts_from_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let (base, out) = (folder.path().join("base"), folder.path().join("out"));
    let settings = json!({"max_steps": 40, "valid_every": 20, "lr": 0.01, "vocab_size": 300});
    train(&request(&toy(), &base, given(settings)), &mut |_, _| ()).unwrap();
    let fine = |more: Value| Request {
        init_from: Some(base.clone()),
        ..request(&toy(), &out, more.as_object().unwrap().clone())
    };
    let refused = message(&fine(json!({"d_model": 64, "heads": 2})));
    assert_parts(&refused, &["--init-from keeps the shape", "d_model is 64, the model has 32"]);
    assert!(!refused.contains("heads"), "{refused}");
    let mut first = 0.0;
    let more = json!({"batch_tokens": 400, "warmup_steps": 20, "max_steps": 4, "valid_every": 4});
    train(&fine(more), &mut |event, _| {
        if let Event::Step(report) = event
            && report.step == 1
        {
            first = report.nll;
        }
    })
    .unwrap();
    let last = provenance(&base)["dev"]["nll"].as_f64().unwrap();
    assert!(
        (first - last).abs() < 0.8 && first < 300f64.ln() - 1.0,
        "starts at {first}, the model had {last}"
    );
    let tokenizer = |out: &Path| std::fs::read(out.join("tokenizer.json")).unwrap();
    assert_eq!(tokenizer(&out), tokenizer(&base));
    assert!(provenance(&out)["init_from"]["model"].as_str().unwrap().ends_with("base"));
    let args = ["train", "x", "--init-from", "y", "--vocab-size", "5"];
    let output = run(&args, b"");
    assert_eq!(output.status.code(), Some(2));
    assert_parts(&stderr(&output), &["--vocab-size", "--init-from"]);
}

#[test]
fn epochs_and_time_end_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("epochs");
    let more = json!({"max_steps": 1000, "valid_every": 1000, "max_epochs": 2, "accumulate": 4, "batch_tokens": 600});
    let mut per_epoch = 0;
    let outcome = train(&request(&toy(), &out, given(more)), &mut |event, _| {
        if let Event::Begin { batches_per_epoch, .. } = event {
            per_epoch = batches_per_epoch as u64;
        }
    })
    .unwrap();
    assert_eq!(outcome.ending, Ending::MaxEpochs);
    assert!(outcome.progress.step.abs_diff(2 * per_epoch) <= 1, "{} of {per_epoch}", outcome.progress.step);
    let timed = Request {
        max_time: Some(Duration::ZERO),
        ..request(&toy(), &folder.path().join("time"), given(json!({})))
    };
    let outcome = train(&timed, &mut |_, _| ()).unwrap();
    assert_eq!((outcome.ending, outcome.progress.step), (Ending::MaxTime, 0));
}

/// Row 94: weights that have gone astray never count as best, training ends with advice, and the states saved before stay.
#[test]
fn a_run_without_finite_gradients_stops() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let more = json!({"lr": 1e30, "warmup_steps": 1, "save_every": 1, "max_steps": 50, "valid_every": 1, "keep": 100});
    let (mut skipped, mut bests) = (0, 0);
    let result = train(&request(&toy(), &out, given(more)), &mut |event, _| match event {
        Event::Skipped { in_a_row, .. } => skipped = in_a_row,
        Event::Validated { is_best, validation, .. } if is_best => {
            assert!(validation.nll.is_finite());
            bests += 1;
        }
        _ => (),
    });
    let text = result.unwrap_err().to_string();
    assert_parts(&text, &["10 times in a row", "lower --lr", "the last good state is kept in", "step-"]);
    assert_eq!((skipped, bests), (10, 0));
}

/// The proof for a user, on the toy corpus.
#[test]
fn verify_resume_says_that_resuming_is_exact() {
    let mut args = vec!["train", concat!(env!("CARGO_MANIFEST_DIR"), "/assets/toy"), "--verify-resume"];
    args.extend(RICH.split_whitespace());
    args.extend(["--max-steps", "6"]);
    let output = run(&args, b"");
    assert!(output.status.success(), "{}", stderr(&output));
    let parts = [
        "same      train/step-6/ema.safetensors",
        "train/step-6/optimizer.safetensors",
        "resuming is exact: 6 steps",
    ];
    assert_parts(&stderr(&output), &parts);
}
