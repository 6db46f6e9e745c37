use crate::common::*;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

fn translate(stdin: impl AsRef<[u8]>) -> String {
    let output = run(&["translate", "--beam", "2"], stdin.as_ref());
    assert!(output.status.success(), "{}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Rows 1 and 2: a blank line gives an empty line and never reaches the model.
#[test]
fn a_blank_line_gives_an_empty_line() {
    assert_eq!(translate("\n"), "\n");
    let lines = translate("we see\n \u{3000}\t\nja\n");
    let lines: Vec<&str> = lines.split('\n').collect();
    assert_eq!(lines.len(), 4);
    assert!(!lines[0].is_empty() && lines[1].is_empty() && !lines[2].is_empty());
}

/// Row 5.
#[test]
fn no_input_gives_no_output() {
    assert_eq!(translate(""), "");
}

/// Row 6: one CR before the LF is dropped.
#[test]
fn crlf_is_lf() {
    assert_eq!(translate("we see\r\nja\r\n"), translate("we see\nja\n"));
    assert!(!translate("we see\r\n").contains('\r'));
}

/// Row 8: only LF ends a line.
#[test]
fn other_line_breaks_are_white_space() {
    for separator in ['\u{2028}', '\u{2029}', '\u{85}', '\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}'] {
        let out = translate(format!("we{separator}see\nja\n"));
        assert_eq!(out.matches('\n').count(), 2, "{separator:?}");
    }
}

/// Row 9.
#[test]
fn the_last_line_needs_no_line_feed() {
    assert_eq!(translate("we see\nja"), translate("we see\nja\n"));
}

/// Row 10: dropped at the start only.
#[test]
fn a_byte_order_mark_is_dropped() {
    assert_eq!(translate("\u{feff}we see\nja\n"), translate("we see\nja\n"));
}

#[test]
fn utf_16_is_refused_by_name() {
    let output = run(&["translate"], &[0xff, 0xfe, b'a', 0, b'\n', 0]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("UTF-16"), "{}", stderr(&output));
}

/// Row 13: U+FFFD and a warning with the line, or refused after the lines before it are out.
#[test]
fn bad_bytes_are_replaced_or_refused() {
    let input = b"we see\nja\nthree \xff here\nja\nwe\n";
    let output = run(&["translate", "--beam", "1"], input);
    assert!(output.status.success());
    assert_eq!(output.stdout.iter().filter(|&&byte| byte == b'\n').count(), 5);
    assert!(stderr(&output).contains("line 3"), "{}", stderr(&output));
    let output = run(&["translate", "--beam", "1", "--strict"], input);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stdout.iter().filter(|&&byte| byte == b'\n').count(), 2);
    assert!(stderr(&output).contains("line 3"), "{}", stderr(&output));
}

/// Row 14: the long one is split and named, the others are there.
#[test]
fn a_long_line_is_split_and_named() {
    let output =
        run(&["translate", "--beam", "1"], format!("ja\n{}\nja\n", "we see the sea, ".repeat(60)).as_bytes());
    assert!(output.status.success());
    let out = String::from_utf8(output.stdout.clone()).unwrap();
    let lines: Vec<&str> = out.split_terminator('\n').collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[0] == lines[2] && !lines[1].is_empty());
    assert!(
        stderr(&output).contains("line 2: 961 pieces are more than the model's 64"),
        "{}",
        stderr(&output)
    );
}

/// Rows 17 and 18: white space of any kind and number is one blank.
#[test]
fn white_space_is_one_blank() {
    let expected = translate("we see the sea\n");
    assert_eq!(translate("  we  see the sea  \n"), expected);
    assert_eq!(translate("we\tsee\t the sea\n"), expected);
}

/// Rows 19 and 21: two hundred lines of very different length come back in order, whatever the batch size.
#[test]
fn as_many_lines_out_as_in_and_in_order() {
    let input: String = (0..200).map(|i| "ab".repeat(i % 13) + &" we".repeat(i % 7) + "\n").collect();
    let expected = translate(&input);
    assert_eq!(expected.matches('\n').count(), 200);
    for batch_size in ["1", "7"] {
        let output = run(
            &["translate", "--beam", "2", "--batch-size", batch_size, "--threads", "1"],
            input.as_bytes(),
        );
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected, "batch size {batch_size}");
    }
    let alone: String = input.lines().take(20).map(|line| translate(format!("{line}\n"))).collect();
    assert!(expected.starts_with(&alone));
}

