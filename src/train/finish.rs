//! The end of training: the best, the last, the averaged (section 6.1) and the EMA weights are tried on dev, and the
//! winner becomes the model.

use super::Prepared;
use super::progress::Scored;
use super::run_dir::RunDir;
use super::state::State;
use super::validate::{Validation, validate};
use crate::checkpoint::average::Mean;
use crate::checkpoint::{AlignmentHead, Checkpoint, Generation, TxInfo, config_json, tensors};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::model::parameters::Weights;
use crate::model::{Transformer, linear};
use crate::ops::Precision;
use crate::translate::alignment::find_head;
use candle_core::Device;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::path::Path;

/// Weights that may become the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Of the best validation.
    Best,
    /// Of the last update.
    Last,
    /// The mean of those of the last validations.
    Average,
    /// The exponential moving average over all updates.
    Ema,
}

impl Kind {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Best => "best",
            Kind::Last => "last",
            Kind::Average => "average",
            Kind::Ema => "ema",
        }
    }
}

/// Weights and how they do on dev.
#[derive(Debug)]
pub struct Candidate {
    /// Which.
    pub kind: Kind,
    /// The steps that they are of.
    pub steps: Vec<u64>,
    /// How they do.
    pub validation: Validation,
}

impl Candidate {
    fn to_json(&self) -> Value {
        json!({"weights": self.kind.name(), "steps": self.steps, "dev": self.validation.to_json()})
    }
}

/// What the model was chosen from.
#[derive(Debug)]
pub struct Choice {
    /// All that were tried.
    pub candidates: Vec<Candidate>,
    /// Which of them is the model now.
    pub winner: Option<usize>,
    /// What could not be tried, and why.
    pub left_out: Vec<(Kind, Error)>,
}

/// Writes the model directory.
#[derive(Debug)]
pub struct ModelWriter<'a> {
    /// Tokenizer, languages and settings.
    pub prepared: &'a Prepared,
    /// The model's shape.
    pub config: &'a Config,
    /// The model directory.
    pub out: &'a Path,
}

impl ModelWriter<'_> {
    /// Tries all candidates that there are and writes the best of them. Among equals the first one wins: best, last,
    /// average, EMA. Those whose kept weights cannot be read are left out.
    pub fn finish(&self, state: &State, run: &RunDir, device: &Device) -> Result<Choice> {
        let metric = self.prepared.origin.settings.metric;
        let mut candidates: Vec<Candidate> = Vec::new();
        let mut winner: Option<(usize, Weights)> = None;
        let mut left_out = Vec::new();
        let mut kinds = kinds(state);
        while let Some((kind, steps)) = kinds.pop_front() {
            let weights = match weights(kind, &steps, state, run, device) {
                Ok(weights) => weights,
                Err(error) => {
                    // The weights are at hand where the best are the last.
                    if kind == Kind::Best && steps == [state.progress.step] {
                        kinds.push_front((Kind::Last, steps));
                    }
                    left_out.push((kind, error));
                    continue;
                }
            };
            let validation = validate(self.config, weights.clone(), self.prepared)?;
            let scored = Scored::new(state.progress.step, &validation);
            let is_better = match &winner {
                Some((at, _)) => {
                    let old = Scored::new(state.progress.step, &candidates[*at].validation);
                    scored.is_finite()
                        && (!old.is_finite() || metric.is_better(metric.of(&scored), metric.of(&old), 0.0))
                }
                None => true,
            };
            if is_better {
                winner = Some((candidates.len(), weights));
            }
            candidates.push(Candidate { kind, steps, validation });
        }
        let (at, weights) = match winner {
            Some((at, weights)) => (Some(at), weights),
            None => (None, state.weights()),
        };
        let model = Transformer::new(self.config, weights.clone(), linear::Kind::Plain)?;
        let alignment_head = find_head(&model, &self.prepared.dev)?;
        let chosen = at.map(|at| (&candidates[at], candidates.as_slice()));
        self.write(weights, state, chosen, alignment_head)?;
        Ok(Choice { candidates, winner: at, left_out })
    }

    /// Writes the weights of the best validation so far.
    pub fn write_best(&self, weights: Weights, state: &State, validation: &Validation) -> Result<()> {
        let steps = vec![state.progress.step];
        let best = Candidate { kind: Kind::Best, steps, validation: validation.clone() };
        self.write(weights, state, Some((&best, &[])), None)
    }

    /// Writes `weights`; `chosen` among the candidates that were tried, with the head that aligns best, if that is known.
    pub fn write(
        &self,
        weights: Weights,
        state: &State,
        chosen: Option<(&Candidate, &[Candidate])>,
        alignment_head: Option<AlignmentHead>,
    ) -> Result<()> {
        let origin = &self.prepared.origin;
        let info = TxInfo {
            format: config_json::FORMAT,
            norm: self.config.norm,
            positions: self.config.positions,
            src_lang: origin.src_lang.clone(),
            tgt_lang: origin.tgt_lang.clone(),
            tokenizer_sha256: origin.tokenizer_sha256.clone(),
            alignment_head,
            provenance: json!({
                "version": origin.version,
                "data_sha256": origin.data_sha256,
                "init_from": origin.init_from,
                "step": state.progress.step,
                "tgt_tokens": state.progress.tgt_tokens,
                "weights": chosen.map(|(candidate, _)| candidate.kind.name()),
                "steps": chosen.map(|(candidate, _)| &candidate.steps),
                "dev": chosen.map(|(candidate, _)| candidate.validation.to_json()),
                "candidates": chosen.map(|(_, all)| all.iter().map(Candidate::to_json).collect::<Vec<_>>()),
                "settings": origin.settings,
            }),
        };
        let checkpoint = Checkpoint {
            config: self.config.clone(),
            weights,
            tokenizer: self.prepared.tokenizer.clone(),
            info: Some(info),
            generation: Generation::default(),
            precision: Precision::F32,
        };
        checkpoint.save(self.out, origin.settings.dtype.into())
    }
}

/// What there is to choose from, and of which steps. A single state is not averaged, and the last is left out where it is the best.
fn kinds(state: &State) -> VecDeque<(Kind, Vec<u64>)> {
    let progress = &state.progress;
    let mut kinds = VecDeque::new();
    let best = progress.best.first().map(|best| best.step);
    kinds.extend(best.map(|step| (Kind::Best, vec![step])));
    if best != Some(progress.step) {
        kinds.push_back((Kind::Last, vec![progress.step]));
    }
    if progress.ring.len() > 1 {
        kinds.push_back((Kind::Average, progress.ring.clone()));
    }
    if state.ema.is_some() {
        kinds.push_back((Kind::Ema, vec![progress.step]));
    }
    kinds
}

fn weights(kind: Kind, steps: &[u64], state: &State, run: &RunDir, device: &Device) -> Result<Weights> {
    match (kind, &state.ema) {
        (Kind::Ema, Some(ema)) => Ok(ema.weights()),
        (Kind::Last | Kind::Ema, _) => Ok(state.weights()),
        (Kind::Best | Kind::Average, _) => {
            let mut mean = Mean::default();
            for &step in steps {
                let path = run.weights_path(step);
                mean.add(&path, &tensors::read(&path, &Device::Cpu)?)?;
            }
            mean.finish(device)
        }
    }
}
