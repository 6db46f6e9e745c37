//! What the files of a corpus may be called: `SPLIT.SUFFIX`, plain or with `.gz` or `.zst`.
//!
//! SPLIT is `train`, one of `valid val dev`, or `test` with anything after it (`test_2016`): each is a test
//! set. SUFFIX is `tsv`, `src`, `tgt` or looks like a language code (`de`, `eng_Latn`, `pt-BR`); what the
//! caller names as a language may be anything.

use std::fmt::Write;
use std::path::Path;

/// Names of the dev set, the best first.
pub(super) const DEV_NAMES: [&str; 3] = ["valid", "val", "dev"];
const PACKED: [&str; 2] = [".gz", ".zst"];

/// Two or three letters that end file names and are, in a folder of text, no language.
const NOT_LANGUAGES: [&str; 24] = [
    "bak", "bin", "bpe", "bz", "cfg", "csv", "doc", "ids", "idx", "ini", "log", "md", "npy", "npz", "old",
    "pdf", "py", "sh", "tmp", "tok", "txt", "xml", "xz", "zip",
];

/// Two or three letters, then perhaps a script of four and a region.
pub(super) fn is_language(suffix: &str) -> bool {
    let letters = |part: &str, n: std::ops::RangeInclusive<usize>| {
        n.contains(&part.len()) && part.bytes().all(|b| b.is_ascii_alphabetic())
    };
    let mut parts = suffix.split(['_', '-']);
    let first = parts.next().unwrap_or_default();
    let rest: Vec<&str> = parts.collect();
    let region =
        |part: &str| letters(part, 2..=2) || (part.len() == 3 && part.bytes().all(|b| b.is_ascii_digit()));
    !NOT_LANGUAGES.contains(&suffix)
        && letters(first, 2..=3)
        && match rest[..] {
            [] => true,
            [one] => letters(one, 4..=4) || region(one),
            [script, last] => letters(script, 4..=4) && region(last),
            _ => false,
        }
}

/// Stem and suffix of a file that belongs to a split, such as `train` and `de` of `train.de.gz`.
pub(super) fn parse(name: &str) -> Option<(String, String)> {
    let plain = PACKED.iter().find_map(|packed| name.strip_suffix(packed)).unwrap_or(name);
    let (stem, suffix) = plain.rsplit_once('.')?;
    is_split(stem).then(|| (stem.to_string(), suffix.to_string()))
}

fn is_split(stem: &str) -> bool {
    stem == "train" || DEV_NAMES.contains(&stem) || is_test(stem)
}

/// `test`, or `test` with more than letters after it.
pub(super) fn is_test(stem: &str) -> bool {
    stem.strip_prefix("test").is_some_and(|rest| !rest.starts_with(char::is_alphabetic))
}

/// The last part of `path`, for messages.
pub(super) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// A list for a message.
pub(super) fn shortened(names: &[String]) -> String {
    let mut text = names.iter().take(20).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > 20 {
        // Writing to a string cannot fail.
        let _ = write!(text, " and {} more", names.len() - 20);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn language_codes() {
        let codes = ["de", "deu", "src", "tgt", "eng_Latn", "pt-BR", "zh_Hant_TW", "es_419", "EN"];
        assert!(codes.iter().all(|code| is_language(code)));
        let others = ["attribution", "txt", "md", "d", "de_", "de_x", "eng_Latn_US_x", "d3", "日本"];
        assert!(others.iter().all(|code| !is_language(code)));
    }

    #[test]
    fn splits() {
        let of = |name| parse(name).map(|(stem, suffix)| format!("{stem}|{suffix}"));
        assert_eq!(of("train.de.gz"), Some("train|de".into()));
        assert_eq!(of("test_2016_flickr.en.zst"), Some("test_2016_flickr|en".into()));
        assert_eq!(of("dev.tsv"), Some("dev|tsv".into()));
        assert_eq!([of("testament.de"), of("pretrain.de"), of("train"), of("train.gz")], [const { None }; 4]);
    }
}
