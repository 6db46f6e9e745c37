use crate::common::*;
use serde_json::Value;
use tx::candle_core::{Device, Tensor, npy::NpzTensors};

const KINDS: [&str; 3] = ["encoder_self", "decoder_self", "cross"];

type Weights = Vec<Vec<Vec<Vec<f32>>>>;

fn inspect(args: &[&str]) -> String {
    stdout(&run(&[&["inspect-attention"], args].concat(), b""))
}

fn weights(inspection: &Value, kind: &str) -> Weights {
    serde_json::from_value(inspection[kind].clone()).unwrap()
}

/// Beam, prefix and given translations: tokens and weights of all kinds are those of `transformers`.
#[test]
fn attention_agrees_with_transformers() {
    let (golden, tensors) = (golden_json("inspection.json"), golden_tensors("inspection.safetensors"));
    for (at, case) in golden["cases"].as_array().unwrap().iter().enumerate() {
        let flags: Vec<String> = serde_json::from_value(case["flags"].clone()).unwrap();
        let mut args: Vec<&str> = flags.iter().map(String::as_str).collect();
        args.extend(["--format", "json", case["text"].as_str().unwrap()]);
        let found: Value = serde_json::from_str(&inspect(&args)).unwrap();
        for tokens in ["src_tokens", "tgt_in", "tgt_out"] {
            assert_eq!(found[tokens], case[tokens], "{args:?}");
        }
        for kind in KINDS {
            let expected = &tensors[&format!("{at}.{kind}")];
            let flat: Vec<f32> = weights(&found, kind).into_iter().flatten().flatten().flatten().collect();
            let found = Tensor::from_vec(flat, expected.dims(), &Device::Cpu).unwrap();
            assert_close(&format!("{args:?} {kind}"), &found, expected, 1e-5);
        }
    }
}

