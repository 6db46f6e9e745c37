//! Lines in, lines out: text to pieces, batches of like length, search, pieces to text, the order restored.

pub mod forced;
pub mod inspection;
mod loops;
mod options;
pub mod segments;
mod translation;

use crate::checkpoint::{Checkpoint, Generation, TxInfo};
use crate::error::{Error, Result};
use crate::model::{Transformer, linear};
use crate::ops::{self, Precision};
use crate::rng;
use crate::search::{
    self, Finish, Hypothesis, LengthPenalty, Like, Outcome, Rules, Sentence, Trace, TransformerScorer,
};
use crate::text::{self, Tokenizer};
use crate::workers::Workers;
use candle_core::Device;
pub use options::Options;
use std::sync::OnceLock;
pub use translation::{Candidate, Line, Notice, Translation, numbered};

/// A model ready to translate.
#[derive(Debug)]
pub struct Translator {
    model: Transformer,
    tokenizer: Tokenizer,
    info: Option<TxInfo>,
    generation: Generation,
    precision: Precision,
    /// Made when many lines come for the first time.
    workers: OnceLock<Workers>,
}

/// Sentences translated together unless told otherwise: products in f32 gain by more rows, the others need no more than these.
fn default_batch_size(precision: Precision) -> usize {
    if precision == Precision::F32 { 32 } else { 16 }
}

impl Translator {
    /// A translator of `checkpoint` on `device`. Its linear layers multiply `numbers`, which on other devices than the
    /// CPU can only be f32; without, those that the model was stored for.
    pub fn new(checkpoint: Checkpoint, device: &Device, precision: Option<Precision>) -> Result<Self> {
        let precision = precision.unwrap_or(checkpoint.precision);
        let kind = match (device.is_cpu(), precision) {
            (true, precision) => linear::Kind::Packed(precision),
            (false, Precision::F32) => linear::Kind::Plain,
            (false, precision) => {
                return Err(Error::Config(format!(
                    "{precision:?} is for the CPU alone, not for {:?}: compute in f32",
                    device.location()
                )));
            }
        };
        Ok(Translator {
            model: Transformer::new(&checkpoint.config, checkpoint.weights, kind)?,
            tokenizer: checkpoint.tokenizer,
            info: checkpoint.info,
            generation: checkpoint.generation,
            precision,
            workers: OnceLock::new(),
        })
    }

