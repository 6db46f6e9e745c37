//! Lines in, lines out: text to pieces, batches of like length, search, pieces to text, the order restored.

pub mod alignment;
pub mod forced;
pub mod gold;
pub mod head_profile;
pub mod inspection;
mod jobs;
mod languages;
mod loops;
pub mod neighbours;
mod options;
mod parts;
pub mod segments;
mod terms;
mod translation;
pub mod unknown;
pub mod walk;
mod why;

use crate::checkpoint::{Checkpoint, Generation, TxInfo};
use crate::error::{Error, Result};
use crate::model::{Transformer, linear};
use crate::ops::{self, Precision};
use crate::search::{
    self, Ensemble, Hypothesis, LengthPenalty, Like, Outcome, Phrase, Rules, Sentence, Spelling, Trace,
    TransformerScorer,
};
use crate::text::{self, Tokenizer};
use crate::workers::Workers;
use candle_core::Device;
use jobs::default_batch_size;
use languages::Direction;
pub use options::Options;
use parts::Part;
use std::sync::{Arc, OnceLock};
pub use terms::Terms;
pub use translation::{Candidate, Line, Notice, Translation, numbered};
pub use unknown::OnUnk;

/// A model, or several as one, ready to translate.
#[derive(Debug)]
pub struct Translator {
    /// At least one.
    models: Vec<Transformer>,
    /// Logarithms of the models' weights, which sum to 1.
    log_weights: Vec<f32>,
    tokenizer: Tokenizer,
    direction: Direction,
    info: Option<TxInfo>,
    generation: Generation,
    precision: Precision,
    /// What the target's pieces spell, when that is first asked for.
    spelling: OnceLock<Arc<Spelling>>,
    /// Made when many lines come for the first time.
    workers: OnceLock<Workers>,
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
            models: vec![Transformer::new(&checkpoint.config, checkpoint.weights, kind)?],
            log_weights: vec![0.0],
            tokenizer: checkpoint.tokenizer,
            direction: Direction::default(),
            info: checkpoint.info,
            generation: checkpoint.generation,
            precision,
            spelling: OnceLock::new(),
            workers: OnceLock::new(),
        })
    }

    /// The models of `members`, at least one, as one: the mean of their distributions with the given weights, in proportion. They
    /// must have the same pieces; languages, defaults and alignments are those of the first.
    pub fn ensemble(members: Vec<(Translator, f64)>) -> Result<Self> {
        let (members, weights): (Vec<Translator>, Vec<f64>) = members.into_iter().unzip();
        let log_weights = search::log_weights(&weights)?;
        let mut members = members.into_iter();
        let mut all = members.next().ok_or_else(|| Error::Config("an ensemble needs a model".into()))?;
        for (number, member) in (2..).zip(members) {
            let pieces = |one: &Translator| [one.tokenizer().pieces(), one.tgt_tokenizer().pieces()].concat();
            if pieces(&member) != pieces(&all) {
                return Err(Error::Config(format!(
                    "model {number} has other pieces than the first: an ensemble needs models of one tokenizer"
                )));
            }
            all.models.extend(member.models);
        }
        Ok(Translator { log_weights, ..all })
    }

    /// The model, the first of several.
    pub fn model(&self) -> &Transformer {
        &self.models[0]
    }

    /// All models.
    pub fn models(&self) -> &[Transformer] {
        &self.models
    }

    /// The logarithms of their weights.
    fn log_weights(&self) -> &[f32] {
        &self.log_weights
    }

    /// Longest source and target in pieces, end mark included.
    pub fn max_positions(&self) -> usize {
        self.models.iter().map(|model| model.config().max_positions).min().unwrap_or(0)
    }

    /// The tokenizer of the source.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// That of the target, which is the same for most models.
    pub fn tgt_tokenizer(&self) -> &Tokenizer {
        self.tokenizer.tgt()
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
        let special = self.model().config().special;
        let n_best = options.n_best.unwrap_or(1);
        let search = search::Options {
            beam_size: options.beam_size.unwrap_or_else(|| foreign.num_beams.unwrap_or(4).max(n_best)),
            n_best,
            length_penalty: options
                .length_penalty
                .or(foreign
                    .length_penalty
                    .filter(|_| matches!(options.like, Like::Tx | Like::Hf))
                    .map(LengthPenalty::Pow))
                .unwrap_or(options.like.length_penalty()),
            word_penalty: options.word_penalty,
            bos: special.bos,
            eos: special.eos,
            rules: Rules {
                banned: banned(special, options),
                suppressed: options
                    .suppress
                    .iter()
                    .map(|text| self.phrase(text, self.pieces(text).unwrap_or_default()))
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
        search.check(self.model().config().tgt_vocab)?;
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
        let mut ids = self.tgt_tokenizer().encode(&text::clean(text))?;
        ids.pop();
        if self.tgt_tokenizer().count_unknown(&ids) > 0 {
            return Err(Error::Data(format!("the model has no pieces for all of {text:?}")));
        }
        Ok(ids)
    }

    /// A target text as a phrase to look for; its `pieces` are those that say it.
    fn phrase(&self, text: &str, pieces: Vec<u32>) -> Result<Phrase> {
        let tokenizer = self.tgt_tokenizer();
        // As the pieces say it, which may be in small letters.
        let said = if pieces.is_empty() { text::clean(text) } else { tokenizer.decode(&pieces)? };
        let spelling = self.spelling.get_or_init(|| Arc::new(spelling(tokenizer)));
        Ok(Phrase::new(search::letters(&said, segments::is_letter), pieces, spelling.clone()))
    }

    /// How many sentences are translated together.
    pub fn batch_size(&self, options: &Options) -> usize {
        options.batch_size.unwrap_or(default_batch_size(self.precision)).max(1)
    }

    /// Ids of a text: what names its language, if the model has several, pieces and the end mark. A run of white space is one blank and zero-width characters are
    /// nothing, whatever the tokenizer.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let ids = self.tokenizer.encode(&text::clean(text))?;
        Ok(self.direction.src.iter().copied().chain(ids).collect())
    }

    /// [`Translator::encode`] of a translation.
    pub fn encode_target(&self, text: &str) -> Result<Vec<u32>> {
        let ids = self.tgt_tokenizer().encode(&text::clean(text))?;
        Ok(self.direction.tgt.iter().copied().chain(ids).collect())
    }

    /// [`Translator::encode`] for commands that look at one sentence: neither blank nor longer than the model.
    pub fn encode_one(&self, text: &str) -> Result<Vec<u32>> {
        self.one(self.encode(text)?)
    }

    /// Ids of one sentence to look at, if they are that.
    fn one(&self, ids: Vec<u32>) -> Result<Vec<u32>> {
        let limit = self.max_positions();
        match ids.len() - self.count_marks(&ids) {
            0..2 => Err(Error::Data("the sentence is blank: there is nothing to look at".into())),
            pieces if pieces > limit => Err(Error::Data(format!(
                "{pieces} pieces are more than the model's {limit}: look at a shorter sentence"
            ))),
            _ => Ok(ids),
        }
    }

    /// The hypotheses of one source, best first and at least one.
    fn search_sentence(
        &self,
        sentence: &Sentence,
        options: &Options,
        traces: Option<&mut Vec<Trace>>,
    ) -> Result<Vec<Hypothesis>> {
        let options = self.search_options(options)?;
        let mut found = ops::together(|| self.decode(std::slice::from_ref(sentence), &options, traces))?;
        found.pop().unwrap_or_else(|| Err(Error::Numeric("the search gave no result".into())))
    }

    /// Decodes a batch with the model, or with all of them.
    fn decode(
        &self,
        sentences: &[Sentence],
        options: &search::Options,
        traces: Option<&mut Vec<Trace>>,
    ) -> Result<Vec<Outcome>> {
        match self.models.as_slice() {
            [model] => search::decode(&TransformerScorer::new(model), sentences, options, traces),
            models => {
                let members = models.iter().map(TransformerScorer::new).collect();
                search::decode(&Ensemble::new(members, self.log_weights.clone()), sentences, options, traces)
            }
        }
    }

    /// What the ids of a translation say.
    pub fn text(&self, ids: &[u32]) -> Result<String> {
        // Names of languages are no text.
        let is_said = |id: &u32| !self.direction.marks.contains(id);
        let said: Vec<u32> = ids.iter().copied().filter(is_said).collect();
        if self.tgt_tokenizer().count_unknown(&said) > 0 {
            unknown::spell(self.tgt_tokenizer(), &said, |_| unknown::MARK.to_string())
        } else {
            self.tgt_tokenizer().decode(&said)
        }
    }

    /// A hypothesis as text.
    pub fn candidate(&self, hypothesis: Hypothesis) -> Result<Candidate> {
        Ok(Candidate {
            text: self.text(&hypothesis.ids)?,
            tokens: hypothesis.ids.iter().map(|&id| self.tgt_tokenizer().piece(id).to_string()).collect(),
            ids: hypothesis.ids,
            log_prob: hypothesis.log_prob,
            score: hypothesis.score,
            token_log_probs: hypothesis.token_log_probs,
            finish: hypothesis.finish,
            alignment: None,
        })
    }

    /// Translates lines; the result has the same lines in the same order. A line that fails has an empty
    /// hypothesis and a [`Notice::Failed`], and takes no other with it.
    pub fn translate<L: Into<Line>>(&self, lines: Vec<L>, options: &Options) -> Result<Vec<Translation>> {
        let search = self.search_options(options)?;
        let lines: Vec<Line> = lines.into_iter().map(L::into).collect();
        let mut jobs = self.jobs(&lines, options)?;
        let found = self.decode_jobs(&mut jobs, &search, options)?;
        let mut parts = Vec::with_capacity(jobs.len());
        for (job, found) in jobs.into_iter().zip(found) {
            let candidates = found.and_then(|list| list.into_iter().map(|one| self.candidate(one)).collect());
            parts.push(Part { job, candidates });
        }
        self.align_parts(&mut parts, options)?;
        let mut parts = parts.into_iter().peekable();
        let mut translations = Vec::with_capacity(lines.len());
        for (index, Line { number, text, .. }) in lines.into_iter().enumerate() {
            let mut own = Vec::new();
            while let Some(part) = parts.next_if(|part| part.job.line == index) {
                own.push(part);
            }
            let mut translation = self.join((number, text), own, &search, options);
            if !options.decode {
                translation.hypotheses.iter_mut().for_each(|one| one.show_pieces(search.eos));
            }
            translations.push(translation);
        }
        Ok(translations)
    }
}

