//! Attention as one page of HTML that needs nothing else: the weights are in it as text, and drawn by its script as they
//! are looked at.

use super::visible;
use crate::render::html::{Page, base64, escape, floats};
use serde_json::{Value, json};
use tx::model::trace::Kind;
use tx::translate::alignment::Unit;
use tx::translate::inspection::{Axis, Inspection, Matrix, Shown};

const PAGE: Page = Page {
    template: include_str!("page.html"),
    style: include_str!("style.css"),
    script: concat!(
        include_str!("data.js"),
        include_str!("overview.js"),
        include_str!("map.js"),
        include_str!("lines.js"),
        include_str!("page.js"),
    ),
};

/// Weights that have two bytes each: more of them have one, so that the page can still be sent and opened.
const MANY: usize = 12_000_000;

/// What is shown first.
pub struct Start {
    pub kind: Kind,
    /// None for the last.
    pub layer: Option<usize>,
    /// None for the mean.
    pub head: Option<usize>,
    pub shown: Shown,
}

/// How a weight is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Code {
    Float16,
    /// 0, or 2^((code - 255) / 16).
    Logarithm8,
}

/// The page for sentences with the numbers of their lines, at least one, of the model called `model`.
pub fn page(model: &str, inspections: &[(u64, Inspection)], start: &Start) -> String {
    let count: usize = inspections.iter().map(|(_, inspection)| cells(inspection)).sum();
    let code = if count > MANY { Code::Logarithm8 } else { Code::Float16 };
    let title = match inspections {
        [(_, only)] => format!("Attention: {}", only.src),
        several => format!("Attention in {} sentences", several.len()),
    };
    PAGE.fill(&title, &[("remarks", remarks(model, code))], &data(inspections, start, code))
}

fn cells(inspection: &Inspection) -> usize {
    let heads = Kind::ALL.iter().flat_map(|&kind| inspection.view(kind).weights.iter().flatten());
    heads.map(|head| head.len() * head.first().map_or(0, Vec::len)).sum()
}

fn remarks(model: &str, code: Code) -> String {
    let exactness = match code {
        Code::Float16 => {
            "Weights are kept as floats of 16 bits, which is within 0.05 % of what the model computed (below 0.00006 within 0.00000003); three digits are shown."
        }
        Code::Logarithm8 => {
            "There are so many weights that each is kept in 8 bits, within 2.2 % of what the model computed, and as 0 below 0.000016."
        }
    };
    let sums = "Each row is a query, each column a key. Rows sum to 1 with the marks among their columns; a row without any colour looked at hidden marks alone.";
    [format!("Model: {model}."), sums.to_string(), exactness.to_string()]
        .map(|remark| format!("<p>{}</p>\n", escape(&remark)))
        .concat()
}

fn data(inspections: &[(u64, Inspection)], start: &Start, code: Code) -> Value {
    let first = inspections.first().map(|(_, inspection)| inspection);
    let heads = |kind| first.and_then(|one| one.view(kind).weights.first()).map_or(0, Vec::len);
    let layers = first.map_or(0, |one| one.view(start.kind).weights.len());
    let name = |kind: Kind| first.map_or("", |one| one.view(kind).name);
    let sentence = |(line, one): &(u64, Inspection)| {
        let weights: serde_json::Map<String, Value> = Kind::ALL
            .iter()
            .map(|&kind| one.view(kind))
            .map(|view| (view.name.into(), view.weights.iter().map(|layer| encode(layer, code)).collect()))
            .collect();
        json!({
            "line": line,
            "src": one.src,
            "tgt": one.tgt,
            "axes": {"src": axis(&one.src_tokens), "tgt_in": axis(&one.tgt_in), "tgt_out": axis(&one.tgt_out)},
            "weights": weights,
        })
    };
    json!({
        "bits": if code == Code::Float16 { 16 } else { 8 },
        "heads": Kind::ALL.iter().map(|&kind| (name(kind).to_string(), json!(heads(kind)))).collect::<serde_json::Map<_, _>>(),
        "start": {
            "kind": name(start.kind),
            "layer": start.layer.unwrap_or(layers.saturating_sub(1)),
            "head": start.head.map_or(json!("mean"), |head| json!(head)),
            "unit": if start.shown.unit == Unit::Words { "words" } else { "pieces" },
            "marks": start.shown.marks,
        },
        "sentences": inspections.iter().map(sentence).collect::<Vec<_>>(),
    })
}

fn axis(axis: &Axis) -> Value {
    let visible = |texts: &[String]| texts.iter().map(|text| visible(text)).collect::<Vec<_>>();
    json!({
        "pieces": visible(&axis.pieces),
        "words": visible(&axis.words),
        "word_of": axis.word_of,
        "is_mark": axis.is_mark,
    })
}

/// The heads of a layer one after the other, little-endian.
fn encode(layer: &[Matrix], code: Code) -> String {
    let weights = layer.iter().flatten().flatten();
    match code {
        Code::Float16 => floats(weights),
        Code::Logarithm8 => base64(&weights.map(|&weight| logarithm(weight)).collect::<Vec<u8>>()),
    }
}

fn logarithm(weight: f32) -> u8 {
    (255.0 + 16.0 * weight.log2()).round().clamp(0.0, 255.0) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_by_hand() {
        let layer = [vec![vec![1.0, 0.0]], vec![vec![0.5, 0.25]]];
        assert_eq!(encode(&layer, Code::Float16), base64(&[0x00, 0x3c, 0, 0, 0x00, 0x38, 0x00, 0x34]));
        assert_eq!(encode(&layer, Code::Logarithm8), base64(&[255, 0, 239, 223]));
        for weight in [1.7e-5f32, 0.001, 0.3, 0.99] {
            let back = ((f32::from(logarithm(weight)) - 255.0) / 16.0).exp2();
            assert!((back / weight - 1.0).abs() < 0.022, "{weight} {back}");
        }
    }
}
