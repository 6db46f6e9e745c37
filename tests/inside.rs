//! `tx inspect-attention --walk`, `--profile`, `--neighbours` and `--positions`.

use crate::browser::Page;
use crate::common::*;
use serde_json::Value;

fn inspect(args: &[&str]) -> String {
    stdout(&run(&[&["inspect-attention"], args].concat(), b""))
}

const WALK: [&str; 4] = ["--walk", "we see", "--target", "a cat"];

/// What is printed are the numbers of json, rounded, of the layer and head that are chosen.
#[test]
fn the_walk_is_told_with_equations_and_numbers() {
    let json: Value = serde_json::from_str(&inspect(&[&WALK[..], &["--format", "json"]].concat())).unwrap();
    let stages = json["stages"].as_array().unwrap();
    let text = inspect(&[&WALK[..], &["--layer", "1", "--head", "1"]].concat());
    assert_parts(
        &text,
        &[
            "we see → a cat",
            "━━ source: embedding and position ━━",
            "━━ encoder, layer 1: self-attention ━━",
            "━━ decoder, layer 1: attention to the source ━━",
            "Q_i K_iᵀ / √d_k, or −∞ where a position must not look    (section 3.2.3; model.decoder.layers.1.self_attn)",
            "head 1 of 2",
            "The other layers do the same with other weights",
            "━━ softmax: what comes next ━━\nstep 1, after <s>: ",
        ],
    );
    assert!(!text.contains("encoder, layer 0"));
    let scores = stages
        .iter()
        .find(|stage| stage["quantity"] == "dots" && stage["place"] == "model.encoder.layers.1.self_attn")
        .unwrap();
    let row: Vec<f64> = serde_json::from_value(scores["values"][1][0].clone()).unwrap();
    let printed: String = row.iter().map(|x| format!(" {x:>8.3}")).collect();
    assert!(text.contains(&printed), "{printed:?} is not in\n{text}");
    assert_eq!((scores["section"].as_str(), scores["equation"].as_str()), (Some("3.2.1"), Some("Q_i K_iᵀ")));
    let answer = &json["answers"][0];
    let percent = 100.0 * answer["top"][0]["log_prob"].as_f64().unwrap().exp();
    assert!(text.contains(&format!("{} {percent:.1} %", answer["top"][0]["piece"].as_str().unwrap())));
}

#[test]
fn the_walk_is_a_page_that_can_be_walked_through() {
    let files = Files::new();
    let html = files.path("walk.html");
    inspect(&["--walk", "we <script>alert(1)</script>", "--target", "a cat", "--html", &html]);
    let json: Value = serde_json::from_str(&inspect(&[
        "--walk",
        "we <script>alert(1)</script>",
        "--target",
        "a cat",
        "--format",
        "json",
    ]))
    .unwrap();
    let Some(page) = Page::open(&html) else { return };
    assert_eq!(page.eval("document.querySelector('h1').textContent"), "we <script>alert(1)</script> → a cat");
    assert_eq!(page.eval("document.querySelectorAll('section:not([hidden])').length"), 9);
    // The first table has the first numbers of the first stage.
    let first = json["stages"][0]["values"][0][0].as_f64().unwrap();
    page.wait_for(
        "document.querySelector('.map td + td') !== null || document.querySelector('.map td') !== null",
    );
    let shown = page.eval("document.querySelector('.map tbody td').textContent.replace('−', '-')");
    let shown: f64 = shown.as_str().unwrap().parse().unwrap();
    assert!((shown - first).abs() < 6e-4 + first.abs() * 5e-4, "{shown} {first}");
    // Another layer and another head, by keys alone.
    page.eval("document.getElementById('layer').focus()");
    page.press("ArrowDown");
    page.wait_for("document.getElementById('layer').value === '1'");
    assert_eq!(
        page.eval("[...document.querySelectorAll('section:not([hidden]) h2')].map(h => h.textContent).join('|').includes('layer 0')"),
        false
    );
    page.press("Tab");
    page.press("ArrowDown");
    page.eval("[...document.querySelectorAll('section:not([hidden]) .map')].find(box => box.dataset.name === 'weights').scrollIntoView()");
    page.wait_for("[...document.querySelectorAll('section:not([hidden]) .map')].find(box => box.dataset.name === 'weights').textContent.startsWith('head 1 of 2')");
    let sums = page.eval("[...[...document.querySelectorAll('section:not([hidden]) .map')].find(box => box.dataset.name === 'weights').querySelectorAll('tbody tr')].map(row => [...row.cells].slice(1).reduce((sum, cell) => sum + Number(cell.textContent), 0))");
    assert!(serde_json::from_value::<Vec<f64>>(sums).unwrap().iter().all(|sum| (sum - 1.0).abs() < 0.02));
    page.press("Tab");
    page.press("Enter");
    page.wait_for("document.documentElement.dataset.theme !== undefined");
    for width in [1280, 420] {
        page.show_as(width, false);
        assert_eq!(page.eval("document.documentElement.scrollWidth <= innerWidth"), true);
    }
    page.assert_quiet();
}

