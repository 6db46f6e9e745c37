//! Before the first step: which text, which tokenizer, which settings. Every choice is told.

use super::fine_tune::Base;
use super::resume::{self, Reset};
use super::run_dir::{Origin, RunDir};
use super::settings::{Given, Settings};
use crate::data::{Corpus, Data, Pairs, Report, Text};
use crate::error::{Error, Result};
use crate::text::{Kind, Tokenizer};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Lines that a tokenizer is learnt from at most, on each side.
const TOKENIZER_LINES: usize = 1_000_000;

/// What the user asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// Folder of parallel text.
    pub data: PathBuf,
    /// Model directory to write.
    pub out: PathBuf,
    /// Source language.
    pub from: Option<String>,
    /// Target language.
    pub to: Option<String>,
    /// A finished tokenizer; otherwise one is learnt.
    pub tokenizer_file: Option<PathBuf>,
    /// Go on with the run in `out`.
    pub resume: bool,
    /// Settings that were given.
    pub given: Given,
    /// A model whose weights, tokenizer and shape a new run starts from.
    pub init_from: Option<PathBuf>,
    /// What a resumed run starts anew.
    pub resets: Vec<Reset>,
    /// How long this call may train.
    pub max_time: Option<Duration>,
}

/// A corpus ready to train on.
#[derive(Debug)]
pub struct Prepared {
    /// The run's tokenizer.
    pub tokenizer: Tokenizer,
    /// Training pairs.
    pub train: Pairs,
    /// Dev pairs that are short enough, for the loss.
    pub dev: Pairs,
    /// All of dev, for BLEU.
    pub dev_text: Text,
    /// Test sets.
    pub tests: Vec<Text>,
    /// What the run is, for its folder.
    pub origin: Origin,
    /// What starts anew.
    pub resets: Vec<Reset>,
    /// How long this call may train.
    pub max_time: Option<Duration>,
    /// Keeps other processes out of the run's folder.
    _lock: std::fs::File,
}

/// Reads the corpus, learns or opens the tokenizer and settles the settings; begins the run's folder, or checks that
/// corpus, tokenizer and settings are those of the run that goes on.
pub fn prepare(request: &Request, tell: &mut dyn FnMut(String)) -> Result<Prepared> {
    let run = RunDir::new(&request.out);
    let saved = saved_origin(&run, request)?;
    let (from, to) = match &saved {
        Some(saved) => (Some(saved.src_lang.as_str()), Some(saved.tgt_lang.as_str())),
        None => (request.from.as_deref(), request.to.as_deref()),
    };
    let corpus = Corpus::find(&request.data, from, to)?;
    corpus.notices.iter().for_each(|notice| tell(notice.clone()));
    let base = request.init_from.as_ref().map(|model| Base::open(model, &request.given)).transpose()?;
    let request = &Request {
        given: base.as_ref().map_or(&request.given, |base| &base.given).clone(),
        ..request.clone()
    };
    // The seed decides what is held out, so it is needed before the other settings.
    let seed = match &saved {
        Some(saved) => saved.settings.seed,
        None => Settings::resolve(&request.given, 0)?.seed,
    };
    let mut data = Data::load(&corpus, seed)?;
    data.notices.iter().for_each(|notice| tell(notice.clone()));
    data.overlaps.iter().for_each(|overlap| tell(overlap.to_string()));
    let settings = settle(request, saved.as_ref(), data.train.len(), tell)?;
    settings.check()?;
    let tokenizer = match (&saved, &request.tokenizer_file, &base) {
        (Some(_), ..) => run.tokenizer()?,
        (None, _, Some(base)) => base.tokenizer.clone(),
        (None, Some(file), None) => Tokenizer::open(file)?,
        (None, None, None) => learn_tokenizer(&settings, &data.train, tell)?,
    };
    let settings = Settings { vocab_size: tokenizer.vocab_size(), ..settings };
    settings.config(tokenizer.vocab_size(), tokenizer.special_ids()).check()?;
    if let Some(base) = &base {
        base.check(&settings)?;
        tell(format!("weights and tokenizer: those of {}", base.started_from.model.display()));
    }
    let [mut train_report, mut dev_report] = data.reports.clone();
    let encode = |text: &Text, report: &mut Report| {
        Pairs::encode(&tokenizer, &tokenizer, text, settings.max_positions, report)
    };
    let train = encode(&data.train, &mut train_report)?;
    let dev = encode(&data.dev, &mut dev_report)?;
    tell(train_report.to_string());
    tell(dev_report.to_string());
    let origin = Origin {
        data_sha256: hash(&corpus.hashes()?),
        tokenizer_sha256: tokenizer.hash(),
        src_lang: corpus.from.clone(),
        tgt_lang: corpus.to.clone(),
        version: env!("CARGO_PKG_VERSION").to_string(),
        init_from: match &saved {
            Some(saved) => saved.init_from.clone(),
            None => base.map(|base| base.started_from),
        },
        settings,
    };
    let lock = run.lock()?;
    match &saved {
        Some(saved) => {
            check_same_run(&request.out, saved, &origin, request.resets.contains(&Reset::Data))?;
        }
        None => run.create(&origin, &tokenizer)?,
    }
    data.train = Text::default();
    Ok(Prepared {
        tokenizer,
        train,
        dev,
        dev_text: data.dev,
        tests: data.tests,
        origin,
        resets: request.resets.clone(),
        max_time: request.max_time,
        _lock: lock,
    })
}

