//! A beam search on the terminal: the n-best list, then step by step what lived and what fell off, then what was asked beside.

use super::{Asked, Cell, Compared, View, fate, reason};
use crate::render::pad;
use console::Style;
use std::io::{self, Write};
use tx::search::trace::{Fate, Step};
use tx::translate::{Candidate, Translator};
use unicode_width::UnicodeWidthStr;

/// Draws one search, in colours where standard output is a terminal.
pub fn write(out: &mut impl Write, view: &View) -> io::Result<()> {
    let View { trace, n_best, .. } = view;
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
        let row = format!("{:>2} {score:>7.4}  {log_prob:>8.4}  {:>3}  {end}  {text}", rank + 1, ids.len());
        let style = if rank == 0 { Style::new().bold() } else { Style::new() };
        writeln!(out, "{}", style.apply_to(row))?;
    }
    let mut texts = Texts { translator: view.translator, prefixes: vec![(0, Vec::new())] };
    for step in &trace.steps {
        write_step(out, &mut texts, step)?;
    }
    if let Some(stop) = trace.stop {
        writeln!(out, "\nended after step {}: {}", trace.steps.len(), reason(stop))?;
    }
    write_compared(out, &view.compared)?;
    view.why.as_ref().map_or(Ok(()), |why| write_why(out, why, n_best.first()))
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
    writeln!(out, "\n{}", Style::new().bold().apply_to(format!("step {}", step.step)))?;
    let pieces: Vec<&str> =
        step.candidates.iter().map(|one| texts.translator.tgt_tokenizer().piece(one.token)).collect();
    let fates: Vec<String> = step.candidates.iter().map(fate).collect();
    let width = pieces.iter().map(|piece| piece.width()).max().unwrap_or(0);
    let fate_width = fates.iter().map(String::len).max().unwrap_or(0);
    for ((candidate, piece), fate) in step.candidates.iter().zip(pieces).zip(fates) {
        let mut ids = texts.ids(candidate.parent).to_vec();
        let before = texts.pieces(&ids);
        ids.push(candidate.token);
        let (mark, style) = match candidate.fate {
            Fate::Live => ("│", Style::new().cyan()),
            Fate::Finished => ("■", Style::new().green()),
            Fate::Cut => ("▪", Style::new().yellow()),
            Fate::Pruned => ("╳", Style::new().dim()),
        };
        let id = candidate.id.map_or("-".to_string(), |id| format!("#{id}"));
        let parent = format!("#{}", candidate.parent);
        let (log_prob, score) = (candidate.log_prob, candidate.score);
        let row = format!(
            "{mark} {id:>4} ← {parent:<4} {}  log_prob {log_prob:>8.4}  score {score:>8.4}  {fate:<fate_width$}  {before}",
            pad(piece, width)
        );
        writeln!(out, "{}", style.apply_to(row.trim_end()))?;
        if let Some(id) = candidate.id {
            texts.prefixes.push((id, ids));
        }
    }
    if let (Some(bound), Some(to_beat)) = (step.bound, step.to_beat) {
        let verb = if bound > to_beat { "can still beat" } else { "cannot beat" };
        writeln!(out, "  the best live one {verb} {to_beat:.4}: at most {bound:.4}")?;
    }
    Ok(())
}

/// The best translations of other searches, a row each.
fn write_compared(out: &mut impl Write, compared: &[Compared]) -> io::Result<()> {
    if compared.is_empty() {
        return Ok(());
    }
    let penalties: Vec<String> = compared.iter().map(|one| one.length_penalty.to_string()).collect();
    let width = penalties.iter().map(String::len).max().unwrap_or(0).max("penalty".len());
    writeln!(out, "\nbeam  {:<width$}    score  log_prob  len  ratio  same  text", "penalty")?;
    for (one, penalty) in compared.iter().zip(penalties) {
        let Compared { beam_size, length_ratio, is_first, ref best, .. } = *one;
        let same = if is_first { "=" } else { "" };
        let (score, log_prob, len) = (best.score, best.log_prob, best.ids.len());
        writeln!(
            out,
            "{beam_size:>4}  {penalty:<width$} {score:>8.4}  {log_prob:>8.4}  {len:>3}  {length_ratio:>5.2}  {same:<4}  {}",
            best.text
        )?;
    }
    Ok(())
}

/// The verdict on a translation, and its pieces beside those of the best one.
fn write_why(out: &mut impl Write, asked: &Asked, winner: Option<&Candidate>) -> io::Result<()> {
    let bold = Style::new().bold();
    writeln!(out, "\n{}", bold.apply_to(format!("why not: {}", asked.text)))?;
    asked.says.iter().try_for_each(|line| writeln!(out, "  {line}"))?;
    let (score, log_prob) = winner.map_or((0.0, 0.0), |winner| (winner.score, winner.log_prob));
    let why = &asked.why;
    writeln!(out, "  log_prob {:.4} (winner {log_prob:.4})", why.log_prob)?;
    writeln!(out, "  score    {:.4} (winner {score:.4})\n", why.score)?;
    let columns = |cell: &Option<Cell>| match cell {
        Some(Cell { piece, log_prob, sum }) => [piece.clone(), format!("{log_prob:.4}"), format!("{sum:.4}")],
        None => [const { String::new() }; 3],
    };
    let rows: Vec<[[String; 3]; 2]> =
        asked.positions.iter().map(|row| [columns(&row.target), columns(&row.winner)]).collect();
    let width = |side: usize| rows.iter().map(|row| row[side][0].width()).max().unwrap_or(0).max(6);
    let widths = [width(0), width(1)];
    let [target, winner] = [pad("asked", widths[0]), pad("winner", widths[1])];
    writeln!(out, "     {target}  log_prob       sum   {winner}  log_prob       sum")?;
    for (number, row) in (1..).zip(&rows) {
        let side = |side: usize| {
            let [piece, log_prob, sum] = &row[side];
            format!("{}  {log_prob:>8}  {sum:>8}", pad(piece, widths[side]))
        };
        let mark = if row[0][0] == row[1][0] { ' ' } else { '≠' };
        let line = format!("{number:>3} {mark}{}   {}", side(0), side(1));
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
