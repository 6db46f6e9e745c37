//! How a model that `tx` did not train wants to be decoded: `generation_config.json` of Hugging Face, or, as in older directories,
//! the same keys in `config.json`.

use serde_json::{Value, json};

/// The wishes of a model; 0 and none are no wish.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Generation {
    /// Beam size.
    pub num_beams: Option<usize>,
    /// x of len^x, the only penalty Hugging Face knows.
    pub length_penalty: Option<f64>,
    /// Least number of decoding steps, that of the end mark included.
    pub min_length: usize,
    /// No sequence of this many tokens occurs twice.
    pub no_repeat_ngram: usize,
    /// What log-probabilities of tokens that occurred already are multiplied by.
    pub repetition_penalty: Option<f32>,
}

/// Options of decoding with the one value that tx has without being told.
fn fixed() -> [(&'static str, Value); 8] {
    [
        ("do_sample", json!(false)),
        ("num_beam_groups", json!(1)),
        ("diversity_penalty", json!(0)),
        ("encoder_no_repeat_ngram_size", json!(0)),
        ("forced_bos_token_id", Value::Null),
        ("suppress_tokens", Value::Null),
        ("begin_suppress_tokens", Value::Null),
        ("exponential_decay_length_penalty", Value::Null),
    ]
}

/// The keys of `options` that have another value in `json` than there; absent and null are that value.
pub(super) fn differing(json: &Value, options: &[(&str, Value)]) -> Vec<String> {
    let differs = |(key, expected): &&(&str, Value)| {
        let found = &json[*key];
        let same = match (found.as_f64(), expected.as_f64()) {
            (Some(found), Some(expected)) => found == expected,
            _ => found == expected,
        };
        !(found.is_null() || same)
    };
    let named = |(key, expected): &(&str, Value)| {
        format!("{key} is {}, expected {expected}: tx has no other", json[*key])
    };
    options.iter().filter(differs).map(named).collect()
}

/// What is asked for that tx does not do.
pub(super) fn problems(json: &Value) -> Vec<String> {
    differing(json, &fixed())
}

/// The wishes in `json`, or all that cannot be fulfilled.
pub(super) fn from_json(json: &Value) -> Result<Generation, Vec<String>> {
    let problems = problems(json);
    if !problems.is_empty() {
        return Err(problems);
    }
    let count = |key: &str| json[key].as_u64().and_then(|n| usize::try_from(n).ok());
    Ok(Generation {
        num_beams: count("num_beams"),
        length_penalty: json["length_penalty"].as_f64(),
        min_length: count("min_length").unwrap_or(0),
        no_repeat_ngram: count("no_repeat_ngram_size").unwrap_or(0),
        repetition_penalty: json["repetition_penalty"].as_f64().map(|penalty| penalty as f32),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_are_read_and_what_cannot_be_is_listed() {
        let json =
            json!({"num_beams": 6, "min_length": 3, "no_repeat_ngram_size": 2, "num_beam_groups": 1.0});
        let found = from_json(&json).unwrap();
        assert_eq!((found.num_beams, found.min_length, found.no_repeat_ngram), (Some(6), 3, 2));
        let json = json!({"do_sample": true, "forced_bos_token_id": 7, "diversity_penalty": 0.0});
        assert_eq!(
            from_json(&json).unwrap_err(),
            [
                "do_sample is true, expected false: tx has no other",
                "forced_bos_token_id is 7, expected null: tx has no other"
            ]
        );
    }
}
