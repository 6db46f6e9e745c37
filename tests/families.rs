use crate::common::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use tx::candle_core::{DType, Device, Var};
use tx::checkpoint::Checkpoint;
use tx::config::{Norm, Positions, Tie};
use tx::model::linear::Kind;
use tx::model::parameters::{LOGITS_BIAS, as_weights};
use tx::model::{Pass, Transformer};
use tx::ops::{Precision, Scores};
use tx::search::{self, Finish, Scorer, Sentence, TransformerScorer};
use tx::translate::{Options, Translator};

fn open(path: impl AsRef<Path>) -> Checkpoint {
    Checkpoint::open(path.as_ref(), &Device::Cpu).unwrap()
}

/// Name, model and expected values of every family.
fn families() -> Vec<(String, Checkpoint, Value)> {
    let all = golden_json("families.json")["families"].as_array().unwrap().clone();
    let family = |values: Value| {
        let name = values["name"].as_str().unwrap().to_string();
        let checkpoint = open(golden("families").join(&name));
        (name, checkpoint, values)
    };
    all.into_iter().map(family).collect()
}

/// Encoder output and logits of the batch of `values` are `transformers`'.
fn assert_same_numbers(name: &str, model: &Transformer, values: &Value) {
    let expected = golden_tensors("families.safetensors");
    let (src, tgt_in) = (sentences(&values["src"]), sentences(&values["tgt_in"]));
    let mut pass = Pass::inference();
    let memory = model.encode(&src.concat(), &lengths(&src), &mut pass).unwrap();
    let expected_memory = unpad(&expected[&format!("{name}.memory")], &lengths(&src));
    assert_close(&format!("{name} memory"), &memory.rows, &expected_memory, 1e-5);
    let logits = model.decode(&tgt_in.concat(), &lengths(&tgt_in), &memory, &mut pass).unwrap();
    let expected_logits = unpad(&expected[&format!("{name}.logits")], &lengths(&tgt_in));
    // Marian's own files do not have the padding, which is the last piece here.
    let logits = logits.narrow(1, 0, expected_logits.dim(1).unwrap()).unwrap();
    assert_close(&format!("{name} logits"), &logits, &expected_logits, 1e-5);
}

#[test]
fn logits_of_every_family_agree_with_transformers() {
    for (name, checkpoint, values) in families() {
        for kind in [Kind::Plain, Kind::Packed(Precision::F32)] {
            assert_same_numbers(&name, &transformer(&checkpoint, kind), &values);
        }
    }
}

/// Ids and log-probabilities of greedy search, and the log-probabilities of given targets.
#[test]
fn decoding_of_every_family_agrees_with_transformers() {
    for (name, checkpoint, values) in families() {
        let translator = Translator::new(checkpoint, &Device::Cpu, None).unwrap();
        let scorer = TransformerScorer::new(translator.model());
        let options = translator.search_options(&Options::default()).unwrap();
        let ids =
            |case: &Value, key: &str| -> Vec<u32> { serde_json::from_value(case[key].clone()).unwrap() };
        for case in values["greedy"].as_array().unwrap() {
            let sentence = [Sentence::new(ids(case, "src"), 16)];
            let found =
                search::greedy(&scorer, &sentence, &options, None).unwrap().pop().unwrap().unwrap().remove(0);
            assert_eq!(found.ids, ids(case, "ids"), "{name}");
            assert_eq!(found.finish == Finish::Cut, case["finish"] == "cut", "{name}");
            assert!((found.log_prob - case["log_prob"].as_f64().unwrap()).abs() < 1e-4, "{name}");
        }
        for case in values["forced"].as_array().unwrap() {
            let mut state = scorer.start(&[ids(case, "src")]).unwrap();
            let (mut last, mut scores) = (options.bos, Scores::default());
            let expected: Vec<f32> = serde_json::from_value(case["token_log_probs"].clone()).unwrap();
            for (id, expected) in ids(case, "ids").into_iter().zip(expected) {
                scorer.step(&mut state, &[last], &mut scores).unwrap();
                let found = scores.norms[0].log_prob(scores.logits[id as usize]);
                assert!((found - expected).abs() < 1e-4, "{name}: {found} instead of {expected}");
                last = id;
            }
        }
    }
}

