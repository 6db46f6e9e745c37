//! `tx tokenize` and `tx detokenize`: source text to pieces and target pieces to text, as the model has them.

use super::open_input;
use super::which::Which;
use crate::cli::TokenizeArgs;
use anyhow::{Context, anyhow};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use tx::data::Line;
use tx::text::{Tokenizer, clean};
use tx::translate::unknown::{MARK, spell};

/// Pieces of every line, a blank between them.
pub fn tokenize(args: TokenizeArgs) -> anyhow::Result<ExitCode> {
    each_line(&args, |tokenizer, line| {
        let mut ids = tokenizer.encode(&clean(line))?;
        ids.pop();
        let piece = |id: u32| if args.ids { id.to_string() } else { tokenizer.piece(id).to_string() };
        Ok(ids.into_iter().map(piece).collect::<Vec<_>>().join(" "))
    })
}

/// The text of every line of pieces. Marks of sentences say nothing, and what is unknown is shown as such.
pub fn detokenize(args: TokenizeArgs) -> anyhow::Result<ExitCode> {
    each_line(&args, |tokenizer, line| {
        let tokenizer = tokenizer.tgt();
        let id = |word: &str| -> anyhow::Result<u32> {
            let found = match word.parse() {
                Ok(id) if args.ids => Some(id).filter(|&id: &u32| (id as usize) < tokenizer.vocab_size()),
                _ if args.ids => None,
                _ => tokenizer.id(word).or_else(|| special(tokenizer, word)),
            };
            found.ok_or_else(|| anyhow!("{word:?} is none of the model's {} pieces", tokenizer.vocab_size()))
        };
        let ids = line.split_whitespace().map(id).collect::<anyhow::Result<Vec<u32>>>()?;
        Ok(spell(tokenizer, &ids, |_| MARK.to_string())?)
    })
}

/// The id of a special token, which is no piece of a text.
fn special(tokenizer: &Tokenizer, word: &str) -> Option<u32> {
    (0u32..).zip(tokenizer.pieces()).find(|(_, piece)| *piece == word).map(|(id, _)| id)
}

/// Writes what `work` makes of every line of the input.
fn each_line(
    args: &TokenizeArgs,
    work: impl Fn(&Tokenizer, &str) -> anyhow::Result<String>,
) -> anyhow::Result<ExitCode> {
    let tokenizer = Which::find(args.model.as_deref(), None, None)?.tokenizer()?;
    let stdin = [PathBuf::from("-")];
    let files = if args.files.is_empty() { &stdin[..] } else { &args.files };
    let mut out = BufWriter::new(io::stdout().lock());
    let mut number = 0;
    for path in files {
        for line in open_input(path)? {
            let Line { text, .. } = line?;
            number += 1;
            let text = work(&tokenizer, &text).with_context(|| format!("line {number}"))?;
            writeln!(out, "{text}").context("standard output")?;
        }
    }
    out.flush().context("standard output")?;
    Ok(ExitCode::SUCCESS)
}
