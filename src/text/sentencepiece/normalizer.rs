//! What a text goes through before it is cut: the rules of the model's character map, then its rules about blanks
//! (`normalizer.cc` of SentencePiece 0.2.3).
//!
//! The map is a double array (Aoe 1989, as `darts-clone` stores it) over bytes; a leaf tells where in a list of
//! texts, each ended by a zero, the replacement starts. The longest rule that fits is used. The `Precompiled` of the
//! `tokenizers` crate reads the same bytes, but it looks at whole grapheme clusters, takes the shortest rule, and a
//! damaged array makes it panic.

use super::dictionary::Dictionary;
use super::wire::NormalizerSpec;
use crate::text::guarded::{MAX_GROWTH, longest_text};

/// What stands for a blank inside pieces.
pub(super) const BLANK: &str = "\u{2581}";

/// Rules that SentencePiece looks at for one place of a text.
const MAX_RULES: usize = 32;

/// Rules for the whole of a text.
#[derive(Debug, Clone)]
pub(super) struct Normalizer {
    map: Option<CharacterMap>,
    add_dummy_prefix: bool,
    remove_extra_whitespaces: bool,
    blank: &'static str,
    whitespace_is_suffix: bool,
}

impl Normalizer {
    /// An error says what is wrong with the character map.
    pub fn new(spec: &NormalizerSpec, whitespace_is_suffix: bool) -> Result<Self, String> {
        let map = if spec.charsmap.is_empty() { None } else { Some(CharacterMap::read(spec.charsmap)?) };
        Ok(Normalizer {
            map,
            add_dummy_prefix: spec.add_dummy_prefix,
            remove_extra_whitespaces: spec.remove_extra_whitespaces,
            blank: if spec.escape_whitespaces { BLANK } else { " " },
            whitespace_is_suffix,
        })
    }

    /// Whether a blank before the first word says nothing.
    pub fn adds_or_removes_blanks(&self) -> (bool, bool) {
        (self.add_dummy_prefix, self.remove_extra_whitespaces)
    }

    /// `text` as the pieces spell it; texts of `whole` are left as they are.
    pub fn apply(&self, text: &str, whole: &Dictionary) -> String {
        let mut rest = text;
        if self.remove_extra_whitespaces {
            while let (" ", after) = self.first(rest, whole) {
                rest = after;
            }
        }
        if rest.is_empty() {
            return String::new();
        }
        let mut normalized = String::with_capacity(rest.len() + rest.len() / 2);
        if self.add_dummy_prefix && !self.whitespace_is_suffix {
            normalized.push_str(self.blank);
        }
        let mut after_blank = self.remove_extra_whitespaces;
        while !rest.is_empty() {
            let (mut part, after) = self.first(rest, whole);
            if after_blank {
                part = part.trim_start_matches(' ');
            }
            for (i, words) in part.split(' ').enumerate() {
                if i > 0 {
                    normalized.push_str(self.blank);
                }
                normalized.push_str(words);
            }
            if !part.is_empty() {
                after_blank = self.remove_extra_whitespaces && part.ends_with(' ');
            }
            rest = after;
        }
        if self.remove_extra_whitespaces {
            normalized.truncate(normalized.trim_end_matches(self.blank).len());
        }
        if self.add_dummy_prefix && self.whitespace_is_suffix {
            normalized.push_str(self.blank);
        }
        normalized
    }

    /// What the beginning of `text` becomes, and the rest of it.
    fn first<'a>(&'a self, text: &'a str, whole: &Dictionary) -> (&'a str, &'a str) {
        if let Some(parts) = longest_whole(whole, text).and_then(|length| text.split_at_checked(length)) {
            return parts;
        }
        if let Some(replaced) = self.map.as_ref().and_then(|map| map.replace(text)) {
            return replaced;
        }
        let length = text.chars().next().map_or(0, char::len_utf8);
        text.split_at_checked(length).unwrap_or((text, ""))
    }
}

/// The length of the longest text of `whole` that begins `text`; SentencePiece looks at 64 of them.
pub(super) fn longest_whole(whole: &Dictionary, text: &str) -> Option<usize> {
    whole.prefixes(text).take(64).last().map(|(length, _)| length)
}

/// Replacements of beginnings of texts.
#[derive(Debug, Clone)]
struct CharacterMap {
    units: Vec<u32>,
    /// Replacements, each ended by a zero.
    texts: String,
}

