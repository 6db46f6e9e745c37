//! Before the first step: which text, which tokenizer, which settings. Every choice is told.

use super::fine_tune::Base;
use super::resume::{self, Reset};
use super::run_dir::{Origin, RunDir};
use super::settings::{Given, Settings};
use super::tokenizer;
use crate::checkpoint::check_tokenizer;
use crate::data::{Cache, Corpora, Data, Epoch, Meta, Pairs, Report, Rest, Source, Text, TrainSet};
use crate::error::{Error, Result};
use crate::text::{Sampler, Tokenizer};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the user asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// Folders of parallel text.
    pub data: Vec<Source>,
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
    pub train: TrainSet,
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

impl Prepared {
    /// The batches of an epoch, from 0.
    pub fn epoch(&self, epoch: u64) -> Result<Epoch> {
        let settings = &self.origin.settings;
        self.train.epoch(epoch, settings.batch_tokens, settings.seed)
    }
}

/// Reads the corpus, learns or opens the tokenizer and settles the settings; begins the run's folder, or checks that
/// corpus, tokenizer and settings are those of the run that goes on. What fails leaves nothing behind.
pub fn prepare(request: &Request, tell: &mut dyn FnMut(String)) -> Result<Prepared> {
    let run = RunDir::new(&request.out);
    let saved = saved_origin(&run, request)?;
    if let Some(saved) = &saved {
        let asked = [("--from", &request.from, &saved.src_lang), ("--to", &request.to, &saved.tgt_lang)];
        for (flag, asked, has) in asked {
            if let Some(asked) = asked.as_ref().filter(|asked| *asked != has) {
                let what = format!(
                    "--resume: the run's {flag} is {has}, not {asked}: leave it out, or start a new run"
                );
                return Err(Error::Config(what));
            }
        }
    }
    let (from, to) = match &saved {
        Some(saved) => (Some(saved.src_lang.as_str()), Some(saved.tgt_lang.as_str())),
        None => (request.from.as_deref(), request.to.as_deref()),
    };
    let corpora = Corpora::find(&request.data, from, to)?;
    corpora.notices.iter().for_each(|notice| tell(notice.clone()));
    let is_there = request.out.exists();
    let lock = run.lock()?;
    let base = request.init_from.as_ref().map(|model| Base::open(model, &request.given)).transpose()?;
    let mut given = base.as_ref().map_or(&request.given, |base| &base.given).clone();
    let finished = match (&saved, &base, &request.tokenizer_file) {
        (Some(_), ..) => None,
        (None, Some(base), _) => Some(base.tokenizer.clone()),
        (None, None, file) => file.as_ref().map(Tokenizer::open).transpose()?,
    };
    finished.iter().try_for_each(|tokenizer| tokenizer::note(tokenizer, &mut given))?;
    let request = &Request { given, ..request.clone() };
    let (saved, base) = (saved.as_ref(), base.as_ref());
    let job = Job { request, run: &run, saved, base, finished, corpora: &corpora };
    let prepared = job.prepare(lock, tell);
    if prepared.is_err() && saved.is_none() {
        // The first error is the one to report; the next run takes no offence at what is left.
        let _ = std::fs::remove_dir_all(run.path());
        if !is_there {
            let _ = std::fs::remove_dir(&request.out);
        }
    }
    prepared
}

/// One preparation.
struct Job<'a> {
    request: &'a Request,
    run: &'a RunDir,
    saved: Option<&'a Origin>,
    base: Option<&'a Base>,
    /// A tokenizer that need not be learnt.
    finished: Option<Tokenizer>,
    corpora: &'a Corpora,
}

