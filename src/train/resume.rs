//! Going on with a run: what it keeps, what may change, and what is started anew on request.

use super::settings::{Given, Settings};
use crate::error::{Error, Result};
use serde_json::Value;

/// A part of the state that `--reset` starts anew, and with it the settings that belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    /// The moments of Adam and the moving average of the weights.
    Optimizer,
    /// The learning rate, warmup included.
    Schedule,
    /// The text and the position in it.
    Data,
    /// The best validations and the count of patience.
    Best,
}

/// Settings that may differ on resume: they decide when to stop and to cool down before it, to look and to save, what to keep, how to
/// store, and how exactly to multiply, not what is computed.
const MAY_CHANGE: [&str; 13] = [
    "max_steps",
    "cooldown",
    "max_epochs",
    "valid_every",
    "save_every",
    "save_minutes",
    "keep",
    "keep_best",
    "average",
    "patience",
    "min_change",
    "compute",
    "dtype",
];

impl Reset {
    /// All of them.
    pub const ALL: [Reset; 4] = [Reset::Optimizer, Reset::Schedule, Reset::Data, Reset::Best];

    /// As a flag names it.
    pub fn name(self) -> &'static str {
        match self {
            Reset::Optimizer => "optimizer",
            Reset::Schedule => "schedule",
            Reset::Data => "data",
            Reset::Best => "best",
        }
    }

    /// What starts anew, for a reader.
    fn what(self) -> &'static str {
        match self {
            Reset::Optimizer => "the moments of Adam and the moving average of the weights start anew",
            Reset::Schedule => "the learning rate starts anew, with its warmup",
            Reset::Data => "the text is taken as it is now, from the start of the next epoch",
            Reset::Best => "the best so far is forgotten, and patience counts from 0",
        }
    }

    /// The settings that may change with it.
    fn frees(self) -> &'static [&'static str] {
        match self {
            Reset::Optimizer => &["clip_norm", "ema"],
            Reset::Schedule => &["lr", "warmup_steps"],
            Reset::Data => &["batch_tokens", "accumulate"],
            Reset::Best => &["metric"],
        }
    }
}

/// The settings of a run that goes on: the saved ones, with the given ones that may change in their place. Each
/// change, and each part that starts anew, is told.
pub fn settle(
    saved: &Settings,
    given: &Given,
    resets: &[Reset],
    tell: &mut dyn FnMut(String),
) -> Result<Settings> {
    let settings = saved.with(given)?;
    // The run's vocabulary may have come out smaller than was asked for.
    let settings = Settings { vocab_size: saved.vocab_size, ..settings };
    let conflicts = conflicts(&settings, saved, resets);
    if !conflicts.is_empty() {
        return Err(Error::Config(format!(
            "--resume keeps the settings of the run, but {}: leave these flags out, or start a new run",
            conflicts.join("; ")
        )));
    }
    let changes = changes(&settings, saved);
    let changes: Vec<String> =
        changes.iter().map(|(name, new, old)| format!("{name} {new} (the run had {old})")).collect();
    tell(match changes.is_empty() {
        true => "from the checkpoint: all settings".to_string(),
        false => format!("from flags: {}; from the checkpoint: all other settings", changes.join(", ")),
    });
    resets.iter().for_each(|reset| tell(format!("--reset {}: {}", reset.name(), reset.what())));
    Ok(settings)
}

/// Name, new and old value of every setting that differs.
fn changes(new: &Settings, saved: &Settings) -> Vec<(String, Value, Value)> {
    let (new, old) = (new.to_json(), saved.to_json());
    let all = new.as_object().into_iter().flatten();
    let differing = all.filter(|(name, value)| old[name.as_str()] != **value);
    differing.map(|(name, value)| (name.clone(), value.clone(), old[name.as_str()].clone())).collect()
}

/// The settings that differ from `saved` and must not, with what would let them.
fn conflicts(new: &Settings, saved: &Settings, resets: &[Reset]) -> Vec<String> {
    let frees = |reset: Reset, name: &str| reset.frees().contains(&name);
    let is_fixed =
        |name: &str| !MAY_CHANGE.contains(&name) && !resets.iter().any(|&reset| frees(reset, name));
    let fixed = changes(new, saved).into_iter().filter(|(name, ..)| is_fixed(name));
    let describe = |(name, new, old): (String, Value, Value)| {
        let way = Reset::ALL.into_iter().find(|&reset| frees(reset, &name));
        let way = way.map_or(String::new(), |reset| format!(" (--reset {} takes the new one)", reset.name()));
        format!("{name} is {new}, the run has {old}{way}")
    };
    fixed.map(describe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Preset;

    #[test]
    fn conflicts_name_what_a_resumed_run_may_not_change() {
        let saved = Settings::new(Preset::Tiny, 1000);
        let mut new = Settings { max_steps: saved.max_steps + 5, ..saved.clone() };
        assert!(conflicts(&new, &saved, &[]).is_empty());
        (new.seed, new.batch_tokens) = (7, 1234);
        let seed = "seed is 7, the run has 1";
        let tokens = "batch_tokens is 1234, the run has 512 (--reset data takes the new one)";
        assert_eq!(conflicts(&new, &saved, &[]), [seed, tokens]);
        assert_eq!(conflicts(&new, &saved, &[Reset::Data]), [seed]);
    }

    /// Every name in the lists is a setting.
    #[test]
    fn the_lists_name_settings() {
        let settings = Settings::new(Preset::Tiny, 1000).to_json();
        let freed = Reset::ALL.into_iter().flat_map(|reset| reset.frees().iter().copied());
        for name in MAY_CHANGE.into_iter().chain(freed) {
            assert!(settings.get(name).is_some(), "{name}");
        }
    }
}