    /// The model.
    pub fn model(&self) -> &Transformer {
        &self.model
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Source and target language, if the model says them.
    pub fn languages(&self) -> Option<(&str, &str)> {
        self.info.as_ref().map(|info| (info.src_lang.as_str(), info.tgt_lang.as_str()))
    }

    /// What a model that tx did not train asks for.
    fn foreign(&self) -> Generation {
        if self.info.is_none() { self.generation } else { Generation::default() }
    }

    /// The search that `options` ask for; a foreign model's own defaults win over ours (beam 4, gnmt:0.6).
    pub fn search_options(&self, options: &Options) -> Result<search::Options> {
        let foreign = self.foreign();
        let special = self.model.config().special;
        let n_best = options.n_best.unwrap_or(1);
        let search = search::Options {
            beam_size: options.beam_size.or(foreign.num_beams).unwrap_or(4),
            n_best,
            length_penalty: options
                .length_penalty
                .or(foreign.length_penalty.map(LengthPenalty::Pow))
                .unwrap_or(match options.like {
                    Like::Tx => LengthPenalty::Gnmt(0.6),
                    Like::Ct2 | Like::Hf => LengthPenalty::Pow(1.0),
                }),
            word_penalty: options.word_penalty,
            bos: special.bos,
            eos: special.eos,
            rules: Rules {
                banned: match options.like {
                    // Some models start from the end mark, which must be said.
                    Like::Tx => [special.pad, special.unk, special.bos]
                        .into_iter()
                        .filter(|&id| id != special.eos)
                        .collect(),
                    Like::Ct2 => Vec::new(),
                    Like::Hf => vec![special.pad],
                },
                suppressed: options
                    .suppress
                    .iter()
                    .map(|text| self.suppressed(text))
                    .collect::<Result<_>>()?,
                no_repeat_ngram: if options.no_repeat_ngram > 0 {
                    options.no_repeat_ngram
                } else {
                    foreign.no_repeat_ngram
                },
                repetition_penalty: options.repetition_penalty.or(foreign.repetition_penalty).unwrap_or(1.0),
            },
            min_length: options.min_length.max(foreign.min_length),
            like: options.like,
            sampling: options.sampling,
        };
        search.check(self.model.config().tgt_vocab)?;
        Ok(search)
    }

    /// The ids of pieces with blanks between them, and the end mark. What is no piece is unknown.
    fn encoded(&self, pieces: &str) -> Vec<u32> {
        let special = self.tokenizer.special_ids();
        let ids = pieces.split_whitespace().map(|piece| self.tokenizer.id(piece).unwrap_or(special.unk));
        ids.chain([special.eos]).collect()
    }

    /// The pieces of a target text, without the end mark.
    fn pieces(&self, text: &str) -> Result<Vec<u32>> {
        let mut ids = self.encode(text)?;
        ids.pop();
        if self.tokenizer.count_unknown(&ids) > 0 {
            return Err(Error::Data(format!("the model has no pieces for all of {text:?}")));
        }
        Ok(ids)
    }

    /// The pieces of a text that must not be said.
    fn suppressed(&self, text: &str) -> Result<Vec<u32>> {
        let ids = self.pieces(text)?;
        if ids.is_empty() {
            return Err(Error::Config("a blank text cannot be suppressed".into()));
        }
        Ok(ids)
    }

    /// How many sentences are translated together.
    pub fn batch_size(&self, options: &Options) -> usize {
        options.batch_size.unwrap_or(default_batch_size(self.precision)).max(1)
    }

    /// Ids of a text: pieces and the end mark. A run of white space is one blank and zero-width characters are
    /// nothing, whatever the tokenizer.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        self.tokenizer.encode(&text::clean(text))
    }

    /// [`Translator::encode`] for commands that look at one sentence: neither blank nor longer than the model.
    pub fn encode_one(&self, text: &str) -> Result<Vec<u32>> {
        let (ids, limit) = (self.encode(text)?, self.model.config().max_positions);
        match ids.len() {
            0..2 => Err(Error::Data("the sentence is blank: there is nothing to look at".into())),
            pieces if pieces > limit => Err(Error::Data(format!(
                "{pieces} pieces are more than the model's {limit}: look at a shorter sentence"
            ))),
            _ => Ok(ids),
        }
    }

    /// Searches for one source, recording every step.
    pub fn search_traced(&self, src: &[u32], options: &Options) -> Result<(Vec<Hypothesis>, Trace)> {
        let mut traces = Vec::new();
        let hypotheses = self.search(src, options, Some(&mut traces))?;
        let trace = traces.pop().ok_or_else(|| Error::Numeric("the search left no record".into()))?;
        Ok((hypotheses, trace))
    }

    /// The hypotheses of one source, best first and at least one.
    fn search(
        &self,
        src: &[u32],
        options: &Options,
        traces: Option<&mut Vec<Trace>>,
    ) -> Result<Vec<Hypothesis>> {
        let scorer = TransformerScorer::new(&self.model);
        let sentence = [self.sentence(src.to_vec(), Vec::new(), options.seed, options)?];
        let options = self.search_options(options)?;
        let mut found = ops::together(|| search::decode(&scorer, &sentence, &options, traces))?;
        found.pop().unwrap_or_else(|| Err(Error::Numeric("the search gave no result".into())))
    }