#[test]
fn heads_are_profiled_over_files() {
    let files = Files::new();
    let src = files.write("src", "we see\n\nthe cat sees\n");
    let tgt = files.write("tgt", "wir sehen\n\ndie katze\n");
    let gold = files.write("gold", "0-0 1-1\n\n0-0 1p1\n");
    let html = files.path("heads.html");
    let args = ["--profile", &src, &tgt, "--gold", &gold];
    let text = inspect(&args);
    assert_parts(
        &text,
        &["2 pairs, 1 left out (blank or too long); negative log-likelihood", "AER", "loss", "cross "],
    );
    let json: Value =
        serde_json::from_str(&inspect(&[&args[..], &["--format", "json", "--html", &html]].concat()))
            .unwrap();
    let heads = json["heads"].as_array().unwrap();
    let first = &heads[0];
    assert_eq!(
        (&first["kind"], &first["layer"], &first["head"]),
        (&"encoder_self".into(), &0.into(), &0.into())
    );
    let row = format!("encoder self      0    0 {:>8.2}", first["entropy"].as_f64().unwrap());
    assert!(text.contains(&row), "{row:?} is not in\n{text}");
    assert!(heads.iter().all(|head| head["aer"].is_number() == (head["kind"] == "cross")));
    // Without a translation the model's own is looked at.
    let own: Value =
        serde_json::from_str(&inspect(&["--profile", &src, "--no-losses", "--format", "json"])).unwrap();
    assert!(own["nll"].as_f64().unwrap() < json["nll"].as_f64().unwrap());
    assert!(own["heads"][0].get("loss").is_none());
    let Some(page) = Page::open(&html) else { return };
    assert_eq!(page.eval("document.querySelectorAll('tbody tr').length"), heads.len());
    page.click("thead th:nth-child(4) button");
    let values: Vec<f64> =
        serde_json::from_value(page.eval(
            "[...document.querySelectorAll('tbody tr')].map(row => Number(row.cells[3].dataset.value))",
        ))
        .unwrap();
    assert!(values.is_sorted());
    page.assert_quiet();
}

