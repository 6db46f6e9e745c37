use crate::training::{given, request, run, toy};
use serde_json::json;
use std::fs;
use std::path::Path;
use tx::train::{Event, Request};

fn request_to(out: &Path, max_steps: u64, resume: bool) -> Request {
    let more = json!({"max_steps": max_steps, "valid_every": 4, "save_every": 4, "keep": 2, "average": 3});
    Request { resume, ..request(&toy(), out, given(more)) }
}

/// Lost weights of an earlier validation take nothing with them but the candidates that need them.
#[test]
fn lost_weights_leave_the_other_candidates() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    run(&request_to(&out, 12, false), &mut |_, _| ()).unwrap();
    for step in [4, 8, 12] {
        fs::write(out.join(format!("train/weights/step-{step}.safetensors")), "cut").unwrap();
    }
    let (mut tried, mut left_out) = (vec![], vec![]);
    run(&request_to(&out, 13, true), &mut |event, _| {
        if let Event::Finished(choice) = event {
            tried = choice.candidates.iter().map(|candidate| candidate.kind.name()).collect();
            left_out = choice.left_out.iter().map(|(kind, error)| (kind.name(), error.to_string())).collect();
        }
    })
    .unwrap();
    assert_eq!(tried, ["last"]);
    assert_eq!(left_out.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), ["best", "average"]);
    assert!(left_out.iter().all(|(_, error)| error.contains(".safetensors")), "{left_out:?}");
}

/// A damaged last state is named, with the older ones and how to go back to them; going back gives the same bytes.
#[test]
fn a_damaged_state_names_the_older_ones() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    run(&request_to(&out, 12, false), &mut |_, _| ()).unwrap();
    let weights = || fs::read(out.join("train/step-12/model.safetensors")).unwrap();
    let whole = weights();
    for damage in ["progress.json", "optimizer.safetensors", "origin.json"] {
        fs::write(out.join("train/step-12").join(damage), "{").unwrap();
        let error = run(&request_to(&out, 12, true), &mut |_, _| ()).unwrap_err().to_string();
        for part in [damage, "older states are kept: step-8;", "train/last"] {
            assert!(error.contains(part), "{error}");
        }
        fs::write(out.join("train/last"), "step-8").unwrap();
        run(&request_to(&out, 12, true), &mut |_, _| ()).unwrap();
        assert_eq!(weights(), whole);
    }
}

/// The direction of a run cannot change, and is not silently kept.
#[test]
fn another_direction_is_refused_on_resume() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    run(&request_to(&out, 1, false), &mut |_, _| ()).unwrap();
    let turned = Request { from: Some("de".into()), to: Some("en".into()), ..request_to(&out, 2, true) };
    let error = run(&turned, &mut |_, _| ()).unwrap_err().to_string();
    assert!(error.contains("--from is en, not de"), "{error}");
}

/// With a weight so small that most epochs have no pair, the run goes on to those that have.
#[test]
fn epochs_without_a_pair_are_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let mut request = request_to(&folder.path().join("out"), 3, false);
    request.data[0].weight = 0.001;
    let outcome = run(&request, &mut |_, _| ()).unwrap();
    assert_eq!(outcome.progress.step, 3);
    assert!(outcome.progress.epoch > 2);
}
