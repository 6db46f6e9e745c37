//! `tx score-pairs`: how probable the model holds given translations, and n-best lists in the order that it gives them.

use super::scoring::read;
use super::warnings::warn;
use super::{open_input, options, translator, usage_error};
use crate::cli::{PairFormat, ScorePairsArgs};
use anyhow::{Context, bail};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use tx::text::is_blank;
use tx::translate::Translator;
use tx::translate::forced::{Forced, LeftOut, Likely};

/// Pairs that are looked at before the first is printed.
const WINDOW: usize = 1024;

pub fn run(args: ScorePairsArgs) -> anyhow::Result<ExitCode> {
    if [&args.src, &args.tgt].iter().all(|path| path.as_os_str() == "-") {
        usage_error("only one of SRC and TGT can be standard input");
    }
    let list = if args.rerank { Some(NBestList::read(&args.src, &args.tgt)?) } else { None };
    let translator = translator(&args.search)?;
    let search = translator.search_options(&options(&args.search))?;
    let score = |forced: &Forced| search.score(forced.log_prob, forced.ids.len());
    let mut out = BufWriter::new(io::stdout().lock());
    let complete = match &list {
        Some(list) => rerank(&mut out, &translator, list, score)?,
        None => pairs(&mut out, &translator, &args, score)?,
    };
    out.flush().context("standard output")?;
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Writes every pair of the two files, which are read together and never held; false if one has no probability.
fn pairs(
    out: &mut impl Write,
    translator: &Translator,
    args: &ScorePairsArgs,
    score: impl Fn(&Forced) -> f64,
) -> anyhow::Result<bool> {
    let (mut src, mut tgt) = (open_input(&args.src)?, open_input(&args.tgt)?);
    let (mut complete, mut first) = (true, 1);
    loop {
        let mut pairs = Vec::with_capacity(WINDOW);
        while pairs.len() < WINDOW {
            match (src.next().transpose()?, tgt.next().transpose()?) {
                (Some(src), Some(tgt)) => pairs.push((src.text, tgt.text)),
                (None, None) => break,
                (Some(_), None) => bail!("{} has more lines than {}", args.src.display(), args.tgt.display()),
                (None, Some(_)) => bail!("{} has more lines than {}", args.tgt.display(), args.src.display()),
            }
        }
        for (number, (pair, likely)) in (first..).zip(pairs.iter().zip(translator.force(&pairs)?)) {
            let likely = certain(pair, likely);
            complete &= write(out, translator, number, &likely, args.format, &score)?;
        }
        out.flush().context("standard output")?;
        if pairs.len() < WINDOW {
            return Ok(complete);
        }
        first += WINDOW as u64;
    }
}

/// The translation of a blank line is certain: it is blank.
fn certain((src, tgt): &(String, String), likely: Likely) -> Likely {
    if is_blank(src) && is_blank(tgt) {
        return Ok(Forced { ids: Vec::new(), token_log_probs: Vec::new(), log_prob: 0.0 });
    }
    likely
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
            let tokens: Vec<&str> =
                forced.ids.iter().map(|&id| translator.tgt_tokenizer().piece(id)).collect();
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

/// Sources, and what an n-best list has for them.
struct NBestList {
    src: Vec<String>,
    /// Number of the source, from 0, and the text as the list has it.
    entries: Vec<(usize, String)>,
}

impl NBestList {
    /// Reads the sources of `src` and the list `tgt`.
    fn read(src: &Path, tgt: &Path) -> anyhow::Result<Self> {
        let src = read(src)?;
        let entry = |(number, line): (usize, &String)| {
            let mut fields = line.split("|||").map(str::trim);
            let of = fields.next().and_then(|of| of.parse::<usize>().ok());
            match (of, fields.next()) {
                (Some(of), Some(text)) if of < src.len() => Ok((of, text.to_string())),
                (Some(of), Some(_)) => bail!(
                    "{} line {number}: source {of} is none of the {}, counted from 0",
                    tgt.display(),
                    src.len()
                ),
                _ => {
                    bail!("{} line {number}: expected `LINE ||| TEXT ||| ...`, found {line:?}", tgt.display())
                }
            }
        };
        let entries = (1..).zip(&read(tgt)?).map(entry).collect::<anyhow::Result<_>>()?;
        Ok(NBestList { src, entries })
    }
}

/// Writes the entries of every source, the best score first; those without a probability come last, false if there are any.
fn rerank(
    out: &mut impl Write,
    translator: &Translator,
    list: &NBestList,
    score: impl Fn(&Forced) -> f64,
) -> anyhow::Result<bool> {
    // As `tx translate --format marian` writes a separator within a text.
    let plain = |text: &str| text.replace("&#124;&#124;&#124;", "|||").replace("&amp;#124;", "&#124;");
    let pairs: Vec<(String, String)> =
        list.entries.iter().map(|(of, text)| (list.src[*of].clone(), plain(text))).collect();
    let mut complete = true;
    let mut scored: Vec<(usize, f64, f64, &str)> = Vec::new();
    for ((number, (of, text)), (pair, likely)) in
        (1..).zip(&list.entries).zip(pairs.iter().zip(translator.force(&pairs)?))
    {
        match certain(pair, likely) {
            Ok(forced) => scored.push((*of, score(&forced), forced.log_prob, text)),
            Err(reason) => {
                complete = false;
                warn(number, &format!("no probability, so it comes last: {}", why(reason)));
                scored.push((*of, f64::NEG_INFINITY, f64::NEG_INFINITY, text));
            }
        }
    }
    scored.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
    for (of, score, log_prob, text) in scored {
        writeln!(out, "{of} ||| {text} ||| F0={log_prob} ||| {score}").context("standard output")?;
    }
    Ok(complete)
}