impl CharacterMap {
    /// Four bytes of size, the double array of that size, and the replacements.
    fn read(bytes: &[u8]) -> Result<Self, String> {
        let bad = |what: &str| format!("its character map {what}: damaged, fetch it again");
        let (size, rest) = bytes.split_first_chunk::<4>().ok_or_else(|| bad("has no size"))?;
        let size = u32::from_le_bytes(*size) as usize;
        if size == 0 || !size.is_multiple_of(1024) {
            return Err(bad(&format!("has {size} bytes of rules, expected a multiple of 1024")));
        }
        let (array, texts) = rest
            .split_at_checked(size)
            .ok_or_else(|| bad(&format!("should have {size} bytes of rules, {} are left", rest.len())))?;
        let texts = std::str::from_utf8(texts).map_err(|_| bad("has replacements that are not UTF-8"))?;
        if !texts.ends_with('\0') {
            return Err(bad("has replacements without an end"));
        }
        let longest = longest_text(texts.as_bytes());
        if longest > MAX_GROWTH {
            return Err(bad(&format!("has a replacement of {longest} bytes, expected {MAX_GROWTH} at most")));
        }
        let units = array.as_chunks::<4>().0.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
        let map = CharacterMap { units, texts: texts.into() };
        if map.is_sound() { Ok(map) } else { Err(bad("has rules that lead nowhere")) }
    }

    /// Whether every step ends inside the array and every leaf inside the texts.
    fn is_sound(&self) -> bool {
        let inside = |at: u32, unit: u32| ((at ^ offset(unit)) | 0xFF) < self.units.len() as u32;
        let is_leaf = |at: u32| self.unit(at).is_some_and(|unit| label(unit) > 0xFF);
        let sound = |(at, &unit): (u32, &u32)| match label(unit) {
            0..=0xFF => inside(at, unit) && (!has_leaf(unit) || is_leaf(at ^ offset(unit))),
            _ => (value(unit) as usize) < self.texts.len(),
        };
        let root = self.units.first().copied().unwrap_or(0);
        label(root) == 0 && !has_leaf(root) && offset(root) != 0 && (0u32..).zip(&self.units).all(sound)
    }

    fn unit(&self, at: u32) -> Option<u32> {
        self.units.get(at as usize).copied()
    }

    /// The replacement of the longest beginning of `text` that has one, and the rest of it.
    fn replace<'a>(&'a self, text: &'a str) -> Option<(&'a str, &'a str)> {
        let (mut longest, mut found) = (None, 0);
        let mut at = offset(self.unit(0)?);
        for (length, byte) in (1..).zip(text.bytes()) {
            at ^= u32::from(byte);
            let Some(unit) = self.unit(at).filter(|&unit| label(unit) == u32::from(byte)) else { break };
            at ^= offset(unit);
            if has_leaf(unit) {
                longest = self.unit(at).map(|leaf| (length, value(leaf) as usize));
                found += 1;
                if found == MAX_RULES {
                    break;
                }
            }
        }
        let (length, start) = longest?;
        let (replacement, _) = self.texts.get(start..)?.split_once('\0')?;
        Some((replacement, text.get(length..)?))
    }
}

/// The byte that leads to a unit; above 255 for a leaf.
fn label(unit: u32) -> u32 {
    unit & (1 << 31 | 0xFF)
}

/// What a unit's place is combined with to find its children.
fn offset(unit: u32) -> u32 {
    (unit >> 10) << ((unit & 1 << 9) >> 6)
}

/// Whether a rule ends here.
fn has_leaf(unit: u32) -> bool {
    unit >> 8 & 1 == 1
}

/// Where the replacement of a leaf starts.
fn value(leaf: u32) -> u32 {
    leaf & !(1 << 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacements_are_bounded() {
        let map = |length: usize| {
            let parts = [&1024u32.to_le_bytes()[..], &[0; 1024], &vec![b'a'; length], b"\0"].concat();
            CharacterMap::read(&parts).unwrap_err()
        };
        assert!(map(MAX_GROWTH + 1).contains("a replacement of 1001 bytes, expected 1000 at most"));
        assert!(map(MAX_GROWTH).contains("rules that lead nowhere"), "{}", map(MAX_GROWTH));
    }
}
