//! An evaluation as one page of HTML that needs nothing else: no network, no other file.

use super::{Evaluation, SIDES, System, likelihood_rows, text};
use crate::cli::Measure;
use crate::render::html::{SORT, escape, fill, pair, sortable};

/// Script and the places to fill.
const TEMPLATE: &str = include_str!("page.html");

/// The page.
pub fn page(evaluation: &Evaluation) -> String {
    let title = format!("Evaluation of {}", evaluation.src_name);
    let parts = [
        ("heading", escape(&title)),
        ("files", files(evaluation)),
        ("scores", scores(evaluation)),
        ("remarks", remarks(evaluation)),
        ("lines", if evaluation.shown.is_empty() { String::new() } else { lines(evaluation) }),
        ("script", SORT.to_string()),
    ];
    fill(TEMPLATE, "", &title, &parts)
}

fn files(evaluation: &Evaluation) -> String {
    let systems = SIDES.iter().zip(&evaluation.systems).map(|(side, system)| pair(side, &system.name));
    let references = pair("references", &evaluation.reference_names.join(", "));
    systems.chain([references, pair("lines", &evaluation.src.len().to_string())]).collect()
}

/// Scores with their signatures, then likelihoods; of two systems side by side with the p-values.
fn scores(evaluation: &Evaluation) -> String {
    let against = evaluation.against();
    let names: &[&str] = match against {
        Some(_) => &["measure", "--model", "--against", "p (bootstrap)", "p (randomization)", "signature"],
        None => &["measure", "score", "signature"],
    };
    let head: String = names.iter().map(|name| format!("<th scope=\"col\">{name}</th>")).collect();
    let first = &evaluation.systems[0];
    let mut rows = String::new();
    for (index, score) in first.scores.iter().enumerate() {
        let cells = match evaluation.compared.get(index) {
            Some(row) => {
                let [first, second] = row.scores();
                let p = [row.bootstrap.p_value, row.randomization.p_value].map(|p| format!("{p:.4}"));
                vec![first, second].into_iter().chain(p).collect()
            }
            None => vec![format!("{:.*}", evaluation.width, score.score)],
        };
        rows += &row(score.name, &cells, &score.signature.to_string());
    }
    for (index, (name, value)) in likelihood_rows(&first.likelihood).into_iter().enumerate() {
        let mut cells = vec![format!("{value:.4}")];
        if let Some(against) = against {
            cells.push(format!("{:.4}", likelihood_rows(&against.likelihood)[index].1));
            cells.extend([String::new(), String::new()]);
        }
        rows += &row(name, &cells, &if index == 0 { text::scored(evaluation) } else { String::new() });
    }
    format!("<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>")
}

/// A row of the scores: numbers, then a remark.
fn row(name: &str, numbers: &[String], remark: &str) -> String {
    let cells: String = numbers.iter().map(|number| format!("<td class=\"n\">{number}</td>")).collect();
    format!("<tr><th scope=\"row\">{name}</th>{cells}<td><code>{}</code></td></tr>\n", escape(remark))
}

fn remarks(evaluation: &Evaluation) -> String {
    let tally = evaluation.against().map(|_| text::tally(evaluation));
    let all = tally.into_iter().chain(evaluation.remarks());
    all.map(|remark| format!("<p>{}</p>\n", escape(&remark))).collect()
}

/// The table of lines; its numbers can be sorted by.
fn lines(evaluation: &Evaluation) -> String {
    let mut head = sortable("line") + "<th scope=\"col\">text</th>";
    for (index, _) in evaluation.systems.iter().enumerate() {
        let side = if evaluation.against().is_some() { SIDES[index] } else { "" };
        for name in Measure::ALL.map(Measure::label).into_iter().chain(["log_prob"]) {
            head += &sortable(format!("{name} {side}").trim());
        }
    }
    let rows: String = evaluation.shown.iter().map(|&line| line_row(evaluation, line)).collect();
    let caption = escape(&evaluation.heading());
    format!(
        "<div class=\"wide\"><table class=\"sortable\"><caption>{caption}</caption>\n<thead><tr>{head}</tr></thead>\n\
         <tbody>\n{rows}</tbody></table></div>"
    )
}

fn line_row(evaluation: &Evaluation, line: usize) -> String {
    let mut texts = pair("src", &evaluation.src[line]);
    texts.extend(evaluation.references.iter().map(|file| pair("ref", &file[line])));
    let mut numbers = String::new();
    for (index, system) in evaluation.systems.iter().enumerate() {
        let name = if evaluation.against().is_some() { SIDES[index] } else { "hyp" };
        texts += &pair(name, &system.texts[line]);
        numbers += &cells(evaluation, system, line);
    }
    let number = line + 1;
    format!(
        "<tr><th scope=\"row\" data-value=\"{number}\">{number}</th><td><dl>{texts}</dl></td>{numbers}</tr>\n"
    )
}

/// The numbers of a system for a line, each with its full value to sort by.
fn cells(evaluation: &Evaluation, system: &System, line: usize) -> String {
    let cell = |value: Option<f64>, text: String| {
        let value = value.map_or(String::new(), |value| value.to_string());
        format!("<td class=\"n\" data-value=\"{value}\">{text}</td>")
    };
    let measures = Measure::ALL
        .map(|measure| cell(system.value(measure, line), evaluation.number(system, measure, line)));
    let log_prob = system.log_probs[line];
    measures.concat() + &cell(Some(log_prob), format!("{log_prob:.4}"))
}
