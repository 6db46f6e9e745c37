//! Log-probabilities of the vocabulary for the search: log p_j = x_j − max − ln Σ exp(x_i − max), row by row.
//!
//! Plain twin: `candle_nn::ops::log_softmax`. In place, on the CPU, without a backward pass (the loss has its own
//! operation). The sum of a row runs in a fixed order, so the bits of a row depend on nothing but the row.
//! A logit of -∞ stays -∞. A row with a NaN or +∞, or with nothing but -∞, becomes NaN as a whole: the caller can
//! detect it at any element that is not banned.

use candle_core::{DType, Device, Tensor};
use rayon::prelude::*;

use super::simd::{exp, max, simd, sum};
use crate::{Error, Result};

/// Logits below which a second thread costs more than it saves.
const SERIAL: usize = 1 << 16;

/// Turns the logits of each row of `v` numbers into log-probabilities.
pub fn log_softmax_rows(logits: &mut [f32], v: usize) -> Result<()> {
    if v == 0 || !logits.len().is_multiple_of(v) {
        let found = logits.len();
        return Err(Error::Data(format!(
            "log-softmax: expected whole rows of {v} logits, found {found} numbers"
        )));
    }
    if logits.len() < SERIAL {
        logits.chunks_exact_mut(v).for_each(log_softmax_row);
    } else {
        logits.par_chunks_exact_mut(v).for_each(log_softmax_row);
    }
    Ok(())
}

/// The log-probabilities of logits [n, v], row after row.
pub fn log_softmax_vec(logits: &Tensor) -> Result<Vec<f32>> {
    let (_n, v) = logits.dims2()?;
    let logits = logits.to_device(&Device::Cpu)?.to_dtype(DType::F32)?;
    let mut logits = logits.flatten_all()?.to_vec1::<f32>()?;
    log_softmax_rows(&mut logits, v)?;
    Ok(logits)
}

simd! {
    /// One row: log p_j = (x_j − max) − ln Σ exp(x_i − max).
    fn log_softmax_row(row: &mut [f32]) {
        let largest = max(row);
        let log_sum = sum(row, |x| exp(x - largest)).ln();
        for x in row {
            *x = (*x - largest) - log_sum;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{assert_close, flat, random};
    use super::super::simd::forced::same_everywhere;
    use super::*;

    fn row(logits: &[f32]) -> Vec<f32> {
        let mut row = logits.to_vec();
        log_softmax_rows(&mut row, logits.len()).unwrap();
        row
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
        for (n, v) in [(1, 1), (3, 7), (5, 16), (9, 1000)] {
            let logits = (random(&[n, v], 1)? * 5.0)?;
            let plain = flat(&candle_nn::ops::log_softmax(&logits, 1)?)?;
            let found: Vec<f64> = log_softmax_vec(&logits)?.into_iter().map(f64::from).collect();
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
    fn a_broken_row_is_nan_and_spoils_no_other() -> Result<()> {
        for broken in [f32::NAN, f32::INFINITY] {
            let mut logits = vec![0.0; 3 * 20];
            logits[20 + 17] = broken;
            log_softmax_rows(&mut logits, 20)?;
            assert!(logits[20..40].iter().all(|x| x.is_nan()));
            assert!(logits[..20].iter().chain(&logits[40..]).all(|x| (x + 20f32.ln()).abs() < 1e-6));
        }
        assert!(row(&[f32::NEG_INFINITY; 4]).iter().all(|x| x.is_nan()));
        Ok(())
    }

    /// The same bits alone and in company, at every level and number of threads.
    #[test]
    fn a_row_does_not_depend_on_its_company() -> Result<()> {
        let (n, v) = (70, 1003);
        let logits = random(&[n, v], 2)?.flatten_all()?.to_vec1::<f32>()?;
        let together = same_everywhere(|| {
            let mut together = logits.clone();
            log_softmax_rows(&mut together, v).unwrap();
            together
        });
        for (logits, expected) in logits.chunks(v).zip(together.chunks(v)) {
            assert_eq!(row(logits), expected);
        }
        Ok(())
    }

    #[test]
    fn half_a_row_is_refused() {
        let message = log_softmax_rows(&mut [0.0; 7], 3).unwrap_err().to_string();
        assert!(message.contains("expected whole rows of 3 logits, found 7 numbers"), "{message}");
    }
}
