//! The record of a run as one page of HTML beside `train.jsonl`: curves, validations, and what became of a few lines of
//! dev over time. It is written anew at each validation, from the files alone, so that a resumed run has all of it.

mod chart;

use super::html::{escape, fill, pair};
use chart::{Curve, figure};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tx::checkpoint::files::write_atomically;
use tx::train::run_dir::{Origin, RunDir};
use tx::train::validate::Validation;

const TEMPLATE: &str = include_str!("page.html");

/// Writes the report of one run.
pub struct Report {
    out: PathBuf,
    origin: Origin,
}

impl Report {
    /// Of the run in the model directory `out`.
    pub fn new(out: &Path, origin: &Origin) -> Self {
        Report { out: out.to_path_buf(), origin: origin.clone() }
    }

    /// Adds a validation to `validations.jsonl`, in the place of what an earlier run had from there on, and writes
    /// `report.html`.
    pub fn add(&self, step: u64, validation: &Validation, is_best: bool) -> anyhow::Result<()> {
        let path = self.out.join("validations.jsonl");
        let mut rows = read_rows(&path)?;
        rows.retain(|row| number(row, "step").is_some_and(|earlier| earlier < step as f64));
        let mut row = validation.to_json();
        (row["step"], row["is_best"]) = (json!(step), json!(is_best));
        let sample = |sample: &tx::train::validate::Sample| json!({"src": sample.src, "ref": sample.reference, "hyp": sample.hypothesis});
        row["samples"] = validation.samples.iter().map(sample).collect();
        rows.push(row);
        let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
        write_atomically(&path, text.as_bytes())?;
        let steps = read_rows(&RunDir::log_path(&self.out))?;
        Ok(write_atomically(&self.out.join("report.html"), self.page(&steps, &rows).as_bytes())?)
    }

    fn page(&self, steps: &[Value], validations: &[Value]) -> String {
        let Origin { src_lang, tgt_lang, .. } = &self.origin;
        let title = format!("Training {src_lang} → {tgt_lang}");
        let parts = [
            ("heading", escape(&title)),
            ("facts", self.facts(steps)),
            ("charts", charts(steps, validations)),
            ("validations", table(validations)),
            ("samples", samples(validations)),
            ("settings", self.settings()),
        ];
        fill(TEMPLATE, "", &title, &parts)
    }

    fn facts(&self, steps: &[Value]) -> String {
        let sum = |name| steps.iter().filter_map(|row| number(row, name)).sum::<f64>();
        let (seconds, tokens) = (sum("seconds"), sum("tgt_tokens"));
        let last = steps.last().and_then(|row| number(row, "step")).unwrap_or(0.0);
        [
            pair("model", &self.out.display().to_string()),
            pair("steps", &format!("{last:.0} of {}", self.origin.settings.max_steps)),
            pair("target tokens", &format!("{:.2} million", tokens / 1e6)),
            pair("time in steps", &duration(seconds)),
            pair("tx", &self.origin.version),
        ]
        .concat()
    }

    fn settings(&self) -> String {
        let settings = json!(self.origin.settings);
        let rows = settings.as_object().into_iter().flatten();
        rows.map(|(name, value)| pair(name, &value.to_string())).collect()
    }
}

/// `3 h 05 min`, `12 min 30 s`
fn duration(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match seconds / 3600 {
        0 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        hours => format!("{hours} h {:02} min", seconds / 60 % 60),
    }
}

/// The rows of a file of JSON lines; none if there is no file. A last row that was cut off by a kill is left out.
fn read_rows(path: &Path) -> anyhow::Result<Vec<Value>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = String::from_utf8_lossy(&tx::checkpoint::files::read(path)?).into_owned();
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

fn number(row: &Value, name: &str) -> Option<f64> {
    row[name].as_f64().filter(|number| number.is_finite())
}

fn curve(name: &'static str, rows: &[Value], field: &str, marked: bool) -> Curve {
    let points = rows.iter().filter_map(|row| Some((number(row, "step")?, number(row, field)?)));
    Curve { name, points: points.collect(), marked }
}

fn charts(steps: &[Value], validations: &[Value]) -> String {
    [
        figure(
            "Loss per target token",
            &[
                curve("train loss", steps, "loss", false),
                curve("train NLL", steps, "nll", false),
                curve("dev loss", validations, "loss", true),
                curve("dev NLL", validations, "nll", true),
            ],
        ),
        figure(
            "Dev scores, greedy",
            &[curve("BLEU", validations, "bleu", true), curve("chrF", validations, "chrf", true)],
        ),
        figure("Learning rate", &[curve("rate", steps, "lr", false)]),
        figure("Gradient norm before clipping", &[curve("norm", steps, "grad_norm", false)]),
        figure("Target tokens per second", &[curve("speed", steps, "tgt_tok_s", false)]),
    ]
    .concat()
}

fn table(validations: &[Value]) -> String {
    let columns = [("loss", 4), ("nll", 4), ("perplexity", 2), ("bleu", 2), ("chrf", 2)];
    let cells = |row: &Value| {
        let value = |name: &str| {
            if name == "perplexity" { number(row, "nll").map(f64::exp) } else { number(row, name) }
        };
        let cell = |(name, width): (&str, usize)| {
            value(name).map_or("-".to_string(), |value| format!("{value:.width$}"))
        };
        columns.map(|column| format!("<td class=\"n\">{}</td>", cell(column))).concat()
    };
    let rows: String = validations
        .iter()
        .rev()
        .map(|row| {
            let best = if row["is_best"] == true { "best so far" } else { "" };
            format!(
                "<tr><th scope=\"row\">{}</th>{}<td class=\"n\">{best}</td></tr>\n",
                row["step"],
                cells(row)
            )
        })
        .collect();
    format!(
        "<div class=\"wide\"><table><caption>Validations, the latest first</caption>\n<thead><tr><th scope=\"col\">step</th>\
         <th scope=\"col\" class=\"n\">dev loss</th><th scope=\"col\" class=\"n\">dev NLL</th>\
         <th scope=\"col\" class=\"n\">perplexity</th><th scope=\"col\" class=\"n\">BLEU</th>\
         <th scope=\"col\" class=\"n\">chrF</th><th scope=\"col\"></th></tr></thead>\n<tbody>\n{rows}</tbody></table></div>"
    )
}

/// What each validation made of the same lines of dev.
fn samples(validations: &[Value]) -> String {
    let Some(last) = validations.last() else { return String::new() };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let mut html = String::new();
    for (index, sample) in last["samples"].as_array().into_iter().flatten().enumerate() {
        let mut lines = pair("src", &text(&sample["src"])) + &pair("ref", &text(&sample["ref"]));
        for row in validations {
            lines += &pair(&format!("step {}", row["step"]), &text(&row["samples"][index]["hyp"]));
        }
        html += &format!("<h2>Line {} of dev</h2>\n<dl>{lines}</dl>\n", index + 1);
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_by_hand() {
        assert_eq!(duration(59.6), "1 min 00 s");
        assert_eq!(duration(3.0 * 3600.0 + 300.0), "3 h 05 min");
    }
}