impl Job<'_> {
    fn prepare(&self, lock: std::fs::File, tell: &mut dyn FnMut(String)) -> Result<Prepared> {
        if let Some(saved) = self.saved
            && !self.corpora.has_stdin()
        {
            let data_sha256 = self.hash(&self.corpora.hashes()?);
            self.check_text(saved, &data_sha256)?;
            let mut notices = vec![];
            let settings = settle(self.request, Some(saved), 0, &mut |notice| notices.push(notice))?;
            let tokenizer = self.run.tokenizer()?;
            let key = key(&data_sha256, &tokenizer, &settings);
            // A damaged cache is as good as none.
            if let Some(meta) = self.cache().meta(&key)
                && let Ok(train) = self.cache().open(&meta, &tokenizer)
            {
                let rest = Rest::read(self.corpora, meta.held_out.clone())?;
                notices.into_iter().for_each(&mut *tell);
                tell("train is read from the cache of the run".into());
                return self
                    .finish(Encoded { settings, tokenizer, data_sha256, train, meta, rest, lock }, tell);
            }
        }
        self.encode(lock, tell)
    }

    /// Reads and encodes all text.
    fn encode(&self, lock: std::fs::File, tell: &mut dyn FnMut(String)) -> Result<Prepared> {
        // Seed and filters are needed before the size of the corpus is known.
        let early = match self.saved {
            Some(saved) => saved.settings.clone(),
            None => Settings::resolve(&self.request.given, 0)?,
        };
        let data = Data::load(self.corpora, &early.filters(), early.seed, &self.cache().begin()?)?;
        data.rest.notices().for_each(|notice| tell(notice.clone()));
        data.overlaps.iter().for_each(|overlap| tell(overlap.to_string()));
        let data_sha256 = self.hash(&data.hashes);
        if let Some(saved) = self.saved {
            self.check_text(saved, &data_sha256)?;
        }
        let settings = settle(self.request, self.saved, data.train.len(), tell)?;
        settings.check()?;
        let tokenizer = match (self.saved, &self.finished) {
            (Some(_), _) => self.run.tokenizer()?,
            (None, Some(tokenizer)) => tokenizer.clone(),
            (None, None) => tokenizer::learn(&settings, &data.train, tell)?,
        };
        let settings = Settings { vocab_size: tokenizer.vocab_size(), ..settings };
        let config = settings.config(tokenizer.vocab_sizes(), tokenizer.special_ids());
        config.check()?;
        check_tokenizer(&config, &tokenizer, None).map_err(Error::Config)?;
        if let Some(base) = self.base {
            base.check(&settings)?;
            tell(format!("weights and tokenizer: those of {}", base.started_from.model.display()));
        }
        let (key, rest) = (key(&data_sha256, &tokenizer, &settings), data.rest.clone());
        let sampled = settings.sample_tokens > 0.0;
        let (meta, train) = self.cache().encode(data, &tokenizer, &settings.filters(), sampled, key)?;
        self.finish(Encoded { settings, tokenizer, data_sha256, train, meta, rest, lock }, tell)
    }

    /// The reports, the origin and the folder of the run.
    fn finish(&self, encoded: Encoded, tell: &mut dyn FnMut(String)) -> Result<Prepared> {
        let Encoded { settings, tokenizer, data_sha256, train, meta, rest, lock } = encoded;
        let Rest { dev: dev_text, mut report, tests, .. } = rest;
        let dev = Pairs::encode(&tokenizer, &dev_text, settings.max_positions, &mut report)?;
        meta.reports.iter().map(Report::to_string).for_each(&mut *tell);
        tell(report.to_string());
        let samplers = match settings.sample_tokens {
            0.0 => None,
            dropout => Some(Sampler::pair(&tokenizer, dropout)?),
        };
        let weights = self.corpora.parts.iter().map(|part| part.weight);
        let parts: Vec<(usize, f64)> = meta.parts.iter().copied().zip(weights).collect();
        let train = train.with_weights(parts).with_samplers(samplers, settings.max_positions);
        let origin = Origin {
            data_sha256,
            tokenizer_sha256: tokenizer.hash(),
            src_lang: self.corpora.first.from.clone(),
            tgt_lang: self.corpora.first.to.clone(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            init_from: match self.saved {
                Some(saved) => saved.init_from.clone(),
                None => self.base.map(|base| base.started_from.clone()),
            },
            settings,
        };
        match self.saved {
            Some(saved) => check_same_tokenizer(&self.request.out, saved, &origin)?,
            None => self.run.create(&origin, &tokenizer)?,
        }
        Ok(Prepared {
            tokenizer,
            train,
            dev,
            dev_text,
            tests,
            origin,
            resets: self.request.resets.clone(),
            max_time: self.request.max_time,
            _lock: lock,
        })
    }

    /// A run goes on with the text that it was started with, unless it is to take another.
    fn check_text(&self, saved: &Origin, now: &str) -> Result<()> {
        if saved.data_sha256 == now || self.request.resets.contains(&Reset::Data) {
            return Ok(());
        }
        Err(Error::Config(format!(
            "--resume: the text has changed since the run in {} was started (SHA-256 of files and weights {} then, {now} \
             now): put it back, take it with --reset data, or start a new run",
            self.request.out.display(),
            saved.data_sha256
        )))
    }

    fn cache(&self) -> Cache {
        Cache::new(self.run.path().join("cache"))
    }

    /// One hash of the hashes of all files, and of the weights where there are any.
    fn hash(&self, files: &[(String, String)]) -> String {
        let mut sha = Sha256::new();
        for (name, hash) in files {
            sha.update(format!("{name} {hash}\n"));
        }
        for (index, part) in self.corpora.parts.iter().enumerate().filter(|(_, part)| part.weight != 1.0) {
            sha.update(format!("weight {index} {}\n", part.weight));
        }
        format!("{:x}", sha.finalize())
    }
}

/// What is there once train is encoded.
struct Encoded {
    settings: Settings,
    tokenizer: Tokenizer,
    data_sha256: String,
    train: TrainSet,
    meta: Meta,
    rest: Rest,
    lock: std::fs::File,
}

/// What a cache is made of.
fn key(data_sha256: &str, tokenizer: &Tokenizer, settings: &Settings) -> String {
    let made_of = serde_json::json!({
        "format": 1,
        "data": data_sha256,
        "tokenizer": tokenizer.hash(),
        "seed": settings.seed,
        "filters": settings.filters(),
        "text": settings.sample_tokens > 0.0,
    });
    format!("{:x}", Sha256::digest(made_of.to_string()))
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
    // A preparation that was killed leaves a lock and half a cache.
    let is_left_over = |name: &std::ffi::OsString| {
        let only_these = |inside: Vec<_>| inside.iter().all(|name| name == "lock" || name == "cache");
        name == "train" && entries(&path.join(name)).is_ok_and(only_these)
    };
    Ok(!entries(path)?.iter().all(is_left_over))
}

/// Names of what is in a folder.
fn entries(path: &Path) -> Result<Vec<std::ffi::OsString>> {
    let entries = std::fs::read_dir(path).map_err(|error| Error::io(path, error))?;
    entries.map(|entry| Ok(entry.map_err(|error| Error::io(path, error))?.file_name())).collect()
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

/// A run goes on with the tokenizer that it was started with.
fn check_same_tokenizer(out: &Path, saved: &Origin, now: &Origin) -> Result<()> {
    if saved.tokenizer_sha256 == now.tokenizer_sha256 {
        return Ok(());
    }
    Err(Error::Config(format!(
        "--resume: the tokenizer in {} is not that of the run (SHA-256 {}, expected {})",
        out.display(),
        now.tokenizer_sha256,
        saved.tokenizer_sha256
    )))
}
