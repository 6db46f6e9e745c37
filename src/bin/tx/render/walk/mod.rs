//! One sentence on its way through the model: how it is told, on the terminal and as a page.

pub mod html;
pub mod text;

use tx::config::Config;
use tx::translate::walk::{Answer, Quantity, Stage, Walk};

/// What the rows or columns of a table are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// Source tokens.
    Src,
    /// What the decoder was fed.
    Fed,
    /// The same with what the decoder answers to it.
    Answered,
}

impl Axis {
    pub fn name(self) -> &'static str {
        match self {
            Axis::Src => "src",
            Axis::Fed => "fed",
            Axis::Answered => "answered",
        }
    }

    pub fn labels(self, walk: &Walk) -> Vec<String> {
        match self {
            Axis::Src => walk.src_tokens.clone(),
            Axis::Fed => walk.tgt_in.clone(),
            Axis::Answered => {
                let label = |(fed, answer): (&String, &Answer)| format!("{fed} → {}", answer.piece);
                walk.tgt_in.iter().zip(&walk.answers).map(label).collect()
            }
        }
    }
}

/// Stages of one sublayer, or of what stands before and after the layers.
pub struct Chapter<'a> {
    /// `encoder, layer 0: self-attention`
    pub title: String,
    /// Of which layer; none before and after them.
    pub layer: Option<usize>,
    /// What looks in its attention, and the rows elsewhere.
    pub queries: Axis,
    /// What its attention looks at.
    pub keys: Axis,
    pub stages: Vec<&'a Stage>,
}

/// The chapters of a walk in the order of the computation.
pub fn chapters(walk: &Walk) -> Vec<Chapter<'_>> {
    let mut chapters: Vec<Chapter> = Vec::new();
    // Both embeddings may have one name: the second is the target's.
    let mut is_target = false;
    for stage in &walk.stages {
        is_target |= stage.quantity == Quantity::Embedding && !chapters.is_empty();
        let (title, layer) = place(&stage.place, is_target);
        if chapters.last().is_none_or(|last| last.title != title) {
            let queries = if is_target { Axis::Answered } else { Axis::Src };
            let is_cross = stage.place.contains("encoder_attn");
            let keys = if is_target && !is_cross { Axis::Fed } else { Axis::Src };
            chapters.push(Chapter { title, layer, queries, keys, stages: Vec::new() });
        }
        if let Some(chapter) = chapters.last_mut() {
            chapter.stages.push(stage);
        }
    }
    chapters
}

impl Chapter<'_> {
    /// What the rows of a stage are.
    pub fn rows(&self, stage: &Stage) -> Axis {
        if matches!(stage.quantity, Quantity::Keys | Quantity::Values) { self.keys } else { self.queries }
    }
}

/// The sizes of a model, by the letters of the equations.
pub fn sizes(config: &Config) -> String {
    let Config { d_model, encoder, decoder, .. } = config;
    let heads = |heads: usize| format!("h = {heads} heads of d_k = d_model / h = {}", d_model / heads);
    let of_heads = if encoder.heads == decoder.heads {
        heads(encoder.heads)
    } else {
        format!("encoder: {}, decoder: {}", heads(encoder.heads), heads(decoder.heads))
    };
    format!("d_model = {d_model}, {of_heads}, {} + {} layers", encoder.layers, decoder.layers)
}

/// What a name of parameters stands for, and its layer.
fn place(name: &str, is_target: bool) -> (String, Option<usize>) {
    let side = if is_target { "decoder" } else { "encoder" };
    let Some((_, rest)) = name.split_once(".layers.") else {
        let title = match name {
            "output" => "output".to_string(),
            _ if name.ends_with("layer_norm") => format!("{side}: last norm"),
            _ => format!("{}: embedding and position", if is_target { "target" } else { "source" }),
        };
        return (title, None);
    };
    let (number, sublayer) = rest.split_once('.').unwrap_or((rest, ""));
    let what = match sublayer {
        _ if sublayer.starts_with("self_attn") && is_target => "masked self-attention",
        _ if sublayer.starts_with("self_attn") => "self-attention",
        _ if sublayer.starts_with("encoder_attn") => "attention to the source",
        _ => "feed-forward network",
    };
    (format!("{side}, layer {number}: {what}"), number.parse().ok())
}

/// What it is called, and what it is for.
pub fn meaning(quantity: Quantity) -> (&'static str, &'static str) {
    match quantity {
        Quantity::Embedding => ("embedding", "each token is a row of a table that was learnt: what it means"),
        Quantity::ScaledEmbedding => {
            ("scaled embedding", "made larger, so that its position does not drown it")
        }
        Quantity::Positions => (
            "position",
            "where a token stands, as waves of ever greater length: nothing else tells the order",
        ),
        Quantity::Input => ("input", "meaning and position added up: what the first layer reads"),
        Quantity::Queries => ("queries", "what each token asks for"),
        Quantity::Keys => ("keys", "what each token answers to"),
        Quantity::Values => ("values", "what each token tells whoever looks at it"),
        Quantity::Dots => ("scores", "how well the query of a row fits the key of a column"),
        Quantity::ScaledDots => (
            "scaled scores",
            "a sum of d_k products grows like √d_k: divided by it, or the softmax would give nearly all to the largest",
        ),
        Quantity::MaskedDots => {
            ("masked scores", "what comes later is not yet said and must not be seen: its share becomes 0")
        }
        Quantity::Weights => (
            "weights",
            "each row becomes shares of 1, the greater a score the larger: which token looks at which",
        ),
        Quantity::HeadOutputs => ("outputs of the head", "the values, mixed by these shares"),
        Quantity::MultiHead => {
            ("outputs of all heads", "all heads side by side, and mixed by one more matrix")
        }
        Quantity::Hidden => {
            ("inner layer", "each token by itself, in more dimensions; what does not fire is 0")
        }
        Quantity::FeedForward => ("output of the network", "back in the dimensions of the model"),
        Quantity::Residual => {
            ("residual", "what came in is added, so that a sublayer only says what to change")
        }
        Quantity::Norm => {
            ("layer norm", "each row moved to mean 0 and variance 1, then stretched as was learnt")
        }
        Quantity::Logits => {
            ("logits", "a number for each piece of the vocabulary: how well it would come next")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_have_titles() {
        let title = |name, is_target| place(name, is_target).0;
        assert_eq!(title("model.shared", false), "source: embedding and position");
        assert_eq!(title("model.shared", true), "target: embedding and position");
        assert_eq!(
            title("model.encoder.layers.2.self_attn_layer_norm", false),
            "encoder, layer 2: self-attention"
        );
        assert_eq!(
            title("model.decoder.layers.0.self_attn", true),
            "decoder, layer 0: masked self-attention"
        );
        assert_eq!(
            title("model.decoder.layers.0.encoder_attn_layer_norm", true),
            "decoder, layer 0: attention to the source"
        );
        assert_eq!(
            place("model.encoder.layers.11", false),
            ("encoder, layer 11: feed-forward network".into(), Some(11))
        );
        assert_eq!(title("model.decoder.layer_norm", true), "decoder: last norm");
        assert_eq!(place("output", true), ("output".into(), None));
    }
}