/// What each piece of a vocabulary spells, a blank for `▁`.
fn spelling(tokenizer: &Tokenizer) -> Spelling {
    let byte = |piece: &str| u8::from_str_radix(piece.strip_prefix("<0x")?.strip_suffix('>')?, 16).ok();
    let special = tokenizer.special_ids();
    Spelling::new((0u32..).zip(tokenizer.pieces()).map(|(id, piece)| match byte(piece) {
        _ if special.contains(id) => Vec::new(),
        Some(byte) => vec![(byte, !byte.is_ascii() || byte.is_ascii_alphanumeric())],
        None => search::letters(&piece.replace('▁', " "), segments::is_letter),
    }))
}

/// What the rules that are followed never say.
fn banned(special: crate::config::SpecialIds, options: &Options) -> Vec<u32> {
    let usual = if matches!(options.like, Like::Tx | Like::Marian) { OnUnk::Ban } else { OnUnk::Keep };
    let mut banned = match options.like {
        Like::Tx | Like::Marian => vec![special.pad, special.bos],
        Like::Ct2 => Vec::new(),
        Like::Hf | Like::Fairseq => vec![special.pad],
    };
    if options.on_unk.unwrap_or(usual) == OnUnk::Ban {
        banned.push(special.unk);
    }
    // Some models start from the end mark, which must be said.
    banned.retain(|&id| id != special.eos);
    banned
}