/// Row 23: a line is answered before the next one is sent.
#[test]
fn a_line_is_answered_at_once() {
    let mut child = tx(&["translate", "--beam", "1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    for text in ["we see", "ja"] {
        writeln!(input, "{text}").unwrap();
        let mut answer = String::new();
        output.read_line(&mut answer).unwrap();
        assert_eq!(answer, translate_greedily(text));
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

fn translate_greedily(text: &str) -> String {
    String::from_utf8(run(&["translate", "--beam", "1"], format!("{text}\n").as_bytes()).stdout).unwrap()
}

/// Row 24: a reader that goes away is no failure.
#[test]
fn a_closed_pipe_ends_quietly() {
    let mut child = tx(&["translate", "--beam", "1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        for _ in 0..300 {
            if writeln!(input, "we see the sea").is_err() {
                return;
            }
        }
    });
    let mut first = String::new();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    reader.read_line(&mut first).unwrap();
    drop(reader);
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    assert!(!stderr(&output).contains("panic") && !stderr(&output).contains("pipe"), "{}", stderr(&output));
}

/// Row 25.
#[cfg(target_os = "linux")]
#[test]
fn a_full_device_is_a_failure() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = tx(&["translate", "--text", "ja"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("standard output"), "{}", stderr(&output));
}

/// Row 26: translations only on stdout; the model is named on stderr.
#[test]
fn stdout_is_data() {
    let output = run(&["translate", "--beam", "1", "--text", "ja"], b"");
    assert_eq!(String::from_utf8(output.stdout.clone()).unwrap(), "n\n");
    assert!(stderr(&output).contains("model: ") && stderr(&output).contains("tiny-marian"));
}

/// Row 27.
#[test]
fn failures_have_an_exit_code() {
    let output = tx(&["translate", "--text", "ja", "--model", "no-such-folder"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no-such-folder") && output.stdout.is_empty(), "{}", stderr(&output));
    let output = tx(&["translate", "no-such-file"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no-such-file"), "{}", stderr(&output));
}

/// Row 29: the same sentence, the same answer by every route.
#[test]
fn every_route_gives_the_same_translation() {
    let line = translate("we see the sea\n");
    let text = run(&["translate", "--beam", "2", "--text", "we see the sea"], b"");
    assert_eq!(String::from_utf8(text.stdout).unwrap(), line);
    let beam = run(&["beam", "--beam", "2", "--format", "json", "we see the sea"], b"");
    let beam: Value = serde_json::from_slice(&beam.stdout).unwrap();
    assert_eq!(format!("{}\n", beam["hypotheses"][0]["text"].as_str().unwrap()), line);
    let attention = run(&["inspect-attention", "--beam", "2", "--format", "json", "we see the sea"], b"");
    let attention: Value = serde_json::from_slice(&attention.stdout).unwrap();
    assert_eq!(format!("{}\n", attention["tgt"].as_str().unwrap()), line);
}

/// Rows 57 to 59: refused with exit code 2, before a model is looked for, or bounded.
#[test]
fn impossible_beams_are_refused() {
    for (args, part) in [
        (&["--beam", "0"][..], "beam size 0"),
        (&["--beam", "-1"], "--beam"),
        (&["--beam", "100000"], "beam size 100000"),
        (&["--beam", "4", "--n-best", "10", "--format", "jsonl"], "n-best 10"),
        (&["--n-best", "2"], "--format jsonl"),
        (&["--max-length", "0"], "above 0"),
        (&["--device", "tpu"], "expected cpu, cuda, cuda:N or metal"),
        (&["--device", "cuda:x"], "expected cpu, cuda, cuda:N or metal"),
    ] {
        let args = [&["translate", "--model", "no-such-folder", "--text", "ja"], args].concat();
        let output = run(&args, b"");
        assert_eq!(output.status.code(), Some(2), "{args:?} {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{args:?} {}", stderr(&output));
    }
    let output = run(&["translate", "--beam", "100", "--text", "ja"], b"");
    assert!(output.status.success(), "wider than the vocabulary of 40 {}", stderr(&output));
    let output = run(&["translate", "--n-best", "6", "--format", "marian", "--text", "we see"], b"");
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 6, "the beam holds as many");
    let output = run(&["train", "no-such-folder", "--config", "no-such-file"], b"");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no-such-file"), "{}", stderr(&output));
    // The usage that is shown is that of the command.
    let output = run(&["score-pairs", "a", "b", "--model", "c", "--weights", "1,2"], b"");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("Usage: tx score-pairs"), "{}", stderr(&output));
}

#[test]
fn jsonl_has_the_promised_fields() {
    let output =
        run(&["translate", "--beam", "3", "--n-best", "3", "--format", "jsonl"], "we see\n\nüx\n".as_bytes());
    let lines: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.iter().map(|line| line["line"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(lines[0]["src"], "we see");
    assert_eq!(lines[1]["hypotheses"][0]["text"], "");
    assert_eq!(lines[1]["hypotheses"].as_array().unwrap().len(), 1);
    for line in [&lines[0], &lines[2]] {
        let mut previous = f64::INFINITY;
        for hypothesis in line["hypotheses"].as_array().unwrap() {
            let number = |key: &str| hypothesis[key].as_f64().unwrap();
            let count = |key: &str| hypothesis[key].as_array().unwrap().len();
            assert_eq!(count("tokens"), count("ids"));
            assert_eq!(count("token_log_probs"), count("ids"));
            assert_eq!(
                hypothesis["finish"] == "eos",
                hypothesis["ids"].as_array().unwrap().last().unwrap() == 3
            );
            // The small model is a foreign one: its generation_config asks for len^1.
            assert!((number("score") * count("ids") as f64 - number("log_prob")).abs() < 1e-6);
            assert!(number("score") <= previous);
            previous = number("score");
        }
    }
}

/// Settings that no corpus can make right: exit code 2, before anything is read or written.
#[test]
fn impossible_settings_are_refused() {
    for (flag, value, part) in [
        ("--lr", "nan", "finite"),
        ("--lr", "-1", "above 0"),
        ("--dropout", "1.5", "below 1"),
        ("--heads", "3", "multiple"),
        ("--batch-tokens", "0", "above 0"),
        ("--label-smoothing", "inf", "finite"),
        ("--max-positions", "999999999", "from 2 to 65536"),
        ("--tokenizer", "foo", "wordpiece, word, char"),
    ] {
        let output = run(&["train", "no-such-folder", "--out", "nowhere", flag, value], b"");
        assert_eq!(output.status.code(), Some(2), "{flag} {value} {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{flag} {value} {}", stderr(&output));
    }
}

/// Layers beyond the memory of the machine are refused, where the system tells how much that is.
#[test]
#[cfg(target_os = "linux")]
fn layers_beyond_memory_are_refused() {
    let output = run(&["train", "no-such-folder", "--out", "nowhere", "--d-model", "1048576"], b"");
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("GiB, and this machine has"), "{}", stderr(&output));
}

/// Row 35: characters that nobody sees change nothing, whatever the tokenizer.
#[test]
fn invisible_characters_change_nothing() {
    assert_eq!(translate("w\u{ad}e s\u{200b}ee t\u{2060}he\u{feff} sea\n"), translate("we see the sea\n"));
}

/// Row 32: never printed, but said.
#[test]
fn text_outside_the_vocabulary_is_said() {
    let output = run(&["translate", "--text", "we 7 see 8"], b"");
    assert!(output.status.success() && !String::from_utf8_lossy(&output.stdout).contains("<unk>"));
    assert!(stderr(&output).contains("line 1: 2 pieces are outside the vocabulary"), "{}", stderr(&output));
}

/// Row 69: the best unfinished hypothesis, and a word about it.
#[test]
fn a_cut_translation_is_said() {
    let output = run(&["translate", "--max-length", "2", "--text", "we see the sea"], b"");
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim().chars().count(), 2);
    assert!(stderr(&output).contains("line 1: no end after 2 steps"), "{}", stderr(&output));
}

#[test]
fn attention_dumps_have_both_axes_and_rows_that_sum_to_one() {
    let output = run(&["inspect-attention", "--format", "json", "--target", "a cat", "we see"], b"");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let tokens = |key: &str| json[key].as_array().unwrap().len();
    let (src, tgt) = (tokens("src_tokens"), tokens("tgt_out"));
    assert_eq!(
        (tokens("tgt_in"), json["tgt_in"][0].as_str(), json["tgt_out"][tgt - 1].as_str()),
        (tgt, Some("<s>"), Some("</s>"))
    );
    for (kind, queries, keys) in [("encoder_self", src, src), ("decoder_self", tgt, tgt), ("cross", tgt, src)]
    {
        let layers: Vec<Vec<Vec<Vec<f64>>>> = serde_json::from_value(json[kind].clone()).unwrap();
        assert_eq!((layers.len(), layers[0].len()), (2, 2));
        for rows in layers.iter().flatten() {
            assert_eq!(rows.len(), queries);
            for (query, row) in rows.iter().enumerate() {
                assert_eq!(row.len(), keys);
                assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-5);
                if kind == "decoder_self" {
                    assert!(row[query + 1..].iter().all(|&weight| weight == 0.0), "the future is seen");
                }
            }
        }
    }
    let csv = run(&["inspect-attention", "--format", "csv", "--target", "a cat", "we see"], b"");
    let rows = String::from_utf8(csv.stdout).unwrap().lines().count();
    assert_eq!(rows, 1 + 2 * 2 * (src * src + tgt * tgt + tgt * src));
    for (flag, value, part) in [("--layer", "2", "layers 0 to 1"), ("--head", "2", "heads 0 to 1")] {
        let output = run(&["inspect-attention", flag, value, "we see"], b"");
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
    }
}

/// The record of a search: parents exist, fates are explained, the list is that of `translate`.
#[test]
fn the_record_of_a_search_is_whole() {
    let output = run(&["beam", "--beam", "3", "--format", "json", "we see the sea"], b"");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let list = |value: &Value| value.as_array().unwrap().clone();
    let mut known = vec![0];
    for step in list(&json["steps"]) {
        assert!(list(&step["live"]).len() <= 3 && list(&step["candidates"]).len() <= 6);
        for candidate in list(&step["candidates"]) {
            assert!(known.contains(&candidate["parent"].as_u64().unwrap()));
            assert_eq!(candidate["fate"] == "pruned", candidate["id"].is_null());
            assert!(candidate["piece"].is_string());
        }
        known.extend(list(&step["candidates"]).iter().filter_map(|candidate| candidate["id"].as_u64()));
    }
    assert_eq!(list(&json["hypotheses"]).len(), 3);
    let view = run(&["beam", "--beam", "3", "we see the sea"], b"");
    let view = String::from_utf8(view.stdout).unwrap();
    for part in ["step 1", "pruned", "finished", "ended after step"] {
        assert!(view.contains(part), "{part:?} is not in\n{view}");
    }
}

#[test]
fn the_version_and_completions_are_there() {
    let output = run(&["--version"], b"");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with(concat!("tx ", env!("CARGO_PKG_VERSION"))));
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = run(&["completions", shell], b"");
        assert!(String::from_utf8_lossy(&output.stdout).contains("inspect-attention"), "{shell}");
    }
}

/// Nobody reads stderr any more: no panic, and training goes on to its end.
#[test]
fn a_closed_stderr_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let toy = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/toy");
    let args = [
        "train",
        toy,
        "--out",
        "out",
        "--max-steps",
        "1",
        "--valid-every",
        "1",
        "--layers",
        "1",
        "--d-model",
        "16",
    ];
    let status = tx(&args).current_dir(folder.path()).stderr(writer).status().unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(folder.path().join("out/model.safetensors").is_file());
}

/// Ctrl-C and SIGTERM, sent twice as `timeout` does: the state is saved, the exit code is 130, and the way on is told.
#[cfg(unix)]
#[test]
fn an_interrupted_training_saves_and_says_how_to_go_on() {
    for signal in ["-INT", "-TERM"] {
        interrupted(signal);
    }
}

#[cfg(unix)]
fn interrupted(signal: &str) {
    let folder = tempfile::tempdir().unwrap();
    let toy = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/toy");
    let args = ["train", toy, "--out", "out", "--layers", "1", "--d-model", "16", "--heads", "2"];
    let mut child = tx(&args).current_dir(folder.path()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.starts_with("step 1/")));
    for _ in 0..2 {
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
    }
    let last = lines.last().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(last.contains("interrupted after step") && last.contains("--out out --resume"), "{last}");
    assert!(
        folder.path().join("out/train/last").is_file()
            && folder.path().join("out/model.safetensors").is_file()
    );
}
