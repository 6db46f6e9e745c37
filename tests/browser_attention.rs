use crate::browser::Page;
use crate::common::*;
use serde_json::{Value, json};
use tx::candle_core::{DType, Device};
use tx::config::{Config, Stack};
use tx::model::parameters::initial;

/// Markup, a separator of lines, Arabic, Korean, Japanese, and what is no letter at all.
const ODD: &str = "<script>alert(1)</script> <!-- \u{2028} <b>we</b>";

/// A page of sentences, and the numbers of the first.
fn report(files: &Files, args: &[&str]) -> (Option<Page>, Value) {
    let html = files.path("attention.html");
    let output = run(&[&["inspect-attention", "--html", &html], args].concat(), b"");
    assert!(output.status.success() && output.stdout.is_empty(), "{}", stderr(&output));
    let json = stdout(&run(&[&["inspect-attention", "--format", "jsonl"], args].concat(), b""));
    (Page::open(&html), serde_json::from_str(json.lines().next().unwrap()).unwrap())
}

fn text(page: &Page, selector: &str) -> String {
    page.eval(&format!("document.querySelector({selector:?}).textContent")).as_str().unwrap().to_string()
}

fn focused(page: &Page) -> String {
    page.eval("document.activeElement.id || document.activeElement.value || document.activeElement.ariaLabel || document.activeElement.textContent")
        .as_str()
        .unwrap()
        .to_string()
}

/// Every weight of every kind, layer and head is that of `--format json`, within 0.05 %.
#[test]
fn the_page_has_the_weights() {
    let files = Files::new();
    let (page, json) = report(&files, &["--target", "a cat", "we see the sea"]);
    let Some(page) = page else { return };
    for kind in ["encoder_self", "decoder_self", "cross"] {
        let layers: Vec<Vec<Vec<Vec<f64>>>> = serde_json::from_value(json[kind].clone()).unwrap();
        for (layer, heads) in layers.iter().enumerate() {
            for (head, rows) in heads.iter().enumerate() {
                let found = page
                    .eval(&format!("(state.kind = '{kind}', Array.from(headMap({layer}, {head}).weights))"));
                let found: Vec<f64> = serde_json::from_value(found).unwrap();
                let expected: Vec<f64> = rows.iter().flatten().copied().collect();
                assert_eq!(found.len(), expected.len());
                for (found, expected) in found.iter().zip(&expected) {
                    assert!(
                        (found - expected).abs() <= 0.0005 * expected + 6e-8,
                        "{kind} {layer} {head}: {found} {expected}"
                    );
                }
            }
        }
    }
    page.assert_quiet();
}

/// Words and hidden marks, against sums over the numbers of `--format json`: `we see` is two words of the source.
#[test]
fn words_and_hidden_marks_are_worked_out_in_the_page() {
    let files = Files::new();
    let (page, json) = report(&files, &["--target", "a cat", "we see", "--unit", "words", "--hide-marks"]);
    let Some(page) = page else { return };
    let layers: Vec<Vec<Vec<Vec<f64>>>> = serde_json::from_value(json["cross"].clone()).unwrap();
    // ▁ w e | ▁ s e e | </s>, and ▁ a | ▁ c a t | </s>
    let (src, tgt) = ([0..3, 3..7], [0..2, 2..6]);
    let found: Value = page.eval(
        "(() => { const it = headMap(1, 0); return [it.queries, it.keys, Array.from(it.weights)]; })()",
    );
    assert_eq!((&found[0], &found[1]), (&json!(["a", "cat"]), &json!(["we", "see"])));
    let found: Vec<f64> = serde_json::from_value(found[2].clone()).unwrap();
    for (query, rows) in tgt.iter().enumerate() {
        for (key, columns) in src.iter().enumerate() {
            let share =
                |row: &Vec<f64>| row[columns.clone()].iter().sum::<f64>() / row[..7].iter().sum::<f64>();
            let expected = layers[1][0][rows.clone()].iter().map(share).sum::<f64>() / rows.len() as f64;
            assert!((found[2 * query + key] - expected).abs() < 1e-3, "{found:?} {expected}");
        }
    }
    assert_eq!(
        page.eval("[...document.querySelectorAll('#to button')].map(it => it.textContent)"),
        json!(["we", "see"])
    );
    // The first row of the decoder sees the start mark alone: it is empty.
    page.click("[name=kind][value=decoder_self]");
    let sums: Vec<f64> = serde_json::from_value(page.eval(
        "Array.from({length: map.queries.length}, (_, row) => map.weights.slice(row * map.keys.length, (row + 1) * map.keys.length).reduce((a, b) => a + b, 0))",
    ))
    .unwrap();
    assert_eq!(sums.len(), 2);
    assert!(sums.iter().all(|sum| (sum - 1.0).abs() < 1e-3), "{sums:?}");
    page.click("[name=unit][value=pieces]");
    assert_eq!(
        page.eval("Array.from(map.weights.slice(0, map.keys.length)).every(weight => weight === 0)"),
        true
    );
    page.assert_quiet();
}

