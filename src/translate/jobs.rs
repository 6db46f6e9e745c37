//! What is searched for: the sentences of lines, in batches of like length, each on one thread.

use super::{Line, Notice, Options, Terms, Translator, segments};
use crate::error::{Error, Result};
use crate::ops;
use crate::ops::Precision;
use crate::rng;
use crate::search::{self, Constraints, Like, Outcome, Sentence};
use crate::text;
use crate::workers::Workers;

/// Sentences translated together unless told otherwise: products in f32 gain by more rows, the others need no more than these.
pub(super) fn default_batch_size(precision: Precision) -> usize {
    if precision == Precision::F32 { 32 } else { 16 }
}

/// Pieces that a sentence of a batch has on average at most; with longer ones a batch has fewer sentences, so that its memory
/// does not grow with their length.
const PIECES: usize = 16;

/// One source to search for.
#[derive(Debug)]
pub(super) struct Job {
    /// Index of its line.
    pub line: usize,
    /// Its text.
    pub text: String,
    /// What to search for, or why it cannot be.
    pub sentence: Result<Sentence>,
    /// What its translation must contain.
    must: Vec<String>,
    /// What the user should know already: how it was cut, which constraints cannot hold.
    pub notices: Vec<Notice>,
}

/// A part of a line: a sentence, or as much of one as the model takes.
struct Source {
    text: String,
    ids: Vec<u32>,
    /// How the line was cut.
    notice: Option<Notice>,
}

impl Job {
    /// Ids of the source.
    pub fn src(&self) -> &[u32] {
        self.sentence.as_ref().map_or(&[], |sentence| &sentence.src)
    }

    /// Ids of the source without its end mark.
    pub fn pieces(&self) -> &[u32] {
        self.src().split_last().map_or(&[], |(_, pieces)| pieces)
    }

    fn src_length(&self) -> usize {
        self.src().len()
    }

    /// Gives up constraints that could hold and do not, since other rules stand against them: tells of them, and is searched for again.
    fn give_up(&mut self, found: &Outcome) -> bool {
        let (Ok(sentence), Ok(found)) = (&mut self.sentence, found) else { return false };
        if found.iter().all(|one| sentence.constraints.are_met(&one.ids)) {
            return false;
        }
        sentence.constraints = Constraints::default();
        let why = "other rules leave no translation with it, so this is the one without".into();
        self.notices.push(Notice::Missing { text: self.must.join(", "), why });
        true
    }
}

impl Translator {
    /// The sources of all lines that are not blank; a line of several sentences, or that is too long, has several.
    pub(super) fn jobs(&self, lines: &[Line], options: &Options) -> Result<Vec<Job>> {
        let mut jobs = Vec::new();
        for (line, Line { number, text, prefix }) in lines.iter().enumerate() {
            let has_prefix = prefix.as_deref().is_some_and(|prefix| !text::is_blank(prefix));
            for (part, source) in self.parts(text, has_prefix, options)?.into_iter().enumerate() {
                let Source { text, ids, notice } = source;
                // The translation of a line begins where that of its first part does.
                let prefix = prefix.as_deref().filter(|_| part == 0);
                let seed = rng::hash(rng::hash(options.seed, *number), part as u64);
                let mut notices = Vec::from_iter(notice);
                let must = self.must(&text, &ids, part, options)?;
                let prefix = prefix.map_or(Ok(Vec::new()), |text| self.pieces(text));
                let sentence =
                    prefix.and_then(|prefix| self.constrained(ids, prefix, &must, options, &mut notices));
                let sentence = sentence.map(|sentence| Sentence { seed, ..sentence });
                let must = must.into_iter().map(String::from).collect();
                jobs.push(Job { line, text, sentence, must, notices });
            }
        }
        Ok(jobs)
    }

