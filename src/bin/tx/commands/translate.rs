//! `tx translate`: one line in, one line out.

use super::warnings::{report, warn};
use super::{WINDOW_BATCHES, check_beam, check_folder, open_input, options, translator, usage_error};
use crate::cli::{Drawing, TranslateArgs, TranslationFormat};
use crate::render::translations;
use anyhow::{Context, bail, ensure};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};
use tx::checkpoint::write_json;
use tx::data::{Line, Lines};
use tx::search::Sampling;
use tx::translate::{Notice, Options, Translation};

/// Lines of one kind.
#[derive(Default)]
struct Tally {
    count: u64,
    /// The numbers of the first ones.
    first: Vec<u64>,
}

impl Tally {
    /// Numbers that are kept: memory must not grow with the input.
    const MOST: usize = 1000;

    fn add(&mut self, line: u64) {
        self.count += 1;
        if self.first.len() < Self::MOST {
            self.first.push(line);
        }
    }
}

/// What a line can be that the user should know of.
const KINDS: [&str; 7] = ["blank", "damaged", "split", "unknown", "cut", "loop", "failed"];

/// What was done, for the closing words and `--report`.
#[derive(Default)]
struct Work {
    lines: u64,
    src_tokens: usize,
    tgt_tokens: usize,
    /// By kind, as [`KINDS`] has them.
    found: [Tally; KINDS.len()],
}

impl Work {
    fn add(&mut self, translation: &Translation) {
        self.lines += 1;
        self.src_tokens += translation.src_tokens;
        self.tgt_tokens += translation.hypotheses[0].ids.len();
        if translation.src_tokens == 0 && translation.notices.is_empty() {
            self.tally("blank", translation.line);
        }
        for notice in &translation.notices {
            let kind = match notice {
                Notice::Split { .. } => "split",
                Notice::Unknown { .. } => "unknown",
                Notice::Cut { .. } => "cut",
                Notice::Loop { .. } => "loop",
                Notice::Failed(_) => "failed",
            };
            self.tally(kind, translation.line);
        }
    }

    fn tally(&mut self, kind: &str, line: u64) {
        let tallies = KINDS.iter().zip(&mut self.found);
        tallies.filter(|(name, _)| **name == kind).for_each(|(_, tally)| tally.add(line));
    }

    /// The kinds of which there is a line.
    fn kinds(&self) -> impl Iterator<Item = (&'static str, &Tally)> {
        KINDS.into_iter().zip(&self.found).filter(|(_, tally)| tally.count > 0)
    }

    /// Whether there is anything but blank lines that `--strict` does not let pass.
    fn is_spotless(&self) -> bool {
        self.kinds().all(|(kind, _)| kind == "blank")
    }

    /// The closing words, for input of which not everything is on the screen.
    fn say(&self, run: Duration) {
        /// Fewer lines are seen at once.
        const MANY: u64 = 100;
        /// Numbers that are printed.
        const SHOWN: usize = 10;
        if self.lines < MANY {
            return;
        }
        let (seconds, speed) = (run.as_secs_f64(), self.lines as f64 / run.as_secs_f64());
        say!("tx: {} lines in {seconds:.1} s, {speed:.0} lines/s", self.lines);
        for (kind, tally) in self.kinds() {
            let first: Vec<String> = tally.first.iter().take(SHOWN).map(u64::to_string).collect();
            let more = if tally.count > SHOWN as u64 { ", ..." } else { "" };
            say!("tx: {kind}: {} (line {}{more})", tally.count, first.join(", "));
        }
    }

    fn report(&self, load: Duration, run: Duration) -> serde_json::Value {
        let Work { lines, src_tokens, tgt_tokens, .. } = *self;
        let seconds = run.as_secs_f64();
        let mut report = serde_json::json!({
            "lines": lines,
            "src_tokens": src_tokens,
            "tgt_tokens": tgt_tokens,
            "seconds": seconds,
            "tgt_tok_s": tgt_tokens as f64 / seconds,
            "load_s": load.as_secs_f64(),
            "peak_mib": super::peak_memory().map(|bytes| bytes as f64 / f64::from(1 << 20)),
        });
        for (kind, Tally { count, first }) in KINDS.into_iter().zip(&self.found) {
            report[kind] = serde_json::json!({"count": count, "first": first});
        }
        report
    }
}

