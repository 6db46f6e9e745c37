//! A model as CTranslate2 stores it (format 6, `TransformerSpec` 7: `ctranslate2/specs/model_spec.py` of 4.8): `model.bin`,
//! `config.json` and the vocabularies as lists of pieces. The program that uses it cuts the text and adds the end mark to
//! sources, as with CTranslate2's own conversion of Marian.

use super::files::write_atomically;
use super::{Checkpoint, write_json};
use crate::config::{Activation, Norm, Stack, Tie};
use crate::error::{Error, Result};
use crate::model::embedding::positional_encoding;
use crate::model::parameters::{
    DECODER_EMBEDDING, ENCODER_EMBEDDING, LM_HEAD, LOGITS_BIAS, SHARED_EMBEDDING,
};
use crate::text::Tokenizer;
use candle_core::{Device, Tensor};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;

const FORMAT: u32 = 6;
const REVISION: u32 = 7;
/// The logit of a piece that is never said.
const IMPOSSIBLE: f32 = -1e4;

/// A variable: shape, number of its type, bytes.
type Variable = (Vec<u32>, u8, Vec<u8>);

/// The variables by name, sorted as CTranslate2 sorts them.
#[derive(Default)]
struct Variables(BTreeMap<String, Variable>);

impl Variables {
    fn flag(&mut self, name: String, value: u8) {
        self.0.insert(name, (vec![], 1, vec![value]));
    }

    fn short(&mut self, name: String, value: i16) {
        self.0.insert(name, (vec![], 2, value.to_le_bytes().to_vec()));
    }

    fn numbers(&mut self, name: String, shape: &[usize], values: &[f32]) {
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.0.insert(name, (shape.iter().map(|&n| n as u32).collect(), 0, bytes));
    }

    fn tensor(&mut self, name: String, tensor: &Tensor) -> Result<()> {
        let values = tensor.to_device(&Device::Cpu)?.flatten_all()?.to_vec1::<f32>()?;
        self.numbers(name, tensor.dims(), &values);
        Ok(())
    }
}

impl Checkpoint {
    /// Writes a directory that CTranslate2 opens, in f32.
    pub fn save_ct2(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(|error| Error::io(folder, error))?;
        let config = &self.config;
        let (tgt, src) =
            (list(self.tokenizer.tgt(), config.tgt_vocab), list(&self.tokenizer, config.src_vocab));
        let piece = |id: u32| tgt.get(id as usize).cloned().unwrap_or_default();
        let settings = json!({
            "add_source_bos": false,
            "add_source_eos": false,
            "bos_token": piece(config.special.bos),
            "decoder_start_token": piece(config.special.bos),
            "eos_token": piece(config.special.eos),
            "layer_norm_epsilon": null,
            "multi_query_attention": false,
            "unk_token": piece(config.special.unk),
        });
        if src == tgt {
            write_json(&folder.join("shared_vocabulary.json"), &json!(src))?;
        } else {
            write_json(&folder.join("source_vocabulary.json"), &json!(src))?;
            write_json(&folder.join("target_vocabulary.json"), &json!(tgt))?;
        }
        write_json(&folder.join("config.json"), &settings)?;
        write_atomically(&folder.join("model.bin"), &self.ct2_bytes()?)
    }

    fn ct2_bytes(&self) -> Result<Vec<u8>> {
        let (variables, aliases) = self.ct2_variables()?;
        let mut out = Vec::new();
        let string = |out: &mut Vec<u8>, text: &str| {
            out.extend((text.len() as u16 + 1).to_le_bytes());
            out.extend(text.as_bytes());
            out.push(0);
        };
        out.extend(FORMAT.to_le_bytes());
        string(&mut out, "TransformerSpec");
        out.extend(REVISION.to_le_bytes());
        out.extend((variables.0.len() as u32).to_le_bytes());
        for (name, (shape, kind, bytes)) in variables.0 {
            string(&mut out, &name);
            out.push(shape.len() as u8);
            shape.iter().for_each(|size| out.extend(size.to_le_bytes()));
            out.push(kind);
            out.extend((bytes.len() as u32).to_le_bytes());
            out.extend(bytes);
        }
        out.extend((aliases.len() as u32).to_le_bytes());
        for (alias, name) in aliases {
            string(&mut out, alias);
            string(&mut out, name);
        }
        Ok(out)
    }

