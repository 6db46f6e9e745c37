use crate::common::*;
use serde_json::Value;

const INPUT: &str = "we see\n\nthe sea\n";

fn printed(args: &[&str], stdin: &str) -> String {
    let output = run(args, stdin.as_bytes());
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn translated(format: &str) -> Vec<String> {
    let args = ["translate", "--beam", "3", "--n-best", "3", "--format", format, "--word-scores"];
    printed(&args, INPUT).lines().map(str::to_string).collect()
}

/// The number of its line from 0, and each hypothesis, as `jsonl` has them.
fn expected() -> Vec<(usize, Value)> {
    let lines = translated("jsonl").into_iter().map(|line| serde_json::from_str::<Value>(&line).unwrap());
    let hypotheses = |(number, line): (usize, Value)| -> Vec<(usize, Value)> {
        line["hypotheses"].as_array().unwrap().iter().map(|one| (number, one.clone())).collect()
    };
    lines.enumerate().flat_map(hypotheses).collect()
}

fn number(text: &str) -> f64 {
    text.parse().unwrap()
}

#[test]
fn every_format_has_the_numbers_of_jsonl() {
    let (tsv, marian) = (translated("tsv"), translated("marian"));
    let hypotheses = expected();
    assert_eq!((tsv.len(), marian.len()), (hypotheses.len(), hypotheses.len()));
    let mut rank = 0;
    for (i, (line, one)) in hypotheses.iter().enumerate() {
        rank = if i > 0 && hypotheses[i - 1].0 == *line { rank + 1 } else { 1 };
        let (score, log_prob) = (one["score"].as_f64().unwrap(), one["log_prob"].as_f64().unwrap());
        let text = one["text"].as_str().unwrap();
        let src = INPUT.lines().nth(*line).unwrap();
        assert_eq!(tsv[i], format!("{}\t{rank}\t{score}\t{log_prob}\t{src}\t{text}", line + 1));
        let fields: Vec<&str> = marian[i].split(" ||| ").collect();
        assert_eq!((fields[0], fields[1]), (line.to_string().as_str(), text));
        let pieces =
            fields[2].strip_prefix("WordScores=").unwrap().split_whitespace().map(number).sum::<f64>();
        assert!((pieces - log_prob).abs() < 1e-4);
        assert_eq!((number(fields[3].strip_prefix("F0=").unwrap()), number(fields[4])), (log_prob, score));
    }
}

/// A word has the sum of its pieces; all words and the end mark have the log_prob.
#[test]
fn words_have_scores() {
    for (_, one) in expected() {
        let numbers = |key: &str| -> Vec<f64> { serde_json::from_value(one[key].clone()).unwrap() };
        let (words, pieces) = (numbers("word_log_probs"), numbers("token_log_probs"));
        assert_eq!(words.len(), one["text"].as_str().unwrap().split_whitespace().count());
        let end = if one["finish"] == "eos" { pieces.last().copied().unwrap_or(0.0) } else { 0.0 };
        assert!((words.iter().sum::<f64>() + end - one["log_prob"].as_f64().unwrap()).abs() < 1e-4, "{one}");
    }
}

#[test]
fn fairseq_counts_in_base_two() {
    let rows = translated("fairseq");
    let mut hypotheses = expected().into_iter();
    for row in rows.iter().filter(|row| row.starts_with("H-")) {
        let (line, one) = hypotheses.next().unwrap();
        let fields: Vec<&str> = row.split('\t').collect();
        assert_eq!(fields[0], format!("H-{line}"));
        let score = number(fields[1]) * std::f64::consts::LN_2;
        assert!((score - one["score"].as_f64().unwrap()).abs() < 1e-9);
        let tokens: Vec<&str> =
            one["tokens"].as_array().unwrap().iter().map(|x| x.as_str().unwrap()).collect();
        assert_eq!(fields[2], tokens.join(" ").trim_end_matches("</s>").trim_end());
    }
    assert!(hypotheses.next().is_none());
    let sources: Vec<&String> = rows.iter().filter(|row| row.starts_with("S-")).collect();
    let pieces = printed(&["tokenize"], INPUT);
    for ((number, row), pieces) in sources.iter().enumerate().zip(pieces.lines()) {
        assert_eq!(**row, format!("S-{number}\t{pieces}"));
    }
}

#[test]
fn pieces_are_text_and_text_is_pieces() {
    for flags in [&[][..], &["--ids"]] {
        let with = |command| [&[command], flags].concat();
        let pieces = printed(&with("tokenize"), INPUT);
        assert_eq!(pieces.lines().count(), 3);
        assert_eq!(printed(&with("detokenize"), &pieces), INPUT);
    }
    let plain = printed(&["translate"], INPUT);
    let pieces = printed(&["tokenize"], INPUT);
    assert_eq!(printed(&["translate", "--no-encode"], &pieces), plain);
    assert_eq!(printed(&["detokenize"], &printed(&["translate", "--no-decode"], INPUT)), plain);
    for (args, stdin, part) in [
        (&["detokenize"][..], "we", "line 1: \"we\" is none of the model's 40 pieces"),
        (&["detokenize", "--ids"], "5\n40\n", "line 2: \"40\""),
    ] {
        let output = run(args, stdin.as_bytes());
        assert!(!output.status.success() && stderr(&output).contains(part), "{}", stderr(&output));
    }
    // Marks of sentences say nothing, what is unknown is shown as such.
    assert_eq!(printed(&["detokenize"], "<s> ▁ <unk> </s>\n"), "⁇\n");
    // A piece that there is not is unknown, as in text.
    assert!(stderr(&run(&["translate", "--no-encode"], b"nonsense")).contains("1 piece is outside"));
}

#[test]
fn given_translations_have_the_scores_of_transformers() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let cases = golden_json("model.json")["pairs"].as_array().unwrap().clone();
    let column = |key: &str| {
        cases.iter().map(|case| case[key].as_str().unwrap().to_string() + "\n").collect::<String>()
    };
    write("src", &column("text"));
    write("tgt", &column("target"));
    let scores = printed(&["score-pairs", &path("src"), &path("tgt"), "--format", "jsonl"], "");
    let plain = printed(&["score-pairs", &path("src"), &path("tgt")], "");
    assert_eq!((scores.lines().count(), plain.lines().count()), (cases.len(), cases.len()));
    for ((score, plain), case) in scores.lines().zip(plain.lines()).zip(&cases) {
        let score: Value = serde_json::from_str(score).unwrap();
        let log_prob = score["log_prob"].as_f64().unwrap();
        assert_eq!((log_prob, &score["ids"]), (number(plain), &case["ids"]));
        assert!((log_prob - case["log_prob"].as_f64().unwrap()).abs() < 1e-3);
        // The small model's generation_config asks for len^1.
        let len = case["ids"].as_array().unwrap().len() as f64;
        assert!((score["score"].as_f64().unwrap() * len - log_prob).abs() < 1e-9);
    }

    let hypotheses: Vec<(usize, Value)> = expected().into_iter().filter(|(line, _)| *line != 1).collect();
    // An n-best list from the worst to the best comes back in the order of its scores.
    write("lines", INPUT);
    let list: String = hypotheses
        .iter()
        .rev()
        .map(|(line, one)| format!("{line} ||| {} ||| x\n", one["text"].as_str().unwrap()))
        .collect();
    write("list", &list);
    let ranked = printed(&["score-pairs", "--rerank", &path("lines"), &path("list")], "");
    let rows: Vec<(usize, f64)> = ranked
        .lines()
        .map(|row| row.split(" ||| ").collect::<Vec<_>>())
        .map(|fields| (fields[0].parse().unwrap(), number(fields[3])))
        .collect();
    assert_eq!(rows.len(), hypotheses.len());
    assert!(rows.is_sorted_by(|a, b| a.0 < b.0 || (a.0 == b.0 && a.1 >= b.1)), "{rows:?}");

    write("bad", "0 ||| ja\n9 ||| ja\n");
    let output = run(&["score-pairs", "--rerank", &path("lines"), &path("bad")], b"");
    assert!(stderr(&output).contains("bad line 2: source 9 is none of the 3"), "{}", stderr(&output));
    let output = run(&["score-pairs", &path("lines"), &path("lines")], b"");
    assert_eq!((output.status.code(), output.stdout.iter().filter(|&&b| b == b'\n').count()), (Some(0), 3));
    write("half", "we see\nja\nthe sea\n");
    let output = run(&["score-pairs", &path("lines"), &path("half")], b"");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("line 2: no probability: a side is blank"));
    let output = run(&["score-pairs", "-", "-"], b"");
    assert!(output.status.code() == Some(2) && stderr(&output).contains("only one of SRC and TGT"));
}

