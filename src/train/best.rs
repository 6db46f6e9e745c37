//! Which validation is the best, and when training has waited long enough. One metric decides both, and its direction
//! belongs to it.

use super::progress::{Progress, Scored};
use super::settings::Settings;
use serde::{Deserialize, Serialize};

/// What validations are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Criterion {
    /// Negative log-likelihood per target token: lower is better.
    #[default]
    Nll,
    /// Label-smoothed cross-entropy per target token: lower is better.
    Loss,
    /// BLEU of greedy translations: higher is better.
    Bleu,
    /// chrF of greedy translations: higher is better.
    Chrf,
}

impl Criterion {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Criterion::Nll => "NLL",
            Criterion::Loss => "loss",
            Criterion::Bleu => "BLEU",
            Criterion::Chrf => "chrF",
        }
    }

    /// `higher` or `lower`: what is better.
    pub fn direction(self) -> &'static str {
        if self.higher_is_better() { "higher" } else { "lower" }
    }

    fn higher_is_better(self) -> bool {
        matches!(self, Criterion::Bleu | Criterion::Chrf)
    }

    /// The number that it looks at.
    pub fn of(self, scored: &Scored) -> f64 {
        match self {
            Criterion::Nll => scored.nll,
            Criterion::Loss => scored.loss,
            Criterion::Bleu => scored.bleu,
            Criterion::Chrf => scored.chrf,
        }
    }

    /// Whether `new` is better than `old` by more than `margin`: a tie is not, and NaN never is.
    pub fn is_better(self, new: f64, old: f64, margin: f64) -> bool {
        if self.higher_is_better() { new > old + margin } else { new < old - margin }
    }
}

impl Progress {
    /// Takes note of a validation; whether it is the best so far. Patience waits for a change of more than `min_change` from
    /// the value at which it last began to wait; numbers that are not finite count as no improvement.
    pub fn judge(&mut self, scored: Scored, settings: &Settings) -> bool {
        let metric = settings.metric;
        let (value, is_finite) = (metric.of(&scored), scored.is_finite());
        let beats = |old: f64, margin: f64| is_finite && metric.is_better(value, old, margin);
        if self.waits_at.map_or(is_finite, |old| beats(old, settings.min_change)) {
            (self.waits_at, self.without_improvement) = (Some(value), 0);
        } else {
            self.without_improvement += 1;
        }
        let rank = self.best.iter().position(|old| beats(metric.of(old), 0.0)).unwrap_or(self.best.len());
        if is_finite {
            self.best.insert(rank, scored);
        }
        self.best.truncate(settings.keep_best);
        is_finite && rank == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Preset;

    fn settings(metric: Criterion) -> Settings {
        Settings { metric, ..Settings::new(Preset::Tiny, 1000) }
    }

    /// What was the best and how long the wait was, for validations with these values of `metric`.
    fn judged(settings: &Settings, values: &[f64]) -> (Vec<bool>, Vec<u64>, Progress) {
        let mut progress = Progress::default();
        let (mut bests, mut waits) = (Vec::new(), Vec::new());
        for (at, &value) in values.iter().enumerate() {
            let mut scored = Scored { step: 10 * (at as u64 + 1), loss: 9.0, nll: 9.0, bleu: 0.0, chrf: 0.0 };
            match settings.metric {
                Criterion::Nll => scored.nll = value,
                Criterion::Loss => scored.loss = value,
                Criterion::Bleu => scored.bleu = value,
                Criterion::Chrf => scored.chrf = value,
            }
            bests.push(progress.judge(scored, settings));
            waits.push(progress.without_improvement);
        }
        (bests, waits, progress)
    }

    /// Rows 94 to 96: NaN and ties are never the best, and patience counts validations, not steps.
    #[test]
    fn nan_and_ties_are_no_improvement() {
        for metric in [Criterion::Nll, Criterion::Loss] {
            let values = [f64::NAN, 3.0, 2.0, 2.0, f64::NAN, 2.5, 1.0, f64::NEG_INFINITY];
            let (bests, waits, progress) = judged(&settings(metric), &values);
            assert_eq!(bests, [false, true, true, false, false, false, true, false], "{metric:?}");
            assert_eq!(waits, [1, 0, 0, 1, 2, 3, 0, 1], "{metric:?}");
            assert_eq!(progress.best.iter().map(|best| best.step).collect::<Vec<_>>(), [70]);
        }
    }

    /// Row 95: the direction belongs to the metric.
    #[test]
    fn higher_scores_and_lower_losses_are_better() {
        for (metric, values) in [
            (Criterion::Bleu, [1.0, 2.0, 3.0]),
            (Criterion::Chrf, [1.0, 2.0, 3.0]),
            (Criterion::Nll, [3.0, 2.0, 1.0]),
            (Criterion::Loss, [3.0, 2.0, 1.0]),
        ] {
            let reversed: Vec<f64> = values.iter().rev().copied().collect();
            assert_eq!(judged(&settings(metric), &values).0, [true, true, true], "{metric:?}");
            assert_eq!(judged(&settings(metric), &reversed).0, [true, false, false], "{metric:?}");
        }
        // The other numbers have no say: NLL is 9 each time.
        let (bests, waits, _) = judged(&settings(Criterion::Bleu), &[0.0, 0.0, 0.5]);
        assert_eq!((bests, waits), (vec![true, false, true], vec![0, 1, 0]));
    }

    /// Small steps add up, and the best model follows them all the same.
    #[test]
    fn patience_waits_for_the_smallest_change() {
        let settings = Settings { min_change: 0.1, ..settings(Criterion::Nll) };
        let (bests, waits, progress) = judged(&settings, &[3.0, 2.95, 2.92, 2.89, 2.79, 2.78]);
        assert_eq!(waits, [0, 1, 2, 0, 1, 0]);
        assert_eq!(bests, [true; 6]);
        assert_eq!(progress.best[0].step, 60);
    }

    #[test]
    fn the_best_few_are_kept_in_order() {
        let settings = Settings { keep_best: 3, ..settings(Criterion::Bleu) };
        let (_, _, progress) = judged(&settings, &[2.0, 5.0, 1.0, 5.0, 4.0, f64::NAN]);
        assert_eq!(progress.best.iter().map(|best| best.step).collect::<Vec<_>>(), [20, 40, 50]);
    }
}