    /// A hypothesis as text.
    pub fn candidate(&self, hypothesis: Hypothesis) -> Result<Candidate> {
        Ok(Candidate {
            text: self.tokenizer.decode(&hypothesis.ids)?,
            tokens: hypothesis.ids.iter().map(|&id| self.tokenizer.piece(id).to_string()).collect(),
            ids: hypothesis.ids,
            log_prob: hypothesis.log_prob,
            score: hypothesis.score,
            token_log_probs: hypothesis.token_log_probs,
            finish: hypothesis.finish,
        })
    }

    /// Translates lines; the result has the same lines in the same order. A line that fails has an empty
    /// hypothesis and a [`Notice::Failed`], and takes no other with it.
    pub fn translate<L: Into<Line>>(&self, lines: Vec<L>, options: &Options) -> Result<Vec<Translation>> {
        let search = self.search_options(options)?;
        let lines: Vec<Line> = lines.into_iter().map(L::into).collect();
        let jobs = self.jobs(&lines, options)?;
        let batches = self.decode_all(&jobs, &search, options)?;
        let mut found: Vec<Option<Outcome>> = jobs.iter().map(|_| None).collect();
        for (job, result) in batches.into_iter().flatten() {
            found[job] = Some(result);
        }
        let mut found = found.into_iter().flatten().zip(jobs).peekable();
        let mut translations = Vec::with_capacity(lines.len());
        for (index, Line { number, text, .. }) in lines.into_iter().enumerate() {
            let mut parts = Vec::new();
            while let Some(part) = found.next_if(|(_, job)| job.line == index) {
                parts.push(part);
            }
            let mut translation = self.join(number, text, parts, &search)?;
            if !options.decode {
                translation.hypotheses.iter_mut().for_each(Candidate::show_pieces);
            }
            translations.push(translation);
        }
        Ok(translations)
    }

    /// The sources of all lines that are not blank; a line that is too long has several.
    fn jobs(&self, lines: &[Line], options: &Options) -> Result<Vec<Job>> {
        let limit = self.model.config().max_positions;
        let mut jobs = Vec::new();
        for (line, Line { number, text, prefix }) in lines.iter().enumerate() {
            if text::is_blank(text) {
                continue;
            }
            let src = if options.encoded { self.encoded(text) } else { self.encode(text)? };
            let pieces = src.len();
            let sources = if pieces <= limit || options.encoded {
                vec![src]
            } else {
                let fits = |part: &str| self.encode(part).is_ok_and(|ids| ids.len() <= limit);
                let segments = segments::split(text, fits);
                segments.iter().map(|segment| self.encode(segment)).collect::<Result<_>>()?
            };
            for (part, src) in sources.into_iter().enumerate() {
                // The translation of a line begins where that of its first part does.
                let prefix =
                    prefix.as_deref().filter(|_| part == 0).map_or(Ok(Vec::new()), |text| self.pieces(text));
                let seed = rng::hash(rng::hash(options.seed, *number), part as u64);
                let sentence = prefix.and_then(|prefix| self.sentence(src, prefix, seed, options));
                jobs.push(Job { line, sentence, pieces });
            }
        }
        Ok(jobs)
    }

    /// A sentence with the limit that `options` give it.
    fn sentence(&self, src: Vec<u32>, prefix: Vec<u32>, seed: u64, options: &Options) -> Result<Sentence> {
        let least = options.min_length.max(self.foreign().min_length).max(prefix.len());
        let positions = self.model.config().max_positions;
        if src.len() > positions {
            let pieces = src.len();
            return Err(Error::Data(format!("{pieces} pieces are more than the model's {positions}")));
        }
        let max_length = search::max_length(src.len(), options.max_length, least, positions);
        if !prefix.is_empty() && prefix.len() >= max_length {
            let pieces = prefix.len();
            return Err(Error::Data(format!(
                "its prefix of {pieces} pieces does not fit the limit of {max_length}, end mark included"
            )));
        }
        Ok(Sentence { src, max_length, prefix, seed })
    }

