use crate::common::*;
use tx::candle_core::{Device, Tensor};
use tx::checkpoint::Checkpoint;
use tx::model::trace::Kind;
use tx::ops::Precision;
use tx::translate::Translator;
use tx::translate::gold::Gold;
use tx::translate::head_profile::Profile;

fn pairs() -> Vec<(String, String)> {
    [("the dog sees", "der hund sieht"), ("we see", "wir sehen"), ("", "leer"), ("a cat", "eine katze hier")]
        .map(|(src, tgt)| (src.to_string(), tgt.to_string()))
        .to_vec()
}

fn profile(checkpoint: Checkpoint, gold: Option<&[Gold]>, losses: bool) -> tx::Result<Profile> {
    let translator = Translator::new(checkpoint, &Device::Cpu, Some(Precision::F32))?;
    translator.profile_heads(&pairs(), gold, losses, &mut |_, _| ())
}

/// A head that is left out is one whose columns of W_O are zero; the loss without any left out is that of forced decoding.
#[test]
fn losses_are_those_of_a_model_without_the_head() {
    let all = profile(tiny(), None, true).unwrap();
    assert_eq!((all.pairs, all.left_out), (3, 1));
    let translator = Translator::new(tiny(), &Device::Cpu, None).unwrap();
    let forced: Vec<_> = translator.force(&pairs()).unwrap().into_iter().flatten().collect();
    let tokens: usize = forced.iter().map(|forced| forced.ids.len()).sum();
    let nll = -forced.iter().map(|forced| forced.log_prob).sum::<f64>() / tokens as f64;
    assert!((all.nll - nll).abs() < 1e-5, "{} {nll}", all.nll);
    let config = tiny().config;
    assert_eq!(
        all.heads.len(),
        config.encoder.layers * config.encoder.heads + 2 * config.decoder.layers * config.decoder.heads
    );
    for head in &all.heads {
        let (side, name, heads) = match head.place.kind {
            Kind::EncoderSelf => ("encoder", "self_attn", config.encoder.heads),
            Kind::DecoderSelf => ("decoder", "self_attn", config.decoder.heads),
            Kind::Cross => ("decoder", "encoder_attn", config.decoder.heads),
        };
        let mut checkpoint = tiny();
        let name = format!("model.{side}.layers.{}.{name}.out_proj.weight", head.place.layer);
        let d_k = config.d_model / heads;
        let keep = (0..config.d_model).map(|column| f32::from(column / d_k != head.place.head));
        let keep = Tensor::from_iter(keep, &Device::Cpu).unwrap();
        let without = checkpoint.weights[&name].broadcast_mul(&keep).unwrap();
        checkpoint.weights.insert(name, without);
        let nll = profile(checkpoint, None, false).unwrap().nll;
        let loss = head.loss.unwrap();
        assert!((loss - (nll - all.nll)).abs() < 1e-5, "{:?}: {loss} {}", head.place, nll - all.nll);
    }
    assert!(all.heads.iter().any(|head| head.loss.unwrap().abs() > 1e-3));
}

/// The means are those of the weights that `inspect` gives, pair by pair.
#[test]
fn means_are_those_of_the_weights() {
    let found = profile(tiny(), None, false).unwrap();
    let translator = Translator::new(tiny(), &Device::Cpu, None).unwrap();
    let options = tx::translate::Options::default();
    for head in &found.heads {
        let (mut queries, mut end) = (0.0, 0.0);
        for (src, tgt) in pairs().iter().filter(|(src, _)| !src.is_empty()) {
            let seen = translator.inspect(&(1, src.clone()).into(), Some(tgt), &options).unwrap();
            let weights = match head.place.kind {
                Kind::EncoderSelf => &seen.encoder_self,
                Kind::DecoderSelf => &seen.decoder_self,
                Kind::Cross => &seen.cross,
            };
            for row in &weights[head.place.layer][head.place.head] {
                queries += 1.0;
                end += f64::from(if head.place.kind == Kind::DecoderSelf {
                    row[0]
                } else {
                    *row.last().unwrap()
                });
            }
        }
        assert!((head.end_mass - end / queries).abs() < 1e-6, "{head:?}");
        assert!(head.entropy >= 0.0 && head.loss.is_none() && head.aer.is_none());
    }
}

#[test]
fn gold_alignments_are_checked() {
    let gold = |lines: [&str; 4]| lines.map(|line| line.parse::<Gold>().unwrap());
    let found = profile(tiny(), Some(&gold(["0-0 1-1 2-2", "0-0 1-1", "", "0-0 1-1 1p2"])), false).unwrap();
    for head in &found.heads {
        let rate = head.aer.filter(|rate| (0.0..=1.0).contains(rate));
        assert_eq!(rate.is_some(), head.place.kind == Kind::Cross, "{head:?}");
    }
    let error = profile(tiny(), Some(&gold(["", "", "", "5-0"])), false).unwrap_err().to_string();
    assert!(error.contains("line 4: the gold alignment links the words 5 and 0"), "{error}");
}
