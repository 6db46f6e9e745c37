//! `tx beam`: what the search kept, what fell off, and why.

use super::{check_beam, options, translator, warn_of_sentences};
use crate::cli::{BeamArgs, BeamFormat};
use crate::render::beam_view;
use anyhow::Context;
use serde_json::{Value, json};
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use tx::search::Trace;
use tx::translate::{Candidate, Options, Translator};

pub fn run(args: BeamArgs) -> anyhow::Result<ExitCode> {
    check_beam("beam", args.search.beam, args.n_best.unwrap_or(1));
    let translator = translator(&args.search)?;
    let mut options = options(&args.search);
    let beam_size = translator.search_options(&options)?.beam_size;
    options = Options { n_best: Some(args.n_best.unwrap_or(beam_size)), ..options };
    warn_of_sentences(&translator, &args.sentence, &options);
    let src = translator.encode_one(&args.sentence)?;
    let (hypotheses, trace) = translator.search_traced(&src, &options)?;
    let hypotheses: Vec<Candidate> = hypotheses
        .into_iter()
        .map(|hypothesis| translator.candidate(hypothesis))
        .collect::<Result<_, _>>()?;
    let mut out = BufWriter::new(io::stdout().lock());
    match args.format {
        BeamFormat::Text => beam_view::write(&mut out, &translator, &trace, &hypotheses),
        BeamFormat::Json => {
            let json = to_json(&translator, &args.sentence, &src, &trace, &hypotheses)?;
            writeln!(out, "{json}")
        }
    }
    .and_then(|()| out.flush())
    .context("standard output")?;
    Ok(ExitCode::SUCCESS)
}

/// The record with the pieces beside the ids.
fn to_json(
    translator: &Translator,
    sentence: &str,
    src: &[u32],
    trace: &Trace,
    hypotheses: &[Candidate],
) -> anyhow::Result<Value> {
    let mut record = serde_json::to_value(trace)?;
    for step in record["steps"].as_array_mut().into_iter().flatten() {
        for list in ["live", "candidates"] {
            for entry in step[list].as_array_mut().into_iter().flatten() {
                if let Some(id) = entry["token"].as_u64() {
                    entry["piece"] = json!(translator.tgt_tokenizer().piece(id as u32));
                }
            }
        }
    }
    for (entry, hypothesis) in record["hypotheses"].as_array_mut().into_iter().flatten().zip(hypotheses) {
        entry["text"] = json!(hypothesis.text);
        entry["tokens"] = json!(hypothesis.tokens);
    }
    let src_tokens: Vec<String> =
        src.iter().map(|&id| translator.tokenizer().piece(id).to_string()).collect();
    let mut json = json!({"src": sentence, "src_tokens": src_tokens});
    for (name, value) in record.as_object().into_iter().flatten() {
        json[name] = value.clone();
    }
    Ok(json)
}
