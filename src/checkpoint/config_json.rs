//! `config.json` of the Hugging Face families that are the Transformer of the paper: Marian, which our own directories
//! share, Pegasus (pre-norm) and M2M100 with NLLB (pre-norm, positions of tensor2tensor).

use super::generation;
use crate::config::{Activation, Config, Dropouts, Norm, Positions, SpecialIds, Stack, Tie};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What `tx` adds to `config.json` under the key `tx`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TxInfo {
    /// Version of this object.
    pub format: u32,
    /// Where the layer norms stand.
    pub norm: Norm,
    /// Layout of the positional encoding.
    pub positions: Positions,
    /// Source language, as the corpus named it.
    pub src_lang: String,
    /// Target language.
    pub tgt_lang: String,
    /// SHA-256 of `tokenizer.json`.
    pub tokenizer_sha256: String,
    /// The head whose cross-attention says best which source word a target word is the translation of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alignment_head: Option<AlignmentHead>,
    /// Where the weights come from: seed, data hash, version, settings, dev scores.
    #[serde(default)]
    pub provenance: Value,
}

/// Where alignments are read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlignmentHead {
    /// Layer of the decoder, from 0.
    pub layer: usize,
    /// Head of its cross-attention, from 0; none is the mean of all.
    pub head: Option<usize>,
}

/// The present version of [`TxInfo`].
pub const FORMAT: u32 = 1;

/// The `model_type` of a model whose matrices are stored as int8, in a file that no other program reads.
pub(super) const INT8: &str = "tx_int8";

/// The key of what a family does not say of a foreign model: where its norms stand, and its positions.
pub(super) const LAYOUT: &str = "tx_layout";

/// A `model_type` that tx reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Post-norm.
    Marian,
    /// Pre-norm.
    Pegasus,
    /// Pre-norm, with positions that begin behind those of padding; NLLB is one of them.
    M2m100,
}

/// Where the norms stand, the positions, and that of the first token.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Layout {
    norm: Norm,
    positions: Positions,
    first_position: usize,
}

impl Layout {
    pub(super) fn of(config: &Config) -> Self {
        let &Config { norm, positions, first_position, .. } = config;
        Layout { norm, positions, first_position }
    }
}

impl Family {
    /// (`model_type`, `architectures`)
    pub(super) fn names(self) -> (&'static str, &'static str) {
        match self {
            Family::Marian => ("marian", "MarianMTModel"),
            Family::Pegasus => ("pegasus", "PegasusForConditionalGeneration"),
            Family::M2m100 => ("m2m_100", "M2M100ForConditionalGeneration"),
        }
    }

    /// How a model of this family with the padding token `pad` computes.
    pub(super) fn layout(self, pad: u32) -> Layout {
        let (norm, positions, first_position) = match self {
            Family::Marian => (Norm::Post, Positions::Halves, 0),
            Family::Pegasus => (Norm::Pre, Positions::Halves, 0),
            Family::M2m100 => (Norm::Pre, Positions::T2t, pad as usize + 1),
        };
        Layout { norm, positions, first_position }
    }

    /// The family that computes as `config` says, or else comes nearest to it.
    pub fn of(config: &Config) -> Self {
        let all = [Family::Marian, Family::Pegasus, Family::M2m100];
        let same = |family: &Family| family.layout(config.special.pad) == Layout::of(config);
        all.into_iter().find(same).unwrap_or(match config.norm {
            Norm::Post => Family::Marian,
            Norm::Pre => Family::Pegasus,
        })
    }
}

