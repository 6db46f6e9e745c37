//! A score as a value, as the line that sacreBLEU prints, and as the object of `sacrebleu --format json`.

use serde_json::{Map, Value, json};

use super::{BleuParts, Signature};

/// A score with what it is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// The metric's name as printed.
    pub name: &'static str,
    /// The score, in percent but for the length ratio.
    pub score: f64,
    /// What the score is made of.
    pub parts: Parts,
    /// The settings it depends on.
    pub signature: Signature,
}

/// The numbers beside a score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Parts {
    /// BLEU's precisions, brevity penalty and lengths.
    Bleu(BleuParts),
    /// chrF shows none.
    Chrf,
    /// TER is edits over words.
    Ter {
        /// Insertions, deletions, substitutions and shifts.
        num_edits: u64,
        /// Words in the references, averaged over the references of a line.
        ref_length: f64,
    },
    /// ROUGE's F is made of these means, in percent.
    Rouge {
        /// Mean precision.
        precision: f64,
        /// Mean recall.
        recall: f64,
    },
    /// Exact match counts lines.
    ExactMatch {
        /// Lines equal to a reference.
        matches: u64,
        /// All lines.
        lines: u64,
    },
    /// The length ratio compares tokens.
    LengthRatio {
        /// Tokens in the hypotheses.
        hyp_len: u64,
        /// Tokens in the references closest in length.
        ref_len: u64,
    },
}

impl Parts {
    /// What is printed behind the score; sacreBLEU prints nothing for chrF and TER.
    fn verbose(&self) -> Option<String> {
        Some(match self {
            Parts::Bleu(BleuParts { precisions, bp, ratio, hyp_len, ref_len, .. }) => {
                let precisions = precisions.map(|p| format!("{p:.1}")).join("/");
                format!(
                    "{precisions} (BP = {bp:.3} ratio = {ratio:.3} hyp_len = {hyp_len} ref_len = {ref_len})"
                )
            }
            Parts::Chrf | Parts::Ter { .. } => return None,
            Parts::Rouge { precision, recall } => format!("(P = {precision:.1} R = {recall:.1})"),
            Parts::ExactMatch { matches, lines } => format!("(matches = {matches} lines = {lines})"),
            Parts::LengthRatio { hyp_len, ref_len } => format!("(hyp_len = {hyp_len} ref_len = {ref_len})"),
        })
    }
}

impl Score {
    /// The line sacreBLEU prints, the score with `width` decimals.
    pub fn format(&self, width: usize) -> String {
        let line = format!("{}|{} = {:.width$}", self.name, self.signature, self.score);
        match self.parts.verbose() {
            Some(verbose) => format!("{line} {verbose}"),
            None => line,
        }
    }

    /// The object sacreBLEU gives: name, score rounded to `width` decimals, signature, what is printed behind the
    /// score, and each entry of the signature.
    pub fn to_json(&self, width: usize) -> Value {
        let rounded = format!("{:.width$}", self.score);
        let mut object = Map::new();
        object.insert("name".into(), json!(self.name));
        object.insert("score".into(), json!(rounded.parse::<f64>().unwrap_or(f64::NAN)));
        object.insert("signature".into(), json!(self.signature.to_string()));
        if let Some(verbose) = self.parts.verbose() {
            object.insert("verbose_score".into(), json!(verbose));
        }
        for (key, value) in self.signature.pairs() {
            object.insert((*key).into(), json!(value));
        }
        Value::Object(object)
    }
}

/// `objects` as sacreBLEU prints several: a list whose objects are indented by one space.
pub fn json_text(objects: &[Value]) -> String {
    let objects: Vec<String> = objects.iter().map(indented).collect();
    format!("[\n{}\n]", objects.join(",\n"))
}

/// One object over several lines, indented by one space.
fn indented(object: &Value) -> String {
    // The alternate form indents by two spaces; a line break inside a string is escaped, so every line begins a value.
    let halved = |line: &str| {
        let text = line.trim_start_matches(' ');
        format!("{}{text}", " ".repeat((line.len() - text.len()) / 2))
    };
    format!("{object:#}").lines().map(halved).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::{Bleu, Metric};

    /// Counts worked out by hand: precisions 3/4, 2/3, 1/2 and (smoothed) 1/2 of 1; bp exp(1 - 5/4).
    #[test]
    fn line_and_object_are_those_of_sacrebleu() {
        let sum = [4.0, 5.0, 3.0, 2.0, 1.0, 0.0, 4.0, 3.0, 2.0, 1.0];
        let score = Metric::Bleu(Bleu::default()).score(&sum, 1);
        let version = env!("CARGO_PKG_VERSION");
        let signature = format!("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:tx-{version}");
        let verbose = "75.0/66.7/50.0/50.0 (BP = 0.779 ratio = 0.800 hyp_len = 4 ref_len = 5)";
        assert_eq!(score.format(2), format!("BLEU|{signature} = 46.31 {verbose}"));
        let expected = format!(
            "[\n{{\n \"name\": \"BLEU\",\n \"score\": 46.3,\n \"signature\": \"{signature}\",\n \
             \"verbose_score\": \"{verbose}\",\n \"nrefs\": \"1\",\n \"case\": \"mixed\",\n \"eff\": \"no\",\n \
             \"tok\": \"13a\",\n \"smooth\": \"exp\",\n \"version\": \"tx-{version}\"\n}}\n]"
        );
        assert_eq!(json_text(&[score.to_json(1)]), expected);
    }
}