/// The head with the smallest error rate is kept where `tx translate --alignment` finds it.
#[test]
fn the_best_head_is_kept() {
    let files = Files::new();
    let (src, tgt) =
        (files.write("src", "we see\nthe cat sees\n"), files.write("tgt", "wir sehen\ndie katze\n"));
    let gold = files.write("gold", "0-0 1-1\n0-0 1-1\n");
    let model = files.path("model");
    let trained = crate::training::toy();
    let args = [
        "train",
        trained.to_str().unwrap(),
        "--out",
        &model,
        "--layers",
        "2",
        "--d-model",
        "16",
        "--ff",
        "16",
    ];
    stdout(&run(&[&args[..], &["--heads", "2", "--max-steps", "1", "--average", "0"]].concat(), b""));
    let args = ["--profile", &src, &tgt, "--gold", &gold, "--no-losses", "--model", &model];
    let json: Value = serde_json::from_str(&inspect(
        &[&args[..], &["--format", "json", "--store-alignment-head"]].concat(),
    ))
    .unwrap();
    let cross = json["heads"].as_array().unwrap().iter().filter(|head| head["kind"] == "cross");
    let best =
        cross.min_by(|a, b| a["aer"].as_f64().unwrap().total_cmp(&b["aer"].as_f64().unwrap())).unwrap();
    let config: Value = serde_json::from_str(&files.read("model/config.json")).unwrap();
    let stored = &config["tx"]["alignment_head"];
    assert_eq!((&stored["layer"], &stored["head"]), (&best["layer"], &best["head"]));
    let foreign = run(
        &[
            "inspect-attention",
            "--profile",
            &src,
            &tgt,
            "--no-losses",
            "--store-alignment-head",
            "--model",
            golden("multilingual/opus").to_str().unwrap(),
            "--to",
            "de",
        ],
        b"",
    );
    assert_eq!(foreign.status.code(), Some(1));
    assert!(stderr(&foreign).contains("not of a model that tx has trained"), "{}", stderr(&foreign));
}

#[test]
fn neighbours_and_positions() {
    let text = inspect(&["--neighbours", "s", "--count", "3"]);
    assert_eq!(text.lines().filter(|line| line.starts_with("  ")).count() % 3, 0, "{text}");
    assert!(text.contains("s  (joint embedding)"), "{text}");
    assert!(
        inspect(&["--neighbours", "we"])
            .contains("\"we\" is no piece of the vocabulary by itself: it is cut into 3")
    );
    let json: Vec<Vec<f64>> =
        serde_json::from_str(&inspect(&["--positions", "3", "--format", "json"])).unwrap();
    let d = json[0].len();
    assert_eq!(json.len(), 3);
    // Halves: sines, then cosines; the first frequency is 1.
    assert!((json[2][0] - 2f64.sin()).abs() < 1e-6 && (json[2][d / 2] - 2f64.cos()).abs() < 1e-6);
    let files = Files::new();
    let svg = files.path("positions.svg");
    inspect(&["--positions", "--svg", &svg]);
    assert!(files.read("positions.svg").matches("<rect").count() >= 30 * d);
}

#[test]
fn what_does_not_go_together_is_wrong_usage() {
    let files = Files::new();
    let (two, three) = (files.write("two", "we\nsee\n"), files.write("three", "1\n2\n3\n"));
    for (args, code, part) in [
        (&["--walk"][..], 2, "required"),
        (&["--walk", "we", "see"], 2, "--walk follows one sentence"),
        (&["--positions", "--neighbours", "we"], 2, "cannot be used with"),
        (&["we", "--neighbours", "we"], 2, "leave TEXT out"),
        (&["--walk", "we", "--format", "csv"], 2, "--walk has the formats text and json"),
        (&["--walk", "we", "--svg", "x.svg"], 2, "--svg is not for --walk"),
        (&["--walk", "we", "--layer", "9"], 1, "--layer 9: the model has the layers 0 to 1"),
        (&["--walk", ""], 1, "nothing to"),
        (&["--positions", "9999"], 1, "the model has 1 to"),
        (&["--profile", &two, &three], 1, "line N of one must translate line N of the other"),
        (&["--profile", &two, "--gold", &three], 1, "3 lines for 2 pairs"),
        (&["--profile", &three, "--gold", &three, "--no-losses"], 1, "is no link"),
        (&["--gold", &two, "we"], 2, "--profile"),
        (&["--profile", &two, "--store-alignment-head"], 1, "name a model directory by --model"),
        (&["--profile", &two, "--store-alignment-head", "--model", &two], 1, "model directory"),
    ] {
        let output = run(&[&["inspect-attention"], args].concat(), b"");
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", stderr(&output));
        assert_parts(&stderr(&output), &[part]);
    }
}
