//! `tx beam`: what the search kept, what fell off, and why.

use super::{check_beam, check_folder, keep, options, translator, usage_error, warn_of_sentences};
use crate::cli::{BeamArgs, BeamFormat};
use crate::render::beam::{Asked, Compared, View, dot, html, text};
use anyhow::Context;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use tx::search::{Hypothesis, Sentence};
use tx::translate::{Candidate, Options, Translator};

pub fn run(args: BeamArgs) -> anyhow::Result<ExitCode> {
    if args.sample.is_some() {
        usage_error("what is drawn (--sample) has no beam to show: draw with tx translate --sample");
    }
    check_beam(args.search.beam, args.n_best.unwrap_or(1));
    args.html.as_deref().map(check_folder).transpose()?;
    let translator = translator(&args.search)?;
    let mut options = Options { must_contain: args.must_contain.clone(), ..options(&args.search) };
    let beam_size = translator.search_options(&options)?.beam_size;
    options.n_best = Some(args.n_best.unwrap_or(beam_size));
    warn_of_sentences(&translator, &args.sentence, &options);
    let sentence = translator.one_sentence(&args.sentence, args.prefix.as_deref(), &options)?;
    let view = view(&args, &translator, &sentence, &options)?;
    if let Some(path) = &args.html {
        keep(path, html::page(&view)?.as_bytes())?;
    }
    let Some(format) = args.format.or(args.html.is_none().then_some(BeamFormat::Text)) else {
        return Ok(ExitCode::SUCCESS);
    };
    let mut out = BufWriter::new(io::stdout().lock());
    match format {
        BeamFormat::Text => text::write(&mut out, &view).context("standard output")?,
        BeamFormat::Json => writeln!(out, "{}", view.to_json()?).context("standard output")?,
        BeamFormat::Jsonl => write_lines(&mut out, &view)?,
        BeamFormat::Dot => dot::write(&mut out, &view).context("standard output")?,
    }
    out.flush().context("standard output")?;
    Ok(ExitCode::SUCCESS)
}

/// Searches, and does what is asked beside.
fn view<'a>(
    args: &'a BeamArgs,
    translator: &'a Translator,
    sentence: &'a Sentence,
    options: &Options,
) -> anyhow::Result<View<'a>> {
    let (hypotheses, trace, why) = match &args.why {
        Some(target) => {
            let (hypotheses, trace, why) = translator.why(sentence, target, options)?;
            (hypotheses, trace, Some(why))
        }
        None => {
            let (hypotheses, trace) = translator.search_traced(sentence, options)?;
            (hypotheses, trace, None)
        }
    };
    let candidates = |list: Vec<Hypothesis>| -> tx::Result<Vec<Candidate>> {
        list.into_iter().map(|one| translator.candidate(one)).collect()
    };
    let n_best = candidates(hypotheses)?;
    let why = why.map(|why| Asked::new(translator, why, &n_best)).transpose()?;
    let mut compared = Vec::new();
    for other in &args.compare {
        let options = Options {
            beam_size: other.beam.or(options.beam_size),
            length_penalty: other.length_penalty.or(options.length_penalty),
            n_best: Some(1),
            ..options.clone()
        };
        let (best, trace) = translator.search_traced(sentence, &options)?;
        compared.extend(candidates(best)?.into_iter().map(|best| Compared::new(&trace, best, sentence)));
    }
    Compared::mark(&mut compared);
    Ok(View { translator, text: &args.sentence, src: &sentence.src, trace, n_best, why, compared })
}

/// A line for all but the steps, then a line for each step.
fn write_lines(out: &mut impl Write, view: &View) -> anyhow::Result<()> {
    let mut head = view.to_json()?;
    let steps = head["steps"].take();
    if let Some(head) = head.as_object_mut() {
        head.shift_remove("steps");
    }
    writeln!(out, "{head}")?;
    for step in steps.as_array().into_iter().flatten() {
        writeln!(out, "{step}")?;
    }
    Ok(())
}
