//! Log-probabilities of the vocabulary for the search: log p_j = (x_j − max) − ln Σ exp(x_i − max), row by row. The search
//! wants few of them, so the logits stay as they are and a [`Norm`] beside each row makes the numbers that are asked for.
//!
//! Plain twin: `candle_nn::ops::log_softmax`. On the CPU, without a backward pass (the loss has its own operation). A row is
//! read once: in pieces that stay in the first cache, each with its own maximum, whose sums are scaled to the largest one
//! (online softmax, Milakov and Gimelshein 2018). The order is fixed, so the bits of a row depend on nothing but the row.
//! A logit of -∞ stays -∞. A row with a NaN or +∞, or with nothing but -∞, has a norm of NaN: the caller can detect it.

use candle_core::{DType, Device, Tensor};
use rayon::prelude::*;

use super::simd::{exp, max, simd, sum};
use crate::{Error, Result};

/// Logits below which a second thread costs more than it saves.
const SERIAL: usize = 1 << 16;

/// Logits of a piece (4 KiB).
const PIECE: usize = 1024;

/// What makes log-probabilities of the logits of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Norm {
    /// The largest logit.
    pub largest: f32,
    /// ln Σ exp(x_i − largest).
    pub log_sum: f32,
}

impl Norm {
    /// Of logits that are log-probabilities already.
    pub const NONE: Norm = Norm { largest: 0.0, log_sum: 0.0 };

    /// The log-probability of a logit.
    #[inline(always)]
    pub fn log_prob(self, logit: f32) -> f32 {
        (logit - self.largest) - self.log_sum
    }

    /// Whether the row has numbers for log-probabilities.
    pub fn is_finite(self) -> bool {
        self.largest.is_finite() && self.log_sum.is_finite()
    }
}

/// Logits row by row, and the norm of each row.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scores {
    /// \[rows · v\]
    pub logits: Vec<f32>,
    /// \[rows\]
    pub norms: Vec<Norm>,
}

impl Scores {
    /// The log-probabilities of every row, one after the other.
    pub fn into_log_probs(mut self) -> Vec<f32> {
        let v = self.logits.len() / self.norms.len().max(1);
        for (row, &norm) in self.logits.chunks_exact_mut(v.max(1)).zip(&self.norms) {
            normalise(row, norm);
        }
        self.logits
    }
}

/// Adds the norms of `logits`, rows of `v` numbers.
pub fn add_norms(logits: &[f32], v: usize, norms: &mut Vec<Norm>) -> Result<()> {
    if v == 0 || !logits.len().is_multiple_of(v) {
        let found = logits.len();
        return Err(Error::Data(format!(
            "log-softmax: expected whole rows of {v} logits, found {found} numbers"
        )));
    }
    if logits.len() < SERIAL || rayon::current_num_threads() == 1 {
        norms.extend(logits.chunks_exact(v).map(norm));
    } else {
        norms.par_extend(logits.par_chunks_exact(v).map(norm));
    }
    Ok(())
}

/// The scores of logits [n, v].
pub fn scores(logits: &Tensor) -> Result<Scores> {
    let (_n, v) = logits.dims2()?;
    let logits = logits.to_device(&Device::Cpu)?.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?;
    let mut norms = Vec::new();
    add_norms(&logits, v, &mut norms)?;
    Ok(Scores { logits, norms })
}

simd! {
    fn norm(row: &[f32]) -> Norm {
        let (mut largest, mut total) = (f32::NEG_INFINITY, 0.0);
        for piece in row.chunks(PIECE) {
            let most = max(piece);
            if most == f32::NEG_INFINITY {
                // Nothing to add, unless there is a NaN.
                total += sum(piece, |x| if x.is_nan() { x } else { 0.0 });
                continue;
            }
            let part = sum(piece, |x| exp(x - most));
            if most > largest {
                total = total * exp(largest - most) + part;
                largest = most;
            } else {
                total += part * exp(most - largest);
            }
        }
        Norm { largest, log_sum: if total == 0.0 { f32::NAN } else { total.ln() } }
    }
}