    /// Searches for the sources of all `jobs`: in batches of like length, each on one thread; a single one on all.
    fn decode_all(
        &self,
        jobs: &[Job],
        search: &search::Options,
        options: &Options,
    ) -> Result<Vec<Vec<(usize, Outcome)>>> {
        let mut order: Vec<usize> = (0..jobs.len()).collect();
        order.sort_by_key(|&job| std::cmp::Reverse(jobs[job].src_length()));
        let threads = rayon::current_num_threads();
        let size = self.batch_size(options);
        let decode = |batch: &[usize]| self.decode_batch(jobs, batch, search);
        if threads == 1 || jobs.len() < 2 {
            let batches = batches(&order, size, |job| jobs[job].src_length());
            return ops::together(|| batches.iter().map(|batch| decode(batch)).collect());
        }
        let batches: Vec<Vec<usize>> = if jobs.len() < size * threads {
            // Dealt out, so that all threads have as much to do.
            let hand = |first| order.iter().copied().skip(first).step_by(threads).collect();
            (0..threads.min(jobs.len())).map(hand).collect()
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
        workers.map(batches.len(), |batch| decode(&batches[batch]))
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
        let found = search::decode(&TransformerScorer::new(&self.model), &sentences, search, None)?;
        outcomes.extend(ready.into_iter().zip(found));
        Ok(outcomes)
    }

    /// Puts the parts of a line together.
    fn join(
        &self,
        line: u64,
        src: String,
        parts: Vec<(Outcome, Job)>,
        search: &search::Options,
    ) -> Result<Translation> {
        let mut notices = Vec::new();
        let src_tokens = parts.iter().map(|(_, job)| job.src_length()).sum();
        let unknown = parts.iter().map(|(_, job)| self.tokenizer.count_unknown(job.src())).sum();
        if unknown > 0 {
            notices.push(Notice::Unknown { pieces: unknown });
        }
        if let [(_, job), _, ..] = parts.as_slice() {
            let limit = self.model.config().max_positions;
            notices.push(Notice::Split { pieces: job.pieces, limit, parts: parts.len() });
        }
        let rounds = |(found, job): &(Outcome, Job)| {
            loops::rounds_of_loop(job.src(), &found.as_ref().ok()?.first()?.ids)
        };
        let loops = parts.iter().filter_map(rounds).max();
        let mut lists = Vec::new();
        for (found, _) in parts {
            match found
                .and_then(|found| found.into_iter().map(|hypothesis| self.candidate(hypothesis)).collect())
            {
                Ok(candidates) => lists.push(candidates),
                Err(error) => {
                    notices.push(Notice::Failed(error.to_string()));
                    lists.clear();
                    break;
                }
            }
        }
        let lists: Vec<Vec<Candidate>> = lists;
        let n_best = lists.iter().map(Vec::len).min().unwrap_or(0);
        let mut hypotheses: Vec<Candidate> =
            (0..n_best).map(|rank| Candidate::join(lists.iter().map(|list| &list[rank]), search)).collect();
        if hypotheses.is_empty() {
            hypotheses.push(Candidate::join([], search));
        }
        if let Some(rounds) = loops {
            notices.push(Notice::Loop { rounds });
        }
        if hypotheses[0].finish == Finish::Cut {
            notices.push(Notice::Cut { steps: hypotheses[0].ids.len() });
        }
        Ok(Translation { line, src, hypotheses, src_tokens, notices })
    }
}

/// Pieces that a sentence of a batch has on average at most; with longer ones a batch has fewer sentences, so that its memory
/// does not grow with their length.
const PIECES: usize = 16;

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

/// One source to search for.
#[derive(Debug)]
struct Job {
    /// Index of its line.
    line: usize,
    /// What to search for, or why it cannot be.
    sentence: Result<Sentence>,
    /// Pieces of the whole line.
    pieces: usize,
}

impl Job {
    fn src(&self) -> &[u32] {
        self.sentence.as_ref().map_or(&[], |sentence| &sentence.src)
    }

    fn src_length(&self) -> usize {
        self.src().len()
    }
}
