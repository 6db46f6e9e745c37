//! `tx translate`: one line in, one line out.

mod input;
mod tally;

use super::warnings::{report, warn};
use super::{WINDOW_BATCHES, batched, check_beam, check_folder, options, translator, usage_error};
use crate::cli::{AlignmentUnit, TranslateArgs, TranslationFormat};
use crate::render::{lines_bar::LinesBar, translations};
use anyhow::Context;
use input::{Prefixes, next_window, read_in_background};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;
use tally::Work;
use tx::checkpoint::write_json;
use tx::search::Sampling;
use tx::translate::alignment::Unit;
use tx::translate::{Options, Terms, Translator};

pub fn run(args: TranslateArgs) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    if !args.drawing.sample {
        check_beam(args.search.beam, args.n_best);
    }
    if args.n_best > 1 && args.format == TranslationFormat::Text {
        usage_error(
            "--n-best above 1 needs --format jsonl, tsv, marian or fairseq: text has one translation a line",
        );
    }
    args.report.as_deref().map(check_folder).transpose()?;
    let translator = translator(&args.search)?;
    let load = start.elapsed();
    let options = all_options(&args)?;
    translator.search_options(&options)?;
    say_alignment_head(&translator, &options)?;
    let mut prefixes = Prefixes::open(&args.drawing)?;
    // Somebody who types is shown where, and gets each line at once.
    let typed = args.files.is_empty() && args.text.is_none() && io::stdin().is_terminal();
    let prompt = || {
        if typed {
            // There is nowhere left to report a failure to.
            let _ = write!(io::stderr(), "> ");
        }
    };
    let bar = LinesBar::over(&args.files);
    let lines = read_in_background(args.files, args.text);
    let mut out = BufWriter::new(io::stdout().lock());
    let mut failed = false;
    let mut number = 0;
    let mut work = Work::default();
    prompt();
    while let Some(window) =
        next_window(&lines, translator.batch_size(&options).saturating_mul(WINDOW_BATCHES))
    {
        let mut numbered = Vec::with_capacity(window.len());
        // What was read before a failure is translated first.
        let mut failure = None;
        for line in window {
            number += 1;
            match line {
                Ok(line) if line.damaged && args.strict => {
                    failure = Some(anyhow::anyhow!("line {number} is not valid UTF-8 (--strict)"));
                    break;
                }
                Ok(line) => {
                    if line.damaged {
                        work.tally("damaged", number);
                        bar.aside(|| warn(number, "not valid UTF-8; U+FFFD stands for the bad bytes"));
                    }
                    match prefixes.next(number) {
                        Ok(prefix) => numbered.push(tx::translate::Line { number, text: line.text, prefix }),
                        Err(error) => {
                            failure = Some(error);
                            break;
                        }
                    }
                }
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        for translation in translator.translate(numbered, &options)? {
            if !translation.notices.is_empty() {
                failed |= bar.aside(|| report(&translation));
            }
            bar.advance(1);
            work.add(&translation);
            translations::write(&mut out, &translator, &translation, args.format, args.word_scores)
                .context("standard output")?;
        }
        out.flush().context("standard output")?;
        prompt();
        if let Some(failure) = failure {
            return Err(failure);
        }
    }
    bar.finish();
    if typed {
        say!();
    }
    prefixes.end(number)?;
    work.say(start.elapsed() - load);
    if let Some(path) = &args.report {
        write_json(path, &work.report(load, start.elapsed() - load))?;
    }
    failed |= args.strict && !work.is_spotless();
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The library's options for all flags.
fn all_options(args: &TranslateArgs) -> anyhow::Result<Options> {
    let (drawing, terminology) = (&args.drawing, &args.terminology);
    Ok(Options {
        n_best: Some(args.n_best),
        sampling: drawing.sample.then_some(Sampling {
            temperature: drawing.temperature,
            top_k: drawing.top_k,
            top_p: drawing.top_p,
        }),
        seed: drawing.seed,
        must_contain: terminology.must_contain.clone(),
        terms: match terminology.terms.as_slice() {
            [] => None,
            paths => Some(Arc::new(Terms::read(paths)?)),
        },
        alignment: args.alignment.map(|unit| match unit {
            AlignmentUnit::Words => Unit::Words,
            AlignmentUnit::Pieces => Unit::Pieces,
        }),
        alignment_head: args.alignment_head,
        encoded: args.no_encode,
        decode: !args.no_decode,
        ..batched(options(&args.search), &args.batching)
    })
}

/// Refuses a head that the model has not, and says where alignments come from if nobody named a head.
fn say_alignment_head(translator: &Translator, options: &Options) -> anyhow::Result<()> {
    let chosen = translator.alignment_head(options.alignment_head)?;
    let is_named = options.alignment_head.is_some() || translator.stored_alignment_head().is_some();
    if options.alignment.is_some() && !is_named {
        say!(
            "tx: the model names no alignment head: alignments are read from the mean of all in layer {} (--alignment-head)",
            chosen.layer
        );
    }
    Ok(())
}
