use crate::common::*;
use serde_json::Value;

const INPUT: &str = "we see the sea\n\nthe sea\n";

fn printed(args: &[&str]) -> String {
    let output = run(args, INPUT.as_bytes());
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn jsonl(args: &[&str]) -> Vec<Value> {
    let args = [&["translate", "--beam", "3", "--n-best", "3", "--format", "jsonl"], args].concat();
    printed(&args).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn rows(weights: &Value) -> Vec<Vec<f32>> {
    serde_json::from_value(weights.clone()).unwrap()
}

/// What `tx inspect-attention` shows, which agrees with `transformers`, without the end marks and with rows that sum to 1.
#[test]
fn alignments_are_the_attention_of_the_head() {
    for head in ["0:1", "1:0", "1:mean"] {
        let (layer, head_name) = head.split_once(':').unwrap();
        let best = jsonl(&["--alignment=pieces", "--alignment-head", head]);
        for (line, src) in best.iter().zip(INPUT.lines()) {
            let hypotheses = line["hypotheses"].as_array().unwrap();
            if src.is_empty() {
                assert!(rows(&hypotheses[0]["alignment"]["weights"]).is_empty());
                continue;
            }
            let args = ["inspect-attention", "--format", "json", "--beam", "3", src];
            let inspected: Value = serde_json::from_str(&printed(&args)).unwrap();
            let layer: Vec<Vec<Vec<f32>>> =
                serde_json::from_value(inspected["cross"][layer.parse::<usize>().unwrap()].clone()).unwrap();
            let found = rows(&hypotheses[0]["alignment"]["weights"]);
            let ends = inspected["tgt_out"].as_array().unwrap().last().unwrap() == "</s>";
            assert_eq!(found.len(), inspected["tgt_out"].as_array().unwrap().len() - usize::from(ends));
            for (query, row) in found.iter().enumerate() {
                let weight = |key: usize| match head_name.parse::<usize>() {
                    Ok(head) => layer[head][query][key],
                    Err(_) => layer.iter().map(|head| head[query][key]).sum::<f32>() / layer.len() as f32,
                };
                let seen: f32 = (0..row.len()).map(weight).sum();
                for (key, found) in row.iter().enumerate() {
                    assert!((found - weight(key) / seen).abs() < 1e-5, "{head}: {src}");
                }
            }
        }
    }
}

/// Every target word has a link to the source word of its largest weight, under every hypothesis, and all formats have the same.
#[test]
fn links_are_the_largest_weights_in_every_format() {
    let lines = jsonl(&["--alignment", "--alignment-head", "1:0"]);
    let mut links = Vec::new();
    for (line, src) in lines.iter().zip(INPUT.lines()) {
        for one in line["hypotheses"].as_array().unwrap() {
            let text = one["text"].as_str().unwrap();
            let alignment = &one["alignment"];
            let weights = rows(&alignment["weights"]);
            assert_eq!(weights.len(), text.split_whitespace().count(), "{text:?}");
            let mut expected = Vec::new();
            for (tgt, row) in weights.iter().enumerate() {
                assert_eq!(row.len(), src.split_whitespace().count());
                assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5);
                let largest = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).unwrap().0;
                expected.push((largest, tgt));
            }
            expected.sort_unstable();
            let found: Vec<(usize, usize)> = serde_json::from_value(alignment["links"].clone()).unwrap();
            assert_eq!(found, expected);
            links.push(found.iter().map(|(src, tgt)| format!("{src}-{tgt}")).collect::<Vec<_>>().join(" "));
        }
    }
    let with = |format: &str, n_best: &str| {
        printed(&[
            "translate",
            "--beam",
            "3",
            "--n-best",
            n_best,
            "--format",
            format,
            "--alignment",
            "--alignment-head",
            "1:0",
        ])
    };
    let fields = |format: &str, place: usize, separator: &str| -> Vec<String> {
        let printed = with(format, "3");
        let rows = printed.lines().filter(|row| format != "fairseq" || row.starts_with("A-"));
        rows.map(|row| row.split(separator).nth(place).unwrap_or_default().to_string()).collect()
    };
    assert_eq!(fields("tsv", 6, "\t"), links);
    assert_eq!(fields("marian", 2, " ||| "), links);
    assert_eq!(fields("fairseq", 1, "\t"), links);
    let text = with("text", "1");
    assert_eq!(text.lines().next().unwrap().split_once(" ||| ").unwrap().1, links[0]);
    assert_eq!(text.lines().nth(1), Some(" ||| "));
}

#[test]
fn heads_that_there_are_not_are_refused() {
    for (head, code, part) in [
        ("9:0", 1, "the decoder has the layers 0 to 1, each with the heads 0 to 1"),
        ("0:9", 1, "alignment head 9 of layer 0"),
        ("x", 2, "expected LAYER:HEAD or LAYER:mean"),
    ] {
        let output = run(&["translate", "--alignment", "--alignment-head", head], b"we");
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
    }
    let output = run(&["translate", "--alignment"], b"we");
    assert!(stderr(&output).contains("the mean of all in layer 0"), "{}", stderr(&output));
}