/// Every control by the mouse: what it changes, and that text stays text.
#[test]
fn every_control_answers_to_the_mouse() {
    let files = Files::new();
    let (page, json) = report(&files, &[ODD, "we see", "\u{5e9}\u{644}\u{627}\u{645}"]);
    let Some(page) = page else { return };
    assert_eq!(text(&page, "#src"), json["src"].as_str().unwrap());
    assert_eq!(page.eval("document.querySelectorAll('#src *, b:not(#value b)').length"), 0);
    assert_eq!(page.eval("[...document.scripts].length"), 2);
    assert_eq!(text(&page, "#map-name"), "Layer 1, mean of 2 heads");
    assert_eq!(page.eval("document.querySelectorAll('#heads button').length"), 6);
    page.wait_for("stale.size === 0");

    page.click("#heads tbody tr:first-child td:nth-of-type(2) button");
    assert_eq!(text(&page, "#map-name"), "Layer 0, head 1");
    assert_eq!(page.eval("document.querySelectorAll('#heads [aria-pressed=true]').length"), 1);
    page.click("[name=kind][value=encoder_self]");
    assert_eq!(page.eval("map.queries.length === map.keys.length && map.keys.at(-1)"), "</s>");
    page.click("#marks");
    assert_eq!(page.eval("map.keys.includes('</s>')"), false);
    page.click("#marks");
    page.click("[name=unit][value=words]");
    let words = json["src"].as_str().unwrap().split_whitespace().count() + 1;
    assert_eq!(page.eval("map.keys.length"), words);
    page.click("[name=unit][value=pieces]");

    // A cell under the mouse.
    let place = page.eval("[(size.left + 1.5 * size.width) / canvas.clientWidth, (size.top + 0.5 * size.height) / canvas.clientHeight]");
    let [across, down]: [f64; 2] = serde_json::from_value(place).unwrap();
    page.hover("#map canvas", across, down);
    assert_eq!(page.eval("[state.query, state.key]"), json!([0, 1]));
    let weight = json["encoder_self"][0][1][0][1].as_f64().unwrap();
    let told: f64 = text(&page, "#value b").parse().unwrap();
    assert!((told - weight).abs() <= 0.0055 * weight + 6e-8, "{told} {weight}");

    // Lines: of one token, and of all heads but one.
    page.hover("#from li:first-child button", 0.5, 0.5);
    assert_eq!(page.eval("alone"), json!({"side": "from", "place": 0}));
    let seen = page.eval("[...document.querySelectorAll('#to button')].reduce((sum, it) => sum + Number(it.style.getPropertyValue('--weight')), 0)");
    assert!((seen.as_f64().unwrap() - 1.0).abs() < 0.01, "{seen}");
    page.click("[name=scope][value=all]");
    assert_eq!(page.eval("threads.length"), 2);
    page.click("#chips label:last-of-type input");
    assert_eq!(page.eval("threads.length"), 1);

    page.eval("(() => { const list = byId('sentence'); list.value = 1; list.dispatchEvent(new Event('change')); })()");
    assert_eq!(text(&page, "#src"), "we see");
    let light = page.eval("getComputedStyle(document.body).backgroundColor");
    page.click("#theme");
    assert_ne!(light, page.eval("getComputedStyle(document.body).backgroundColor"));
    assert_eq!(text(&page, "#theme"), "Light");
    page.click("#theme");
    assert_eq!(light, page.eval("getComputedStyle(document.body).backgroundColor"));
    page.assert_quiet();
}

