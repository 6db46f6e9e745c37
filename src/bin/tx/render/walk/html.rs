//! The walk as one page of HTML that needs nothing else.

use super::{Axis, Chapter, chapters, meaning, sizes};
use crate::render::html::{Page, escape, floats};
use serde_json::{Map, Value, json};
use tx::candle_core;
use tx::config::Config;
use tx::translate::walk::{Quantity, Stage, Walk};

const PAGE: Page = Page {
    template: include_str!("page.html"),
    style: include_str!("style.css"),
    script: include_str!("page.js"),
};

/// Columns that are shown of a row that is as wide as the model.
const COLUMNS: usize = 12;

/// The page of a walk through the model called `model`.
pub fn page(model: &str, walk: &Walk, config: &Config) -> candle_core::Result<String> {
    let chapters = chapters(walk);
    let (mut stages, mut sections, mut contents) = (Vec::new(), String::new(), String::new());
    for (index, chapter) in chapters.iter().enumerate() {
        let layer = chapter.layer.map_or(String::new(), |layer| format!(" data-layer=\"{layer}\""));
        let title = escape(&chapter.title);
        contents += &format!("<li{layer}><a href=\"#c{index}\">{title}</a></li>\n");
        sections += &format!("<section id=\"c{index}\"{layer}>\n<h2>{title}</h2>\n");
        for stage in &chapter.stages {
            sections += &section(stage, config, stages.len());
            stages.push(numbers(chapter, stage)?);
        }
        sections += "</section>\n";
    }
    let index = chapters.len();
    contents += &format!("<li><a href=\"#c{index}\">what comes next</a></li>\n");
    sections += &answers(walk, index);
    let option = |n: usize| format!("<option value=\"{n}\">{n}</option>");
    let options = |count: usize| (0..count).map(option).collect::<String>();
    let axes = [Axis::Src, Axis::Fed, Axis::Answered];
    let tokens: Map<String, Value> =
        axes.iter().map(|axis| (axis.name().to_string(), json!(axis.labels(walk)))).collect();
    let data = json!({"tokens": tokens, "stages": stages});
    let remarks = format!(
        "Model: {model}; {}. Sections are those of “Attention Is All You Need”. Rows of the decoder: what it is fed → what it answers. Numbers are kept as floats of 16 bits, and of wide rows the first {COLUMNS} columns; --format json has all of them in full.",
        sizes(config)
    );
    let parts = [
        (
            "heading",
            format!(
                "<span dir=\"auto\">{}</span> → <span dir=\"auto\">{}</span>",
                escape(&walk.src),
                escape(&walk.tgt)
            ),
        ),
        ("remarks", escape(&remarks)),
        ("layers", options(config.encoder.layers.max(config.decoder.layers))),
        ("heads", options(config.encoder.heads.max(config.decoder.heads))),
        ("contents", contents),
        ("chapters", sections),
    ];
    Ok(PAGE.fill(&format!("Walk: {}", walk.src), &parts, &data))
}

/// What is said about a stage, and where its table will be.
fn section(stage: &Stage, config: &Config, number: usize) -> String {
    let (name, why) = meaning(stage.quantity);
    let (equation, in_paper) = stage.quantity.equation(config);
    let shape: Vec<String> = stage.values.dims().iter().map(usize::to_string).collect();
    let map = match stage.quantity {
        Quantity::Logits => String::new(),
        _ => format!("<div class=\"map\" data-stage=\"{number}\" data-name=\"{name}\"></div>\n"),
    };
    format!(
        "<div class=\"stage\">\n<h3>{name} <span>[{}]</span></h3>\n<p>{why}</p>\n<p class=\"equation\">{}</p>\n<small>section {in_paper} · {}</small>\n{map}</div>\n",
        shape.join(" × "),
        markup(&equation),
        escape(&stage.place),
    )
}

/// `Q_i` and `10000^(2i)` with what stands low and high.
fn markup(equation: &str) -> String {
    let (mut html, mut chars) = (String::new(), equation.chars().peekable());
    while let Some(c) = chars.next() {
        let tag = match c {
            '_' => "sub",
            '^' => "sup",
            c => {
                html += &escape(c.encode_utf8(&mut [0; 4]));
                continue;
            }
        };
        let (mut part, mut depth) = (String::new(), 0);
        while let Some(&next) = chars.peek() {
            depth += i32::from(next == '(');
            let is_in = depth > 0 || next.is_alphanumeric();
            if !is_in || (depth == 0 && part.ends_with(')')) {
                break;
            }
            depth -= i32::from(next == ')');
            part.extend(chars.next());
        }
        html += &format!("<{tag}>{}</{tag}>", escape(&part));
    }
    html
}

/// A stage for the script: [heads × rows × columns].
fn numbers(chapter: &Chapter, stage: &Stage) -> candle_core::Result<Value> {
    let values = if stage.values.rank() == 2 { stage.values.unsqueeze(0)? } else { stage.values.clone() };
    let (heads, rows, columns) = values.dims3()?;
    let is_square = matches!(
        stage.quantity,
        Quantity::Dots | Quantity::ScaledDots | Quantity::MaskedDots | Quantity::Weights
    );
    let shown = match stage.quantity {
        Quantity::Logits => 0,
        _ if is_square => columns,
        _ => columns.min(COLUMNS),
    };
    let values: Vec<f32> = values.narrow(2, 0, shown)?.flatten_all()?.to_vec1()?;
    Ok(json!({
        "labels": chapter.rows(stage).name(), "across": is_square.then_some(chapter.keys.name()), "heads": heads, "rows": rows, "columns": shown, "left": columns - shown,
        "values": floats(&values),
    }))
}

/// Step by step what the decoder holds for likely.
fn answers(walk: &Walk, index: usize) -> String {
    let row = |(step, (answer, fed)): (usize, (&tx::translate::walk::Answer, &String))| {
        let percent = |log_prob: f32| format!("{:.1} %", 100.0 * log_prob.exp());
        let top: Vec<String> = answer
            .top
            .iter()
            .map(|likely| format!("<bdi>{}</bdi> {}", escape(&likely.piece), percent(likely.log_prob)))
            .collect();
        format!(
            "<tr><td class=\"n\">{}</td><td dir=\"auto\">{}</td><td>{}</td><td dir=\"auto\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
            step + 1,
            escape(fed),
            top.join(", "),
            escape(&answer.piece),
            percent(answer.log_prob),
            answer.rank
        )
    };
    let rows: String = walk.answers.iter().zip(&walk.tgt_in).enumerate().map(row).collect();
    format!(
        "<section id=\"c{index}\">\n<h2>what comes next</h2>\n<p>The softmax of the logits, p(y<sub>t</sub> | y<sub>&lt;t</sub>, x): how probable each piece is after those before it.</p>\n\
         <div class=\"wide\"><table><thead><tr><th class=\"n\">step</th><th>after</th><th>most probable</th><th>the translation has</th><th class=\"n\">probability</th><th class=\"n\">rank</th></tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n</section>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equations_have_indices() {
        assert_eq!(markup("Q_i K_iᵀ / √d_k"), "Q<sub>i</sub> K<sub>iᵀ</sub> / √d<sub>k</sub>");
        assert_eq!(
            markup("sin(pos / 10000^(2i/d_model)), 1 < 2"),
            "sin(pos / 10000<sup>(2i/d_model)</sup>), 1 &lt; 2"
        );
        assert_eq!(markup("e^x_j"), "e<sup>x</sup><sub>j</sub>");
    }
}
