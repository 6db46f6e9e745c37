//! How far the download of a model is: a line that says what comes, and on a terminal a bar for each file.

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use tx::hub::{Event, ModelId};

/// Shows the events of one model.
pub struct DownloadBar {
    id: String,
    bar: ProgressBar,
}

impl DownloadBar {
    pub fn new(id: &ModelId) -> Self {
        DownloadBar { id: id.to_string(), bar: ProgressBar::hidden() }
    }

    /// Shows one event.
    pub fn show(&mut self, event: Event) {
        match event {
            Event::Waiting => say!("tx: {}: another process is fetching it: waiting", self.id),
            Event::Plan { files: 0, .. } => {}
            Event::Plan { files, bytes, endpoint } => {
                let files = if files == 1 { "1 file".to_string() } else { format!("{files} files") };
                say!("tx: {}: fetching {files}, {}, from {endpoint}", self.id, HumanBytes(bytes));
            }
            Event::File { name, size } => self.bar = bar(name, size),
            Event::Progress { bytes } => self.bar.set_position(bytes),
            Event::Again { file, cause } => {
                let note = || say!("tx: {}: {file}: {cause}: going on", self.id);
                self.bar.suspend(note);
            }
            Event::Done => self.bar.finish(),
        }
    }
}

/// A bar where a terminal shows it.
fn bar(name: &str, size: Option<u64>) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match size {
        Some(size) => {
            (ProgressBar::new(size), "{msg:24} {bar:24} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left")
        }
        None => (ProgressBar::no_length(), "{msg:24} {bytes}  {bytes_per_sec}"),
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
    }
    bar.with_message(name.to_string())
}
