//! An evaluation for reading: scores, likelihood, then a block for each line.

use super::{Evaluation, SIDES, System, Tally, likelihood_rows};
use crate::cli::Measure;
use crate::render::comparison::Sides;
use std::io::{self, Write};

/// Writes all of it.
pub fn write(out: &mut impl Write, evaluation: &Evaluation) -> io::Result<()> {
    match evaluation.against() {
        Some(against) => write_both(out, evaluation, against)?,
        None => write_one(out, evaluation)?,
    }
    evaluation.remarks().iter().try_for_each(|remark| writeln!(out, "{remark}"))?;
    if !evaluation.shown.is_empty() {
        writeln!(out, "\n{}", evaluation.heading())?;
    }
    evaluation.shown.iter().try_for_each(|&line| write_line(out, evaluation, line))
}

fn write_one(out: &mut impl Write, evaluation: &Evaluation) -> io::Result<()> {
    let System { scores, likelihood, .. } = &evaluation.systems[0];
    scores.iter().try_for_each(|score| writeln!(out, "{}", score.format(evaluation.width)))?;
    let numbers: Vec<String> =
        likelihood_rows(likelihood).iter().map(|(name, value)| format!("{name} {value:.4}")).collect();
    writeln!(out, "{}  {}", numbers.join("  "), scored(evaluation))
}

/// What the likelihood was summed over.
pub fn scored(evaluation: &Evaluation) -> String {
    let (reference, all) = (&evaluation.reference_names[0], evaluation.src.len());
    let likelihood = &evaluation.systems[0].likelihood;
    match evaluation.against() {
        Some(_) => format!("({} of {all} lines of {reference})", likelihood.lines),
        None => format!("({} tokens, {} of {all} lines of {reference})", likelihood.tokens, likelihood.lines),
    }
}

fn write_both(out: &mut impl Write, evaluation: &Evaluation, against: &System) -> io::Result<()> {
    let first = &evaluation.systems[0];
    for (side, system) in SIDES.iter().zip(&evaluation.systems) {
        writeln!(out, "{side:<12} {}", system.name)?;
    }
    for score in &first.scores {
        writeln!(out, "{:<12} {}", score.name, score.signature)?;
    }
    writeln!(out)?;
    Sides { first: SIDES[0], second: SIDES[1] }.write(out, &evaluation.compared)?;
    let rows = likelihood_rows(&first.likelihood).into_iter().zip(likelihood_rows(&against.likelihood));
    for ((name, first), (_, second)) in rows {
        writeln!(out, "{name:<12} {first:>20.4} {second:>20.4}")?;
    }
    writeln!(out, "{:<12} {}", "", scored(evaluation))?;
    writeln!(out, "{}", tally(evaluation))
}

/// On how many lines each of two systems does better.
pub fn tally(evaluation: &Evaluation) -> String {
    let Tally { better, worse, equal } = evaluation.tally();
    let by = evaluation.by.label();
    format!("by {by}, --model is better on {better} lines, worse on {worse} and equal on {equal}")
}

fn write_line(out: &mut impl Write, evaluation: &Evaluation, line: usize) -> io::Result<()> {
    let numbers = |system: &System| {
        let number =
            |measure: Measure| format!("{} {}", measure.label(), evaluation.number(system, measure, line));
        format!("{}  log_prob {:.4}", Measure::ALL.map(number).join("  "), system.log_probs[line])
    };
    let first = &evaluation.systems[0];
    let head = if evaluation.against().is_none() { format!("  {}", numbers(first)) } else { String::new() };
    writeln!(out, "\nline {}{head}\n  src  {}", line + 1, evaluation.src[line])?;
    for file in &evaluation.references {
        writeln!(out, "  ref  {}", file[line])?;
    }
    let Some(against) = evaluation.against() else { return writeln!(out, "  hyp  {}", first.texts[line]) };
    for (side, system) in SIDES.iter().zip([first, against]) {
        writeln!(out, "  {side:<9}  {}\n             {}", system.texts[line], numbers(system))?;
    }
    Ok(())
}
