//! A beam search on the terminal: the n-best list, then step by step what lived and what fell off.

use super::pad;
use std::io::{self, Write};
use tx::search::Trace;
use tx::search::trace::{Fate, Step, Stop};
use tx::translate::{Candidate, Translator};
use unicode_width::UnicodeWidthStr;

/// Draws the record of one search.
pub fn write(
    out: &mut impl Write,
    translator: &Translator,
    trace: &Trace,
    n_best: &[Candidate],
) -> io::Result<()> {
    writeln!(
        out,
        "beam {}, length penalty {}, at most {} steps\n",
        trace.beam_size, trace.length_penalty, trace.max_length
    )?;
    writeln!(out, "     score  log_prob  len  end  text")?;
    for (rank, hypothesis) in n_best.iter().enumerate() {
        let Candidate { score, log_prob, ids, text, .. } = hypothesis;
        let end = serde_json::to_value(hypothesis.finish).unwrap_or_default();
        let end = end.as_str().unwrap_or_default().to_string();
        writeln!(out, "{:>2} {score:>7.4}  {log_prob:>8.4}  {:>3}  {end}  {text}", rank + 1, ids.len())?;
    }
    let mut texts = Texts { translator, prefixes: vec![(0, Vec::new())] };
    for step in &trace.steps {
        write_step(out, &mut texts, step)?;
    }
    match trace.stop {
        Some(stop) => writeln!(out, "\nended after step {}: {}", trace.steps.len(), reason(stop)),
        None => Ok(()),
    }
}

/// The ids that each hypothesis of the record stands for.
struct Texts<'a> {
    translator: &'a Translator,
    prefixes: Vec<(u32, Vec<u32>)>,
}

impl Texts<'_> {
    fn ids(&self, hypothesis: u32) -> &[u32] {
        self.prefixes.iter().rev().find(|(id, _)| *id == hypothesis).map_or(&[], |(_, ids)| ids)
    }

    fn pieces(&self, ids: &[u32]) -> String {
        ids.iter().map(|&id| self.translator.tgt_tokenizer().piece(id)).collect::<Vec<_>>().join(" ")
    }
}

fn write_step(out: &mut impl Write, texts: &mut Texts, step: &Step) -> io::Result<()> {
    writeln!(out, "\nstep {}", step.step)?;
    let mut rows = Vec::new();
    for candidate in &step.candidates {
        let mut ids = texts.ids(candidate.parent).to_vec();
        let before = texts.pieces(&ids);
        ids.push(candidate.token);
        let (mark, fate) = match candidate.fate {
            Fate::Live => ("│", "lives"),
            Fate::Finished => ("■", "finished"),
            Fate::Cut => ("▪", "cut at the limit"),
            Fate::Pruned => ("╳", "pruned: beyond the beam"),
        };
        let id = candidate.id.map_or("-".to_string(), |id| format!("#{id}"));
        let parent = format!("#{}", candidate.parent);
        let piece = texts.translator.tgt_tokenizer().piece(candidate.token);
        rows.push((mark, id, parent, before, piece, candidate.log_prob, candidate.score, fate));
        if let Some(id) = candidate.id {
            texts.prefixes.push((id, ids));
        }
    }
    let width = rows.iter().map(|row| row.4.width()).max().unwrap_or(0);
    for (mark, id, parent, before, piece, log_prob, score, fate) in rows {
        let piece = pad(piece, width);
        writeln!(
            out,
            "{mark} {id:>4} ← {parent:<4} {piece}  log_prob {log_prob:>8.4}  score {score:>8.4}  {fate:<23}  {before}"
        )?;
    }
    if let (Some(bound), Some(to_beat)) = (step.bound, step.to_beat) {
        let verb = if bound > to_beat { "can still beat" } else { "cannot beat" };
        writeln!(out, "  the best live one {verb} {to_beat:.4}: at most {bound:.4}")?;
    }
    Ok(())
}

fn reason(stop: Stop) -> &'static str {
    match stop {
        Stop::Bound => "no live hypothesis could still enter the list",
        Stop::Limit => "the step limit; the live hypotheses were cut there",
        Stop::NoCandidates => "nothing was left to extend",
        Stop::Eos => "greedy search chose the end mark",
        Stop::Enough => "enough hypotheses had finished",
    }
}
