//! Whether two systems differ by more than chance, over the statistics of each line: paired bootstrap resampling
//! (Koehn 2004) and approximate randomization (Riezler and Maxwell 2005), with the definitions of sacreBLEU 2.6.0.
//! Every trial has a random stream of its own, so results depend on the seed alone.

use rayon::prelude::*;

use super::corpus::add;
use super::{Corpus, Metric, Statistics};
use crate::rng::Rng;
use crate::{Error, Result};

/// How chance is imitated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    /// Lines are drawn with replacement, the same for both systems.
    Bootstrap,
    /// Each line's two translations change sides with probability one half.
    Randomization,
}

impl Test {
    /// The key in signatures.
    pub(super) fn key(self) -> &'static str {
        match self {
            Test::Bootstrap => "bs",
            Test::Randomization => "ar",
        }
    }

    /// sacreBLEU's number of trials.
    pub fn default_trials(self) -> usize {
        match self {
            Test::Bootstrap => 1000,
            Test::Randomization => 10_000,
        }
    }
}

/// A mean over resamples and half the width of the interval that holds 95 % of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Mean score of the resamples.
    pub mean: f64,
    /// Half the distance between the 2.5 % and the 97.5 % quantile.
    pub ci: f64,
}

/// A system against a baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// Score of the baseline.
    pub baseline: f64,
    /// Score of the system.
    pub system: f64,
    /// Probability of a difference at least as large if both were equally good.
    pub p_value: f64,
    /// Resampled scores of the baseline; only the bootstrap has them.
    pub baseline_interval: Option<Interval>,
    /// Resampled scores of the system.
    pub system_interval: Option<Interval>,
}

/// Compares `system` with `baseline`, two corpora with the same references, in `trials` trials.
pub fn compare(
    metric: &Metric,
    baseline: &Corpus,
    system: &Corpus,
    test: Test,
    trials: usize,
    seed: u64,
) -> Result<Comparison> {
    let (n, m) = (baseline.n_lines(), system.n_lines());
    if n != m {
        return Err(Error::Data(format!(
            "the two systems to compare have {n} and {m} lines: line N of both must translate the same sentence"
        )));
    }
    if trials == 0 {
        return Err(Error::Config("a significance test needs at least one trial, got 0".into()));
    }
    let (baseline, system) = (metric.statistics(baseline), metric.statistics(system));
    Ok(match test {
        Test::Bootstrap => bootstrap(metric, &baseline, &system, trials, seed),
        Test::Randomization => randomization(metric, &baseline, &system, trials, seed),
    })
}

/// The p-value is the share of resamples whose difference exceeds the mean difference by more than the real one.
fn bootstrap(
    metric: &Metric,
    baseline: &Statistics,
    system: &Statistics,
    trials: usize,
    seed: u64,
) -> Comparison {
    let (n, width) = (baseline.n_lines(), baseline.width());
    // Both systems' rows side by side, since a drawn line counts for both.
    let rows: Vec<f64> = baseline.rows().zip(system.rows()).flat_map(|(a, b)| [a, b].concat()).collect();
    let resample = |trial: usize| {
        let mut rng = Rng::new(seed, &format!("bootstrap {trial}"));
        let mut sum = vec![0.0; 2 * width];
        for _ in 0..n {
            add(&mut sum, &rows[rng.below(n) * 2 * width..][..2 * width]);
        }
        (metric.value(&sum[..width]), metric.value(&sum[width..]))
    };
    let scores: Vec<(f64, f64)> = (0..trials).into_par_iter().map(resample).collect();
    let differences: Vec<f64> = scores.iter().map(|(a, b)| (a - b).abs()).collect();
    let mean = mean(&differences);
    let centred: Vec<f64> = differences.iter().map(|difference| difference - mean).collect();
    let (a, b) = (metric.value(&baseline.sum()), metric.value(&system.sum()));
    Comparison {
        baseline: a,
        system: b,
        p_value: p_value(&centred, (a - b).abs()),
        baseline_interval: Some(interval(scores.iter().map(|(score, _)| *score).collect())),
        system_interval: Some(interval(scores.iter().map(|(_, score)| *score).collect())),
    }
}