/// The origin of the run to go on with; none for a new run, which needs a folder that holds nothing.
fn saved_origin(run: &RunDir, request: &Request) -> Result<Option<Origin>> {
    let out = request.out.display();
    match (request.resume, run.exists()) {
        (true, true) => Ok(Some(run.origin()?)),
        (true, false) => {
            Err(Error::Config(format!("--resume: there is no run in {out}; start one without --resume")))
        }
        (false, true) => Err(Error::Config(format!(
            "{out} holds a run already: go on with it by --resume, or choose another folder by --out"
        ))),
        (false, false) if is_occupied(&request.out)? => {
            Err(Error::Config(format!("{out} is not an empty folder: choose another by --out")))
        }
        (false, false) => Ok(None),
    }
}

fn is_occupied(path: &Path) -> Result<bool> {
    if !path.exists() {
        return Ok(false);
    }
    if !path.is_dir() {
        return Ok(true);
    }
    Ok(std::fs::read_dir(path).map_err(|error| Error::io(path, error))?.next().is_some())
}

/// The settings of a new run, or those of the saved one with what may change.
fn settle(
    request: &Request,
    saved: Option<&Origin>,
    pairs: usize,
    tell: &mut dyn FnMut(String),
) -> Result<Settings> {
    let Some(saved) = saved else {
        let settings = Settings::resolve(&request.given, pairs)?;
        let why = if request.given.contains_key("preset") {
            "as asked".into()
        } else {
            format!("for {pairs} pairs")
        };
        tell(format!(
            "preset {} ({why}): {}+{} layers, d_model {}, d_ff {}, {} heads",
            serde_json::json!(settings.preset).as_str().unwrap_or_default(),
            settings.encoder_layers,
            settings.decoder_layers,
            settings.d_model,
            settings.d_ff,
            settings.heads
        ));
        return Ok(Settings {
            tokenizer: settings
                .tokenizer
                .filter(|_| request.tokenizer_file.is_none() && request.init_from.is_none()),
            ..settings
        });
    };
    resume::settle(&saved.settings, &request.given, &request.resets, tell)
}

/// One tokenizer for both languages, learnt from the training text.
fn learn_tokenizer(settings: &Settings, train: &Text, tell: &mut dyn FnMut(String)) -> Result<Tokenizer> {
    let kind = settings.tokenizer.unwrap_or(Kind::Bpe);
    // Every n-th line of a large corpus.
    let every = train.len().div_ceil(TOKENIZER_LINES).max(1);
    let lines: Vec<&str> =
        train.src.iter().step_by(every).chain(train.tgt.iter().step_by(every)).map(String::as_str).collect();
    let tokenizer = Tokenizer::train(kind, &lines, settings.vocab_size, settings.lowercase)?;
    let (found, asked) = (tokenizer.vocab_size(), settings.vocab_size);
    let name = serde_json::json!(kind);
    let name = name.as_str().unwrap_or_default();
    tell(match found < asked {
        true => {
            format!("tokenizer: {name} of {found} pieces; {asked} were asked for, the text fills no more")
        }
        false => format!("tokenizer: {name} of {found} pieces"),
    });
    Ok(tokenizer)
}

/// One hash of the hashes of all files.
fn hash(files: &[(String, String)]) -> String {
    let mut sha = Sha256::new();
    for (name, hash) in files {
        sha.update(format!("{name} {hash}\n"));
    }
    format!("{:x}", sha.finalize())
}

/// A run goes on with the text and the tokenizer that it was started with.
fn check_same_run(out: &Path, saved: &Origin, now: &Origin, is_new_text: bool) -> Result<()> {
    let out = out.display();
    if saved.data_sha256 != now.data_sha256 && !is_new_text {
        return Err(Error::Config(format!(
            "--resume: the text has changed since the run in {out} was started (SHA-256 {} then, {} now): put it back, take \
             it with --reset data, or start a new run",
            saved.data_sha256, now.data_sha256
        )));
    }
    if saved.tokenizer_sha256 != now.tokenizer_sha256 {
        return Err(Error::Config(format!(
            "--resume: the tokenizer in {out} is not that of the run (SHA-256 {}, expected {})",
            now.tokenizer_sha256, saved.tokenizer_sha256
        )));
    }
    Ok(())
}