/// Options that change what a model computes, and the one value that tx has; absent and null are that value.
fn fixed(norm: Norm) -> [(&'static str, Value); 10] {
    let pre = json!(norm == Norm::Pre);
    [
        ("is_encoder_decoder", json!(true)),
        ("static_position_embeddings", json!(true)),
        ("normalize_before", pre.clone()),
        ("add_final_layer_norm", pre),
        ("normalize_embedding", json!(false)),
        ("is_decoder", json!(false)),
        ("tie_encoder_decoder", json!(false)),
        ("pruned_heads", json!({})),
        ("cross_attention_hidden_size", Value::Null),
        ("quantization_config", Value::Null),
    ]
}

/// The shape of a model, and what `tx` noted of it if it wrote the file. All problems are in one list.
pub fn from_json(json: &Value) -> Result<(Config, Option<TxInfo>), Vec<String>> {
    let mut read = Reader { json, problems: Vec::new() };
    let family = read.family();
    let info = read.info();
    let special = SpecialIds {
        pad: read.id("pad_token_id"),
        unk: json["unk_token_id"].as_u64().and_then(|id| u32::try_from(id).ok()).unwrap_or(1),
        bos: read.id("decoder_start_token_id"),
        eos: read.id("eos_token_id"),
    };
    let Layout { norm, positions, first_position } = read.layout(family, info.as_ref(), special.pad);
    read.options(norm, special);
    let src_vocab = read.count("vocab_size");
    let tgt_vocab =
        if json["decoder_vocab_size"].is_null() { src_vocab } else { read.count("decoder_vocab_size") };
    let config = Config {
        src_vocab,
        tgt_vocab,
        d_model: read.count("d_model"),
        encoder: read.stack("encoder"),
        decoder: read.stack("decoder"),
        activation: read.activation(),
        tie: read.tie(),
        norm,
        positions,
        first_position,
        scale_embedding: json["scale_embedding"].as_bool().unwrap_or(family == Family::M2m100),
        max_positions: read.count("max_position_embeddings"),
        dropout: Dropouts {
            residual: read.share("dropout"),
            attention: read.share("attention_dropout"),
            activation: read.share("activation_dropout"),
        },
        special,
    };
    if read.problems.is_empty() { Ok((config, info)) } else { Err(read.problems) }
}

/// Reads typed values and keeps what is wrong with them.
struct Reader<'a> {
    json: &'a Value,
    problems: Vec<String>,
}

