use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use tx::candle_core::Device;
use tx::checkpoint::Checkpoint;
use tx::data::Source;
use tx::rng::Rng;
use tx::train::settings::Given;
use tx::train::{Ending, Event, Outcome, Request, prepare, train};
use tx::translate::{Options, Translator};

pub fn toy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/toy")
}

/// A small model that trains in seconds; `more` overrides.
pub fn given(more: serde_json::Value) -> Given {
    let mut all = serde_json::json!({
        "d_model": 32, "d_ff": 64, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 400,
        "batch_tokens": 400, "warmup_steps": 20, "max_steps": 12, "valid_every": 4, "patience": 0,
    });
    for (name, value) in more.as_object().unwrap() {
        all[name] = value.clone();
    }
    all.as_object().unwrap().clone()
}

pub fn request(data: &Path, out: &Path, given: Given) -> Request {
    let (data, out) = (vec![Source::new(data)], out.to_path_buf());
    Request {
        data,
        out,
        from: None,
        to: None,
        tokenizer_file: None,
        resume: false,
        given,
        init_from: None,
        resets: vec![],
        max_time: None,
    }
}

pub fn run(request: &Request, observe: &mut dyn FnMut(Event, &AtomicBool)) -> tx::Result<Outcome> {
    let interrupt = AtomicBool::new(false);
    let prepared = prepare(request, &mut |_| ())?;
    train(&prepared, &request.out, &Device::Cpu, &interrupt, &mut |event| observe(event, &interrupt))
}

pub fn weights(out: &Path) -> Vec<u8> {
    std::fs::read(out.join("model.safetensors")).unwrap()
}

#[test]
fn one_seed_gives_one_model_and_another_seed_another() {
    let folder = tempfile::tempdir().unwrap();
    let model = |name: &str, seed: u64| {
        let out = folder.path().join(name);
        run(&request(&toy(), &out, given(serde_json::json!({"seed": seed}))), &mut |_, _| ()).unwrap();
        weights(&out)
    };
    let first = model("a", 1);
    assert_eq!(first, model("b", 1));
    assert_ne!(first, model("c", 2));
}

/// `run` with this many threads.
fn run_with_threads(threads: usize, request: &Request) -> tx::Result<Outcome> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| run(request, &mut |_, _| ()))
}

/// The rows of a run's log.
fn log(out: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(out.join("train.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Without dropout, workers that share a batch find the loss and the gradient of one that has it alone, also where
/// the last has no pair left; and the same workers write the same bytes.
#[test]
fn workers_together_are_one_worker() {
    let folder = tempfile::tempdir().unwrap();
    let train = |name: &str, threads: usize, batch_tokens: usize, dropout: f64| {
        let out = folder.path().join(name);
        let given = given(serde_json::json!({
            "batch_tokens": batch_tokens, "dropout": dropout, "max_steps": 3, "compute": "f32"
        }));
        run_with_threads(threads, &request(&toy(), &out, given)).unwrap();
        out
    };
    for batch_tokens in [4096, 40_000] {
        let name = |threads: usize| format!("{batch_tokens}-{threads}");
        let alone = log(&train(&name(1), 1, batch_tokens, 0.0));
        for threads in [2, 3] {
            let together = log(&train(&name(threads), threads, batch_tokens, 0.0));
            for (alone, together) in alone.iter().zip(&together) {
                for number in ["loss", "nll", "grad_norm", "tgt_tokens"] {
                    let (a, b) = (alone[number].as_f64().unwrap(), together[number].as_f64().unwrap());
                    assert!((a - b).abs() <= 1e-5 * a, "{number}: {a} and, with {threads} threads, {b}");
                }
            }
        }
    }
    let once = weights(&train("once", 3, 4096, 0.1));
    assert_eq!(weights(&train("again", 3, 4096, 0.1)), once);
}

/// A run that goes on with other threads is told so, since its bytes will be others.
#[test]
fn another_number_of_workers_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let workers = |threads: usize, max_steps: u64, resume: bool| {
        let settings = given(serde_json::json!({"batch_tokens": 4096, "max_steps": max_steps}));
        let request = Request { resume, ..request(&toy(), &folder.path().join("run"), settings) };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut seen = None;
            run(&request, &mut |event, _| {
                if let Event::Begin { progress, workers, .. } = event {
                    seen = Some((progress.workers, workers));
                }
            })
            .unwrap();
            seen
        })
    };
    assert_eq!(workers(1, 1, false), Some((0, 1)));
    assert_eq!(workers(2, 2, true), Some((1, 2)));
}

