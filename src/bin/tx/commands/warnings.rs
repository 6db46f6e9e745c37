//! What the user should know of single lines of input, on stderr.

use tx::translate::{Notice, Translation};

/// Tells what the user should know of a translation; true if it is not what was asked for.
pub fn report(translation: &Translation) -> bool {
    let mut failed = false;
    for notice in &translation.notices {
        let what = match notice {
            Notice::Split { pieces, limit, parts } => {
                format!("{pieces} pieces are more than the model's {limit}; translated in {parts} parts")
            }
            Notice::Unknown { pieces } => {
                let (pieces, are) = (count(*pieces, "piece"), if *pieces == 1 { "is" } else { "are" });
                format!("{pieces} {are} outside the vocabulary: the model did not see what stands there")
            }
            Notice::UnknownSaid { pieces } => {
                format!("the translation has {} (--on-unk)", count(*pieces, "unknown piece"))
            }
            Notice::Missing { text, why } => {
                failed = true;
                format!("the translation does not contain {text:?}: {why}")
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

/// `1 piece`, `2 pieces`.
fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// A warning about a line.
pub fn warn(line: u64, what: &str) {
    say!("tx: warning: line {line}: {what}");
}
