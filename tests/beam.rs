use crate::common::*;
use serde_json::Value;
use std::collections::HashSet;

/// What `tx beam --format json` says.
fn beam(sentence: &str, flags: &[&str]) -> Value {
    let output = run(&[&["beam", sentence, "--format", "json"][..], flags].concat(), b"");
    serde_json::from_str(&stdout(&output)).unwrap()
}

/// The same with the model inside the binary.
fn bundled(sentence: &str, flags: &[&str]) -> Value {
    let output = tx(&[&["beam", sentence, "--format", "json"][..], flags].concat())
        .env_remove("TX_MODEL")
        .output()
        .unwrap();
    serde_json::from_str(&stdout(&output)).unwrap()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a Vec<Value> {
    value[name].as_array().unwrap_or_else(|| panic!("no list {name} in {value}"))
}

fn close(found: &Value, expected: &Value) -> bool {
    (found.as_f64().unwrap() - expected.as_f64().unwrap()).abs() < 1e-4
}

/// Of the whole vocabulary at the first step, which a beam as wide as it lists, number and gap are those that the narrow search
/// says; the probabilities are those of `tx score-pairs`.
#[test]
fn where_a_translation_left_the_beam_by_a_wider_one() {
    let source = "we see the sea";
    let all = beam(source, &["--beam", "60", "--max-length", "1"]);
    let all = list(&list(&all, "steps")[0], "candidates");
    let mut below = 0;
    for target in ["a", "the", "z", "quo"] {
        let found = beam(source, &["--beam", "2", "--why", target]);
        let (why, left) = (&found["why"], &found["why"]["left"]);
        if left["step"] == 1 {
            let own = all.iter().position(|one| one["token"] == left["token"]).unwrap();
            assert_eq!(left["rank"], own, "{target}");
            assert_eq!(left["of"], all.len());
            let gap = all[1]["log_prob"].as_f64().unwrap() - all[own]["log_prob"].as_f64().unwrap();
            assert!((left["gap"].as_f64().unwrap() - gap).abs() < 1e-9, "{target}: {left}");
            below += usize::from(own >= 4);
        }
        let files = Files::new();
        let (src, tgt) = (files.write("src", source), files.write("tgt", target));
        let pairs = run(&["score-pairs", &src, &tgt, "--format", "jsonl"], b"");
        let forced: Value = serde_json::from_str(stdout(&pairs).lines().next().unwrap()).unwrap();
        assert!(close(&why["log_prob"], &forced["log_prob"]), "{why} {forced}");
        for row in list(why, "positions") {
            assert!(row["target"].is_object() || row["winner"].is_object());
        }
        let last = list(why, "positions").iter().filter_map(|row| row["target"].as_object()).next_back();
        assert!(close(&last.unwrap()["sum"], &why["log_prob"]));
    }
    assert!(below > 0, "no target fell below what the search weighs");
}

/// A better translation that greedy search loses: the beam that is said to find it does, and the next narrower does not.
#[test]
fn a_search_error_is_what_wider_beams_say() {
    let sentence = "The bread that my mother bakes is the best in the village.";
    let wide = bundled(sentence, &["--beam", "16", "--n-best", "1"]);
    let best = &wide["hypotheses"][0];
    let found = bundled(sentence, &["--beam", "1", "--why", best["text"].as_str().unwrap()]);
    let (why, winner) = (&found["why"], &found["hypotheses"][0]);
    assert_eq!(why["ids"], best["ids"], "the tokenizer cuts it otherwise");
    assert!(close(&why["score"], &best["score"]));
    assert!(why["score"].as_f64() > winner["score"].as_f64(), "{why}");
    assert_eq!(why["verdict"]["kind"], "search_error");
    let by = why["verdict"]["found_by"].as_u64().unwrap();
    for (width, finds) in [(by, true), (by - 1, false)] {
        let tried = bundled(sentence, &["--beam", &width.to_string()]);
        let ids = list(&tried, "hypotheses").iter().any(|one| one["ids"] == best["ids"]);
        assert_eq!(ids, finds, "beam {width}");
    }
    let again = bundled(sentence, &["--beam", "16", "--why", best["text"].as_str().unwrap()]);
    assert_eq!(again["why"]["verdict"]["kind"], "winner");
    assert_eq!(again["why"]["left"], Value::Null);
}

/// Whether asked about a translation or compared, the search is the one without.
#[test]
fn looking_changes_nothing() {
    for flags in [&["--beam", "3"][..], &["--beam", "1"], &["--like", "ct2"], &["--like", "hf"]] {
        let plain = beam("we see the sea", flags);
        let mut asked = beam("we see the sea", &[flags, &["--why", "the", "--compare", "1,2:none"]].concat());
        for name in ["why", "compared"] {
            assert!(asked.as_object_mut().unwrap().remove(name).is_some());
        }
        assert_eq!(asked, plain);
    }
}

#[test]
fn searches_side_by_side() {
    let sentence = "we see the sea";
    let found = beam(sentence, &["--beam", "4", "--compare", "1,4:none,gnmt:0.6,4"]);
    let rows = list(&found, "compared");
    let said: Vec<(&Value, &Value)> =
        rows.iter().map(|row| (&row["beam_size"], &row["length_penalty"])).collect();
    assert_eq!(said.len(), 4);
    assert_eq!(format!("{said:?}").replace("Number", "").replace("String", ""), {
        r#"[((1), ("pow:1.0")), ((4), ("none")), ((4), ("gnmt:0.6")), ((4), ("pow:1.0"))]"#
    });
    let own = beam(sentence, &["--beam", "4", "--length-penalty", "none", "--n-best", "1"]);
    for name in ["text", "ids", "score", "log_prob"] {
        assert_eq!(rows[1][name], own["hypotheses"][0][name]);
    }
    let ratio = list(&rows[1], "ids").len() as f64 / list(&own, "src_tokens").len() as f64;
    assert_eq!(rows[1]["length_ratio"], ratio);
    for row in rows {
        assert_eq!(row["is_first"], row["ids"] == rows[0]["ids"]);
    }
    let text = stdout(&run(&["beam", sentence, "--compare", "1,2"], b""));
    assert!(text.contains("beam  penalty    score  log_prob  len  ratio  same  text"), "{text}");
}

/// The head and the steps of jsonl are json.
#[test]
fn lines_are_the_whole() {
    let mut json = beam("ja", &["--why", "the"]);
    let steps = json.as_object_mut().unwrap().remove("steps").unwrap();
    let lines = stdout(&run(&["beam", "ja", "--why", "the", "--format", "jsonl"], b""));
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0], json);
    assert_eq!(lines[1..], steps.as_array().unwrap()[..]);
}

