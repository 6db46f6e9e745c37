//! Two systems side by side: both scores, and whether they differ by more than chance.

use serde_json::{Value, json};
use std::io::{self, Write};
use tx::score::{Comparison, Corpus, Interval, Metric, Test, compare};

/// Two systems under one metric and both tests: the bootstrap for intervals, randomization for its p-value.
pub struct Compared {
    /// The metric's name.
    pub name: &'static str,
    /// Paired bootstrap resampling.
    pub bootstrap: Comparison,
    /// Approximate randomization.
    pub randomization: Comparison,
}

/// Compares two systems under every metric.
pub fn compare_all(
    metrics: &[Metric],
    first: &Corpus,
    second: &Corpus,
    seed: u64,
) -> tx::Result<Vec<Compared>> {
    let compare_one = |metric: &Metric| {
        let test = |test: Test| compare(metric, first, second, test, test.default_trials(), seed);
        Ok(Compared {
            name: metric.label(),
            bootstrap: test(Test::Bootstrap)?,
            randomization: test(Test::Randomization)?,
        })
    };
    metrics.iter().map(compare_one).collect()
}

impl Compared {
    /// All numbers as an object; `hyp` is the first system.
    pub fn to_json(&self) -> Value {
        let side = |score: f64, interval: Option<Interval>| json!({"score": score, "mean": interval.map(|i| i.mean), "ci": interval.map(|i| i.ci)});
        let bs = &self.bootstrap;
        json!({
            "name": self.name,
            "hyp": side(bs.baseline, bs.baseline_interval),
            "compare": side(bs.system, bs.system_interval),
            "p_bootstrap": bs.p_value,
            "p_randomization": self.randomization.p_value,
        })
    }

    /// Both scores with mean and interval of their resamples.
    pub fn scores(&self) -> [String; 2] {
        let cell = |score: f64, interval: Option<Interval>| {
            interval.map_or(format!("{score:.2}"), |i| format!("{score:.2} ({:.2} ± {:.2})", i.mean, i.ci))
        };
        let bs = &self.bootstrap;
        [cell(bs.baseline, bs.baseline_interval), cell(bs.system, bs.system_interval)]
    }
}

/// What the two systems are called.
pub struct Sides<'a> {
    pub first: &'a str,
    pub second: &'a str,
}

impl Sides<'_> {
    /// The table of all metrics.
    pub fn write(&self, out: &mut impl Write, compared: &[Compared]) -> io::Result<()> {
        let Sides { first, second } = self;
        writeln!(out, "{:<12} {first:>20} {second:>20} {:>9} {:>9}", "", "p (bs)", "p (ar)")?;
        for row in compared {
            let [first, second] = row.scores();
            let (bs, ar) = (row.bootstrap.p_value, row.randomization.p_value);
            writeln!(out, "{:<12} {first:>20} {second:>20} {bs:>9.4} {ar:>9.4}", row.name)?;
        }
        Ok(())
    }
}
