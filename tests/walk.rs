use crate::common::*;
use tx::candle_core::{D, Device, Tensor};
use tx::checkpoint::Checkpoint;
use tx::ops::{Precision, layer_norm_plain};
use tx::translate::walk::{Quantity, Stage, Walk};
use tx::translate::{Options, Translator};

const SRC: &str = "the dog sees";
const TGT: &str = "der hund sieht";

fn walk(checkpoint: Checkpoint) -> (Translator, Walk) {
    let translator = Translator::new(checkpoint, &Device::Cpu, Some(Precision::F32)).unwrap();
    let walk = translator.walk(&(1, SRC.to_string()).into(), Some(TGT), &Options::default()).unwrap();
    (translator, walk)
}

fn close(what: &str, found: &Tensor, expected: &Tensor) {
    assert_eq!(found.dims(), expected.dims(), "{what}");
    assert_close(what, found, expected, 2e-6);
}

/// Every stage follows from those before it by the equation that is given for it, with the weights of the file.
#[test]
fn stages_follow_from_each_other() {
    for checkpoint in [tiny(), Checkpoint::open(&golden("families/pegasus"), &Device::Cpu).unwrap()] {
        let (weights, config) = (checkpoint.weights.clone(), checkpoint.config.clone());
        let (translator, walk) = walk(checkpoint);
        let linear = |x: &Tensor, name: &str| {
            let (w, b) = (&weights[&format!("{name}.weight")], &weights[&format!("{name}.bias")]);
            x.matmul(&w.t().unwrap()).unwrap().broadcast_add(b).unwrap()
        };
        let heads = |x: &Tensor, n: usize| {
            x.reshape((x.dim(0).unwrap(), n, config.d_model / n))
                .unwrap()
                .transpose(0, 1)
                .unwrap()
                .contiguous()
                .unwrap()
        };
        let joined = |x: &Tensor| x.transpose(0, 1).unwrap().flatten_from(1).unwrap().contiguous().unwrap();
        // What enters the sublayer that is being walked through, and what is added to what comes out of it.
        let (mut x, mut kept, mut memory) = (None::<Tensor>, None::<Tensor>, None::<Tensor>);
        let mut last: Vec<&Stage> = Vec::new();
        let mut is_decoder = false;
        for stage in &walk.stages {
            let (place, found) = (stage.place.as_str(), &stage.values);
            let of = |quantity| &last.iter().rev().find(|stage| stage.quantity == quantity).unwrap().values;
            let is_cross = place.contains("encoder_attn");
            if stage.quantity == Quantity::Embedding && !last.is_empty() {
                (memory, is_decoder) = (x.clone(), true);
            }
            let side = if is_decoder { config.decoder } else { config.encoder };
            let looked_at = || if is_cross { memory.clone().unwrap() } else { x.clone().unwrap() };
            let scale = (config.d_model as f64).sqrt();
            let expected = match stage.quantity {
                Quantity::Embedding => found.clone(),
                Quantity::ScaledEmbedding => (of(Quantity::Embedding) * scale).unwrap(),
                Quantity::Positions => found.clone(),
                Quantity::Input => (of(Quantity::ScaledEmbedding) + of(Quantity::Positions)).unwrap(),
                Quantity::Queries => {
                    heads(&linear(x.as_ref().unwrap(), &format!("{place}.q_proj")), side.heads)
                }
                Quantity::Keys => heads(&linear(&looked_at(), &format!("{place}.k_proj")), side.heads),
                Quantity::Values => heads(&linear(&looked_at(), &format!("{place}.v_proj")), side.heads),
                Quantity::Dots => of(Quantity::Queries).matmul(&of(Quantity::Keys).t().unwrap()).unwrap(),
                Quantity::ScaledDots => {
                    (of(Quantity::Dots) / ((config.d_model / side.heads) as f64).sqrt()).unwrap()
                }
                Quantity::MaskedDots => {
                    let (all, n) = (of(Quantity::ScaledDots), found.dim(1).unwrap());
                    assert!(is_decoder && !is_cross);
                    let rows: Vec<Vec<Vec<f32>>> = all.to_vec3().unwrap();
                    let hide = |rows: Vec<Vec<f32>>| -> Vec<Vec<f32>> {
                        let row = |(i, row): (usize, Vec<f32>)| {
                            (0..n).map(|j| if j > i { f32::NEG_INFINITY } else { row[j] }).collect()
                        };
                        rows.into_iter().enumerate().map(row).collect()
                    };
                    let hidden: Vec<Vec<Vec<f32>>> = rows.into_iter().map(hide).collect();
                    assert_eq!(found.to_vec3::<f32>().unwrap(), hidden);
                    found.clone()
                }
                Quantity::Weights => {
                    let rows = found.sum(D::Minus1).unwrap();
                    close("sums", &rows, &rows.ones_like().unwrap());
                    found.clone()
                }
                Quantity::HeadOutputs => of(Quantity::Weights).matmul(of(Quantity::Values)).unwrap(),
                Quantity::MultiHead => {
                    linear(&joined(of(Quantity::HeadOutputs)), &format!("{place}.out_proj"))
                }
                Quantity::Hidden => linear(x.as_ref().unwrap(), &format!("{place}.fc1")).relu().unwrap(),
                Quantity::FeedForward => linear(of(Quantity::Hidden), &format!("{place}.fc2")),
                Quantity::Residual => (kept.as_ref().unwrap() + &last.last().unwrap().values).unwrap(),
                Quantity::Norm => {
                    let [g, b] = ["weight", "bias"].map(|part| &weights[&format!("{place}.{part}")]);
                    layer_norm_plain(x.as_ref().unwrap(), g, b, 1e-5).unwrap()
                }
                Quantity::Logits => found.clone(),
            };
            if !matches!(stage.quantity, Quantity::MaskedDots) {
                close(&format!("{place} {:?}", stage.quantity), found, &expected);
            }
            match stage.quantity {
                Quantity::Input | Quantity::Residual => {
                    (x, kept) = (Some(found.clone()), Some(found.clone()))
                }
                Quantity::Norm if config.norm == tx::config::Norm::Post => {
                    (x, kept) = (Some(found.clone()), Some(found.clone()))
                }
                Quantity::Norm => x = Some(found.clone()),
                _ => {}
            }
            last.push(stage);
        }
        // The weights and the end are those of the model itself.
        let seen = translator.inspect(&(1, SRC.to_string()).into(), Some(TGT), &Options::default()).unwrap();
        let of_kind = |part: &str, side: &str| -> Vec<Vec<Vec<Vec<f32>>>> {
            let is_it = |stage: &&Stage| {
                stage.quantity == Quantity::Weights
                    && stage.place.contains(part)
                    && stage.place.contains(side)
            };
            walk.stages.iter().filter(is_it).map(|stage| stage.values.to_vec3().unwrap()).collect()
        };
        for (found, expected) in [
            (of_kind(".self_attn", "model.encoder"), &seen.encoder_self),
            (of_kind(".self_attn", "model.decoder"), &seen.decoder_self),
            (of_kind(".encoder_attn", "model.decoder"), &seen.cross),
        ] {
            let flat = |all: &Vec<Vec<Vec<Vec<f32>>>>| {
                all.iter().flatten().flatten().flatten().copied().collect::<Vec<f32>>()
            };
            let (found, expected) = (flat(&found), flat(expected));
            assert_eq!(found.len(), expected.len());
            assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-6));
        }
        let forced = translator.force(&[(SRC, TGT)]).unwrap().remove(0).unwrap();
        for (answer, log_prob) in walk.answers.iter().zip(&forced.token_log_probs) {
            assert!((answer.log_prob - log_prob).abs() < 1e-6);
            let first = &answer.top[0];
            assert_eq!(answer.rank == 1, first.piece == answer.piece);
            assert!(answer.top.windows(2).all(|pair| pair[0].log_prob >= pair[1].log_prob));
        }
        assert_eq!(walk.answers.len(), forced.ids.len());
    }
}
