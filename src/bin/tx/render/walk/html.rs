//! The walk as one page of HTML that needs nothing else.

use super::{Chapter, chapters, meaning};
use crate::render::html::{Page, escape, floats};
use serde_json::{Value, json};
use tx::candle_core;
use tx::config::Config;
use tx::translate::walk::{Quantity, Stage, Walk};

const PAGE: Page = Page {
    template: include_str!("page.html"),
    style: include_str!("style.css"),
    script: include_str!("page.js"),
};

/// Columns that are shown of a row that is as wide as the model.
const COLUMNS: usize = 16;

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
            stages.push(numbers(stage, index)?);
        }
        sections += "</section>\n";
    }
    let index = chapters.len();
    contents += &format!("<li><a href=\"#c{index}\">what comes next</a></li>\n");
    sections += &answers(walk, index);
    let option = |n: usize| format!("<option value=\"{n}\">{n}</option>");
    let options = |count: usize| (0..count).map(option).collect::<String>();
    let rows =
        |chapter: &Chapter| if std::ptr::eq(chapter.rows, &walk.src_tokens[..]) { "src" } else { "tgt_in" };
    let keys =
        |chapter: &Chapter| if std::ptr::eq(chapter.keys, &walk.src_tokens[..]) { "src" } else { "tgt_in" };
    let data = json!({
        "tokens": {"src": walk.src_tokens, "tgt_in": walk.tgt_in},
        "chapters": chapters.iter().map(|chapter| json!({"rows": rows(chapter), "keys": keys(chapter)})).collect::<Vec<_>>(),
        "stages": stages,
    });
    let remarks = format!(
        "Model: {model}. Numbers are kept as floats of 16 bits; of rows as wide as the model the first {COLUMNS} columns are shown, and --format json has all of them in full."
    );
    let parts = [
        ("title", escape(&format!("Walk: {}", walk.src))),
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
    Ok(PAGE.fill(&parts, &data))
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
        escape(&equation),
        escape(&stage.place),
    )
}

/// A stage for the script: [heads × rows × columns].
fn numbers(stage: &Stage, chapter: usize) -> candle_core::Result<Value> {
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
        "chapter": chapter, "heads": heads, "rows": rows, "columns": shown, "left": columns - shown, "is_square": is_square,
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
