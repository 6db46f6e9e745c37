//! `tx score`: translations against references, with the numbers that sacreBLEU prints.

use super::scoring::{metrics, read, read_references, same_count, warn_of};
use crate::cli::{ScoreArgs, ScoreFormat};
use crate::render::comparison::{Compared, Sides, compare_all};
use anyhow::Context;
use serde_json::Value;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use tx::score::{Corpus, Metric, json_text};

pub fn run(args: ScoreArgs) -> anyhow::Result<ExitCode> {
    let metrics = metrics(&args.scoring);
    let hypotheses = read(&args.hypotheses)?;
    let references = read_references(&args.hypotheses, &hypotheses, &args.references)?;
    let corpus = Corpus::new(&hypotheses, &references)?;
    warn_of(&corpus, &metrics);
    let mut out = BufWriter::new(io::stdout().lock());
    let written = match &args.compare {
        Some(path) => {
            let others = read(path)?;
            same_count(&args.hypotheses, &hypotheses, path, &others)?;
            let other = Corpus::new(&others, &references)?;
            let compared = compare_all(&metrics, &corpus, &other, args.scoring.seed)?;
            write_comparison(&mut out, &compared, args.format)
        }
        None => write_scores(&mut out, &metrics, &corpus, &args),
    };
    written.and_then(|()| out.flush()).context("standard output")?;
    Ok(ExitCode::SUCCESS)
}

fn write_scores(
    out: &mut impl Write,
    metrics: &[Metric],
    corpus: &Corpus,
    args: &ScoreArgs,
) -> io::Result<()> {
    let scores = if args.sentence {
        let by_metric: Vec<_> = metrics.iter().map(|metric| metric.sentence_scores(corpus)).collect();
        (0..corpus.n_lines())
            .flat_map(|line| by_metric.iter().map(move |scores| scores[line].clone()))
            .collect()
    } else {
        metrics.iter().map(|metric| metric.corpus_score(corpus)).collect::<Vec<_>>()
    };
    let width = args.scoring.width;
    match args.format {
        ScoreFormat::Text => scores.iter().try_for_each(|score| writeln!(out, "{}", score.format(width))),
        ScoreFormat::Json => {
            let objects: Vec<Value> = scores.iter().map(|score| score.to_json(width)).collect();
            writeln!(out, "{}", json_text(&objects))
        }
    }
}

fn write_comparison(out: &mut impl Write, compared: &[Compared], format: ScoreFormat) -> io::Result<()> {
    match format {
        ScoreFormat::Text => Sides { first: "HYP", second: "--compare" }.write(out, compared),
        ScoreFormat::Json => {
            let objects: Vec<Value> = compared.iter().map(Compared::to_json).collect();
            writeln!(out, "{}", json_text(&objects))
        }
    }
}