impl Reader<'_> {
    fn problem(&mut self, key: &str, expected: &str) {
        let found = self.json.get(key).map_or("missing".to_string(), Value::to_string);
        self.problems.push(format!("{key} is {found}, expected {expected}"));
    }

    fn family(&mut self) -> Family {
        let all = [Family::Marian, Family::Pegasus, Family::M2m100];
        let found = &self.json["model_type"];
        all.into_iter().find(|family| found == family.names().0).unwrap_or_else(|| {
            if found != INT8 {
                self.problem("model_type", "marian, pegasus or m2m_100 (which NLLB is too)");
            }
            Family::Marian
        })
    }

    fn info(&mut self) -> Option<TxInfo> {
        match serde_json::from_value::<TxInfo>(self.json.get("tx")?.clone()) {
            Ok(info) if info.format > FORMAT => {
                let what = format!("written by a newer tx (format {} > {FORMAT}): update tx", info.format);
                self.problems.push(what);
                None
            }
            Ok(info) => Some(info),
            Err(error) => {
                self.problems.push(format!("the object `tx` is not readable: {error}"));
                None
            }
        }
    }

    /// What tx noted, else what the family says.
    fn layout(&mut self, family: Family, info: Option<&TxInfo>, pad: u32) -> Layout {
        if let Some(info) = info {
            return Layout { norm: info.norm, positions: info.positions, first_position: 0 };
        }
        let noted = &self.json[LAYOUT];
        match serde_json::from_value::<Layout>(noted.clone()) {
            Ok(layout) if layout.first_position <= 1 << 16 => layout,
            _ => {
                if !noted.is_null() {
                    self.problem(LAYOUT, "norm, positions and first_position, as tx writes them");
                }
                family.layout(pad)
            }
        }
    }

    /// Options with other values than those that tx has.
    fn options(&mut self, norm: Norm, special: SpecialIds) {
        self.problems.extend(generation::differing(self.json, &fixed(norm)));
        self.problems.extend(generation::problems(self.json));
        // What tx never says anyway.
        let never = [json!([special.pad]), json!([special.unk])];
        let words = self.json["bad_words_ids"].as_array();
        if words.is_some_and(|words| !words.iter().all(|word| never.contains(word))) {
            self.problem("bad_words_ids", &format!("[[{}]], the padding alone", special.pad));
        }
    }

    fn tie(&mut self) -> Tie {
        let is = |key: &str| self.json[key] != false;
        match (is("share_encoder_decoder_embeddings"), is("tie_word_embeddings")) {
            (true, true) => Tie::All,
            (false, true) => Tie::Decoder,
            (false, false) => Tie::None,
            (true, false) => {
                self.problem("tie_word_embeddings", "true where share_encoder_decoder_embeddings is");
                Tie::All
            }
        }
    }

    fn count(&mut self, key: &str) -> usize {
        // Beyond this a number is damage, not a model.
        match self.json[key].as_u64().filter(|&n| n > 0 && n < 1 << 24) {
            Some(n) => n as usize,
            None => {
                self.problem(key, "a number from 1 to 16777215");
                1
            }
        }
    }

    fn id(&mut self, key: &str) -> u32 {
        match self.json[key].as_u64().and_then(|id| u32::try_from(id).ok()) {
            Some(id) => id,
            None => {
                self.problem(key, "a token id");
                0
            }
        }
    }

    fn share(&mut self, key: &str) -> f32 {
        match &self.json[key] {
            Value::Null => 0.0,
            value => value.as_f64().filter(|p| (0.0..1.0).contains(p)).map_or_else(
                || {
                    self.problem(key, "a share from 0 to below 1");
                    0.0
                },
                |p| p as f32,
            ),
        }
    }

    fn stack(&mut self, name: &str) -> Stack {
        Stack {
            layers: self.count(&format!("{name}_layers")),
            heads: self.count(&format!("{name}_attention_heads")),
            d_ff: self.count(&format!("{name}_ffn_dim")),
        }
    }

    fn activation(&mut self) -> Activation {
        serde_json::from_value(self.json["activation_function"].clone()).unwrap_or_else(|_| {
            self.problem("activation_function", "relu, gelu, swish or silu");
            Activation::Relu
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::written::to_json;
    use super::*;
    use crate::config::Preset;
    use candle_core::DType;

    #[test]
    fn a_config_survives_writing_and_reading() {
        let mut config = Config::new(Preset::Iwslt, 900);
        config.decoder = Stack { layers: 2, heads: 8, d_ff: 77 };
        config.activation = Activation::Swish;
        config.tie = Tie::Decoder;
        config.positions = Positions::Interleaved;
        config.src_vocab = 800;
        let info = TxInfo {
            format: FORMAT,
            norm: config.norm,
            positions: config.positions,
            src_lang: "en".into(),
            tgt_lang: "de".into(),
            tokenizer_sha256: "00".into(),
            alignment_head: Some(AlignmentHead { layer: 1, head: None }),
            provenance: json!({"seed": 1}),
        };
        assert_eq!(from_json(&to_json(&config, Some(&info), DType::F32)).unwrap(), (config, Some(info)));
    }

    #[test]
    fn all_problems_are_listed_together() {
        let mut json = to_json(&Config::new(Preset::Tiny, 10), None, DType::F32);
        json["model_type"] = json!("bart");
        json["normalize_before"] = json!(true);
        json["activation_function"] = json!("tanh");
        json["d_model"] = json!("128");
        json.as_object_mut().unwrap().remove("eos_token_id");
        let problems = from_json(&json).unwrap_err().join("\n");
        for part in [
            "model_type is \"bart\", expected marian, pegasus or m2m_100",
            "normalize_before is true, expected false: tx has no other",
            "activation_function is \"tanh\", expected relu",
            "d_model is \"128\", expected a number from 1",
            "eos_token_id is missing, expected a token id",
        ] {
            assert!(problems.contains(part), "{part:?} is not in {problems:?}");
        }
    }
}
