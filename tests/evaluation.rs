use crate::common::*;
use serde_json::Value;
use std::process::Output;
use tx::candle_core::{DType, Tensor};
use tx::checkpoint::tensors;

/// Sources and references of the goldens, then a blank line, a source without a reference and a reference with more
/// pieces than the model has positions.
fn test_set(files: &Files) -> (String, String) {
    let json = golden_json("model.json");
    let column = |key: &str| -> Vec<String> {
        let cases = json["pairs"].as_array().unwrap().iter();
        cases.map(|case| case[key].as_str().unwrap().to_string() + "\n").collect()
    };
    let src = column("text").concat() + "\nja\nja\n";
    let refs = column("target").concat() + "\n\n" + &"sea ".repeat(30) + "\n";
    (files.write("src", src), files.write("ref", refs))
}

fn rows(output: &Output) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Translations are those of `translate`, scores those of `score`, the NLL that of `transformers`.
#[test]
fn an_evaluation_agrees_with_its_parts() {
    let files = Files::new();
    let (src, refs) = test_set(&files);
    let kept = files.path("hyp");
    let output = run(
        &["evaluate", &src, &refs, "--beam", "2", "--format", "jsonl", "--worst", "4", "--output", &kept],
        b"",
    );
    let rows = rows(&output);
    assert_eq!(files.read("hyp"), stdout(&run(&["translate", "--beam", "2", &src], b"")));
    let scores = run(&["score", &kept, &refs, "--format", "json"], b"");
    assert_eq!(rows[0]["scores"], serde_json::from_slice::<Value>(&scores.stdout).unwrap());

    let json = golden_json("model.json");
    let cases = json["pairs"].as_array().unwrap();
    let nll: f64 = cases.iter().map(|case| -case["log_prob"].as_f64().unwrap()).sum();
    let tokens: usize = cases.iter().map(|case| case["ids"].as_array().unwrap().len()).sum();
    let number = |key: &str| rows[0][key].as_f64().unwrap();
    assert_eq!(number("ref_tokens"), tokens as f64);
    assert!((number("nll") - nll / tokens as f64).abs() < 1e-5);
    assert!((number("perplexity") - number("nll").exp()).abs() < 1e-6);
    assert!((number("nll_per_word") - nll / number("ref_words")).abs() < 1e-4);
    assert!((number("nll_per_char") - nll / number("ref_chars")).abs() < 1e-4);
    let counts = ["lines", "ref_lines", "refs_blank", "refs_too_long", "refs_not_finite"].map(number);
    assert_eq!(counts, [11.0, 8.0, 2.0, 1.0, 0.0]);

    assert_eq!(rows.len(), 1 + 4);
    let hypotheses: Vec<String> = files.read("hyp").lines().map(str::to_string).collect();
    let mut previous = 0.0;
    for row in &rows[1..] {
        let line = row["line"].as_u64().unwrap() as usize;
        assert_eq!(row["hyp"], hypotheses[line - 1]);
        assert_ne!(line, 9, "nothing was to be done on the blank line");
        assert!(row["chrf"].as_f64().unwrap() >= previous && row["log_prob"].is_number());
        previous = row["chrf"].as_f64().unwrap();
    }
    let sentences = run(
        &["score", &kept, &refs, "--sentence", "--metrics", "chrf", "--width", "9", "--format", "json"],
        b"",
    );
    let sentences: Value = serde_json::from_slice(&sentences.stdout).unwrap();
    for row in &rows[1..] {
        let expected = &sentences[row["line"].as_u64().unwrap() as usize - 1]["score"];
        assert!((row["chrf"].as_f64().unwrap() - expected.as_f64().unwrap()).abs() < 1e-8);
    }
}

/// The worst lines by each measure; by NLL those without one never come.
#[test]
fn the_worst_lines_are_the_worst() {
    let files = Files::new();
    let (src, refs) = test_set(&files);
    for (by, sign) in [("chrf", 1.0), ("bleu", 1.0), ("ter", -1.0), ("nll", -1.0)] {
        let output = run(
            &["evaluate", &src, &refs, "--beam", "1", "--by", by, "--worst", "99", "--format", "jsonl"],
            b"",
        );
        let rows = rows(&output);
        let values: Vec<f64> = rows[1..].iter().map(|row| sign * row[by].as_f64().unwrap()).collect();
        assert!(values.is_sorted(), "{by}: {values:?}");
        assert_eq!(values.len(), if by == "nll" { 8 } else { 10 }, "{by}");
    }
    assert_eq!(
        stdout(&run(&["evaluate", &src, &refs, "--beam", "1", "--worst", "0"], b"")).lines().count(),
        4 + 2
    );
}

