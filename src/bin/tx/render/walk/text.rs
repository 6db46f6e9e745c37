//! The walk on the terminal.

use super::{Chapter, chapters, meaning, sizes};
use crate::render::heat_map::{self, HeatMap, Shades};
use crate::render::pad;
use std::io::{self, Write};
use tx::config::Config;
use tx::translate::inspection::Map;
use tx::translate::walk::{Quantity, Stage, Walk};
use unicode_width::UnicodeWidthStr;

/// Columns that are shown of each row.
const COLUMNS: usize = 6;

/// Which part is shown number by number; the other layers compute the same with other weights.
#[derive(Debug, Clone, Copy)]
pub struct Choice {
    pub layer: usize,
    pub head: usize,
    pub shades: Shades,
}

pub fn write(out: &mut impl Write, walk: &Walk, config: &Config, choice: Choice) -> io::Result<()> {
    writeln!(out, "{} → {}\n", walk.src, walk.tgt)?;
    let (layers, heads) = (
        config.encoder.layers.max(config.decoder.layers) - 1,
        config.encoder.heads.max(config.decoder.heads) - 1,
    );
    writeln!(out, "sizes                      {}", sizes(config))?;
    writeln!(
        out,
        "shown                      layer {}, head {}; --layer 0 to {layers} and --head 0 to {heads} show others (the last layers tell best who looks at whom)",
        choice.layer, choice.head
    )?;
    writeln!(out, "sections                   of \"Attention Is All You Need\" (Vaswani et al. 2017)")?;
    writeln!(out, "tokens of the source       {}", walk.src_tokens.join("  "))?;
    writeln!(out, "what the decoder is fed    {}", walk.tgt_in.join("  "))?;
    let answers: Vec<&str> = walk.answers.iter().map(|answer| answer.piece.as_str()).collect();
    writeln!(out, "and has to answer          {}", answers.join("  "))?;
    let mut is_skipped = false;
    for chapter in chapters(walk) {
        if chapter.layer.is_some_and(|layer| layer != choice.layer) {
            is_skipped = true;
            continue;
        }
        writeln!(out, "\n━━ {} ━━", chapter.title)?;
        for stage in &chapter.stages {
            write_stage(out, walk, &chapter, stage, config, choice)?;
        }
    }
    if is_skipped {
        writeln!(
            out,
            "\nThe other layers do the same with other weights, each on what the one before it made: --layer 0 to {layers}."
        )?;
    }
    write_answers(out, walk)
}

fn write_stage(
    out: &mut impl Write,
    walk: &Walk,
    chapter: &Chapter,
    stage: &Stage,
    config: &Config,
    choice: Choice,
) -> io::Result<()> {
    let head = choice.head;
    let (name, why) = meaning(stage.quantity);
    let (equation, section) = stage.quantity.equation(config);
    let shape = stage.values.dims();
    let of_head = if shape.len() == 3 { format!(", head {head} of {}", shape[0]) } else { String::new() };
    writeln!(out, "\n{name} {shape:?}{of_head}: {why}")?;
    writeln!(out, "    {equation}    (section {section}; {})", stage.place)?;
    if stage.quantity == Quantity::Logits {
        return Ok(());
    }
    let (rows, labels) = (rows(stage, head)?, chapter.rows(stage).labels(walk));
    match stage.quantity {
        Quantity::Weights => {
            let map = Map { queries: labels, keys: chapter.keys.labels(walk), weights: rows };
            HeatMap { map: &map, shades: choice.shades }.write(out, heat_map::terminal_width())
        }
        Quantity::Dots | Quantity::ScaledDots | Quantity::MaskedDots => {
            write_table(out, &labels, &rows, &chapter.keys.labels(walk))
        }
        _ => {
            let shown: Vec<Vec<f32>> =
                rows.iter().map(|row| row.iter().copied().take(COLUMNS).collect()).collect();
            let columns = rows.first().map_or(0, Vec::len);
            let numbers: Vec<String> = (0..columns.min(COLUMNS)).map(|column| column.to_string()).collect();
            write_table(out, &labels, &shown, &numbers)?;
            if columns > COLUMNS {
                writeln!(out, "… and {} columns more", columns - COLUMNS)?;
            }
            Ok(())
        }
    }
}

/// The rows of a stage, or those of one of its heads.
fn rows(stage: &Stage, head: usize) -> io::Result<Vec<Vec<f32>>> {
    let values = match stage.values.rank() {
        3 => stage.values.get(head),
        _ => Ok(stage.values.clone()),
    };
    values.and_then(|values| values.to_vec2()).map_err(io::Error::other)
}

fn write_table(
    out: &mut impl Write,
    labels: &[String],
    rows: &[Vec<f32>],
    columns: &[String],
) -> io::Result<()> {
    const CELL: usize = 8;
    let width = labels.iter().map(|label| label.width()).max().unwrap_or(0);
    let widths: Vec<usize> = columns.iter().map(|column| column.width().max(CELL)).collect();
    let right =
        |text: &str, width: usize| format!(" {}{text}", " ".repeat(width.saturating_sub(text.width())));
    let header: String = columns.iter().zip(&widths).map(|(column, &width)| right(column, width)).collect();
    writeln!(out, "{}{header}", pad("", width))?;
    for (label, row) in labels.iter().zip(rows) {
        let cells: String = row.iter().zip(&widths).map(|(&x, &width)| right(&number(x), width)).collect();
        writeln!(out, "{}{cells}", pad(label, width))?;
    }
    Ok(())
}

fn number(x: f32) -> String {
    if x == f32::NEG_INFINITY { "−∞".into() } else { format!("{x:.3}") }
}

/// Step by step what the decoder holds for likely.
fn write_answers(out: &mut impl Write, walk: &Walk) -> io::Result<()> {
    writeln!(out, "\n━━ softmax: what comes next ━━")?;
    for (step, (answer, fed)) in walk.answers.iter().zip(&walk.tgt_in).enumerate() {
        let top: Vec<String> = answer
            .top
            .iter()
            .map(|likely| format!("{} {:.1} %", likely.piece, 100.0 * likely.log_prob.exp()))
            .collect();
        let rest = 100.0 - answer.top.iter().map(|likely| 100.0 * likely.log_prob.exp()).sum::<f32>();
        let chosen =
            format!("{} ({:.1} %, number {})", answer.piece, 100.0 * answer.log_prob.exp(), answer.rank);
        writeln!(
            out,
            "step {}, after {fed}: {}, all others {:.1} %; the translation has {chosen}",
            step + 1,
            top.join(", "),
            rest.max(0.0)
        )?;
    }
    Ok(())
}
