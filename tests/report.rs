use crate::common::*;
use serde_json::Value;
use std::path::Path;

/// A run that stops and goes on has one report with all validations, which needs nothing but itself.
#[test]
fn the_report_of_a_resumed_run_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("model");
    let (toy, out_name) = (concat!(env!("CARGO_MANIFEST_DIR"), "/assets/toy"), out.to_str().unwrap());
    let train = |more: &[&str]| {
        let sizes = ["--layers", "1", "--d-model", "16", "--heads", "2", "--ff", "16", "--valid-every", "2"];
        let output = run(&[&["train", toy, "--out", out_name][..], &sizes, more].concat(), b"");
        assert!(output.status.success(), "{}", stderr(&output));
    };
    train(&["--max-steps", "4"]);
    train(&["--max-steps", "8", "--resume"]);

    let text = std::fs::read_to_string(out.join("validations.jsonl")).unwrap();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let steps: Vec<u64> = rows.iter().map(|row| row["step"].as_u64().unwrap()).collect();
    assert_eq!(steps, [2, 4, 6, 8]);
    let sample = &rows[3]["samples"][0];
    let dev = |name: &str| std::fs::read_to_string(Path::new(toy).join(name)).unwrap();
    assert_eq!(sample["src"], dev("dev.en").lines().next().unwrap());
    assert_eq!(sample["ref"], dev("dev.de").lines().next().unwrap());

    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert_eq!(page.matches("<figure>").count(), 5);
    let nll = format!("{:.2}", rows[0]["nll"].as_f64().unwrap());
    let nll = nll.trim_end_matches('0').trim_end_matches('.');
    assert!(page.contains(&format!("dev NLL {nll} at step 2")));
    for nll in rows.iter().map(|row| row["nll"].as_f64().unwrap()) {
        assert!(page.contains(&format!("<td class=\"n\">{nll:.4}</td>")), "{nll}");
    }
    for elsewhere in ["http:", "https:", "src=", "href=", "{{", "NaN"] {
        assert!(!page.contains(elsewhere), "{elsewhere}");
    }
}
