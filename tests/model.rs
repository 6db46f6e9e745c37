use crate::common::*;
use tx::candle_core::{DType, Device, Tensor};
use tx::config::{Config, Dropouts, Preset, Stack, Tie};
use tx::model::linear::Kind;
use tx::model::parameters::{LOGITS_BIAS, Weights, as_weights, initial};
use tx::model::trace::Kind as Attention;
use tx::model::{Pass, Transformer};
use tx::ops::Precision;

/// Relative to the largest value: f32 against f64.
const TOLERANCE: f32 = 1e-5;

/// The padded batch of `transformers` against the same sentences without padding, in both forms of the linear layer.
#[test]
fn logits_agree_with_transformers() {
    let (json, expected) = (golden_json("model.json"), golden_tensors("model.safetensors"));
    let (src, tgt_in) = (sentences(&json["src"]), sentences(&json["tgt_in"]));
    for kind in [Kind::Plain, Kind::Packed(Precision::F32)] {
        let model = transformer(&tiny(), kind);
        let mut pass = Pass::inference();
        let memory = model.encode(&src.concat(), &lengths(&src), &mut pass).unwrap();
        let expected_memory = unpad(&expected["memory"], &lengths(&src));
        assert_close("memory", &memory.rows, &expected_memory, TOLERANCE);
        let logits = model.decode(&tgt_in.concat(), &lengths(&tgt_in), &memory, &mut pass).unwrap();
        assert_close("logits", &logits, &unpad(&expected["logits"], &lengths(&tgt_in)), TOLERANCE);
    }
}

#[test]
fn attention_weights_agree_with_transformers() {
    let (json, expected) = (golden_json("model.json"), golden_tensors("model.safetensors"));
    let (src, tgt_in) = (&sentences(&json["src"])[0], &sentences(&json["tgt_in"])[0]);
    let model = transformer(&tiny(), Kind::Plain);
    let mut pass = Pass::traced(Attention::ALL);
    let memory = model.encode(src, &[src.len()], &mut pass).unwrap();
    let traced = model.decode(tgt_in, &[tgt_in.len()], &memory, &mut pass).unwrap();
    let plain = model.decode(tgt_in, &[tgt_in.len()], &memory, &mut Pass::inference()).unwrap();
    assert_eq!(flat(&traced), flat(&plain), "recording changes the result");
    let trace = pass.into_trace().unwrap();
    for (name, layers) in [
        ("encoder_attentions", &trace.encoder_self),
        ("decoder_attentions", &trace.decoder_self),
        ("cross_attentions", &trace.cross),
    ] {
        let layers: Vec<&Tensor> = layers.iter().map(|sentences| &sentences[0]).collect();
        assert_close(name, &Tensor::stack(&layers, 0).unwrap(), &expected[name], TOLERANCE);
    }
}

/// Every option of the architecture against the Transformer written out in PyTorch.
#[test]
fn variants_agree_with_pytorch() {
    let (json, all) = (golden_json("variants.json"), golden_tensors("variants.safetensors"));
    let (src, tgt_in) = (sentences(&json["src"]), sentences(&json["tgt_in"]));
    for variant in json["variants"].as_array().unwrap() {
        let name = variant["name"].as_str().unwrap();
        let size = |key: &str| variant[key].as_u64().unwrap() as usize;
        let stack = Stack { layers: size("layers"), heads: size("heads"), d_ff: size("d_ff") };
        let config = Config {
            src_vocab: size("src_vocab"),
            tgt_vocab: size("tgt_vocab"),
            d_model: size("d_model"),
            encoder: stack,
            decoder: stack,
            activation: serde_json::from_value(variant["activation"].clone()).unwrap(),
            tie: match name {
                "decoder_only" => Tie::Decoder,
                "untied" => Tie::None,
                _ => Tie::All,
            },
            positions: serde_json::from_value(variant["positions"].clone()).unwrap(),
            ..Config::new(Preset::Tiny, 0)
        };
        let prefix = format!("{name}.");
        let mut weights: Weights = all
            .iter()
            .filter_map(|(key, tensor)| Some((key.strip_prefix(&prefix)?.to_string(), tensor.clone())))
            .collect();
        let expected_memory = unpad(&weights.remove("memory").unwrap(), &lengths(&src));
        let expected_logits = unpad(&weights.remove("logits").unwrap(), &lengths(&tgt_in));
        let model = Transformer::new(&config, weights.clone(), Kind::Plain).unwrap();
        let mut pass = Pass::inference();
        let memory = model.encode(&src.concat(), &lengths(&src), &mut pass).unwrap();
        assert_close(&format!("{name} memory"), &memory.rows, &expected_memory, TOLERANCE);
        let logits = model.decode(&tgt_in.concat(), &lengths(&tgt_in), &memory, &mut pass).unwrap();
        assert_close(&format!("{name} logits"), &logits, &expected_logits, TOLERANCE);
    }
}

fn small_config() -> Config {
    let stack = Stack { layers: 1, heads: 2, d_ff: 6 };
    Config { d_model: 4, encoder: stack, decoder: stack, ..Config::new(Preset::Tiny, 8) }
}

fn small_weights(config: &Config) -> Weights {
    // Detached: packed layers refuse what is part of a graph.
    initial(config, 3, &Device::Cpu)
        .unwrap()
        .into_iter()
        .map(|(name, var)| (name, var.as_detached_tensor()))
        .collect()
}

