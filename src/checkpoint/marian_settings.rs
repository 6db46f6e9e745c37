//! The settings of a Marian model (`special:model.yml`) as the shape of a model, and `decoder.yml`.

use super::Generation;
use super::names::short;
use super::yaml::Settings;
use crate::config::{Activation, Config, Dropouts, Norm, Positions, SpecialIds, Stack, Tie};

/// Settings that change what a model computes, and the only values that tx has; absent ones are at them.
const FIXED: [(&str, &[&str]); 20] = [
    ("transformer-decoder-autoreg", &["self-attention"]),
    ("transformer-ffn-depth", &["2"]),
    ("transformer-decoder-ffn-depth", &["0", "2"]),
    ("transformer-no-projection", &["false"]),
    ("transformer-no-bias", &["false"]),
    ("transformer-no-affine", &["false"]),
    ("transformer-train-positions", &["false"]),
    ("transformer-train-position-embeddings", &["false"]),
    ("transformer-disable-position-embeddings", &["false"]),
    ("transformer-rnn-projection", &["false"]),
    ("transformer-pool", &["false"]),
    ("transformer-postprocess-emb", &["d", ""]),
    ("transformer-tied-layers", &[]),
    ("input-types", &[]),
    ("lemma-dim-emb", &["0"]),
    ("lemma-dependency", &[""]),
    ("output-omit-bias", &["false"]),
    ("embedding-normalization", &["false"]),
    ("right-left", &["false"]),
    ("ulr", &["false"]),
];

/// The shape of the model; all problems are in one list.
pub fn shape(settings: &Settings) -> Result<Config, Vec<String>> {
    let mut read = Reader { settings, problems: Vec::new() };
    if settings.get("type") != Some("transformer") {
        read.problem("type", "transformer");
    }
    for (key, allowed) in FIXED {
        let fits = |value: &String| allowed.contains(&value.as_str());
        if !settings.list(key).iter().all(fits) {
            read.problem(key, &format!("{}: tx has no other", allowed.first().unwrap_or(&"[]")));
        }
    }
    let vocabs = read.vocabs();
    // One row more than the larger vocabulary: the padding.
    let pad = vocabs[0].max(vocabs[1]);
    let (d_ff, heads) = (read.count("transformer-dim-ffn"), read.count("transformer-heads"));
    let decoder_d_ff = match settings.get("transformer-decoder-dim-ffn") {
        None | Some("0") => d_ff,
        Some(_) => read.count("transformer-decoder-dim-ffn"),
    };
    let config = Config {
        src_vocab: pad + 1,
        tgt_vocab: pad + 1,
        d_model: read.count("dim-emb"),
        encoder: Stack { layers: read.count("enc-depth"), heads, d_ff },
        decoder: Stack { layers: read.count("dec-depth"), heads, d_ff: decoder_d_ff },
        activation: read.activation(),
        tie: read.tie(),
        norm: read.norm(),
        positions: Positions::T2t,
        first_position: 0,
        scale_embedding: true,
        // Marian has no limit; this is what `transformers` gives the models of OPUS-MT.
        max_positions: 512,
        dropout: Dropouts::default(),
        special: SpecialIds { pad: pad as u32, unk: 1, bos: pad as u32, eos: 0 },
    };
    if read.problems.is_empty() { Ok(config) } else { Err(read.problems) }
}

/// What `decoder.yml` asks for. Its `normalize` is the power of the length that log_prob is divided by.
pub fn decoding(settings: &Settings) -> Result<Generation, String> {
    let number = |key: &str| match settings.get(key) {
        None => Ok(None),
        Some(text) => {
            text.parse::<f64>().map(Some).map_err(|_| format!("{key} is {text:?}, expected a number"))
        }
    };
    if number("word-penalty")?.is_some_and(|penalty| penalty != 0.0) {
        return Err(format!(
            "word-penalty is {}, expected 0: leave it out here and give --word-penalty instead",
            settings.get("word-penalty").unwrap_or_default()
        ));
    }
    let num_beams = match settings.get("beam-size") {
        None => None,
        Some(text) => match text.parse() {
            Ok(size) if (1..=1 << 16).contains(&size) => Some(size),
            _ => return Err(format!("beam-size is {text:?}, expected a number from 1 to 65536")),
        },
    };
    Ok(Generation { num_beams, length_penalty: number("normalize")?, ..Generation::default() })
}

