use crate::common::*;
use serde_json::Value;

/// What sacreBLEU 2.6.0 prints for these two lines (the goldens have all else).
#[test]
fn scores_are_printed_as_sacrebleu_does() {
    let files = Files::new();
    let hyp = files.write("hyp", "The cat sat on the mat.\nIt was a good day.\n");
    let refs = files.write("ref", "The cat is on the mat.\nIt was a good day.\n");
    assert_parts(
        &stdout(&run(&["score", &hyp, &refs], b"")),
        &[
            "tok:13a|smooth:exp|version:tx-0.1.0 = 73.2 92.3/81.8/66.7/57.1 (BP = 1.000 ratio = 1.000 hyp_len = 13 ref_len = 13)\n",
            "chrF2|nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:tx-0.1.0 = 81.4\n",
            "TER|nrefs:1|case:lc|tok:tercom|norm:no|punct:yes|asian:no|version:tx-0.1.0 = 9.1\n",
        ],
    );
    let json = run(&["score", &hyp, &refs, "--format", "json", "--metrics", "bleu,exact"], b"");
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((json[0]["name"].as_str(), json[1]["score"].as_f64()), (Some("BLEU"), Some(50.0)));
    assert_eq!(
        json[0]["signature"],
        format!("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:tx-{}", env!("CARGO_PKG_VERSION"))
    );
    let output = run(&["score", &hyp, &refs, "--compare", &refs], b"");
    assert_parts(&stdout(&output), &["HYP", "--compare", "p (bs)"]);
}

/// Row 110: text that was never detokenized gets sacreBLEU's (low) numbers, their settings, and a warning.
#[test]
fn tokenized_text_is_scored_as_it_is_and_said() {
    let files = Files::new();
    let reference =
        "The house is red.\nShe isn't here, but he is.\nWe are going home tomorrow.\nDid you see the cat?\n";
    let tokenized = "The house is red .\nShe isn ' t here , but he is .\nWe are going home now .\nDid you see the cat ?\n";
    let detokenized =
        "The house is red.\nShe isn't here, but he is.\nWe are going home now.\nDid you see the cat?\n";
    let refs = files.write("ref", reference.repeat(34));
    let score = |name: &str, text: &str, more: &[&str]| {
        let hyp = files.write(name, text.repeat(34));
        run(&[&["score", hyp.as_str(), refs.as_str(), "--width", "2"], more].concat(), b"")
    };
    let output = score("tokenized", tokenized, &[]);
    assert!(stderr(&output).contains("100 lines that end in a tokenized period"), "{}", stderr(&output));
    assert_parts(
        &stdout(&output),
        &[
            "BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:tx-0.1.0 = 71.30 85.2/73.9/68.4/60.0 (BP = 1.000 ratio = 1.080 hyp_len = 918 ref_len = 850)\n",
            "space:no|version:tx-0.1.0 = 88.57\n",
            "asian:no|version:tx-0.1.0 = 65.00\n",
        ],
    );
    let output = score("tokenized", tokenized, &["--tokenize", "none", "--metrics", "bleu"]);
    assert_parts(&stdout(&output), &["tok:none|smooth:exp|version:tx-0.1.0 = 29.05 51.9/39.1/26.3/13.3 "]);
    let output = score("tokenized", tokenized, &["--lowercase", "--metrics", "bleu"]);
    assert_parts(&stdout(&output), &["case:lc|eff:no|tok:13a|smooth:exp|version:tx-0.1.0 = 71.30 "]);
    let output = score("detokenized", detokenized, &[]);
    assert!(!stderr(&output).contains("warning"), "{}", stderr(&output));
    assert_parts(
        &stdout(&output),
        &["= 89.74 96.0/90.5/88.2/84.6 ", "= 88.57\n", "asian:no|version:tx-0.1.0 = 5.00\n"],
    );
}

/// Row 110: Chinese has no spaces to cut at, so its own tokenizer is 44 points away from the usual one.
#[test]
fn chinese_needs_its_tokenizer() {
    let files = Files::new();
    let hyp = files.write("hyp", "我喜欢看书。\n今天的天气很好。\n");
    let refs = files.write("ref", "我很喜欢读书。\n今天天气很好。\n");
    let score = |name: &str| {
        run(&["score", &hyp, &refs, "--metrics", "bleu", "--width", "2", "--tokenize", name], b"")
    };
    let output = score("zh");
    assert_parts(
        &stdout(&output),
        &[
            "tok:zh|smooth:exp|version:tx-0.1.0 = 44.01 85.7/58.3/30.0/25.0 (BP = 1.000 ratio = 1.000 hyp_len = 14 ref_len = 14)\n",
        ],
    );
    assert!(stderr(&output).is_empty(), "{}", stderr(&output));
    let output = score("13a");
    assert_parts(&stdout(&output), &["tok:13a|smooth:exp|version:tx-0.1.0 = 0.00 "]);
    assert_parts(&stderr(&output), &["tokenizer 13a splits at spaces: use zh for Chinese"]);
}

/// One sentence on stderr with the file and what is wrong, exit code 1, and no model is opened for it.
#[test]
fn what_cannot_be_scored_is_named() {
    let files = Files::new();
    let good = files.write("two", "we see\nja\n");
    let (short, empty) = (files.write("one", "we\n"), files.write("empty", ""));
    let bad = files.write("bad", b"we\nsee \xff\n");
    let missing = files.path("missing");
    for command in ["score", "evaluate"] {
        for (hyp, refs, parts) in [
            (&good, &short, ["two has 2 lines but ", "one has 1 line: line N of each"]),
            (&short, &good, ["one has 1 line but ", "two has 2 lines: line N of each"]),
            (&good, &missing, ["missing: ", "No such file"]),
            (&missing, &good, ["missing: ", "No such file"]),
            (&good, &bad, ["bad: line 2", "not valid UTF-8"]),
            (&bad, &good, ["bad: line 2", "not valid UTF-8"]),
            (&good, &empty, ["empty: ", "has no lines"]),
            (&empty, &empty, ["empty: ", "has no lines"]),
        ] {
            let output = run(&[command, hyp, refs], b"");
            assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{}", stderr(&output));
            assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
            assert_parts(&stderr(&output), &parts);
        }
        for (flag, value, part) in [
            ("--metrics", "bleu,meteor", "unknown metric \"meteor\": expected one of bleu, "),
            ("--tokenize", "moses", "expected 13a, intl, char, zh or none"),
        ] {
            let output = run(&[command, &good, &good, flag, value], b"");
            assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
            assert_parts(&stderr(&output), &[part, &format!("Usage: tx {command}")]);
        }
    }
    let output = run(&["score", &good, &good, "--compare", &short], b"");
    assert_parts(&stderr(&output), &["two has 2 lines but ", "one has 1 line"]);
    for (flag, value) in [("--by", "rouge"), ("--beam", "0"), ("--worst", "-1")] {
        assert_eq!(run(&["evaluate", &good, &good, flag, value], b"").status.code(), Some(2), "{flag}");
    }
    let output = run(&["evaluate", &good, &good, "--html", &files.path("none/page.html")], b"");
    assert_eq!(output.status.code(), Some(1));
    assert_parts(&stderr(&output), &["none/page.html: expected the name of a file in a folder that exists"]);
}