pub fn run(args: TranslateArgs) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    if !args.drawing.sample {
        check_beam("translate", args.search.beam, args.n_best);
    }
    if args.n_best > 1 && args.format == TranslationFormat::Text {
        usage_error(
            "translate",
            "--n-best above 1 needs --format jsonl, tsv, marian or fairseq: text has one translation a line",
        );
    }
    args.report.as_deref().map(check_folder).transpose()?;
    let translator = translator(&args.search)?;
    let load = start.elapsed();
    let drawing = &args.drawing;
    let options = Options {
        n_best: Some(args.n_best),
        batch_size: args.batching.batch_size,
        sampling: drawing.sample.then_some(Sampling {
            temperature: drawing.temperature,
            top_k: drawing.top_k,
            top_p: drawing.top_p,
        }),
        seed: drawing.seed,
        encoded: args.no_encode,
        decode: !args.no_decode,
        ..options(&args.search)
    };
    translator.search_options(&options)?;
    let mut prefixes = Prefixes::open(&args.drawing)?;
    // Somebody who types is shown where, and gets each line at once.
    let typed = args.files.is_empty() && args.text.is_none() && io::stdin().is_terminal();
    let prompt = || {
        if typed {
            // There is nowhere left to report a failure to.
            let _ = write!(io::stderr(), "> ");
        }
    };
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
                        warn(number, "not valid UTF-8; U+FFFD stands for the bad bytes");
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
            failed |= report(&translation);
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

/// What translations begin with, line by line.
enum Prefixes {
    /// The same for all.
    Same(Option<String>),
    /// Each its own.
    File(PathBuf, Lines),
}

impl Prefixes {
    fn open(drawing: &Drawing) -> anyhow::Result<Self> {
        Ok(match &drawing.prefix_file {
            Some(path) => Prefixes::File(path.clone(), Lines::open(path)?),
            None => Prefixes::Same(drawing.prefix.clone()),
        })
    }

    /// That of line `number`.
    fn next(&mut self, number: u64) -> anyhow::Result<Option<String>> {
        match self {
            Prefixes::Same(prefix) => Ok(prefix.clone()),
            Prefixes::File(path, lines) => match lines.next() {
                Some(line) => Ok(Some(line?.text)),
                None => bail!(
                    "{} ends before line {number} of the input; a blank line leaves a translation free",
                    path.display()
                ),
            },
        }
    }

    /// Refuses prefixes beyond the `lines` of the input.
    fn end(self, lines: u64) -> anyhow::Result<()> {
        if let Prefixes::File(path, mut rest) = self {
            ensure!(rest.next().is_none(), "{}: more lines than the {lines} of the input", path.display());
        }
        Ok(())
    }
}

/// Reads all inputs one after the other in a thread of its own, so that a line is translated as soon as it is there.
fn read_in_background(files: Vec<PathBuf>, text: Option<String>) -> Receiver<anyhow::Result<Line>> {
    let (sender, lines) = sync_channel(4096);
    std::thread::spawn(move || {
        let files = if files.is_empty() { vec![PathBuf::from("-")] } else { files };
        let inputs: Vec<tx::Result<Lines>> = match text {
            Some(text) => vec![Lines::new(io::Cursor::new(text), "--text")],
            None => files.iter().map(|path| open_input(path)).collect(),
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

/// At least one line, and what else is there already, up to `size`; none at the end of the input.
fn next_window(lines: &Receiver<anyhow::Result<Line>>, size: usize) -> Option<Vec<anyhow::Result<Line>>> {
    let mut window = vec![lines.recv().ok()?];
    window.extend(lines.try_iter().take(size - 1));
    Some(window)
}