#[test]
fn an_evaluation_reads_well_as_text_and_as_a_page() {
    let files = Files::new();
    let src = files.write("src", "we see\n<b>&\"x\"</b>\n\n");
    let refs = files.write("ref", "<script>alert(1)</script>\nja\n\n");
    let page = files.path("page.html");
    let args = ["evaluate", &src, &refs, &refs, "--worst", "2", "--html", &page, "--max-length", "3"];
    let output = run(&args, b"");
    assert_parts(
        &stdout(&output),
        &[
            "BLEU|nrefs:2|",
            "\nNLL/token ",
            "  perplexity ",
            "2 of 3 lines of ",
            ": 1 blank\n",
            "2 worst lines by chrF2\n",
        ],
    );
    assert_parts(
        &stdout(&output),
        &["\nline 1  chrF2 ", "\n  src  we see\n  ref  <script>alert(1)</script>\n  ref  "],
    );
    assert_parts(
        &stderr(&output),
        &["model: ", "line 2: 8 pieces are outside", "line 1: no end after 3 steps"],
    );
    let page = files.read("page.html");
    assert_parts(
        &page,
        &[
            "&lt;script&gt;alert(1)&lt;/script&gt;",
            "&lt;b&gt;&amp;&quot;x&quot;&lt;/b&gt;",
            "<caption>2 worst lines by chrF2</caption>",
        ],
    );
    assert_parts(&page, &["nrefs:2|case:mixed|eff:no|tok:13a", "scope=\"col\"", "light-dark("]);
    assert!(!page.contains("alert(1)</script>") && !page.contains("{{") && !page.contains("http"));
    assert_eq!(page.matches("<tr>").count(), page.matches("</tr>").count());
}

/// Two models: both scores with p-values, every line on one side or the other, and the lines that differ most.
#[test]
fn two_models_are_compared_line_by_line() {
    let files = Files::new();
    let (src, refs) = test_set(&files);
    let other = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/en-de");
    let page = files.path("page.html");
    let args = [
        "evaluate",
        &src,
        &refs,
        "--beam",
        "1",
        "--against",
        other,
        "--worst",
        "3",
        "--by",
        "ter",
        "--html",
        &page,
    ];
    let output = run(&args, b"");
    assert_parts(
        &stdout(&output),
        &[
            "--against    /",
            "p (bs)    p (ar)\n",
            "\nBLEU ",
            "\nNLL/char ",
            "by TER, --model is better on ",
            "\n  --against  ",
        ],
    );
    assert_parts(
        &stdout(&output),
        &["the tokenizers differ: NLL per token", "of --model: 2 blank, 1 longer than the model's 64"],
    );
    assert_parts(
        &files.read("page.html"),
        &["<th scope=\"col\">p (bootstrap)</th>", "chrF2 --against<span", "the tokenizers differ"],
    );

    let json = rows(&run(&[&args[..], &["--format", "jsonl"]].concat(), b""));
    let [better, worse, equal] = ["better", "worse", "equal"].map(|key| json[0][key].as_u64().unwrap());
    assert_eq!(better + worse + equal, 11);
    assert!(json[0]["comparison"][0]["p_bootstrap"].is_number() && json[0]["same_tokenizer"] == false);
    // Both NLLs are sums over the same lines.
    assert_eq!(
        (&json[0]["ref_lines"], &json[0]["ref_words"]),
        (&json[0]["against"]["ref_lines"], &json[0]["against"]["ref_words"])
    );
    let difference =
        |row: &Value| (row["ter"].as_f64().unwrap() - row["against"]["ter"].as_f64().unwrap()).abs();
    let differences: Vec<f64> = json[1..].iter().map(difference).collect();
    assert!(differences.iter().rev().is_sorted() && differences.iter().all(|&x| x > 0.0), "{differences:?}");

    // A model against itself: nothing differs.
    let tiny = golden("tiny-marian");
    let args =
        ["evaluate", &src, &refs, "--beam", "1", "--against", tiny.to_str().unwrap(), "--format", "jsonl"];
    let json = rows(&run(&args, b""));
    assert_eq!(
        (json.len(), &json[0]["equal"], &json[0]["same_tokenizer"]),
        (1, &Value::from(11), &Value::from(true))
    );
    assert_eq!(json[0]["nll"], json[0]["against"]["nll"]);
}

/// A model whose numbers are broken: every line is named, all is printed, and the exit code says so.
#[test]
fn a_failure_is_told_and_the_rest_is_printed() {
    let files = Files::new();
    for entry in std::fs::read_dir(golden("tiny-marian")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), files.path(entry.file_name().to_str().unwrap())).unwrap();
    }
    let mut weights = tiny().weights;
    let bias = &weights["final_logits_bias"];
    let broken = Tensor::full(f32::NAN, bias.shape(), bias.device()).unwrap();
    weights.insert("final_logits_bias".to_string(), broken);
    tensors::write(files.path("model.safetensors").as_ref(), &weights, DType::F32).unwrap();
    let (src, refs) = (files.write("src", "we see\nja\n"), files.write("ref", "ja\nwe\n"));
    let model = files.path("");
    let output = run(&["evaluate", "--model", &model, &src, &refs, "--format", "jsonl"], b"");
    assert_eq!(output.status.code(), Some(1));
    assert_parts(&stderr(&output), &["line 1: failed, so its translation is empty", "line 2: failed"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (rows.len(), &rows[0]["refs_not_finite"], &rows[0]["nll"]),
        (3, &Value::from(2), &Value::Null)
    );
}
