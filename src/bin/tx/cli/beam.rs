//! The flags of `tx beam`.

use super::Search;
use super::decoding::not_blank;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::str::FromStr;
use tx::search::LengthPenalty;

/// Show the beam search for a sentence: what lived, what fell off at each step and why.
#[derive(Debug, Args)]
pub struct BeamArgs {
    /// The sentence to translate.
    #[arg(allow_hyphen_values = true)]
    pub sentence: String,
    #[command(flatten)]
    pub search: Search,
    /// Hypotheses in the final list [default: the beam size].
    #[arg(long, value_name = "N")]
    pub n_best: Option<usize>,
    /// `text`: for reading; `json`: all of it; `jsonl`: a line for all but the steps, then a line for each step; `dot`: the tree of
    /// the search, for Graphviz [default: text, unless a page is asked for below].
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: Option<BeamFormat>,
    /// Write the search to this file, as one page to look at in a browser: the tree over the steps, to go through by keys.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Say why the search did not return this translation: where it left the beam, what it scores, and whether the search lost a better
    /// one (and which beam finds it) or the model likes it less.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, value_parser = not_blank)]
    pub why: Option<String>,
    /// Set the best translations of other searches beside it, with commas: a beam width, a length penalty or both, as
    /// `1,12,none,4:pow:1.0`.
    #[arg(long, value_name = "BEAM[:PENALTY],...", value_delimiter = ',')]
    pub compare: Vec<Other>,
    /// What every translation begins with.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub prefix: Option<String>,
    /// Every translation contains this text, as for `tx translate`. Can be given several times.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, value_parser = not_blank)]
    pub must_contain: Vec<String>,
    /// Flags that ask for drawing, which has no beam.
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "", aliases = ["temperature", "top-k", "top-p", "seed"])]
    pub sample: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BeamFormat {
    Text,
    Json,
    Jsonl,
    Dot,
}

/// Another search: what is not said is as for the first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Other {
    pub beam: Option<usize>,
    pub length_penalty: Option<LengthPenalty>,
}

impl FromStr for Other {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let penalty = |text: &str| text.parse().map(Some).map_err(|error: tx::Error| error.to_string());
        let (first, rest) = text.split_once(':').map_or((text, None), |(first, rest)| (first, Some(rest)));
        let Ok(beam) = first.parse::<usize>() else {
            return Ok(Other { beam: None, length_penalty: penalty(text)? });
        };
        tx::search::check_sizes(beam, 1).map_err(|error| error.to_string())?;
        Ok(Other { beam: Some(beam), length_penalty: rest.map_or(Ok(None), penalty)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_to_compare_with_by_hand() {
        let parsed = |text: &str| text.parse::<Other>().map(|other| (other.beam, other.length_penalty));
        assert_eq!(parsed("12"), Ok((Some(12), None)));
        assert_eq!(parsed("none"), Ok((None, Some(LengthPenalty::None))));
        assert_eq!(parsed("gnmt:0.6"), Ok((None, Some(LengthPenalty::Gnmt(0.6)))));
        assert_eq!(parsed("4:pow:1"), Ok((Some(4), Some(LengthPenalty::Pow(1.0)))));
        for (text, says) in [("0", "beam size 0"), ("4:wide", "\"wide\""), ("", "\"\""), ("-1", "\"-1\"")] {
            assert!(parsed(text).unwrap_err().contains(says), "{text}");
        }
    }
}