    /// The parts of a line with their ids: none of a blank one; its sentences, if these are to be split, and of what is too long
    /// for the model segments that are not. The first has a notice if the line is.
    fn parts(&self, line: &str, has_prefix: bool, options: &Options) -> Result<Vec<Source>> {
        if text::is_blank(line) {
            return Ok(Vec::new());
        }
        if options.encoded {
            return Ok(vec![Source { text: line.to_string(), ids: self.encoded(line), notice: None }]);
        }
        let (line, limit) = (text::clean(line), self.max_positions());
        // A language that the line names at its beginning is that of all its parts.
        let (language, line) = self.split_language(&line);
        let of = |part: &str| format!("{language}{part}");
        // Of the whole line with its end mark.
        let (mut parts, mut pieces) = (Vec::new(), 1);
        let sentences = if has_prefix { vec![line] } else { self.sentences(line, options) };
        for sentence in sentences {
            let sentence = of(sentence);
            let ids = self.encode(&sentence)?;
            pieces += ids.len() - 1;
            if ids.len() <= limit {
                parts.push(Source { text: sentence, ids, notice: None });
                continue;
            }
            let fits = |part: &str| self.encode(&of(part)).is_ok_and(|ids| ids.len() <= limit);
            for text in segments::split(&sentence[language.len()..], fits) {
                let text = of(&text);
                parts.push(Source { ids: self.encode(&text)?, text, notice: None });
            }
        }
        let count = parts.len();
        if let Some(first) = parts.first_mut().filter(|_| pieces > limit) {
            first.notice = Some(Notice::Split { pieces, limit, parts: count });
        }
        Ok(parts)
    }

