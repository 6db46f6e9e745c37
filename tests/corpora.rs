use crate::common::{Files, assert_parts, golden, run, stderr, stdout};
use std::path::{Path, PathBuf};

fn toy() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/toy").to_str().unwrap().to_string()
}

/// Flags of a model that trains in a second.
const SMALL: [&str; 14] = [
    "--layers",
    "1",
    "--d-model",
    "16",
    "--heads",
    "2",
    "--ff",
    "32",
    "--vocab-size",
    "400",
    "--valid-every",
    "100",
    "--batch-tokens",
    "400",
];

/// Trains on `data` into `out` with `more` flags.
fn train(data: &[&str], out: &str, more: &[&str], stdin: &[u8]) -> std::process::Output {
    run(&[&["train", "--out", out][..], data, &SMALL[..], more].concat(), stdin)
}

fn weights(out: &str) -> Vec<u8> {
    std::fs::read(Path::new(out).join("model.safetensors")).unwrap()
}

fn table() -> String {
    let read = |name: &str| std::fs::read_to_string(PathBuf::from(toy()).join(name)).unwrap();
    read("train.en").lines().zip(read("train.de").lines()).map(|(en, de)| format!("{en}\t{de}\n")).collect()
}

#[test]
fn pairs_from_standard_input() {
    let files = Files::new();
    let out = files.path("out");
    let text = table() + "one column\nthree\tof\tthem\n";
    let flags = ["--from", "en", "--to", "de", "--max-steps"];
    let first = train(&["-"], &out, &[&flags[..], &["3"]].concat(), text.as_bytes());
    assert!(first.status.success(), "{}", stderr(&first));
    assert_parts(
        &stderr(&first),
        &[
            "train: standard input, two columns divided by a tab",
            "no dev set: 30 of 600 pairs of train are held out",
            "dropped: 2 with too few or too many columns (the first is line 601, with 1)",
        ],
    );
    let again = train(&["-"], &out, &[&flags[..], &["5", "--resume"]].concat(), text.as_bytes());
    assert!(again.status.success(), "{}", stderr(&again));
    let other = train(&["-"], &out, &[&flags[..], &["7", "--resume"]].concat(), table().as_bytes());
    assert!(!other.status.success() && stderr(&other).contains("the text has changed"), "{}", stderr(&other));
    let nothing = train(&["-"], &files.path("none"), &[], b"");
    assert!(stderr(&nothing).contains("standard input has no lines of text"), "{}", stderr(&nothing));
    assert!(!Path::new(&files.path("none")).exists(), "a run that failed at its text left a folder");
}

#[test]
fn several_corpora_with_weights() {
    let files = Files::new();
    let more = files.path("more");
    std::fs::create_dir(&more).unwrap();
    files.write("more/train.en", "Yes.\nNo.\nSame\nNo.\n\n");
    files.write("more/train.de", "Ja.\nNein.\nSame\nNein.\nX\n");
    let weighted = format!("{more}=2.5");
    let flags = ["--drop-duplicates", "--drop-identical", "--max-steps", "2"];
    let output = train(&[&toy(), &weighted], &files.path("out"), &flags, b"");
    assert_parts(
        &stderr(&output),
        &[
            "also train: train.en and train.de of ",
            "each pair 2.5 times an epoch",
            "train of more: 2 of 5 pairs kept; dropped: 1 with an empty source, 1 with identical sides, 1 seen before. \
             WARNING: that is 60.0 % of the pairs",
        ],
    );
    let changed = train(&[&toy(), &more], &files.path("out"), &["--resume", "--max-steps", "3"], b"");
    assert!(stderr(&changed).contains("files and weights"), "{}", stderr(&changed));
    let bad = train(&[&format!("{more}=0")], &files.path("bad"), &[], b"");
    assert_eq!(bad.status.code(), Some(2));
}

#[test]
fn unequal_lengths_are_dropped_if_asked() {
    let files = Files::new();
    let all = train(&[&toy()], &files.path("all"), &["--max-steps", "1"], b"");
    assert_parts(&stderr(&all), &["train: 600 of 600 pairs kept"]);
    let some = train(&[&toy()], &files.path("some"), &["--max-steps", "1", "--max-ratio", "1.2"], b"");
    assert_parts(&stderr(&some), &["with one side over 1.2 times as long as the other. WARNING"]);
}

/// A cache that is there, was damaged or is gone: what goes on is what never stopped, to the byte, with pieces that
/// are sampled anew in every epoch.
#[test]
fn a_resumed_run_reads_its_cache() {
    let files = Files::new();
    let (whole, parts) = (files.path("whole"), files.path("parts"));
    let go = |out: &str, steps: &str, more: &[&str]| {
        let flags = ["--sample-tokens", "0.2", "--max-steps", steps, "--threads", "1"];
        let output = train(&[&toy()], out, &[&flags[..], more].concat(), b"");
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output)
    };
    go(&whole, "60", &[]);
    go(&parts, "15", &[]);
    let cached = "train is read from the cache of the run";
    assert!(go(&parts, "30", &["--resume"]).contains(cached));
    std::fs::write(format!("{parts}/train/cache/ids"), "x").unwrap();
    assert!(!go(&parts, "45", &["--resume"]).contains(cached));
    std::fs::remove_dir_all(format!("{parts}/train/cache")).unwrap();
    assert!(!go(&parts, "60", &["--resume"]).contains(cached));
    assert_eq!(weights(&whole), weights(&parts));
    let plain = files.path("plain");
    train(&[&toy()], &plain, &["--max-steps", "60", "--threads", "1"], b"");
    assert_ne!(weights(&whole), weights(&plain));
}

