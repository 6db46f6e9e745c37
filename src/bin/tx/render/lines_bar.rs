//! How far the translation of files is: a bar with lines a second and the time left, where a terminal shows it and does not
//! show the translations.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::path::PathBuf;
use tx::data::Lines;

/// A bar, or nothing.
pub struct LinesBar(ProgressBar);

impl LinesBar {
    /// For so many lines.
    pub fn new(lines: u64) -> Self {
        if !std::io::stderr().is_terminal() {
            return LinesBar(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(lines);
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} lines  {per_sec}  {eta} left") {
            bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
        }
        LinesBar(bar)
    }

    /// For the lines of `files`, which are counted on the way. Nothing is shown of standard input, nor beside translations.
    pub fn over(files: &[PathBuf]) -> Self {
        let countable = !files.is_empty() && files.iter().all(|path| path.is_file());
        if !countable || std::io::stdout().is_terminal() {
            return LinesBar(ProgressBar::hidden());
        }
        let bar = LinesBar::new(0);
        let (counted, files) = (bar.0.clone(), files.to_vec());
        std::thread::spawn(move || {
            for lines in files.iter().filter_map(|path| Lines::open(path).ok()) {
                counted.inc_length(lines.count() as u64);
            }
        });
        bar
    }

    /// So many lines more are done.
    pub fn advance(&self, lines: usize) {
        self.0.inc(lines as u64);
    }

    /// What prints on stderr, with the bar out of its way.
    pub fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        self.0.suspend(print)
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}
