//! What the user should know of single lines of input, on stderr.

use tx::translate::{Notice, Translation};

/// Tells what the user should know of a translation; true if it failed.
pub fn report(translation: &Translation) -> bool {
    let mut failed = false;
    for notice in &translation.notices {
        let what = match notice {
            Notice::Split { pieces, limit, parts } => {
                format!("{pieces} pieces are more than the model's {limit}; translated in {parts} parts")
            }
            Notice::Unknown { pieces } => {
                format!("{pieces} pieces are outside the vocabulary; the model did not see them")
            }
            Notice::Cut { steps } => format!(
                "no end after {steps} steps, so it was cut (--max-length and the positions of the model are the limit)"
            ),
            Notice::Loop { rounds } => {
                format!("says the same {rounds} times in a row (--no-repeat-ngram forbids that)")
            }
            Notice::Failed(what) => {
                failed = true;
                format!("failed, so its translation is empty: {what}")
            }
        };
        warn(translation.line, &what);
    }
    failed
}

/// A warning about a line.
pub fn warn(line: u64, what: &str) {
    say!("tx: warning: line {line}: {what}");
}
