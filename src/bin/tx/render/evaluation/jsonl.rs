//! An evaluation as JSON lines: an object with the corpus results, then one for each line.

use super::{Evaluation, System, Tally};
use crate::cli::Measure;
use crate::render::comparison::Compared;
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// Writes all of it.
pub fn write(out: &mut impl Write, evaluation: &Evaluation) -> io::Result<()> {
    writeln!(out, "{}", Value::Object(corpus(evaluation)))?;
    evaluation.shown.iter().try_for_each(|&line| {
        let mut object = Map::new();
        object.insert("line".into(), json!(line + 1));
        object.insert("src".into(), json!(evaluation.src[line]));
        object.insert("refs".into(), evaluation.references.iter().map(|file| file[line].as_str()).collect());
        object.extend(of_line(&evaluation.systems[0], line));
        if let Some(against) = evaluation.against() {
            object.insert("against".into(), of_line(against, line).into());
        }
        writeln!(out, "{}", Value::Object(object))
    })
}

fn corpus(evaluation: &Evaluation) -> Map<String, Value> {
    let mut object = of_corpus(&evaluation.systems[0], evaluation.width);
    object.insert("src".into(), json!(evaluation.src_name));
    object.insert("refs".into(), json!(evaluation.reference_names));
    object.insert("lines".into(), json!(evaluation.src.len()));
    object.insert("by".into(), json!(evaluation.by.key()));
    if let Some(against) = evaluation.against() {
        let Tally { better, worse, equal } = evaluation.tally();
        object.insert("against".into(), of_corpus(against, evaluation.width).into());
        object.insert("comparison".into(), evaluation.compared.iter().map(Compared::to_json).collect());
        object.insert("same_tokenizer".into(), json!(evaluation.same_tokenizer));
        object.insert("better".into(), json!(better));
        object.insert("worse".into(), json!(worse));
        object.insert("equal".into(), json!(equal));
    }
    object
}

/// A system's corpus results; `nll` is per token, and null if no reference has a probability.
fn of_corpus(system: &System, width: usize) -> Map<String, Value> {
    let likelihood = &system.likelihood;
    let [blank, too_long, not_finite] = system.left_out().map(|(_, count)| count);
    let scores: Vec<Value> = system.scores.iter().map(|score| score.to_json(width)).collect();
    let pairs = [
        ("model", json!(system.name)),
        ("scores", json!(scores)),
        ("nll", json!(likelihood.per_token())),
        ("perplexity", json!(likelihood.perplexity())),
        ("nll_per_word", json!(likelihood.per_word())),
        ("nll_per_char", json!(likelihood.per_char())),
        ("ref_lines", json!(likelihood.lines)),
        ("ref_tokens", json!(likelihood.tokens)),
        ("ref_words", json!(likelihood.words)),
        ("ref_chars", json!(likelihood.chars)),
        ("refs_blank", json!(blank)),
        ("refs_too_long", json!(too_long)),
        ("refs_not_finite", json!(not_finite)),
    ];
    pairs.into_iter().map(|(key, value)| (key.to_string(), value)).collect()
}

/// A system's results for a line.
fn of_line(system: &System, line: usize) -> Map<String, Value> {
    let numbers = Measure::ALL.map(|measure| (measure.key(), json!(system.value(measure, line))));
    let text = [("hyp", json!(system.texts[line]))];
    let log_prob = [("log_prob", json!(system.log_probs[line]))];
    text.into_iter().chain(numbers).chain(log_prob).map(|(key, value)| (key.to_string(), value)).collect()
}
