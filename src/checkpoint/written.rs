//! What a model directory says about itself in JSON, in the form of the Hugging Face family that computes as the model does.

use super::Generation;
use super::config_json::{Family, INT8, LAYOUT, Layout, TxInfo};
use crate::config::{Config, Tie};
use candle_core::DType;
use serde_json::{Value, json};

/// `config.json` of a model whose weights are stored as `dtype`.
pub fn to_json(config: &Config, info: Option<&TxInfo>, dtype: DType) -> Value {
    let dtype = if dtype == DType::F16 { "float16" } else { "float32" };
    let special = config.special;
    let family = Family::of(config);
    let (model_type, architecture) = family.names();
    let mut json = json!({
        "architectures": [architecture],
        "model_type": model_type,
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
    let layout = Layout::of(config);
    if let Some(info) = info {
        json["tx"] = json!(info);
    } else if layout != family.layout(special.pad) {
        json[LAYOUT] = json!(layout);
    }
    json
}

/// `config.json` of a model whose matrices are stored as int8.
pub fn to_int8_json(config: &Config, info: Option<&TxInfo>) -> Value {
    let mut json = to_json(config, info, DType::F32);
    json["architectures"] = json!(["TxInt8Model"]);
    json["model_type"] = json!(INT8);
    if info.is_none() {
        json[LAYOUT] = json!(Layout::of(config));
    }
    json["dtype"] = json!("int8");
    json
}

/// 0.1f32 as 0.1, not as 0.10000000149.
fn rounded(x: f32) -> f64 {
    x.to_string().parse().unwrap_or(f64::from(x))
}

/// `generation_config.json`, for Hugging Face: without a max_length it would cut after 20 tokens. `is_ours` is a model of ours, which
/// others should decode much as we do.
pub fn generation_json(config: &Config, generation: Generation, is_ours: bool) -> Value {
    let special = config.special;
    let mut json = json!({
        "bos_token_id": special.bos,
        "decoder_start_token_id": special.bos,
        "eos_token_id": special.eos,
        "pad_token_id": special.pad,
        "max_length": config.max_positions,
        "early_stopping": false,
    });
    if let Some(beams) = generation.num_beams.or(is_ours.then_some(4)) {
        json["num_beams"] = json!(beams);
    }
    if let Some(penalty) = generation.length_penalty.or(is_ours.then_some(1.0)) {
        json["length_penalty"] = json!(penalty);
    }
    for (key, value) in
        [("min_length", generation.min_length), ("no_repeat_ngram_size", generation.no_repeat_ngram)]
    {
        if value > 0 {
            json[key] = json!(value);
        }
    }
    if let Some(penalty) = generation.repetition_penalty {
        json["repetition_penalty"] = json!(rounded(penalty));
    }
    if special.bos == special.pad {
        // Else `transformers` would say it.
        json["bad_words_ids"] = json!([[special.pad]]);
    }
    json
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
