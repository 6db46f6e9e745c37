//! The parts of a line and what was found for them: alignments, copies of unknown words, and all of it put together.

use super::alignment::Unit;
use super::jobs::Job;
use super::{Candidate, Notice, OnUnk, Options, Translation, Translator, loops, unknown};
use crate::error::Result;
use crate::search::{self, Finish};

/// A part of a line and what was found for it.
pub(super) struct Part {
    pub job: Job,
    pub candidates: Result<Vec<Candidate>>,
}

impl Translator {
    /// Adds alignments, and what unknown pieces are copied from, to the candidates of all parts as `options` ask for.
    pub(super) fn align_parts(&self, parts: &mut [Part], options: &Options) -> Result<()> {
        let copies = options.on_unk == Some(OnUnk::Copy);
        let unk = self.tgt_tokenizer().special_ids().unk;
        let wanted = |one: &Candidate| options.alignment.is_some() || (copies && one.ids.contains(&unk));
        let mut pairs = Vec::new();
        for Part { job, candidates } in parts.iter() {
            let wanted = candidates.iter().flatten().filter(|one| wanted(one) && !one.ids.is_empty());
            pairs.extend(wanted.map(|one| (job.src(), one.ids.as_slice())));
        }
        if pairs.is_empty() {
            return Ok(());
        }
        let mut aligned = self.align(&pairs, self.alignment_head(options.alignment_head)?)?.into_iter();
        for Part { job, candidates } in parts {
            let wanted = candidates.iter_mut().flatten().filter(|one| wanted(one) && !one.ids.is_empty());
            let marks = self.count_marks(job.pieces());
            let src = &job.pieces()[marks..];
            let words = self.tokenizer.words(src);
            for (one, pieces) in wanted.zip(aligned.by_ref()) {
                let said = self.count_marks(&one.ids);
                let pieces = pieces.without_first(marks, said);
                if copies && one.ids.contains(&unk) {
                    let mut surfaces = self.surfaces(&job.text, options)?;
                    surfaces.drain(..surfaces.len().saturating_sub(src.len()));
                    let copy = |tgt| unknown::copied(&pieces, tgt, src, unk, &surfaces, &words);
                    one.text = unknown::spell(self.tgt_tokenizer(), &one.ids[said..], copy)?;
                }
                let tgt = &one.ids[said..][..pieces.weights.len()];
                one.alignment = options.alignment.map(|unit| match unit {
                    Unit::Pieces => pieces,
                    Unit::Words => pieces.grouped(&words, &self.tgt_tokenizer().words(tgt)),
                });
            }
        }
        Ok(())
    }

    /// The text under each source piece.
    fn surfaces(&self, text: &str, options: &Options) -> Result<Vec<String>> {
        if options.encoded {
            return Ok(text.split_whitespace().map(|piece| piece.replace('▁', " ")).collect());
        }
        self.tokenizer.surfaces(text)
    }

    /// Puts the parts of a line together.
    pub(super) fn join(
        &self,
        (line, src): (u64, String),
        parts: Vec<Part>,
        search: &search::Options,
        options: &Options,
    ) -> Translation {
        let mut notices = Vec::new();
        let (src_tokens, sentences) = (parts.iter().map(|part| part.job.src().len()).sum(), parts.len());
        let src_ids = parts.iter().flat_map(|part| part.job.pieces()).copied().collect();
        let unknown = parts.iter().map(|part| self.tokenizer.count_unknown(part.job.src())).sum();
        if unknown > 0 {
            notices.push(Notice::Unknown { pieces: unknown });
        }
        let (mut lists, mut loops) = (Vec::new(), None);
        for Part { job, candidates } in parts {
            notices.extend(job.notices.iter().cloned());
            match candidates {
                Ok(candidates) => {
                    let best = candidates.first();
                    loops = loops.max(best.and_then(|best| loops::rounds_of_loop(job.src(), &best.ids)));
                    lists.push(candidates);
                }
                Err(error) => {
                    notices.push(Notice::Failed(error.to_string()));
                    lists.clear();
                    break;
                }
            }
        }
        let n_best = lists.iter().map(Vec::len).min().unwrap_or(0);
        let mut hypotheses: Vec<Candidate> =
            (0..n_best).map(|rank| Candidate::join(lists.iter().map(|list| &list[rank]), search)).collect();
        if hypotheses.is_empty() {
            hypotheses.push(Candidate::join([], search));
        }
        if options.alignment.is_some() {
            hypotheses
                .iter_mut()
                .for_each(|one| one.alignment = Some(one.alignment.take().unwrap_or_default()));
        }
        notices.extend(loops.map(|rounds| Notice::Loop { rounds }));
        let said = self.tgt_tokenizer().count_unknown(&hypotheses[0].ids);
        if said > 0 {
            notices.push(Notice::UnknownSaid { pieces: said });
        }
        if hypotheses[0].finish == Finish::Cut {
            notices.push(Notice::Cut { steps: hypotheses[0].ids.len() });
        }
        Translation { line, src, hypotheses, src_ids, src_tokens, sentences, notices }
    }
}
