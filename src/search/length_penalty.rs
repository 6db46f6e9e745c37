//! Length penalties (paper section 6.1): what a hypothesis' `log_prob` is divided by to give its `score`.
//!
//! Two forms are in use and carry the same name elsewhere. `gnmt` is the paper's (Wu et al. 2016, equation 14);
//! `pow` is that of fairseq, CTranslate2 and Hugging Face. `len` counts target tokens with the end mark.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::error::{Error, Result};

/// Exponents outside -MAX_ALPHA..=MAX_ALPHA are refused: they only overflow.
const MAX_ALPHA: f64 = 10.0;

/// How `score` follows from `log_prob` and the length. Written `none`, `gnmt:0.6`, `pow:1.0`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LengthPenalty {
    /// `score = log_prob`.
    None,
    /// `score = log_prob / ((5 + len) / 6)^α`.
    Gnmt(f64),
    /// `score = log_prob / len^α`.
    Pow(f64),
}

/// ((5 + len) / 6)^α.
pub fn gnmt_divisor(len: usize, alpha: f64) -> f64 {
    ((5.0 + len as f64) / 6.0).powf(alpha)
}

/// len^α.
pub fn pow_divisor(len: usize, alpha: f64) -> f64 {
    (len as f64).powf(alpha)
}

impl LengthPenalty {
    /// What `log_prob` is divided by at `len` tokens.
    pub fn divisor(self, len: usize) -> f64 {
        match self {
            LengthPenalty::None => 1.0,
            LengthPenalty::Gnmt(alpha) => gnmt_divisor(len, alpha),
            LengthPenalty::Pow(alpha) => pow_divisor(len, alpha),
        }
    }

    /// `log_prob / divisor(len)`.
    pub fn score(self, log_prob: f64, len: usize) -> f64 {
        // A certain hypothesis stays certain at any length, also at length 0 where `pow` would give 0 / 0.
        if log_prob == 0.0 { 0.0 } else { log_prob / self.divisor(len) }
    }

    /// The best score that a hypothesis of this `log_prob` can still reach at a length in `from..=to`.
    ///
    /// Every further token adds a log-probability of at most 0, so `log_prob` can only fall. The divisor is
    /// monotone in the length (up for α > 0, down for α < 0), and dividing a number that is not positive by
    /// more brings it nearer to 0. So the larger divisor of the two ends is the bound: that of the limit for
    /// α > 0, that of the next token for α < 0.
    pub fn bound(self, log_prob: f64, from: usize, to: usize) -> f64 {
        self.score(log_prob, from).max(self.score(log_prob, to))
    }

    /// The exponent; 0 for `none`.
    pub fn alpha(self) -> f64 {
        match self {
            LengthPenalty::None => 0.0,
            LengthPenalty::Gnmt(alpha) | LengthPenalty::Pow(alpha) => alpha,
        }
    }

    /// Refuses exponents that are no numbers or absurdly large.
    pub fn check(self) -> Result<()> {
        // Written so that NaN is refused too.
        if self.alpha().abs() <= MAX_ALPHA {
            return Ok(());
        }
        Err(Error::Config(format!(
            "length penalty {self}: the exponent must be a number between -{MAX_ALPHA} and {MAX_ALPHA}; usual are \
             gnmt:0.6 and pow:1.0"
        )))
    }
}

impl FromStr for LengthPenalty {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let form = |alpha: fn(f64) -> LengthPenalty, number: &str| {
            number.parse().map(alpha).map_err(|_| unknown(text)).and_then(|penalty| {
                penalty.check()?;
                Ok(penalty)
            })
        };
        match text.split_once(':') {
            None if text == "none" => Ok(LengthPenalty::None),
            Some(("gnmt", number)) => form(LengthPenalty::Gnmt, number),
            Some(("pow", number)) => form(LengthPenalty::Pow, number),
            _ => Err(unknown(text)),
        }
    }
}

fn unknown(text: &str) -> Error {
    Error::Config(format!(
        "length penalty {text:?} is not known: expected none, gnmt:ALPHA (log_prob / ((5+len)/6)^ALPHA) \
         or pow:ALPHA (log_prob / len^ALPHA), for example gnmt:0.6"
    ))
}

