use crate::common::*;
use std::collections::BTreeMap;
use tx::candle_core::{Tensor, Var};
use tx::data::Batch;
use tx::model::linear::Kind;
use tx::model::parameters::{LOGITS_BIAS, as_weights};
use tx::model::{Pass, Transformer};
use tx::train::loss::batch_loss;
use tx::train::optim::{self, Optimizer};

/// The small model of the goldens with its weights as variables; the bias of the logits is not trained.
fn trainable() -> (Transformer, BTreeMap<String, Var>) {
    let checkpoint = tiny();
    let mut weights = checkpoint.weights.clone();
    let bias = weights.remove(LOGITS_BIAS).unwrap();
    let variables: BTreeMap<String, Var> =
        weights.into_iter().map(|(name, tensor)| (name, Var::from_tensor(&tensor).unwrap())).collect();
    let mut weights = as_weights(&variables);
    weights.insert(LOGITS_BIAS.into(), bias);
    (Transformer::new(&checkpoint.config, weights, Kind::Plain).unwrap(), variables)
}

fn batch(src: Vec<Vec<u32>>, tgt_in: Vec<Vec<u32>>, tgt_out: Vec<Vec<u32>>) -> Batch {
    Batch {
        src_lengths: lengths(&src),
        tgt_lengths: lengths(&tgt_in),
        src: src.concat(),
        tgt_in: tgt_in.concat(),
        tgt_out: tgt_out.concat(),
    }
}

fn norm(tensor: &Tensor) -> f32 {
    flat(tensor).iter().map(|x| x * x).sum::<f32>().sqrt()
}

#[test]
fn gradients_agree_with_pytorch() {
    let (json, info) = (golden_json("model.json"), golden_json("gradients.json"));
    let (model, variables) = trainable();
    let batch = batch(sentences(&json["src"]), sentences(&json["tgt_in"]), sentences(&json["tgt_out"]));
    let sums = batch_loss(&model, &batch, 0.1, &mut Pass::inference()).unwrap();
    let tokens = batch.tgt_tokens() as f64;
    assert!((sums.nll / tokens - info["nll"].as_f64().unwrap()).abs() < 1e-4);
    let mean = (&sums.loss / tokens).unwrap();
    assert!((f64::from(mean.to_scalar::<f32>().unwrap()) - info["loss"].as_f64().unwrap()).abs() < 1e-4);
    let grads = optim::collect(&mean.backward().unwrap(), &variables).unwrap();
    optim::check_gradients(&grads).unwrap();
    let total = optim::global_norm(&grads).unwrap();
    assert!((total / info["grad_norm"].as_f64().unwrap() - 1.0).abs() < 1e-4, "{total}");
    let expected = golden_tensors("gradients.safetensors");
    assert_eq!(grads.len(), expected.len());
    for (name, expected) in expected.iter().filter(|(name, _)| !name.ends_with("k_proj.bias")) {
        let difference = norm(&(&grads[name] - expected).unwrap());
        assert!(difference <= 1e-4 * norm(expected), "{name}: |Δ| = {difference}, |g| = {}", norm(expected));
    }
}

#[test]
fn ten_steps_of_training_agree_with_pytorch() {
    let json = golden_json("training.json");
    let (model, variables) = trainable();
    let mut optimizer = Optimizer::new(&variables).unwrap();
    let batches: Vec<Batch> = json["batches"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pairs| {
            let side = |key: &str| -> Vec<Vec<u32>> {
                pairs
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|pair| serde_json::from_value(pair[key].clone()).unwrap())
                    .collect()
            };
            batch(side("src"), side("tgt_in"), side("tgt_out"))
        })
        .collect();
    let peak = (16.0f64 * json["warmup_steps"].as_f64().unwrap()).powf(-0.5);
    for expected in json["steps"].as_array().unwrap() {
        let number = |key: &str| expected[key].as_f64().unwrap();
        let step = expected["step"].as_u64().unwrap();
        let batch = &batches[(step as usize - 1) % batches.len()];
        let sums = batch_loss(&model, batch, 0.1, &mut Pass::inference()).unwrap();
        let mean = (&sums.loss / batch.tgt_tokens() as f64).unwrap();
        let loss = f64::from(mean.to_scalar::<f32>().unwrap());
        assert!(
            (loss - number("loss")).abs() < 1e-4,
            "step {step}: loss {loss} instead of {}",
            number("loss")
        );
        let grads = optim::collect(&mean.backward().unwrap(), &variables).unwrap();
        let norm = optim::global_norm(&grads).unwrap();
        assert!((norm / number("grad_norm") - 1.0).abs() < 1e-3, "step {step}: norm {norm}");
        let lr = optim::learning_rate(peak, 4, step);
        assert!((lr - number("lr")).abs() < 1e-8, "step {step}: lr {lr}");
        optimizer.step(&variables, &grads, step, lr, optim::clip_scale(norm, 1.0)).unwrap();
    }
}

/// One division by all target tokens: the summed gradients of parts, divided once, are the gradient of the whole, also
/// where the parts have unequal numbers of tokens.
#[test]
fn sums_of_parts_are_the_whole() {
    let json = golden_json("model.json");
    let (src, tgt_in, tgt_out) =
        (sentences(&json["src"]), sentences(&json["tgt_in"]), sentences(&json["tgt_out"]));
    let (model, variables) = trainable();
    let gradient = |from: usize, to: usize| {
        let batch = batch(src[from..to].to_vec(), tgt_in[from..to].to_vec(), tgt_out[from..to].to_vec());
        let sums = batch_loss(&model, &batch, 0.1, &mut Pass::inference()).unwrap();
        optim::collect(&sums.loss.backward().unwrap(), &variables).unwrap()
    };
    let (whole, first, rest) = (gradient(0, 4), gradient(0, 1), gradient(1, 4));
    for (name, whole) in whole.iter().filter(|(name, _)| !name.ends_with("k_proj.bias")) {
        let difference = norm(&((&first[name] + &rest[name]).unwrap() - whole).unwrap());
        assert!(difference <= 1e-5 * norm(whole), "{name}: |Δ| = {difference}, |g| = {}", norm(whole));
    }
}