#[test]
fn sampling_needs_byte_pairs() {
    let files = Files::new();
    let output =
        train(&[&toy()], &files.path("out"), &["--sample-tokens", "0.1", "--tokenizer", "word"], b"");
    assert!(stderr(&output).contains("use --tokenizer bpe"), "{}", stderr(&output));
}

#[test]
fn a_dry_run_tells_the_plan_and_leaves_nothing() {
    let files = Files::new();
    let out = files.path("out");
    let plan = stdout(&train(&[&toy()], &out, &["--dry-run", "--max-steps", "1000"], b""));
    assert_parts(
        &plan,
        &["vocabulary: 400 pieces", "parameters: ", "epoch: ", "steps: at most 1000", "time: ", "memory: "],
    );
    assert!(!Path::new(&out).exists());
}

#[test]
fn the_doctor_tells_by_exit_code() {
    let files = Files::new();
    let clean = run(&["doctor", &toy()], b"");
    assert_eq!(clean.status.code(), Some(0), "{}", String::from_utf8_lossy(&clean.stdout));
    let (a, b) = (files.write("a", "one\ntwo\n"), files.write("b", "eins\n\n"));
    let text = run(&["doctor", &a, &b], b"");
    assert_eq!(text.status.code(), Some(1));
    let text = String::from_utf8(text.stdout).unwrap();
    assert_parts(
        &text,
        &["pairs: 2 pairs in", "/b:2: 1 line: an empty target [empty-target]", "1 problem, 0 notes"],
    );
    let json = run(&["doctor", &a, &b, "--format", "json"], b"");
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["findings"][0]["line"], 2);
    assert_eq!(json["findings"][0]["level"], "problem");
    for wrong in [
        &["doctor", "no-such-thing"][..],
        &["doctor", a.as_str()],
        &["doctor"],
        &["doctor", toy().as_str(), a.as_str()],
    ] {
        assert_eq!(run(wrong, b"").status.code(), Some(2), "{wrong:?}");
    }
    let model = golden("tiny-marian");
    let model = run(&["doctor", model.to_str().unwrap()], b"");
    assert_eq!(model.status.code(), Some(0), "{}", String::from_utf8_lossy(&model.stdout));
}

/// A `.npz`, its folder, and what can be wrong with either. The file has 60 arrays of 7,765 numbers (by numpy), and the padding, which Marian
/// does not have, adds 16 to the embeddings and 1 to the bias.
#[test]
fn the_doctor_knows_models_of_marian() {
    let (files, model) = (Files::new(), golden("families/marian-npz"));
    let doctor = |path: &str| {
        let output = run(&["doctor", path], b"");
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    for path in [&model, &model.join("model.npz")] {
        let (code, text) = doctor(path.to_str().unwrap());
        assert_eq!(code, Some(0), "{text}");
        assert_parts(
            &text,
            &[
                "model.npz: 60 tensors, 7782 numbers",
                "2+1 layers, d_model 16, 46 pieces, 46 in the tokenizer",
            ],
        );
    }
    let npz = std::fs::read(model.join("model.npz")).unwrap();
    let find = |from: usize, part: &[u8]| {
        from + npz[from..].windows(part.len()).position(|window| window == part).unwrap()
    };
    let mut damaged = npz.clone();
    let number = find(find(0, b"encoder_l2_ffn_b2.npy"), b"\n") + 1;
    damaged[number..number + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    let path = files.write("model.npz", &damaged);
    files.write("decoder.yml", "beam-size: many\n");
    let (code, text) = doctor(&path);
    assert_eq!(code, Some(1));
    assert_parts(
        &text,
        &[
            "model.encoder.layers.1.fc2.bias: 1 of 16 numbers are not finite [not-finite]",
            "decoder.yml: beam-size is \"many\", expected a number from 1 to 65536 [content]",
            "no tokenizer: expected tokenizer.json, a vocab.spm, or a vocab.yml with source.spm and target.spm",
            "3 problems",
        ],
    );
    files.write("tokenizer.json", std::fs::read(golden("tiny-marian/tokenizer.json")).unwrap());
    files.write("model.npz", &npz[..npz.len() / 2]);
    files.write("decoder.yml", "");
    let (_, text) = doctor(&path);
    assert_parts(&text, &["model.npz: the zip archive of 24202 bytes is cut or damaged", "1 problem,"]);
    files.write("model.npz", &npz);
    assert_parts(&doctor(&path).1, &["<pad> and </s> have the ids", "[tokenizer]", "1 problem,"]);
}
