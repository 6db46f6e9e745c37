//! `tx translate`: one line in, one line out.

use super::warnings::{report, warn};
use super::{WINDOW_BATCHES, check_beam, options, translator, usage_error};
use crate::cli::{LineFormat, TranslateArgs};
use anyhow::Context;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, sync_channel};
use tx::data::{Line, Lines};
use tx::translate::{Options, Translation};

pub fn run(args: TranslateArgs) -> anyhow::Result<ExitCode> {
    check_beam("translate", args.search.beam, args.n_best);
    if args.n_best > 1 && args.format == LineFormat::Text {
        usage_error("translate", "--n-best above 1 needs --format jsonl: text has one translation a line");
    }
    let translator = translator(&args.search)?;
    let options = Options {
        n_best: Some(args.n_best),
        batch_size: Some(args.batching.batch_size),
        ..options(&args.search)
    };
    translator.search_options(&options)?;
    let lines = read_in_background(args.files, args.text);
    let mut out = BufWriter::new(io::stdout().lock());
    let mut failed = false;
    let mut number = 0;
    while let Some(window) = next_window(&lines, args.batching.batch_size * WINDOW_BATCHES) {
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
                        warn(number, "not valid UTF-8; U+FFFD stands for the bad bytes");
                    }
                    numbered.push((number, line.text));
                }
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        for translation in translator.translate(numbered, &options)? {
            failed |= report(&translation);
            write(&mut out, &translation, args.format)?;
        }
        out.flush().context("standard output")?;
        if let Some(failure) = failure {
            return Err(failure);
        }
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Reads all inputs one after the other in a thread of its own, so that a line is translated as soon as it is there.
fn read_in_background(files: Vec<PathBuf>, text: Option<String>) -> Receiver<anyhow::Result<Line>> {
    let (sender, lines) = sync_channel(4096);
    std::thread::spawn(move || {
        let files = if files.is_empty() { vec![PathBuf::from("-")] } else { files };
        let inputs: Vec<tx::Result<Lines>> = match text {
            Some(text) => vec![Lines::new(io::Cursor::new(text), "--text")],
            None => files.iter().map(open).collect(),
        };
        for input in inputs {
            let lines: Box<dyn Iterator<Item = tx::Result<Line>>> = match input {
                Ok(lines) => Box::new(lines),
                Err(error) => Box::new(std::iter::once(Err(error))),
            };
            for line in lines {
                // A failure to send means that nobody reads any more.
                if sender.send(line.map_err(anyhow::Error::from)).is_err() {
                    return;
                }
            }
        }
    });
    lines
}

fn open(path: &PathBuf) -> tx::Result<Lines> {
    if path.as_os_str() == "-" { Lines::new(io::stdin(), "standard input") } else { Lines::open(path) }
}

/// At least one line, and what else is there already, up to `size`; none at the end of the input.
fn next_window(lines: &Receiver<anyhow::Result<Line>>, size: usize) -> Option<Vec<anyhow::Result<Line>>> {
    let mut window = vec![lines.recv().ok()?];
    window.extend(lines.try_iter().take(size - 1));
    Some(window)
}

fn write(out: &mut impl Write, translation: &Translation, format: LineFormat) -> anyhow::Result<()> {
    let result = match format {
        LineFormat::Text => writeln!(out, "{}", translation.hypotheses[0].text),
        LineFormat::Jsonl => writeln!(out, "{}", serde_json::to_string(translation)?),
    };
    result.context("standard output")
}
