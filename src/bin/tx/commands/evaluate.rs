//! `tx evaluate`: a test set translated and scored, and where a model, or one of two, does worst.

use super::scoring::{metric, metrics, read, read_references, warn_of};
use super::warnings::report;
use super::{WINDOW_BATCHES, batched, check_beam, check_folder, open, open_all, options};
use crate::cli::{EvaluateArgs, LineFormat};
use crate::render::comparison::{Compared, compare_all};
use crate::render::evaluation::{Evaluation, System, html, jsonl, text};
use crate::render::lines_bar::LinesBar;
use anyhow::Context;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use tx::checkpoint::files::write_atomically;
use tx::score::{Corpus, Likelihood, Metric};
use tx::translate::{Options, Translation, Translator, forced::LeftOut, numbered};

pub fn run(args: EvaluateArgs) -> anyhow::Result<ExitCode> {
    check_beam(args.search.beam, 1);
    let metrics = metrics(&args.scoring);
    let by_line = ["chrf", "bleu", "ter"].map(|name| metric(&args.scoring, name));
    let src = read(&args.src)?;
    let references = read_references(&args.src, &src, &args.references)?;
    [&args.html, &args.output].into_iter().flatten().try_for_each(|path| check_folder(path))?;
    let mut models = vec![open_all(&args.search)?];
    if let Some(path) = &args.against {
        models.push(open(Some(path), &args.search)?);
    }
    let options = batched(options(&args.search), &args.batching);
    models.iter().try_for_each(|(_, model)| model.search_options(&options).map(drop))?;
    let task = Task { src: &src, references: &references, metrics: &metrics, by_line: &by_line, options };
    let mut systems = Vec::new();
    for model in &models {
        if models.len() > 1 {
            say!("tx: translating with {}", model.0);
        }
        systems.push(task.run(model)?);
    }
    sum_likelihoods(&mut systems, &references[0]);
    let compared = task.compare(&systems, args.scoring.seed)?;
    let failed = systems.iter().any(|system| system.failed);
    let tokenizer = |model: &(String, Translator)| model.1.tokenizer().hash();
    let same_tokenizer = models.iter().all(|model| tokenizer(model) == tokenizer(&models[0]));
    let mut evaluation = Evaluation {
        src_name: args.src.display().to_string(),
        reference_names: args.references.iter().map(|path| path.display().to_string()).collect(),
        by: args.by,
        width: args.scoring.width,
        shown: Vec::new(),
        src,
        references,
        systems,
        compared,
        same_tokenizer,
    };
    evaluation.shown = evaluation.most_telling(args.worst);
    write(&evaluation, &args)?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What every model has to do.
struct Task<'a> {
    src: &'a [String],
    references: &'a [Vec<String>],
    metrics: &'a [Metric],
    /// chrF, BLEU and TER, for single lines.
    by_line: &'a [Metric; 3],
    options: Options,
}

impl Task<'_> {
    fn corpus<'a>(&'a self, texts: &'a [String]) -> tx::Result<Corpus<'a>> {
        Corpus::new(texts, self.references)
    }

    /// Two systems under every metric; nothing for one.
    fn compare(&self, systems: &[System], seed: u64) -> tx::Result<Vec<Compared>> {
        match systems {
            [first, second] => {
                let (first, second) = (self.corpus(&first.texts)?, self.corpus(&second.texts)?);
                compare_all(self.metrics, &first, &second, seed)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Translates and scores with one model, and tells what the user should know.
    fn run(&self, (name, model): &(String, Translator)) -> anyhow::Result<System> {
        let translations = self.translate(model)?;
        // Not `any`, which would stop at the first: the warnings of all lines are to be told.
        let failures = translations.iter().filter(|translation| report(translation)).count();
        let pairs: Vec<(&String, &String)> = self.src.iter().zip(&self.references[0]).collect();
        let likely = model.force(&pairs)?;
        let log_probs = translations.iter().map(|translation| translation.hypotheses[0].log_prob).collect();
        let texts: Vec<String> = translations.into_iter().map(Translation::into_text).collect();
        let corpus = self.corpus(&texts)?;
        warn_of(&corpus, self.metrics);
        let of_lines =
            |metric: &Metric| metric.sentence_scores(&corpus).iter().map(|score| score.score).collect();
        Ok(System {
            name: name.clone(),
            scores: self.metrics.iter().map(|metric| metric.corpus_score(&corpus)).collect(),
            by_line: self.by_line.each_ref().map(of_lines),
            log_probs,
            likelihood: Likelihood::default(),
            max_positions: model.max_positions(),
            failed: failures > 0 || likely.contains(&Err(LeftOut::NotFinite)),
            likely,
            texts,
        })
    }

    /// All lines, with a bar on a terminal.
    fn translate(&self, model: &Translator) -> tx::Result<Vec<Translation>> {
        let lines = numbered(self.src);
        let bar = LinesBar::new(lines.len() as u64);
        let window = model.batch_size(&self.options).saturating_mul(WINDOW_BATCHES);
        let mut translations = Vec::with_capacity(lines.len());
        for window in lines.chunks(window) {
            translations.extend(model.translate(window.to_vec(), &self.options)?);
            bar.advance(window.len());
        }
        bar.finish();
        Ok(translations)
    }
}

/// The likelihood of the references that every system gives a probability: sums over other lines could not be compared.
fn sum_likelihoods(systems: &mut [System], references: &[String]) {
    for (line, reference) in references.iter().enumerate() {
        if systems.iter().all(|system| system.likely[line].is_ok()) {
            for system in systems.iter_mut() {
                if let Ok(forced) = &system.likely[line] {
                    system.likelihood.add(reference, forced.ids.len(), forced.log_prob);
                }
            }
        }
    }
}

fn write(evaluation: &Evaluation, args: &EvaluateArgs) -> anyhow::Result<()> {
    if let Some(path) = &args.output {
        let lines: String = evaluation.systems[0].texts.iter().map(|text| format!("{text}\n")).collect();
        write_atomically(path, lines.as_bytes())?;
    }
    if let Some(path) = &args.html {
        write_atomically(path, html::page(evaluation).as_bytes())?;
    }
    let mut out = BufWriter::new(io::stdout().lock());
    match args.format {
        LineFormat::Text => text::write(&mut out, evaluation),
        LineFormat::Jsonl => jsonl::write(&mut out, evaluation),
    }
    .and_then(|()| out.flush())
    .context("standard output")
}