    /// The variables, and names for those that are used twice.
    fn ct2_variables(&self) -> Result<(Variables, Vec<(&'static str, &'static str)>)> {
        let config = &self.config;
        let mut variables = Variables::default();
        let activation = match config.activation {
            Activation::Relu => 0,
            Activation::Swish => 2,
            Activation::Gelu => 3,
        };
        let pre_norm = u8::from(config.norm == Norm::Pre);
        let scale = if config.scale_embedding { (config.d_model as f32).sqrt() } else { 1.0 };
        for (side, stack) in [("encoder", &config.encoder), ("decoder", &config.decoder)] {
            variables.flag(format!("{side}/activation"), activation);
            variables.flag(format!("{side}/pre_norm"), pre_norm);
            variables.short(format!("{side}/num_heads"), stack.heads as i16);
            variables.numbers(format!("{side}/scale_embeddings"), &[], &[scale]);
            self.ct2_layers(&mut variables, side, stack)?;
            if config.norm == Norm::Pre {
                self.ct2_norm(
                    &mut variables,
                    &format!("model.{side}.layer_norm"),
                    &format!("{side}/layer_norm"),
                )?;
            }
        }
        variables.flag("encoder/embeddings_merge".into(), 0);
        variables.flag("encoder/multi_query_attention".into(), 0);
        for name in ["alibi", "alibi_use_positive_positions", "scale_alibi", "start_from_zero_embedding"] {
            variables.flag(format!("decoder/{name}"), 0);
        }
        variables.short("decoder/alignment_heads".into(), 1);
        variables.short("decoder/alignment_layer".into(), -1);
        let rows = config.first_position..config.first_position + config.max_positions;
        let positions = positional_encoding(rows, config.d_model, config.positions, &Device::Cpu)?;
        variables.tensor("decoder/position_encodings/encodings".into(), &positions)?;
        let mut aliases =
            vec![("encoder/position_encodings/encodings", "decoder/position_encodings/encodings")];
        let (src, tgt) = match config.tie {
            Tie::All => (None, SHARED_EMBEDDING),
            Tie::Decoder | Tie::None => (Some(ENCODER_EMBEDDING), DECODER_EMBEDDING),
        };
        variables.tensor("decoder/embeddings/weight".into(), self.weight(tgt)?)?;
        match src {
            Some(src) => variables.tensor("encoder/embeddings_0/weight".into(), self.weight(src)?)?,
            None => aliases.push(("encoder/embeddings_0/weight", "decoder/embeddings/weight")),
        }
        match config.tie {
            Tie::None => variables.tensor("decoder/projection/weight".into(), self.weight(LM_HEAD)?)?,
            _ => aliases.push(("decoder/projection/weight", "decoder/embeddings/weight")),
        }
        if let Some(bias) = self.logits_bias()? {
            variables.numbers("decoder/projection/bias".into(), &[bias.len()], &bias);
        }
        aliases.sort_unstable();
        Ok((variables, aliases))
    }

    /// What is added to the logits, if anything is: where a model starts from the padding, which it must not say, that too.
    fn logits_bias(&self) -> Result<Option<Vec<f32>>> {
        let special = self.config.special;
        let mut bias = match self.weights.get(LOGITS_BIAS) {
            Some(bias) => bias.to_device(&Device::Cpu)?.flatten_all()?.to_vec1::<f32>()?,
            None => vec![0.0; self.config.tgt_vocab],
        };
        if special.pad == special.bos
            && let Some(pad) = bias.get_mut(special.pad as usize)
        {
            *pad = IMPOSSIBLE;
        }
        Ok(bias.iter().any(|&x| x != 0.0).then_some(bias))
    }

    fn weight(&self, name: &str) -> Result<&Tensor> {
        self.weights.get(name).ok_or_else(|| Error::Data(format!("the model has no {name}")))
    }

    fn ct2_norm(&self, variables: &mut Variables, from: &str, to: &str) -> Result<()> {
        variables.tensor(format!("{to}/gamma"), self.weight(&format!("{from}.weight"))?)?;
        variables.tensor(format!("{to}/beta"), self.weight(&format!("{from}.bias"))?)
    }

    /// Linear layers one below the other as one.
    fn ct2_linear(&self, variables: &mut Variables, from: &[String], to: &str) -> Result<()> {
        for part in ["weight", "bias"] {
            let parts: Vec<&Tensor> =
                from.iter().map(|name| self.weight(&format!("{name}.{part}"))).collect::<Result<_>>()?;
            variables.tensor(format!("{to}/{part}"), &Tensor::cat(&parts, 0)?)?;
        }
        Ok(())
    }

    fn ct2_layers(&self, variables: &mut Variables, side: &str, stack: &Stack) -> Result<()> {
        for layer in 0..stack.layers {
            let (from, to) = (format!("model.{side}.layers.{layer}"), format!("{side}/layer_{layer}"));
            let named = |attention: &str, parts: &[&str]| -> Vec<String> {
                parts.iter().map(|part| format!("{from}.{attention}.{part}_proj")).collect()
            };
            let own = format!("{to}/self_attention");
            self.ct2_linear(variables, &named("self_attn", &["q", "k", "v"]), &format!("{own}/linear_0"))?;
            self.ct2_linear(variables, &named("self_attn", &["out"]), &format!("{own}/linear_1"))?;
            self.ct2_norm(variables, &format!("{from}.self_attn_layer_norm"), &format!("{own}/layer_norm"))?;
            if side == "decoder" {
                let cross = format!("{to}/attention");
                for (at, parts) in [&["q"][..], &["k", "v"], &["out"]].into_iter().enumerate() {
                    self.ct2_linear(
                        variables,
                        &named("encoder_attn", parts),
                        &format!("{cross}/linear_{at}"),
                    )?;
                }
                self.ct2_norm(
                    variables,
                    &format!("{from}.encoder_attn_layer_norm"),
                    &format!("{cross}/layer_norm"),
                )?;
            }
            for (at, name) in ["fc1", "fc2"].into_iter().enumerate() {
                self.ct2_linear(variables, &[format!("{from}.{name}")], &format!("{to}/ffn/linear_{at}"))?;
            }
            self.ct2_norm(variables, &format!("{from}.final_layer_norm"), &format!("{to}/ffn/layer_norm"))?;
        }
        Ok(())
    }
}

/// The pieces by id, and names for rows of the embedding that have none.
fn list(tokenizer: &Tokenizer, rows: usize) -> Vec<String> {
    let unused = |id: usize| format!("<unused{id}>");
    (0..rows).map(|id| tokenizer.pieces().get(id).cloned().unwrap_or_else(|| unused(id))).collect()
}