/// The strings of a line of dot, and the line with `S` in their place.
fn without_strings(line: &str) -> (String, Vec<String>) {
    let (mut bare, mut strings) = (String::new(), Vec::new());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c != '"' {
            bare.push(c);
            continue;
        }
        let mut string = String::new();
        loop {
            match chars.next().expect("a string ends on its line") {
                '"' => break,
                '\\' => string.extend(['\\', chars.next().expect("an escape has two characters")]),
                c => string.push(c),
            }
        }
        bare.push('S');
        strings.push(string);
    }
    (bare, strings)
}

/// Every line is a node, an edge between nodes that are there, or one of the frame; each candidate is a node with one edge to it.
#[test]
fn a_graph_is_one() {
    let sentence = "say \"ja\" \\ now";
    let json = beam(sentence, &["--beam", "3"]);
    let dot = stdout(&run(&["beam", sentence, "--beam", "3", "--format", "dot"], b""));
    let mut lines = dot.lines();
    assert_eq!(lines.next(), Some("digraph beam {"));
    assert_eq!(lines.next_back(), Some("}"));
    let (mut nodes, mut edges) = (HashSet::new(), Vec::new());
    for line in lines.map(str::trim).filter(|line| !line.starts_with("//")) {
        let (bare, strings) = without_strings(line);
        let body = bare.strip_suffix(';').unwrap_or_else(|| panic!("{line}"));
        let (name, rest) = body.split_once(' ').unwrap_or((body, ""));
        if let Some(child) = rest.strip_prefix("-> ") {
            edges.push((name.to_string(), child.split(' ').next().unwrap().to_string()));
        } else if rest.starts_with("[label=S") {
            assert!(rest.ends_with(']') && nodes.insert(name.to_string()), "{line}");
            assert!(name != "h0" || strings[0] == r#"say \"ja\" \\ now"#, "{line}");
        } else {
            assert!(["rankdir=LR", "node"].contains(&name), "{line}");
        }
    }
    let candidates: usize = list(&json, "steps").iter().map(|step| list(step, "candidates").len()).sum();
    assert_eq!((nodes.len(), edges.len()), (candidates + 1, candidates));
    let children: HashSet<&String> = edges.iter().map(|(_, child)| child).collect();
    assert_eq!(children.len(), candidates);
    assert!(edges.iter().all(|(parent, child)| nodes.contains(parent) && nodes.contains(child)));
}

/// Whatever searches: it is drawn, what fell off says by how much, and the page holds the same record.
#[test]
fn every_search_can_be_looked_at() {
    let model = golden("tiny-marian");
    let model = model.to_str().unwrap();
    let long = "we see the sea ".repeat(4);
    let cases: [(&str, &[&str]); 12] = [
        ("a", &[]),
        (&long, &[]),
        ("ja", &["--beam", "1"]),
        ("ja", &["--beam", "100"]),
        ("ja", &["--like", "ct2", "--length-penalty", "pow:1"]),
        ("ja", &["--like", "hf"]),
        ("ja", &["--like", "fairseq"]),
        ("ja", &["--like", "marian"]),
        ("ja", &["--must-contain", "see"]),
        ("ja", &["--prefix", "the"]),
        ("ja", &["--model", model, "--model", model]),
        ("</script><script>alert(1)</script><!--", &[]),
    ];
    for (sentence, flags) in cases {
        let files = Files::new();
        let (page, target) = (files.path("page.html"), "the sea");
        let found =
            beam(sentence, &[flags, &["--html", &page, "--why", target, "--max-length", "24"]].concat());
        for step in list(&found, "steps") {
            for one in list(step, "candidates") {
                let fell = one["fate"] == "pruned";
                let enough = flags.contains(&"fairseq") && one["piece"] == "</s>";
                assert!(one["gap"].is_number() == fell || fell && enough, "{flags:?}: {one}");
                assert!(one["gap"].as_f64().is_none_or(|gap| gap >= 0.0), "{flags:?}: {one}");
                assert_eq!(one["bank"].is_number(), flags.contains(&"--must-contain"));
            }
        }
        let page = files.read("page.html");
        let (_, rest) = page.split_once("<script type=\"application/json\" id=\"record\">").unwrap();
        let (record, _) = rest.split_once("</script>").unwrap();
        assert_eq!(serde_json::from_str::<Value>(record).unwrap(), found, "{flags:?}");
        assert!(!page.contains("alert(1)</script>"));
        for elsewhere in ["http://", "https://", " src=", "href=", "{{"] {
            let allowed = page.replace("http://www.w3.org/2000/svg", "");
            assert!(!allowed.contains(elsewhere), "{elsewhere}");
        }
    }
}

/// What is ruled out is told of as that: what the tokenizer does not know, and what the prefix does not allow.
#[test]
fn what_cannot_be_said_is_told_of() {
    let why = &beam("ja", &["--why", "雪"])["why"];
    assert_eq!(why["verdict"], serde_json::json!({"kind": "ruled_out", "step": 2}));
    let unknown = why["tokens"][1].as_str().unwrap();
    assert_parts(why["says"][0].as_str().unwrap(), &["ruled out", &format!("its piece 2, {unknown} ")]);
    assert!(why["log_prob"].as_f64().unwrap() < 0.0);
    let why = &beam("ja", &["--why", "sea", "--prefix", "the"])["why"];
    // Both begin with ▁.
    assert_eq!(why["verdict"], serde_json::json!({"kind": "ruled_out", "step": 2}));
    assert_eq!((&why["left"]["step"], &why["left"]["how"]), (&2.into(), &"ruled_out".into()));
    let why = &beam("ja", &["--why", "see the sea", "--max-length", "5"])["why"];
    assert_eq!(why["verdict"], serde_json::json!({"kind": "too_long", "limit": 5}));
    let second = beam("ja", &["--beam", "4"]);
    let ended = list(&second, "hypotheses").iter().position(|one| one["finish"] == "eos");
    if let Some(place) = ended.filter(|&place| place > 0) {
        let text = second["hypotheses"][place]["text"].as_str().unwrap();
        let why = &beam("ja", &["--beam", "4", "--why", text])["why"];
        assert_eq!(why["verdict"], serde_json::json!({"kind": "listed", "place": place + 1}));
    }
}

#[test]
fn wrong_usage_is_refused() {
    let cases: [(&[&str], i32, &str); 9] = [
        (&["ja", "--sample"], 2, "has no beam to show"),
        (&["ja", "--top-k", "5"], 2, "has no beam to show"),
        (&["ja", "--why", ""], 2, "a blank text says nothing"),
        (&["ja", "--compare", "0"], 2, "beam size 0"),
        (&["ja", "--compare", "4:wide"], 2, "\"wide\""),
        (&["ja", "--html", "/nowhere/page.html"], 1, "a folder that exists"),
        (&[""], 1, "the sentence is blank"),
        (&["ja", "--why", &"see the sea ".repeat(60)], 1, "look at a shorter"),
        (&["ja", "--must-contain", "雪"], 1, "cannot be said"),
    ];
    for (flags, code, says) in cases {
        let output = run(&[&["beam"][..], flags].concat(), b"");
        assert_eq!(output.status.code(), Some(code), "{flags:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{flags:?}: {}", stderr(&output));
    }
}

/// In a pipe there is no colour; where it is forced there is.
#[test]
fn colour_is_for_terminals() {
    let plain = stdout(&run(&["beam", "ja", "--why", "the"], b""));
    assert!(!plain.contains('\x1b'));
    let output = tx(&["beam", "ja", "--why", "the"]).env("CLICOLOR_FORCE", "1").output().unwrap();
    let coloured = stdout(&output);
    assert!(coloured.contains('\x1b'));
    assert_eq!(console::strip_ansi_codes(&coloured), plain);
}
