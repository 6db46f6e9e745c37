//! What was done, and which lines the user should know of: the closing words on stderr, and `--report`.

use std::time::Duration;
use tx::translate::{Notice, Translation};

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
const KINDS: [&str; 8] = ["blank", "damaged", "split", "unknown", "missing", "cut", "loop", "failed"];

/// What was done, for the closing words and `--report`.
#[derive(Default)]
pub struct Work {
    lines: u64,
    sentences: usize,
    src_tokens: usize,
    tgt_tokens: usize,
    /// By kind, as [`KINDS`] has them.
    found: [Tally; KINDS.len()],
}

impl Work {
    pub fn add(&mut self, translation: &Translation) {
        self.lines += 1;
        self.sentences += translation.sentences;
        self.src_tokens += translation.src_tokens;
        self.tgt_tokens += translation.hypotheses[0].ids.len();
        if translation.src_tokens == 0 && translation.notices.is_empty() {
            self.tally("blank", translation.line);
        }
        for notice in &translation.notices {
            let kind = match notice {
                Notice::Split { .. } => "split",
                Notice::Unknown { .. } | Notice::UnknownSaid { .. } => "unknown",
                Notice::Missing { .. } => "missing",
                Notice::Cut { .. } => "cut",
                Notice::Loop { .. } => "loop",
                Notice::Failed(_) => "failed",
            };
            self.tally(kind, translation.line);
        }
    }

    pub fn tally(&mut self, kind: &str, line: u64) {
        let tallies = KINDS.iter().zip(&mut self.found);
        tallies.filter(|(name, _)| **name == kind).for_each(|(_, tally)| tally.add(line));
    }

    /// The kinds of which there is a line.
    fn kinds(&self) -> impl Iterator<Item = (&'static str, &Tally)> {
        KINDS.into_iter().zip(&self.found).filter(|(_, tally)| tally.count > 0)
    }

    /// Whether there is anything but blank lines that `--strict` does not let pass.
    pub fn is_spotless(&self) -> bool {
        self.kinds().all(|(kind, _)| kind == "blank")
    }

    /// The closing words, for input of which not everything is on the screen.
    pub fn say(&self, run: Duration) {
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

    pub fn report(&self, load: Duration, run: Duration) -> serde_json::Value {
        let Work { lines, sentences, src_tokens, tgt_tokens, .. } = *self;
        let seconds = run.as_secs_f64();
        let mut report = serde_json::json!({
            "lines": lines,
            "src_tokens": src_tokens,
            "tgt_tokens": tgt_tokens,
            "seconds": seconds,
            "tgt_tok_s": tgt_tokens as f64 / seconds,
            "load_s": load.as_secs_f64(),
            "peak_mib": crate::commands::peak_memory().map(|bytes| bytes as f64 / f64::from(1 << 20)),
            "sentences": sentences,
        });
        for (kind, Tally { count, first }) in KINDS.into_iter().zip(&self.found) {
            report[kind] = serde_json::json!({"count": count, "first": first});
        }
        report
    }
}