/// A whole run in bf16 follows the run in f32: the mean loss of every ten steps within 1 %.
#[test]
fn bf16_follows_f32() {
    let folder = tempfile::tempdir().unwrap();
    let losses = |compute: &str| {
        let out = folder.path().join(compute);
        let given = given(serde_json::json!({"compute": compute, "max_steps": 60, "valid_every": 60}));
        run(&request(&toy(), &out, given), &mut |_, _| ()).unwrap();
        log(&out).iter().map(|row| row["loss"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    for (f32, bf16) in losses("f32").chunks(10).zip(losses("bf16").chunks(10)) {
        let [f32, bf16] = [f32, bf16].map(|losses| losses.iter().sum::<f64>() / losses.len() as f64);
        assert!((f32 - bf16).abs() < 0.01 * f32, "{f32} and {bf16}");
    }
}

/// Stopped at the limit, and by Ctrl-C in the middle of an epoch: what goes on is what never stopped, to the byte.
#[test]
fn a_resumed_run_is_the_run_that_never_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let steps = |out: &str, max_steps: u64, resume: bool| Request {
        resume,
        ..request(&toy(), &folder.path().join(out), given(serde_json::json!({"max_steps": max_steps})))
    };
    run(&steps("whole", 40, false), &mut |_, _| ()).unwrap();
    let whole = weights(&folder.path().join("whole"));
    let log = |out: &str| {
        let text = std::fs::read_to_string(folder.path().join(out).join("train.jsonl")).unwrap();
        let rows = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        rows.map(|row| (row["step"].as_u64().unwrap(), row["loss"].as_f64().unwrap())).collect::<Vec<_>>()
    };

    run(&steps("halves", 20, false), &mut |_, _| ()).unwrap();
    run(&steps("halves", 40, true), &mut |_, _| ()).unwrap();
    assert_eq!(weights(&folder.path().join("halves")), whole);
    assert_eq!(log("halves"), log("whole"));

    let outcome = run(&steps("interrupted", 40, false), &mut |event, interrupt| {
        if let Event::Step(report) = event {
            interrupt.store(report.step == 13, Ordering::Relaxed);
        }
    })
    .unwrap();
    assert_eq!((outcome.ending, outcome.progress.step), (Ending::Interrupted, 13));
    run(&steps("interrupted", 40, true), &mut |_, _| ()).unwrap();
    assert_eq!(weights(&folder.path().join("interrupted")), whole);
    assert_eq!(log("interrupted"), log("whole"));
}

/// A resumed run keeps its settings, its text and its tokenizer; a new one never writes over an old one.
#[test]
fn a_run_is_not_mixed_with_another() {
    let folder = tempfile::tempdir().unwrap();
    let (data, out) = (folder.path().join("data"), folder.path().join("out"));
    std::fs::create_dir(&data).unwrap();
    for file in ["train.en", "train.de", "dev.en", "dev.de"] {
        std::fs::copy(toy().join(file), data.join(file)).unwrap();
    }
    let short = |more| request(&data, &out, given(more));
    let resume = |more| Request { resume: true, ..short(more) };
    let message = |request: Request| run(&request, &mut |_, _| ()).unwrap_err().to_string();
    assert!(message(resume(serde_json::json!({}))).contains("there is no run"));
    run(&short(serde_json::json!({"max_steps": 2})), &mut |_, _| ()).unwrap();
    assert!(message(short(serde_json::json!({}))).contains("holds a run already"));
    assert!(message(resume(serde_json::json!({"seed": 9}))).contains("seed is 9, the run has 1"));
    let mut text = std::fs::read_to_string(data.join("train.de")).unwrap();
    text = text.replacen("Katze", "Miezekatze", 1);
    std::fs::write(data.join("train.de"), text).unwrap();
    assert!(message(resume(serde_json::json!({}))).contains("the text has changed"));
    let occupied = folder.path().join("occupied");
    std::fs::create_dir(&occupied).unwrap();
    std::fs::write(occupied.join("thesis.tex"), "x").unwrap();
    assert!(
        message(request(&toy(), &occupied, given(serde_json::json!({})))).contains("not an empty folder")
    );
}

/// What training writes is a Marian directory that translates, with the run noted in it.
#[test]
fn a_trained_directory_opens_and_remembers_its_run() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("model");
    let mut validations = 0;
    run(&request(&toy(), &out, given(serde_json::json!({}))), &mut |event, _| {
        if let Event::Validated { validation, .. } = event {
            assert!(validation.nll.is_finite() && validation.samples.len() == 3);
            assert!(validation.bleu_signature.starts_with("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp"));
            assert!(validation.chrf_signature.starts_with("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no"));
            validations += 1;
        }
    })
    .unwrap();
    assert_eq!(validations, 3);
    let checkpoint = Checkpoint::open(&out, &Device::Cpu).unwrap();
    let info = checkpoint.info.as_ref().unwrap();
    assert_eq!((info.src_lang.as_str(), info.tgt_lang.as_str()), ("en", "de"));
    assert_eq!(info.provenance["settings"]["seed"], 1);
    for key in ["nll", "bleu", "chrf"] {
        assert!(info.provenance["dev"][key].is_number(), "{key}");
    }
    let translator = Translator::new(checkpoint, &Device::Cpu, None).unwrap();
    let lines = vec![(1, "The cat is in the garden.".to_string())];
    assert_eq!(translator.translate(lines, &Options::default()).unwrap().len(), 1);
}

/// A pre-norm model learns too, and is written in the form of the family that has pre-norm.
#[test]
fn a_pre_norm_model_is_written_as_pegasus() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("model");
    let mut losses = Vec::new();
    run(&request(&toy(), &out, given(serde_json::json!({"norm": "pre"}))), &mut |event, _| {
        if let Event::Validated { validation, .. } = event {
            losses.push(validation.nll);
        }
    })
    .unwrap();
    assert!(losses[2] < losses[0], "{losses:?}");
    let text = std::fs::read_to_string(out.join("config.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&json["model_type"], &json["tx"]["norm"]), (&"pegasus".into(), &"pre".into()));
    let checkpoint = Checkpoint::open(&out, &Device::Cpu).unwrap();
    assert_eq!(checkpoint.config.norm, tx::config::Norm::Pre);
    Translator::new(checkpoint, &Device::Cpu, None).unwrap();
}

/// The two tasks that any sequence model must learn, without a mistake on sequences it has not seen.
#[test]
fn copying_and_reversing_are_learnt() {
    for reverse in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (data, out) = (folder.path().join("data"), folder.path().join("out"));
        std::fs::create_dir(&data).unwrap();
        let mut rng = Rng::new(5, "sequences");
        for (split, lines) in [("train", 4000), ("dev", 100)] {
            let (mut src, mut tgt) = (String::new(), String::new());
            for _ in 0..lines {
                let mut words: Vec<String> =
                    (0..2 + rng.below(5)).map(|_| format!("w{}", rng.below(10))).collect();
                src += &(words.join(" ") + "\n");
                if reverse {
                    words.reverse();
                }
                tgt += &(words.join(" ") + "\n");
            }
            std::fs::write(data.join(format!("{split}.src")), src).unwrap();
            std::fs::write(data.join(format!("{split}.tgt")), tgt).unwrap();
        }
        let given = given(serde_json::json!({
            "tokenizer": "word", "batch_tokens": 600, "dropout": 0.0, "lr": 0.004, "warmup_steps": 60, "max_steps": 900,
            "valid_every": 1000, "encoder_layers": 2, "decoder_layers": 2, "heads": 4,
        }));
        run(&request(&data, &out, given), &mut |_, _| ()).unwrap();
        let translator =
            Translator::new(Checkpoint::open(&out, &Device::Cpu).unwrap(), &Device::Cpu, None).unwrap();
        let read = |name: &str| std::fs::read_to_string(data.join(name)).unwrap();
        let lines =
            read("dev.src").lines().enumerate().map(|(i, line)| (i as u64, line.to_string())).collect();
        let found = translator.translate(lines, &Options::default()).unwrap();
        let expected: Vec<String> = read("dev.tgt").lines().map(str::to_string).collect();
        let right = found
            .iter()
            .zip(&expected)
            .filter(|(found, expected)| found.hypotheses[0].text == **expected)
            .count();
        assert_eq!(right, 100, "reverse: {reverse}");
    }
}

/// Row 77: a validation between two steps changes nothing about training.
#[test]
fn validation_does_not_disturb_training() {
    let folder = tempfile::tempdir().unwrap();
    let losses = |valid_every: u64| {
        let out = folder.path().join(valid_every.to_string());
        let mut losses = Vec::new();
        let given = given(serde_json::json!({"valid_every": valid_every, "save_every": 100}));
        run(&request(&toy(), &out, given), &mut |event, _| {
            if let Event::Step(report) = event {
                losses.push(report.loss);
            }
        })
        .unwrap();
        losses
    };
    assert_eq!(losses(2), losses(100));
}

/// Two runs at once never write into one folder.
#[test]
fn a_folder_belongs_to_one_run_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let first = request(&toy(), &folder.path().join("out"), given(serde_json::json!({})));
    let held = prepare(&first, &mut |_| ()).unwrap();
    let second = Request { resume: true, ..first.clone() };
    let message = prepare(&second, &mut |_| ()).unwrap_err().to_string();
    assert!(message.contains("another tx train is writing here"), "{message}");
    drop(held);
    prepare(&second, &mut |_| ()).unwrap();
}