/// The norm of the gradient of the smoothed loss in every parameter of a pre-norm model.
#[test]
fn pre_norm_gradients_agree_with_pytorch() {
    let (_, checkpoint, values) = families().into_iter().find(|(name, ..)| name == "pegasus").unwrap();
    let bias = checkpoint.weights[LOGITS_BIAS].clone();
    let trained = checkpoint.weights.iter().filter(|(name, _)| *name != LOGITS_BIAS);
    let variables: BTreeMap<String, Var> =
        trained.map(|(name, tensor)| (name.clone(), Var::from_tensor(tensor).unwrap())).collect();
    let mut weights = as_weights(&variables);
    weights.insert(LOGITS_BIAS.into(), bias);
    let model = Transformer::new(&checkpoint.config, weights, Kind::Plain).unwrap();
    let (src, tgt_in) = (sentences(&values["src"]), sentences(&values["tgt_in"]));
    let eos = checkpoint.config.special.eos;
    let tgt_out: Vec<u32> = tgt_in.iter().flat_map(|tgt| tgt[1..].iter().copied().chain([eos])).collect();
    let mut pass = Pass::inference();
    let memory = model.encode(&src.concat(), &lengths(&src), &mut pass).unwrap();
    let given = (tgt_in.concat(), tgt_out);
    let sums = model.loss((&given.0, &given.1), &lengths(&tgt_in), &memory, 0.1, &mut pass).unwrap();
    let mean = (sums.loss / given.1.len() as f64).unwrap();
    let found = mean.backward().unwrap();
    for (name, expected) in values["gradients"].as_object().unwrap() {
        let gradient = flat(found.get(&variables[name]).unwrap());
        let norm = gradient.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
        assert!(
            (norm / expected.as_f64().unwrap() - 1.0).abs() < 1e-4,
            "{name}: {norm} instead of {expected}"
        );
    }
    assert_eq!(values["gradients"].as_object().unwrap().len() + 4, variables.len(), "all but k_proj.bias");
}

#[test]
fn what_a_family_leaves_unsaid_is_known() {
    let shape = |name: &str| {
        let config = open(golden("families").join(name)).config;
        (config.norm, config.positions, config.first_position, config.tie)
    };
    assert_eq!(shape("marian"), (Norm::Post, Positions::Halves, 0, Tie::All));
    assert_eq!(shape("marian-two"), (Norm::Post, Positions::Halves, 0, Tie::Decoder));
    assert_eq!(shape("pegasus"), (Norm::Pre, Positions::Halves, 0, Tie::All));
    assert_eq!(shape("m2m100"), (Norm::Pre, Positions::T2t, 2, Tie::All));
    assert_eq!(shape("marian-npz"), (Norm::Post, Positions::T2t, 0, Tie::All));
    assert_eq!(shape("marian-npz-pre"), (Norm::Pre, Positions::T2t, 0, Tie::All));
    let npz = open(golden("families/marian-npz/model.npz"));
    assert_eq!((npz.generation.num_beams, npz.generation.length_penalty), (Some(6), Some(1.0)));
}

/// Each family written as ours and read again is the same model, also where `transformers` has no such family.
#[test]
fn every_family_survives_saving() {
    let folder = tempfile::tempdir().unwrap();
    for (name, checkpoint, values) in families() {
        let path = folder.path().join(&name);
        checkpoint.save(&path, DType::F32).unwrap();
        let again = open(&path);
        assert_eq!(again.config, checkpoint.config, "{name}");
        assert_same_numbers(&name, &transformer(&again, Kind::Plain), &values);
        let path = folder.path().join(format!("{name}-int8"));
        checkpoint.save_int8(&path).unwrap();
        assert_eq!(open(&path).config, checkpoint.config, "{name} int8");
    }
}
