//! What is translated: lines that are read in a thread of their own, and what their translations begin with.

use crate::cli::Drawing;
use crate::commands::open_input;
use anyhow::{bail, ensure};
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, sync_channel};
use tx::data::{Line, Lines};

/// What translations begin with, line by line.
pub enum Prefixes {
    /// The same for all.
    Same(Option<String>),
    /// Each its own.
    File(PathBuf, Lines),
}

impl Prefixes {
    pub fn open(drawing: &Drawing) -> anyhow::Result<Self> {
        Ok(match &drawing.prefix_file {
            Some(path) => Prefixes::File(path.clone(), Lines::open(path)?),
            None => Prefixes::Same(drawing.prefix.clone()),
        })
    }

    /// That of line `number`.
    pub fn next(&mut self, number: u64) -> anyhow::Result<Option<String>> {
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
    pub fn end(self, lines: u64) -> anyhow::Result<()> {
        if let Prefixes::File(path, mut rest) = self {
            ensure!(rest.next().is_none(), "{}: more lines than the {lines} of the input", path.display());
        }
        Ok(())
    }
}

/// Reads all inputs one after the other in a thread of its own, so that a line is translated as soon as it is there.
pub fn read_in_background(files: Vec<PathBuf>, text: Option<String>) -> Receiver<anyhow::Result<Line>> {
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
pub fn next_window(lines: &Receiver<anyhow::Result<Line>>, size: usize) -> Option<Vec<anyhow::Result<Line>>> {
    let mut window = vec![lines.recv().ok()?];
    window.extend(lines.try_iter().take(size - 1));
    Some(window)
}