/// Wide and narrow, light and dark as the system has it, in several scripts: nothing is wider than the page.
#[test]
fn every_screen_has_room() {
    let files = Files::new();
    let targets = [
        "ذهبت إلى المكتبة أمس 👩‍👩‍👧",
        "나는 어제 도서관에서 책을 읽었습니다",
        "Donaudampfschifffahrtsgesellschaftskapitän",
    ];
    let html = files.path("scripts.html");
    let mut args = vec!["inspect-attention", "--html", &html];
    targets.iter().for_each(|target| args.extend(["--target", target]));
    args.extend(["昨日、図書館で本を読みました。", "I love you.", "My father bought a new car yesterday."]);
    // The model inside knows more letters than the small one of the goldens.
    let output = tx(&args).env_remove("TX_MODEL").current_dir(files.path("")).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let Some(page) = Page::open(&html) else { return };
    let ground = || page.eval("getComputedStyle(document.body).backgroundColor");
    let light = ground();
    for sentence in 0..3 {
        page.eval(&format!("(() => {{ const list = byId('sentence'); list.value = {sentence}; list.dispatchEvent(new Event('change')); }})()"));
        for (width, dark) in [(1280, false), (420, false), (1280, true), (420, true)] {
            page.show_as(width, dark);
            page.wait_for("stale.size === 0 || ![...stale].some(it => it.inSight)");
            assert_eq!(
                page.eval("document.documentElement.scrollWidth <= innerWidth"),
                true,
                "{sentence} {width}"
            );
            assert_eq!(ground() != light, dark);
            assert!(
                !page
                    .screenshot(&format!(
                        "attention-{sentence}-{width}-{}",
                        if dark { "dark" } else { "light" }
                    ))
                    .is_empty()
            );
        }
    }
    page.assert_quiet();
}

/// The keyboard alone reaches everything, in the order of the page, and moves within it.
#[test]
fn the_keyboard_reaches_everything() {
    let files = Files::new();
    let (page, _) = report(&files, &["--target", "a cat", "--target", "ja", "we see", "ja"]);
    let Some(page) = page else { return };
    let mut stops = Vec::new();
    loop {
        page.press("Tab");
        let at = focused(&page);
        if stops.contains(&at)
            || stops.len() > 30
            || page.eval("document.activeElement === document.body") == true
        {
            break;
        }
        assert_eq!(page.eval("document.activeElement.matches(':focus-visible')"), true, "{at}");
        stops.push(at);
    }
    let expected =
        ["theme", "sentence", "cross", "pieces", "marks", "Layer 1, mean of 2 heads", "map", "one", "▁", "▁"];
    assert_eq!(stops[..8], expected[..8], "{stops:?}");
    let go = |id: &str| page.eval(&format!("document.querySelector({id:?}).focus()"));
    go("#map");
    for key in ["ArrowDown", "ArrowRight", "ArrowRight", "ArrowUp"] {
        page.press(key);
    }
    assert_eq!(page.eval("[state.query, state.key]"), json!([0, 2]));
    assert!(text(&page, "#value").starts_with("▁ looks at e: 0."), "{}", text(&page, "#value"));
    page.press("End");
    page.press("PageDown");
    assert!(text(&page, "#value").starts_with("</s> looks at </s>: "), "{}", text(&page, "#value"));
    go("#heads [aria-pressed=true]");
    page.press("ArrowLeft");
    page.press("ArrowUp");
    assert_eq!(focused(&page), "Layer 0, head 1");
    page.press("Enter");
    assert_eq!(text(&page, "#map-name"), "Layer 0, head 1");
    go("#from button");
    page.press("ArrowDown");
    page.press("ArrowRight");
    assert_eq!(page.eval("alone"), json!({"side": "to", "place": 1}));
    page.press("Escape");
    assert_eq!(page.eval("alone"), Value::Null);
    go("[name=kind]:checked");
    page.press("ArrowLeft");
    assert_eq!(page.eval("state.kind"), "decoder_self");
    go("#sentence");
    page.press("ArrowDown");
    page.wait_for("state.sentence === 1");
    // Whatever can have the focus has a name.
    let nameless = "[...document.querySelectorAll('button, input, select, [tabindex]')].filter(it => !(it.textContent.trim() || it.ariaLabel || it.labels?.length || it.getAttribute('aria-labelledby'))).length";
    assert_eq!(page.eval(nameless), 0);
    page.assert_quiet();
}