/// P = softmax(W_voca S): with one tied matrix whose rows are unit vectors, the logits are the last norm's output.
#[test]
fn logits_are_the_decoder_output_times_the_vocabulary_matrix() {
    let config = Config { src_vocab: 4, tgt_vocab: 4, ..small_config() };
    let mut weights = small_weights(&config);
    weights.insert("model.shared.weight".into(), Tensor::eye(4, DType::F32, &Device::Cpu).unwrap());
    let norm = "model.decoder.layers.0.final_layer_norm";
    weights.insert(format!("{norm}.weight"), Tensor::zeros(4, DType::F32, &Device::Cpu).unwrap());
    weights.insert(format!("{norm}.bias"), Tensor::new(&[1f32, 2., 3., 4.], &Device::Cpu).unwrap());
    weights.insert(LOGITS_BIAS.into(), Tensor::new(&[[0f32, 0., 0., 10.]], &Device::Cpu).unwrap());
    let model = Transformer::new(&config, weights.clone(), Kind::Plain).unwrap();
    let memory = model.encode(&[1, 3], &[2], &mut Pass::inference()).unwrap();
    let logits = model.decode(&[2], &[1], &memory, &mut Pass::inference()).unwrap();
    assert_eq!(flat(&logits), [1., 2., 3., 14.]);
}

/// Self-attention alone cannot tell an order; with positions the same token at another place is another row.
#[test]
fn the_encoder_knows_order_by_positions() {
    let config = small_config();
    let model = Transformer::new(&config, small_weights(&config), Kind::Plain).unwrap();
    let memory = |src: &[u32]| model.encode(src, &[src.len()], &mut Pass::inference()).unwrap().rows;
    let (first, second) = (memory(&[4, 5, 3]).get(0).unwrap(), memory(&[5, 4, 3]).get(1).unwrap());
    assert_ne!(flat(&first), flat(&second));
}

/// Each sentence alone and in company, whole and cut off: rows do not see other sentences, nor later tokens.
#[test]
fn no_row_sees_other_sentences_or_the_future() {
    let config = small_config();
    let model = Transformer::new(&config, small_weights(&config), Kind::Packed(Precision::F32)).unwrap();
    let mut pass = Pass::inference();
    let (src, tgt) = ([vec![4u32, 5, 6, 3], vec![7, 3]], [vec![2u32, 6], vec![2, 4, 5]]);
    let memory = model.encode(&src.concat(), &[4, 2], &mut pass).unwrap();
    let together = model.decode(&tgt.concat(), &[2, 3], &memory, &mut pass).unwrap();
    let mut alone = Vec::new();
    for (src, tgt) in src.iter().zip(&tgt) {
        let memory = model.encode(src, &[src.len()], &mut pass).unwrap();
        alone.push(model.decode(tgt, &[tgt.len()], &memory, &mut pass).unwrap());
        let first = model.decode(&tgt[..1], &[1], &memory, &mut pass).unwrap();
        assert_close("first row", &first, &alone.last().unwrap().narrow(0, 0, 1).unwrap(), 1e-6);
    }
    assert_eq!(flat(&together), flat(&Tensor::cat(&alone, 0).unwrap()));
}

/// Dropout is on in training passes only, differs between keys, and repeats for one key.
#[test]
fn dropout_follows_its_key_and_stays_out_of_inference() {
    let config =
        Config { dropout: Dropouts { residual: 0.3, attention: 0.3, activation: 0.3 }, ..small_config() };
    let model = Transformer::new(&config, small_weights(&config), Kind::Plain).unwrap();
    let run = |pass: &mut Pass| flat(&model.encode(&[4, 5, 6, 3], &[4], pass).unwrap().rows);
    let training = |key: u64| run(&mut Pass::training(key));
    let inference = || run(&mut Pass::inference());
    assert_eq!(training(1), training(1));
    assert_ne!(training(1), training(2));
    assert_ne!(training(1), inference());
    assert_eq!(inference(), inference());
}

/// The first loss of a fresh model is about ln v: rows of unit variance give logits of unit variance.
#[test]
fn the_first_loss_is_near_ln_v() {
    let config = Config::new(Preset::Tiny, 8000);
    let model =
        Transformer::new(&config, as_weights(&initial(&config, 1, &Device::Cpu).unwrap()), Kind::Plain)
            .unwrap();
    let ids: Vec<u32> = (4..64).collect();
    let memory = model.encode(&ids, &[60], &mut Pass::inference()).unwrap();
    let targets: Vec<u32> = (1000..1060).collect();
    let loss = model.loss((&ids, &targets), &[60], &memory, 0.0, &mut Pass::inference()).unwrap();
    let (nll, even) = (loss.nll / 60.0, 8000f64.ln());
    assert!((nll / even - 1.0).abs() < 0.1, "{nll} against ln 8000 = {even}");
}

#[test]
fn ids_outside_the_vocabulary_are_an_error() {
    let config = small_config();
    let model = Transformer::new(&config, small_weights(&config), Kind::Plain).unwrap();
    let error = model.encode(&[4, 8], &[2], &mut Pass::inference()).unwrap_err().to_string();
    assert!(error.contains("token id 8 lies outside the embedding of 8 rows"), "{error}");
}