/// What became of the lines: in the report, in the closing words of long inputs, and in the exit code of `--strict`.
#[test]
fn the_report_names_what_was_odd() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let report = |input: &[u8], flags: &[&str]| -> (Value, Option<i32>, String) {
        let args = [&["translate", "--beam", "1", "--report", path.to_str().unwrap()], flags].concat();
        let output = run(&args, input);
        let json =
            std::fs::read_to_string(&path).map_or(Value::Null, |text| serde_json::from_str(&text).unwrap());
        (json, output.status.code(), stderr(&output))
    };
    let long = "we see the sea, ".repeat(20);
    let input = [b"we see\n\n\xff we\nwe \xce\xa9\n".as_slice(), long.as_bytes(), b"\n"].concat();
    let (json, code, _) = report(&input, &[]);
    assert_eq!((code, json["lines"].as_u64()), (Some(0), Some(5)));
    for (kind, lines) in [
        ("blank", vec![2]),
        ("damaged", vec![3]),
        ("unknown", vec![3, 4]),
        ("split", vec![5]),
        ("failed", vec![]),
    ] {
        let expected = serde_json::json!({"count": lines.len(), "first": lines});
        assert_eq!(json[kind], expected, "{kind}");
    }
    // A limit of two steps cuts every line.
    let (json, code, _) = report(b"we see the sea\n", &["--max-length", "2", "--strict"]);
    assert_eq!((json["cut"]["count"].as_u64(), code), (Some(1), Some(1)));
    let (_, code, _) = report(b"ja\n\n", &["--strict"]);
    assert_eq!(code, Some(0));
    let forced = ["--prefix", "sea sea sea sea sea"];
    let (json, ..) = report(b"we see\n", &forced);
    assert_eq!(json["loop"], serde_json::json!({"count": 1, "first": [1]}));

    let many = "ja\n\n".repeat(60);
    let (_, _, words) = report(many.as_bytes(), &[]);
    assert!(
        words.contains("tx: 120 lines in ")
            && words.contains("blank: 60 (line 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, ...)"),
        "{words}"
    );
}