    /// The sentences of a clean line, or the whole line. Other programs do not split, so neither do we under their rules; and what
    /// is said of the translation of the line, or of words in more than one sentence, is not said of one sentence.
    pub fn sentences<'a>(&self, line: &'a str, options: &Options) -> Vec<&'a str> {
        if !options.split || options.like != Like::Tx || !options.must_contain.is_empty() {
            return vec![line];
        }
        let sentences = segments::sentences(self.languages().map_or("", |(src, _)| src), line);
        let crosses = |terms: &Terms| {
            terms.of(line).len() > sentences.iter().map(|sentence| terms.of(sentence).len()).sum()
        };
        if options.terms.as_deref().is_some_and(crosses) { vec![line] } else { sentences }
    }

    /// What the translation of a part of a line must contain.
    pub(super) fn must<'a>(
        &self,
        text: &str,
        src: &[u32],
        part: usize,
        options: &'a Options,
    ) -> Result<Vec<&'a str>> {
        let always = options.must_contain.iter().map(String::as_str).filter(|_| part == 0);
        let terms = match options.terms.as_deref() {
            Some(terms) if options.encoded => terms.of(&self.tokenizer.decode(src)?),
            Some(terms) => terms.of(text),
            None => Vec::new(),
        };
        Ok(always.chain(terms).collect())
    }

    /// A sentence with as many of the constraints `must` as can hold; the others are told of.
    pub(super) fn constrained(
        &self,
        src: Vec<u32>,
        prefix: Vec<u32>,
        must: &[&str],
        options: &Options,
        notices: &mut Vec<Notice>,
    ) -> Result<Sentence> {
        let (mut held, mut all) = (Vec::new(), Constraints::default());
        let mut sentence = self.sentence(src, prefix, 0, options)?;
        for &text in must {
            let mut missing = |why| notices.push(Notice::Missing { text: text.to_string(), why });
            match self.pieces(text) {
                Err(error) => missing(error.to_string()),
                Ok(pieces) => {
                    held.push(self.phrase(text, pieces)?);
                    let constraints = Constraints::new(held.clone());
                    let least = sentence.prefix.len() + constraints.len() + 1;
                    let roomy = self.sentence(sentence.src.clone(), Vec::new(), least, options)?;
                    if least > roomy.max_length {
                        held.pop();
                        missing(format!("there is no room within the limit of {} steps", roomy.max_length));
                    } else {
                        (sentence.max_length, all) = (roomy.max_length, constraints);
                    }
                }
            }
        }
        Ok(Sentence { constraints: all, ..sentence })
    }

    /// A sentence with the limit that `options` give it, with room for `least` pieces unless they say otherwise.
    pub(super) fn sentence(
        &self,
        src: Vec<u32>,
        prefix: Vec<u32>,
        least: usize,
        options: &Options,
    ) -> Result<Sentence> {
        let forced = prefix.len() + self.direction.tgt.len();
        let least = options.min_length.max(self.foreign().min_length).max(forced).max(least);
        let positions = self.max_positions();
        if src.len() > positions {
            let pieces = src.len();
            return Err(Error::Data(format!("{pieces} pieces are more than the model's {positions}")));
        }
        let max_length = options.like.max_length(src.len(), options.max_length, least, positions);
        if forced > 0 && forced >= max_length {
            let pieces = forced;
            return Err(Error::Data(format!(
                "its prefix of {pieces} pieces does not fit the limit of {max_length}, end mark included"
            )));
        }
        self.check_marked(&src)?;
        let given = self.direction.tgt.len();
        let prefix = self.direction.tgt.iter().copied().chain(prefix).collect();
        Ok(Sentence { prefix, given, ..Sentence::new(src, max_length) })
    }

    /// Searches for the sources of all `jobs`, in their order, and for those whose constraints cannot hold once more without.
    pub(super) fn decode_jobs(
        &self,
        jobs: &mut [Job],
        search: &search::Options,
        options: &Options,
    ) -> Result<Vec<Outcome>> {
        let mut found = self.decode_all(&(0..jobs.len()).collect::<Vec<_>>(), jobs, search, options)?;
        let again = jobs.iter_mut().zip(&found).enumerate();
        let again: Vec<usize> =
            again.filter_map(|(index, (job, found))| job.give_up(found).then_some(index)).collect();
        if !again.is_empty() {
            for (&job, outcome) in again.iter().zip(self.decode_all(&again, jobs, search, options)?) {
                found[job] = outcome;
            }
        }
        Ok(found)
    }

    /// Searches for the sources of the jobs `which`, in their order: in batches of like length, each on one thread; a single one on
    /// all.
    fn decode_all(
        &self,
        which: &[usize],
        jobs: &[Job],
        search: &search::Options,
        options: &Options,
    ) -> Result<Vec<Outcome>> {
        let mut order = which.to_vec();
        order.sort_by_key(|&job| std::cmp::Reverse(jobs[job].src_length()));
        let threads = rayon::current_num_threads();
        let size = self.batch_size(options);
        let decode = |batch: &[usize]| self.decode_batch(jobs, batch, search);
        let found: Vec<Vec<(usize, Outcome)>> = if threads == 1 || which.len() < 2 {
            let batches = batches(&order, size, |job| jobs[job].src_length());
            ops::together(|| batches.iter().map(|batch| decode(batch)).collect::<Result<_>>())?
        } else {
            let batches: Vec<Vec<usize>> = if which.len() < size * threads {
                // Dealt out, so that all threads have as much to do.
                let hand = |first| order.iter().copied().skip(first).step_by(threads).collect();
                (0..threads.min(which.len())).map(hand).collect()
            } else {
                batches(&order, size, |job| jobs[job].src_length())
            };
            let workers = match self.workers.get() {
                Some(workers) => workers,
                None => {
                    let made = Workers::new(threads, threads)?;
                    self.workers.get_or_init(|| made)
                }
            };
            workers.map(batches.len(), |batch| decode(&batches[batch]))?
        };
        let mut found: Vec<(usize, Outcome)> = found.into_iter().flatten().collect();
        found.sort_by_key(|(job, _)| *job);
        Ok(found.into_iter().map(|(_, outcome)| outcome).collect())
    }

    /// Searches for the sources of `batch` together.
    fn decode_batch(
        &self,
        jobs: &[Job],
        batch: &[usize],
        search: &search::Options,
    ) -> Result<Vec<(usize, Outcome)>> {
        let mut outcomes = Vec::with_capacity(batch.len());
        let (mut ready, mut sentences) = (Vec::new(), Vec::new());
        for &job in batch {
            match &jobs[job].sentence {
                Ok(sentence) => {
                    ready.push(job);
                    sentences.push(sentence.clone());
                }
                Err(error) => outcomes.push((job, Err(Error::Data(error.to_string())))),
            }
        }
        let found = self.decode(&sentences, search, None)?;
        outcomes.extend(ready.into_iter().zip(found));
        Ok(outcomes)
    }
}

/// `jobs`, the longest first, in batches of `size` at most.
fn batches(jobs: &[usize], size: usize, length: impl Fn(usize) -> usize) -> Vec<Vec<usize>> {
    let mut batches: Vec<Vec<usize>> = Vec::new();
    for &job in jobs {
        match batches.last_mut() {
            Some(batch) if batch.len() < size && (batch.len() + 1) * length(batch[0]) <= size * PIECES => {
                batch.push(job)
            }
            _ => batches.push(vec![job]),
        }
    }
    batches
}