struct Reader<'a> {
    settings: &'a Settings,
    problems: Vec<String>,
}

impl Reader<'_> {
    fn problem(&mut self, key: &str, expected: &str) {
        let found = match self.settings.list(key) {
            [] => "missing".to_string(),
            [one] => format!("\"{}\"", short(one)),
            several => format!("{:?}", several.iter().take(8).map(|one| short(one)).collect::<Vec<_>>()),
        };
        self.problems.push(format!("{key} is {found}, expected {expected}"));
    }

    fn count(&mut self, key: &str) -> usize {
        let found = self.settings.get(key).and_then(|text| text.parse().ok());
        found.filter(|n| (1..1 << 24).contains(n)).unwrap_or_else(|| {
            self.problem(key, "a number from 1 to 16777215");
            1
        })
    }

    /// Pieces of source and target.
    fn vocabs(&mut self) -> [usize; 2] {
        let sizes = self.settings.list("dim-vocabs").iter().map(|text| text.parse().ok());
        let sizes: Option<Vec<usize>> = sizes.map(|size| size.filter(|n| (2..1 << 24).contains(n))).collect();
        match sizes.as_deref() {
            Some(&[src, tgt]) => [src, tgt],
            _ => {
                self.problem("dim-vocabs", "two numbers, the pieces of source and target");
                [2, 2]
            }
        }
    }

    fn activation(&mut self) -> Activation {
        match self.settings.get("transformer-ffn-activation") {
            None | Some("swish") => Activation::Swish,
            Some("relu") => Activation::Relu,
            Some("gelu") => Activation::Gelu,
            Some(_) => {
                self.problem("transformer-ffn-activation", "swish, relu or gelu");
                Activation::Swish
            }
        }
    }

    fn tie(&mut self) -> Tie {
        let is = |key: &str| self.settings.get(key) == Some("true");
        match (is("tied-embeddings-all"), is("tied-embeddings-src"), is("tied-embeddings")) {
            (true, _, _) | (false, true, true) => Tie::All,
            (false, false, true) => Tie::Decoder,
            (false, false, false) => Tie::None,
            (false, true, false) => {
                self.problem("tied-embeddings-src", "false where tied-embeddings is: tx has no such tie");
                Tie::None
            }
        }
    }

    /// `n` is the norm, `a` the sum; `d`, dropout, is for training alone.
    fn norm(&mut self) -> Norm {
        let steps = |name: &str, default: &str| {
            self.settings.get(&format!("transformer-{name}")).unwrap_or(default).replace('d', "")
        };
        let places = [steps("preprocess", ""), steps("postprocess", "dan"), steps("postprocess-top", "")];
        match places.each_ref().map(String::as_str) {
            ["", "an", ""] => Norm::Post,
            ["n", "a", "n"] => Norm::Pre,
            _ => {
                self.problem("transformer-postprocess", "dan with nothing in -preprocess and -postprocess-top (post-norm), or da with n in both (pre-norm)");
                Norm::Post
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_problems_are_listed_together() {
        let text = b"type: s2s\ndim-vocabs: [9]\nright-left: true\ntransformer-heads: 8\ntransformer-ffn-activation: tanh\n\
                     transformer-preprocess: n\ndec-depth: 0\n";
        let problems = shape(&Settings::parse(text).unwrap()).unwrap_err().join("\n");
        for part in [
            "type is \"s2s\", expected transformer",
            "right-left is \"true\", expected false: tx has no other",
            "dim-vocabs is \"9\", expected two numbers",
            "dim-emb is missing, expected a number",
            "dec-depth is \"0\"",
            "transformer-ffn-activation is \"tanh\"",
            "transformer-postprocess is missing, expected dan",
        ] {
            assert!(problems.contains(part), "{part:?} is not in {problems:?}");
        }
    }
}
