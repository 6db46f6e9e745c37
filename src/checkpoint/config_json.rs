//! `config.json` and its companions in the form of Hugging Face Marian, which our own directories share.

use super::Generation;
use crate::config::{Activation, Config, Dropouts, Positions, SpecialIds, Stack, Tie};
use candle_core::DType;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What `tx` adds to `config.json` under the key `tx`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TxInfo {
    /// Version of this object.
    pub format: u32,
    /// Where the layer norm stands: `post`.
    pub norm: String,
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

/// `config.json` of a model whose weights are stored as `dtype`.
pub fn to_json(config: &Config, info: Option<&TxInfo>, dtype: DType) -> Value {
    let dtype = if dtype == DType::F16 { "float16" } else { "float32" };
    let special = config.special;
    let mut json = json!({
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": true,
        "vocab_size": config.src_vocab,
        "decoder_vocab_size": config.tgt_vocab,
        "d_model": config.d_model,
        "encoder_layers": config.encoder.layers,
        "encoder_attention_heads": config.encoder.heads,
        "encoder_ffn_dim": config.encoder.d_ff,
        "decoder_layers": config.decoder.layers,
        "decoder_attention_heads": config.decoder.heads,
        "decoder_ffn_dim": config.decoder.d_ff,
        "activation_function": config.activation,
        "dropout": rounded(config.dropout.residual),
        "attention_dropout": rounded(config.dropout.attention),
        "activation_dropout": rounded(config.dropout.activation),
        "scale_embedding": config.scale_embedding,
        "static_position_embeddings": true,
        "max_position_embeddings": config.max_positions,
        "pad_token_id": special.pad,
        "unk_token_id": special.unk,
        "bos_token_id": special.bos,
        "eos_token_id": special.eos,
        "decoder_start_token_id": special.bos,
        "forced_eos_token_id": null,
        "share_encoder_decoder_embeddings": config.tie == Tie::All,
        "tie_word_embeddings": config.tie != Tie::None,
        "use_cache": true,
        "dtype": dtype,
    });
    if let Some(info) = info {
        json["tx"] = json!(info);
    }
    json
}

/// The `model_type` of a model whose matrices are stored as int8, in a file that no other program reads.
const INT8: &str = "tx_int8";

/// `config.json` of a model whose matrices are stored as int8.
pub fn to_int8_json(config: &Config, info: Option<&TxInfo>) -> Value {
    let mut json = to_json(config, info, DType::F32);
    json["architectures"] = json!(["TxInt8Model"]);
    json["model_type"] = json!(INT8);
    json["dtype"] = json!("int8");
    json
}

/// 0.1f32 as 0.1, not as 0.10000000149.
fn rounded(x: f32) -> f64 {
    x.to_string().parse().unwrap_or(f64::from(x))
}

/// The shape of a model, and what `tx` noted of it if it wrote the file. All problems are in one list.
pub fn from_json(json: &Value) -> Result<(Config, Option<TxInfo>), Vec<String>> {
    let mut read = Reader { json, problems: Vec::new() };
    if json["model_type"] != "marian" && json["model_type"] != INT8 {
        read.problem("model_type", "\"marian\"");
    }
    for key in ["normalize_before", "normalize_embedding", "add_final_layer_norm"] {
        if json[key] == true {
            read.problem(key, "false: only the post-norm Transformer of the paper is supported");
        }
    }
    let info = match json.get("tx") {
        Some(value) => match serde_json::from_value::<TxInfo>(value.clone()) {
            Ok(info) if info.format > FORMAT => {
                read.problems
                    .push(format!("written by a newer tx (format {} > {FORMAT}): update tx", info.format));
                None
            }
            Ok(info) => Some(info),
            Err(error) => {
                read.problems.push(format!("the object `tx` is not readable: {error}"));
                None
            }
        },
        None => None,
    };
    let src_vocab = read.count("vocab_size");
    let tgt_vocab = json["decoder_vocab_size"].as_u64().map_or(src_vocab, |n| n as usize);
    let tie = match (json["share_encoder_decoder_embeddings"] != false, json["tie_word_embeddings"] != false)
    {
        (true, true) => Tie::All,
        (false, true) => Tie::Decoder,
        (false, false) => Tie::None,
        (true, false) => {
            read.problem("tie_word_embeddings", "true where share_encoder_decoder_embeddings is");
            Tie::All
        }
    };
    let config = Config {
        src_vocab,
        tgt_vocab,
        d_model: read.count("d_model"),
        encoder: read.stack("encoder"),
        decoder: read.stack("decoder"),
        activation: read.activation(),
        tie,
        positions: info.as_ref().map_or(Positions::Halves, |info| info.positions),
        scale_embedding: json["scale_embedding"] == true,
        max_positions: read.count("max_position_embeddings"),
        dropout: Dropouts {
            residual: read.share("dropout"),
            attention: read.share("attention_dropout"),
            activation: read.share("activation_dropout"),
        },
        special: SpecialIds {
            pad: read.id("pad_token_id"),
            unk: json["unk_token_id"].as_u64().map_or(1, |id| id as u32),
            bos: read.id("decoder_start_token_id"),
            eos: read.id("eos_token_id"),
        },
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

/// `generation_config.json`, for Hugging Face: without a max_length it would cut after 20 tokens.
pub fn generation_json(config: &Config, generation: Generation) -> Value {
    json!({
        "bos_token_id": config.special.bos,
        "decoder_start_token_id": config.special.bos,
        "eos_token_id": config.special.eos,
        "pad_token_id": config.special.pad,
        "max_length": config.max_positions,
        "num_beams": generation.num_beams.unwrap_or(4),
        "length_penalty": generation.length_penalty.unwrap_or(1.0),
        "early_stopping": false,
    })
}

/// `tokenizer_config.json`, for Hugging Face.
pub fn tokenizer_config_json(config: &Config) -> Value {
    json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "model_max_length": config.max_positions,
        "clean_up_tokenization_spaces": false,
        "split_special_tokens": true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Preset;

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
            norm: "post".into(),
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
            "model_type is \"bart\", expected \"marian\"",
            "normalize_before is true",
            "activation_function is \"tanh\", expected relu",
            "d_model is \"128\", expected a number from 1",
            "eos_token_id is missing, expected a token id",
        ] {
            assert!(problems.contains(part), "{part:?} is not in {problems:?}");
        }
    }
}