/// The p-value is the share of trials whose difference exceeds the real one.
fn randomization(
    metric: &Metric,
    baseline: &Statistics,
    system: &Statistics,
    trials: usize,
    seed: u64,
) -> Comparison {
    let (a, b) = (baseline.sum(), system.sum());
    // What a swap adds to one side it takes from the other, so one sum per trial is enough.
    let width = baseline.width();
    let swaps: Vec<f64> = baseline.rows().zip(system.rows()).flat_map(|(a, b)| minus(b, a)).collect();
    let trial = |trial: usize| {
        let mut rng = Rng::new(seed, &format!("randomization {trial}"));
        let mut moved = vec![0.0; width];
        for block in swaps.chunks(64 * width) {
            // One random bit per line; the set ones are visited.
            let mut bits = rng.next_u64() & (u64::MAX >> (64 - block.len() / width));
            while bits != 0 {
                let line = bits.trailing_zeros() as usize;
                add(&mut moved, &block[line * width..][..width]);
                bits &= bits - 1;
            }
        }
        let mut left = a.clone();
        add(&mut left, &moved);
        (metric.value(&left) - metric.value(&minus(&b, &moved))).abs()
    };
    let differences: Vec<f64> = (0..trials).into_par_iter().map(trial).collect();
    let (a, b) = (metric.value(&a), metric.value(&b));
    Comparison {
        baseline: a,
        system: b,
        p_value: p_value(&differences, (a - b).abs()),
        baseline_interval: None,
        system_interval: None,
    }
}

/// `a - b`, element by element.
fn minus(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

/// (c + 1) / (n + 1), where c of n differences are larger than the real one.
fn p_value(differences: &[f64], real: f64) -> f64 {
    let larger = differences.iter().filter(|&&difference| difference > real).count();
    (larger + 1) as f64 / (differences.len() + 1) as f64
}

/// Mean and 95 % interval: one fortieth of the scores is cut off at either end.
fn interval(mut scores: Vec<f64>) -> Interval {
    let mean = mean(&scores);
    scores.sort_by(f64::total_cmp);
    let cut = scores.len() / 40;
    let (lower, upper) = (scores[cut], scores[scores.len() - 1 - cut]);
    Interval { mean, ci: 0.5 * (upper - lower) }
}

/// The arithmetic mean.
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::Tokenizer;

    #[test]
    fn p_value_counts_itself() {
        assert_eq!(p_value(&[0.1, 0.5, 0.9, 0.5], 0.5), 0.4);
    }

    #[test]
    fn interval_cuts_a_fortieth_off_each_end() {
        let Interval { mean, ci } = interval((1..=40).rev().map(f64::from).collect());
        assert_eq!((mean, ci), (20.5, 18.5));
    }

    /// `n` lines of which the first `right` are exact.
    fn exact_lines(n: usize, right: usize) -> Vec<&'static str> {
        (0..n).map(|i| if i < right { "yes" } else { "no" }).collect()
    }

    /// Exact match of 40 and 60 of 100 nested lines: in a trial the difference is |20 - 2k| with k of 20 lines swapped,
    /// which is never above 20, so p is 1/(n+1).
    #[test]
    fn randomization_never_exceeds_nested_systems() {
        let references = [exact_lines(100, 100)];
        let (worse, better) = (exact_lines(100, 40), exact_lines(100, 60));
        let worse = Corpus::new(&worse, &references).unwrap();
        let better = Corpus::new(&better, &references).unwrap();
        let metric = Metric::from_name("exact", Tokenizer::V13a, false).unwrap();
        let found = compare(&metric, &worse, &better, Test::Randomization, 999, 1).unwrap();
        assert_eq!((found.baseline, found.system, found.p_value), (40.0, 60.0, 0.001));
    }

    /// 50 of 100 right: a resample's score has mean 50 and standard deviation 5, so the interval is ±1.96 · 5.
    #[test]
    fn bootstrap_interval_is_that_of_the_binomial() {
        let references = [exact_lines(100, 100)];
        let half = exact_lines(100, 50);
        let corpus = Corpus::new(&half, &references).unwrap();
        let metric = Metric::from_name("exact", Tokenizer::V13a, false).unwrap();
        let found = compare(&metric, &corpus, &corpus, Test::Bootstrap, 4000, 7).unwrap();
        let Interval { mean, ci } = found.system_interval.unwrap();
        assert!((mean - 50.0).abs() < 0.3 && (ci - 9.8).abs() < 0.7, "{mean} {ci}");
        assert_eq!(found.system_interval, found.baseline_interval);
    }

    #[test]
    fn bad_input_is_named() {
        let (one, two) = ([["a"]], [["a", "b"]]);
        let (one, two) = (Corpus::new(&["a"], &one).unwrap(), Corpus::new(&["a", "b"], &two).unwrap());
        let metric = Metric::from_name("ter", Tokenizer::V13a, false).unwrap();
        let error = compare(&metric, &one, &two, Test::Bootstrap, 10, 1).unwrap_err().to_string();
        assert!(error.contains("have 1 and 2 lines"), "{error}");
        assert!(compare(&metric, &one, &one, Test::Bootstrap, 0, 1).is_err());
    }
}
