//! `tx score`: translations against references, with the numbers that sacreBLEU prints.

use super::usage_error;
use crate::cli::{ScoreArgs, ScoreFormat};
use anyhow::Context;
use serde_json::{Value, json};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use tx::data::Lines;
use tx::score::{Comparison, Corpus, Metric, Test, Tokenizer, compare, json_text, notices};

pub fn run(args: ScoreArgs) -> anyhow::Result<ExitCode> {
    let Some(tokenizer) = Tokenizer::from_name(&args.tokenize) else {
        usage_error("score", format!("--tokenize {}: expected 13a, intl, char, zh or none", args.tokenize));
    };
    let metric = |name: &String| Metric::from_name(name, tokenizer, args.lowercase);
    let metrics: Vec<Metric> = match args.metrics.iter().map(metric).collect() {
        Ok(metrics) => metrics,
        Err(error) => usage_error("score", error),
    };
    let hypotheses = read(&args.hypotheses)?;
    let references: Vec<Vec<String>> =
        args.references.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
    let corpus = Corpus::new(&hypotheses, &references)?;
    notices(&corpus, &metrics).iter().for_each(|notice| say!("tx: warning: {notice}"));
    let mut out = BufWriter::new(io::stdout().lock());
    let written = match &args.compare {
        Some(other) => {
            let other_lines = read(other)?;
            let other = Corpus::new(&other_lines, &references)?;
            write_comparison(&mut out, &metrics, &corpus, &other, &args)?
        }
        None => write_scores(&mut out, &metrics, &corpus, &args),
    };
    written.and_then(|()| out.flush()).context("standard output")?;
    Ok(ExitCode::SUCCESS)
}

/// All lines of a file; a score over replaced bytes would be a score of another text.
fn read(path: &Path) -> anyhow::Result<Vec<String>> {
    let mut lines = Vec::new();
    for line in Lines::open(path)? {
        let line = line?;
        anyhow::ensure!(!line.damaged, "{}: line {} is not valid UTF-8", path.display(), line.number);
        lines.push(line.text);
    }
    Ok(lines)
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
    match args.format {
        ScoreFormat::Text => {
            scores.iter().try_for_each(|score| writeln!(out, "{}", score.format(args.width)))
        }
        ScoreFormat::Json => {
            let objects: Vec<Value> = scores.iter().map(|score| score.to_json(args.width)).collect();
            writeln!(out, "{}", json_text(&objects))
        }
    }
}

/// Both systems under both tests: the bootstrap for intervals, randomization for its p-value.
fn write_comparison(
    out: &mut impl Write,
    metrics: &[Metric],
    first: &Corpus,
    second: &Corpus,
    args: &ScoreArgs,
) -> anyhow::Result<io::Result<()>> {
    let mut rows = Vec::new();
    for metric in metrics {
        let test = |test: Test| compare(metric, first, second, test, test.default_trials(), args.seed);
        rows.push((metric, test(Test::Bootstrap)?, test(Test::Randomization)?));
    }
    let mut write = || -> io::Result<()> {
        if args.format == ScoreFormat::Json {
            let objects: Vec<Value> =
                rows.iter().map(|(metric, bs, ar)| comparison_json(metric, bs, ar)).collect();
            return writeln!(out, "{}", json_text(&objects));
        }
        writeln!(out, "{:<12} {:>20} {:>20} {:>9} {:>9}", "", "HYP", "--compare", "p (bs)", "p (ar)")?;
        for (metric, bs, ar) in &rows {
            let cell = |score: f64, interval: Option<tx::score::Interval>| {
                interval
                    .map_or(format!("{score:.2}"), |i| format!("{score:.2} ({:.2} ± {:.2})", i.mean, i.ci))
            };
            let (first, second) =
                (cell(bs.baseline, bs.baseline_interval), cell(bs.system, bs.system_interval));
            writeln!(
                out,
                "{:<12} {first:>20} {second:>20} {:>9.4} {:>9.4}",
                metric.label(),
                bs.p_value,
                ar.p_value
            )?;
        }
        Ok(())
    };
    Ok(write())
}

fn comparison_json(metric: &Metric, bs: &Comparison, ar: &Comparison) -> Value {
    let side = |score: f64, interval: Option<tx::score::Interval>| json!({"score": score, "mean": interval.map(|i| i.mean), "ci": interval.map(|i| i.ci)});
    json!({
        "name": metric.label(),
        "hyp": side(bs.baseline, bs.baseline_interval),
        "compare": side(bs.system, bs.system_interval),
        "p_bootstrap": bs.p_value,
        "p_randomization": ar.p_value,
    })
}
