//! `tx score-pairs`: how probable the model holds given translations, and n-best lists in the order that it gives them.

use super::scoring::{read, same_count};
use super::warnings::warn;
use super::{options, translator};
use crate::cli::{PairFormat, ScorePairsArgs};
use anyhow::{Context, bail};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use tx::translate::Translator;
use tx::translate::forced::{Forced, LeftOut, Likely};

/// Pairs that are looked at before the first is printed.
const WINDOW: usize = 1024;

pub fn run(args: ScorePairsArgs) -> anyhow::Result<ExitCode> {
    let (src, tgt) = (read(&args.src)?, read(&args.tgt)?);
    if !args.rerank {
        same_count(&args.src, &src, &args.tgt, &tgt)?;
    }
    let entries = if args.rerank { entries(&args.tgt, &tgt, src.len())? } else { Vec::new() };
    let translator = translator(&args.search)?;
    let search = translator.search_options(&options(&args.search))?;
    let score = |forced: &Forced| search.score(forced.log_prob, forced.ids.len());
    let mut out = BufWriter::new(io::stdout().lock());
    let complete = if args.rerank {
        rerank(&mut out, &translator, &src, &entries, score)?
    } else {
        let mut complete = true;
        let pairs: Vec<(&str, &str)> = src.iter().zip(&tgt).map(|(s, t)| (s.as_str(), t.as_str())).collect();
        for (window, pairs) in (0..).zip(pairs.chunks(WINDOW)) {
            for (number, likely) in (window * WINDOW as u64 + 1..).zip(translator.force(pairs)?) {
                complete &= write(&mut out, &translator, number, &likely, args.format, score)?;
            }
            out.flush().context("standard output")?;
        }
        complete
    };
    out.flush().context("standard output")?;
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Writes one pair; false if it has no probability, whose line is empty then.
fn write(
    out: &mut impl Write,
    translator: &Translator,
    number: u64,
    likely: &Likely,
    format: PairFormat,
    score: impl Fn(&Forced) -> f64,
) -> anyhow::Result<bool> {
    let text = match (likely, format) {
        (Ok(forced), PairFormat::Text) => forced.log_prob.to_string(),
        (Ok(forced), PairFormat::Jsonl) => {
            let tokens: Vec<&str> = forced.ids.iter().map(|&id| translator.tokenizer().piece(id)).collect();
            serde_json::json!({
                "line": number, "log_prob": forced.log_prob, "score": score(forced), "tokens": tokens,
                "ids": forced.ids, "token_log_probs": forced.token_log_probs,
            })
            .to_string()
        }
        (Err(reason), format) => {
            warn(number, &format!("no probability: {}", why(*reason)));
            match format {
                PairFormat::Text => String::new(),
                PairFormat::Jsonl => serde_json::json!({"line": number, "log_prob": null}).to_string(),
            }
        }
    };
    writeln!(out, "{text}").context("standard output")?;
    Ok(likely.is_ok())
}

fn why(reason: LeftOut) -> &'static str {
    match reason {
        LeftOut::Blank => "a side is blank",
        LeftOut::TooLong => "a side has more pieces than the model has positions",
        LeftOut::NotFinite => "the model gives no finite number",
    }
}

/// An entry of an n-best list: the number of its source, from 0, and its text.
type Entry<'a> = (usize, &'a str);

/// The entries of the n-best list `path`.
fn entries<'a>(path: &Path, list: &'a [String], sources: usize) -> anyhow::Result<Vec<Entry<'a>>> {
    let entry = |(number, line): (usize, &'a String)| {
        let mut fields = line.split("|||").map(str::trim);
        let of = fields.next().and_then(|of| of.parse::<usize>().ok());
        match (of, fields.next()) {
            (Some(of), Some(text)) if of < sources => Ok((of, text)),
            (Some(of), Some(_)) => {
                bail!(
                    "{} line {number}: source {of} is none of the {sources}, counted from 0",
                    path.display()
                )
            }
            _ => bail!("{} line {number}: expected `LINE ||| TEXT ||| ...`, found {line:?}", path.display()),
        }
    };
    (1..).zip(list).map(entry).collect()
}

/// Writes the entries of every source, the best score first; those without a probability come last, false if there are any.
fn rerank(
    out: &mut impl Write,
    translator: &Translator,
    src: &[String],
    entries: &[Entry],
    score: impl Fn(&Forced) -> f64,
) -> anyhow::Result<bool> {
    // As `tx translate --format marian` writes a separator within a text.
    let plain = |text: &str| text.replace("&#124;&#124;&#124;", "|||");
    let pairs: Vec<(String, String)> =
        entries.iter().map(|&(of, text)| (src[of].clone(), plain(text))).collect();
    let mut complete = true;
    let mut scored: Vec<(usize, f64, f64, &str)> = Vec::new();
    for ((number, &(of, text)), likely) in (1..).zip(entries).zip(translator.force(&pairs)?) {
        match likely {
            Ok(forced) => scored.push((of, score(&forced), forced.log_prob, text)),
            Err(reason) => {
                complete = false;
                warn(number, &format!("no probability, so it comes last: {}", why(reason)));
                scored.push((of, f64::NEG_INFINITY, f64::NEG_INFINITY, text));
            }
        }
    }
    scored.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
    for (of, score, log_prob, text) in scored {
        writeln!(out, "{of} ||| {text} ||| F0={log_prob} ||| {score}").context("standard output")?;
    }
    Ok(complete)
}