impl fmt::Display for LengthPenalty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LengthPenalty::None => write!(f, "none"),
            // `{:?}` keeps the point: pow:1.0.
            LengthPenalty::Gnmt(alpha) => write!(f, "gnmt:{alpha:?}"),
            LengthPenalty::Pow(alpha) => write!(f, "pow:{alpha:?}"),
        }
    }
}

impl Serialize for LengthPenalty {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "found {found}, expected {expected}");
    }

    /// (5+1)/6 = 1; (5+7)/6 = 2; (5+19)/6 = 4 and its root is 2; (5+10)/6 = 2.5 and 2.5^0.6 = e^(0.6 ln 2.5).
    #[test]
    fn gnmt_divisor_by_hand() {
        assert_close(gnmt_divisor(1, 0.6), 1.0);
        assert_close(gnmt_divisor(7, 1.0), 2.0);
        assert_close(gnmt_divisor(7, -1.0), 0.5);
        assert_close(gnmt_divisor(19, 0.5), 2.0);
        assert_close(gnmt_divisor(10, 0.6), 1.732_862_107_887_866);
    }

    #[test]
    fn pow_divisor_by_hand() {
        assert_close(pow_divisor(1, 2.0), 1.0);
        assert_close(pow_divisor(9, 0.5), 3.0);
        assert_close(pow_divisor(4, 1.0), 4.0);
        assert_close(pow_divisor(4, -0.5), 0.5);
        assert_close(pow_divisor(7, 0.0), 1.0);
    }

    #[test]
    fn score_divides_once() {
        assert_close(LengthPenalty::None.score(-3.0, 7), -3.0);
        assert_close(LengthPenalty::Gnmt(1.0).score(-3.0, 7), -1.5);
        assert_close(LengthPenalty::Pow(1.0).score(-3.0, 4), -0.75);
        assert_eq!(LengthPenalty::Pow(1.0).score(0.0, 0), 0.0);
    }

    /// -6 at lengths 2..=12: pow:1 reaches -0.5 at 12; pow:-1 is best at once, -6 × 2 = -12.
    #[test]
    fn bound_is_the_better_end() {
        assert_close(LengthPenalty::None.bound(-6.0, 2, 12), -6.0);
        assert_close(LengthPenalty::Pow(1.0).bound(-6.0, 2, 12), -0.5);
        assert_close(LengthPenalty::Pow(-1.0).bound(-6.0, 2, 12), -12.0);
        assert_close(LengthPenalty::Gnmt(1.0).bound(-6.0, 1, 7), -3.0);
        assert_close(LengthPenalty::Gnmt(-1.0).bound(-6.0, 1, 7), -6.0);
    }

    #[test]
    fn text_round_trips() {
        for text in ["none", "gnmt:0.6", "pow:1.0", "pow:-0.5", "gnmt:0.0"] {
            assert_eq!(text.parse::<LengthPenalty>().unwrap().to_string(), text);
        }
        assert_eq!("pow:1".parse::<LengthPenalty>().unwrap(), LengthPenalty::Pow(1.0));
        assert_eq!(serde_json::to_string(&LengthPenalty::Gnmt(0.6)).unwrap(), "\"gnmt:0.6\"");
    }

    #[test]
    fn text_that_is_no_penalty_is_refused_with_the_choices() {
        for text in
            ["", "0.6", "gnmt", "gnmt:", "gnmt:x", "pow:1,0", "None", "wu:0.6", "none:1", "gnmt:0.6:1"]
        {
            let message = text.parse::<LengthPenalty>().unwrap_err().to_string();
            assert!(message.contains("gnmt:0.6") && message.contains(&format!("{text:?}")), "{message}");
        }
        for text in ["gnmt:NaN", "pow:inf", "pow:-11"] {
            let message = text.parse::<LengthPenalty>().unwrap_err().to_string();
            assert!(message.contains("between -10 and 10"), "{message}");
        }
    }
}