/// What is looked at is what `tx translate` says.
#[test]
fn looking_changes_no_translation() {
    let lines = "we see the sea\na cat sat.\nja\nx-ray\n";
    let translated = stdout(&run(&["translate", "--beam", "3"], lines.as_bytes()));
    let args = ["inspect-attention", "--beam", "3", "--format", "jsonl", "--file", "-"];
    let looked = stdout(&run(&args, lines.as_bytes()));
    let looked: Vec<Value> = looked.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let texts: Vec<&str> = looked.iter().map(|one| one["tgt"].as_str().unwrap()).collect();
    assert_eq!(texts, translated.lines().collect::<Vec<_>>());
    // What the model has no piece for is told.
    let unknown = inspect(&["--format", "json", "--target", "日 a", "we"]);
    assert!(unknown.contains("\"tgt\":\"⁇ a\""), "{unknown}");
    let numbers: Vec<u64> = looked.iter().map(|one| one["line"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
}

/// The same numbers in every format; the text has sums of 100 by words and without marks too.
#[test]
fn formats_have_the_same_weights() {
    let files = Files::new();
    let one = ["--target", "a cat", "we see"];
    let json: Value = serde_json::from_str(&inspect(&[&["--format", "json"][..], &one].concat())).unwrap();
    let npz = files.path("a.npz");
    run(&[&["inspect-attention", "--format", "npz", "--output", &npz][..], &one].concat(), b"");
    let arrays = NpzTensors::new(&npz).unwrap();
    for kind in KINDS {
        let flat: Vec<f32> = weights(&json, kind).into_iter().flatten().flatten().flatten().collect();
        let array = arrays.get(kind).unwrap().unwrap();
        assert_eq!(array.dims()[..2], [2, 2]);
        assert_eq!(flat, super::common::flat(&array));
    }
    let csv = inspect(&[&["--format", "csv"][..], &one].concat());
    let row = csv.lines().find(|row| row.starts_with("1,cross,1,0,2,3,")).unwrap();
    let expected = weights(&json, "cross")[1][0][2][3];
    assert!(row.ends_with(&format!(",{expected}")), "{row}");
    let several = files.path("b.npz");
    let args = ["inspect-attention", "--format", "npz", "--output", &several, "we see", "ja"];
    assert!(run(&args, b"").status.success());
    let names = NpzTensors::new(&several).unwrap().names().into_iter().cloned().collect::<Vec<_>>();
    assert!(names.contains(&"2/cross".to_string()), "{names:?}");

    for flags in
        [&["--unit", "words"][..], &["--hide-marks"], &["--unit", "words", "--hide-marks", "--layer", "0"]]
    {
        let text = inspect(&[flags, &["--head", "all", "--target", "a cat", "we see"]].concat());
        assert_eq!(text.matches("each row is a query").count(), 2, "{text}");
        assert_eq!(text.contains("</s>"), !flags.contains(&"--hide-marks"), "{text}");
        let rows = text.lines().filter(|row| row.starts_with("cat ") || row.starts_with("c "));
        for row in rows {
            let cells =
                row.split_whitespace().skip(1).map(|cell| cell.trim_start_matches(['░', '▒', '▓', '█']));
            let sum: i32 = cells.map(|cell| cell.parse().unwrap_or(0)).sum();
            assert!((95..=105).contains(&sum), "{row}");
        }
    }
}

#[test]
fn wrong_wishes_are_refused() {
    for (args, code, part) in [
        (&["--layer", "2", "--format", "json", "we"][..], 1, "layers 0 to 1"),
        (&["--head", "2", "--html", "x.html", "we"], 1, "heads 0 to 1"),
        (&["--format", "npz", "we"], 2, "--output"),
        (&["--format", "json", "we", "see"], 2, "jsonl"),
        (&["--svg", "x.svg", "we", "see"], 2, "--html"),
        (&["--target", "a", "we", "see"], 2, "for 2 sentences"),
        (&["--target", "a", "--file", "-"], 2, "--target-file"),
        (&["--html", "no-such-folder/x.html", "we"], 1, "no-such-folder"),
        (&[], 2, "TEXT"),
        (&[" "], 1, "blank"),
        (&["--file", "-"], 1, "no sentence"),
        (&["--layer", "x", "we"], 2, "`all`"),
    ] {
        let output = run(&[&["inspect-attention"], args].concat(), b"\n\n");
        assert_eq!(output.status.code(), Some(code), "{args:?} {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{args:?} {}", stderr(&output));
        assert!(output.stdout.is_empty(), "{args:?}");
    }
    // Of several sentences the others are shown.
    let long = "a".repeat(100);
    let output = run(&["inspect-attention", "--format", "jsonl", "we", " ", &long, "see"], b"");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stdout.iter().filter(|&&byte| byte == b'\n').count(), 2);
    assert_parts(&stderr(&output), &["line 2 is blank", "line 3: 102 pieces are more than the model's 64"]);
}

/// Pictures of one head and of all, from text that is markup.
#[test]
fn pictures_are_drawn_without_a_browser() {
    let files = Files::new();
    let (svg, png) = (files.path("a.svg"), files.path("a.png"));
    let args = ["inspect-attention", "--svg", &svg, "--png", &png, "--target", "a <b> cat", "we see"];
    let output = run(&args, b"");
    assert!(output.status.success() && output.stdout.is_empty(), "{}", stderr(&output));
    let drawing = files.read("a.svg");
    assert_parts(&drawing, &["cross attention, layer 1, mean of 2 heads", "looks at"]);
    assert!(!drawing.contains("<b>"));
    let json: Value =
        serde_json::from_str(&inspect(&["--format", "json", "--target", "a <b> cat", "we see"])).unwrap();
    let layer = &weights(&json, "cross")[1];
    let mean = (layer[0][1][1] + layer[1][1][1]) / 2.0;
    assert_parts(&drawing, &[&format!("a looks at w: {mean:.4}")]);
    assert_eq!(&std::fs::read(&png).unwrap()[..8], b"\x89PNG\r\n\x1a\n");
    let all = [
        "inspect-attention",
        "--svg",
        &svg,
        "--layer",
        "all",
        "--head",
        "all",
        "--kind",
        "encoder-self",
        "ja",
    ];
    assert!(run(&all, b"").status.success());
    // 2 layers, 2 heads, 4 tokens, and the ground.
    assert_eq!(files.read("a.svg").matches("<rect").count(), 2 * 2 * 16 + 1);
}

/// Colours only where they are wanted.
#[test]
fn colours_are_for_terminals() {
    let shown = |name: &str, value: &str| {
        let output = tx(&["inspect-attention", "ja"]).env(name, value).output().unwrap();
        stdout(&output).contains("\x1b[")
    };
    assert!(shown("CLICOLOR_FORCE", "1"));
    assert!(!shown("TERM", "xterm") && !shown("NO_COLOR", "1"));
}