simd! {
    fn normalise(row: &mut [f32], norm: Norm) {
        for x in row {
            *x = norm.log_prob(*x);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{assert_close, flat, random};
    use super::super::simd::forced::same_everywhere;
    use super::*;

    fn log_probs(logits: &[f32], v: usize) -> Vec<f32> {
        let mut norms = Vec::new();
        add_norms(logits, v, &mut norms).unwrap();
        Scores { logits: logits.to_vec(), norms }.into_log_probs()
    }

    fn row(logits: &[f32]) -> Vec<f32> {
        log_probs(logits, logits.len())
    }

    /// Logits ln 1, ln 2, ln 5 have the probabilities 1/8, 2/8, 5/8; a constant in front changes nothing.
    #[test]
    fn by_hand() {
        for shift in [0.0, 1000.0, -1e4] {
            let logits = [1f32, 2.0, 5.0].map(|x| x.ln() + shift);
            let expected = [0.125f64, 0.25, 0.625].map(f64::ln);
            let found: Vec<f64> = row(&logits).into_iter().map(f64::from).collect();
            assert_close(&found, &expected, if shift == 0.0 { 1e-6 } else { 1e-3 }, "log-probabilities");
        }
    }

    #[test]
    fn equals_the_plain_twin() -> Result<()> {
        for (n, v) in [(1, 1), (3, 7), (5, 16), (9, 1000), (3, 5000)] {
            let logits = (random(&[n, v], 1)? * 5.0)?;
            let plain = flat(&candle_nn::ops::log_softmax(&logits, 1)?)?;
            let found: Vec<f64> = scores(&logits)?.into_log_probs().into_iter().map(f64::from).collect();
            assert_close(&found, &plain, 1e-6, "log-probabilities");
        }
        Ok(())
    }

    #[test]
    fn a_banned_token_stays_banned_and_the_rest_sums_to_one() {
        let found = row(&[0.0, f32::NEG_INFINITY, 0.0]);
        assert_eq!(found[1], f32::NEG_INFINITY);
        assert!((found[0] - 0.5f32.ln()).abs() < 1e-6 && found[0] == found[2]);
    }

    #[test]
    fn a_broken_row_is_nan_and_spoils_no_other() {
        for broken in [f32::NAN, f32::INFINITY] {
            let mut logits = vec![0.0; 3 * 20];
            logits[20 + 17] = broken;
            let logits = log_probs(&logits, 20);
            assert!(logits[20..40].iter().all(|x| x.is_nan()));
            assert!(logits[..20].iter().chain(&logits[40..]).all(|x| (x + 20f32.ln()).abs() < 1e-6));
        }
        assert!(row(&[f32::NEG_INFINITY; 4]).iter().all(|x| x.is_nan()));
        // In a piece with nothing else, after and before others.
        for place in [0, PIECE, 2 * PIECE + 100] {
            let mut logits = vec![f32::NEG_INFINITY; 3 * PIECE];
            (logits[1500], logits[place]) = (1.0, f32::NAN);
            assert!(row(&logits).iter().all(|x| x.is_nan()), "{place}");
            logits[place] = f32::NEG_INFINITY;
            assert_eq!(row(&logits)[1500], 0.0);
        }
    }

    /// The same bits alone and in company, at every level and number of threads.
    #[test]
    fn a_row_does_not_depend_on_its_company() -> Result<()> {
        let (n, v) = (70, 2003);
        let logits = random(&[n, v], 2)?.flatten_all()?.to_vec1::<f32>()?;
        let together = same_everywhere(|| log_probs(&logits, v));
        for (logits, expected) in logits.chunks(v).zip(together.chunks(v)) {
            assert_eq!(row(logits), expected);
        }
        Ok(())
    }

    #[test]
    fn half_a_row_is_refused() {
        let message = add_norms(&[0.0; 7], 3, &mut Vec::new()).unwrap_err().to_string();
        assert!(message.contains("expected whole rows of 3 logits, found 7 numbers"), "{message}");
    }
}