/// One piece of text a side, once marks are hidden and pieces put together.
#[test]
fn one_token_is_enough() {
    let files = Files::new();
    let (page, _) = report(&files, &["--target", "a", "j"]);
    let Some(page) = page else { return };
    assert_eq!(page.eval("[map.queries.length, map.keys.length]"), json!([3, 3]));
    page.click("[name=unit][value=words]");
    page.click("#marks");
    assert_eq!(page.eval("[map.queries, map.keys, Array.from(map.weights)]"), json!([["a"], ["j"], [1]]));
    page.assert_quiet();
}

/// A fresh model of 6 layers with 8 heads, and 497 tokens on both sides: 36 million weights in a byte each, whose rows still sum
/// to 1 within what the page says, and of the map no more than what is in sight.
#[test]
fn a_long_sentence_makes_a_page_that_opens() {
    let files = Files::new();
    let mut checkpoint = tiny();
    let stack = Stack { layers: 6, heads: 8, d_ff: 32 };
    checkpoint.config =
        Config { d_model: 64, encoder: stack, decoder: stack, max_positions: 512, ..checkpoint.config };
    let fresh = initial(&checkpoint.config, 1, &Device::Cpu).unwrap();
    checkpoint.weights = fresh.into_iter().map(|(name, var)| (name, var.as_detached_tensor())).collect();
    checkpoint.save(files.path("model").as_ref(), DType::F32).unwrap();
    let (text, html) = (["sea"; 124].join(" "), files.path("long.html"));
    let args =
        ["inspect-attention", "--model", &files.path("model"), "--html", &html, "--target", &text, &text];
    let output = run(&args, b"");
    assert!(output.status.success(), "{}", stderr(&output));
    let size = std::fs::metadata(&html).unwrap().len();
    assert!((47_000_000..49_000_000).contains(&size), "{size}");
    assert!(stderr(&output).contains("long.html: 4"), "{}", stderr(&output));
    let Some(page) = Page::open(&html) else { return };
    assert_eq!(page.eval("[map.queries.length, map.keys.length, data.bits]"), json!([497, 497, 8]));
    let sum: f64 =
        serde_json::from_value(page.eval("map.weights.slice(0, 497).reduce((a, b) => a + b, 0)")).unwrap();
    assert!((sum - 1.0).abs() < 0.022, "{sum}");
    assert_eq!(page.eval("canvas.clientHeight <= innerHeight && canvas.clientWidth <= innerWidth"), true);
    page.click("#whole");
    assert_eq!(page.eval("pane.scrollWidth <= pane.clientWidth"), true);
    page.assert_quiet();
}
