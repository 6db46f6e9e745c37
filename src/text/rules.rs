//! The text rules, as the parts of a `tokenizer.json`: what happens to a text before it is cut into
//! pieces, where it may be cut, and how pieces become a text again.
//!
//! Normalizer, in this order (so that applying it twice changes nothing): invisible characters are
//! dropped, letters become small if asked, letter and combining mark become one character (NFC), a run of
//! white space becomes one blank, none is left at either end. A typed `▁` (U+2581), which stands for the
//! blank inside pieces, counts as white space: it is the one visible character that does not survive.

use super::{Kind, SPECIAL_TOKENS};
use serde_json::{Value, json};

/// Zero-width space, word joiner, soft hyphen, byte order mark: copied from the web, never meant.
/// Joiners and direction marks stay, they carry meaning.
const INVISIBLE: &str = r"[\x{00AD}\x{200B}\x{2060}\x{FEFF}]";

/// Unicode white space, the separators U+001C to U+001F, and the blank's stand-in.
const WHITE_SPACE: &str = r"[\x{09}-\x{0D}\x{1C}-\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{2581}]+";

/// A word or one other character, with the blank before it.
const WORD: &str = r"▁?(?:[\p{L}\p{M}\p{N}]+|[^\p{L}\p{M}\p{N}▁])";

/// Whether `c` belongs to [`WHITE_SPACE`].
pub(super) fn is_white_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1C}'..='\u{1F}' | '▁')
}

/// Whether `c` would end a line or a field in some program, or is the blank's stand-in.
pub(super) fn breaks_a_line(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '▁')
}

/// Whether nothing of `text` is left after normalization: such a line never reaches the model.
pub fn is_blank(text: &str) -> bool {
    text.chars().all(|c| is_white_space(c) || is_invisible(c))
}

/// `text` as every tokenizer shall see it: without invisible characters, with one blank for every run of white space
/// and none at either end.
pub fn clean(text: &str) -> String {
    let visible: String = text.chars().filter(|&c| !is_invisible(c)).collect();
    visible.split(is_white_space).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Whether `c` belongs to [`INVISIBLE`].
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{AD}' | '\u{200B}' | '\u{2060}' | '\u{FEFF}')
}

/// Whether a piece of this text would be taken for a special token, or by the decoder for a byte.
pub(super) fn is_reserved(piece: &str) -> bool {
    let byte = |hex: &str| u8::from_str_radix(hex, 16).is_ok();
    SPECIAL_TOKENS.contains(&piece)
        || (piece.len() == 6
            && piece.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>')).is_some_and(byte))
}

/// A whole `tokenizer.json` around `model`.
pub(super) fn tokenizer(kind: Kind, lowercase: bool, model: Value) -> Value {
    let special = |(id, token): (usize, &&str)| {
        json!({
            "id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true
        })
    };
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": SPECIAL_TOKENS.iter().enumerate().map(special).collect::<Vec<_>>(),
        "normalizer": normalizer(lowercase),
        "pre_tokenizer": pre_tokenizer(kind),
        "post_processor": post_processor(),
        "decoder": decoder(kind),
        "model": model,
    })
}

fn normalizer(lowercase: bool) -> Value {
    let replace =
        |pattern, content| json!({"type": "Replace", "pattern": {"Regex": pattern}, "content": content});
    let mut steps = vec![replace(INVISIBLE, "")];
    if lowercase {
        steps.push(json!({"type": "Lowercase"}));
    }
    steps.push(json!({"type": "NFC"}));
    steps.push(replace(WHITE_SPACE, " "));
    steps.push(json!({"type": "Strip", "strip_left": true, "strip_right": true}));
    json!({"type": "Sequence", "normalizers": steps})
}

/// Every blank becomes the `▁` that starts the next word; words and their longest pieces are also cut around
/// punctuation, a unigram model around `<`: the crate would find `</s>` and `<0x41>` in a text.
fn pre_tokenizer(kind: Kind) -> Value {
    let pattern = match kind {
        Kind::Bpe | Kind::Char => return metaspace(),
        Kind::Word | Kind::WordPiece => WORD,
        Kind::Unigram => "<",
    };
    let split =
        json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
    json!({"type": "Sequence", "pretokenizers": [metaspace(), split]})
}

fn decoder(kind: Kind) -> Value {
    match kind {
        // Bytes first: should they spell a `▁`, it is a blank like any other.
        Kind::Bpe | Kind::Unigram => {
            json!({"type": "Sequence", "decoders": [{"type": "ByteFallback"}, metaspace()]})
        }
        Kind::Word | Kind::WordPiece | Kind::Char => metaspace(),
    }
}

fn metaspace() -> Value {
    json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true})
}

/// `$A </s>`: what other programs add to the pieces, the same as [`super::Tokenizer::encode`] does.
fn post_processor() -> Value {
    let eos = SPECIAL_TOKENS[3];
    let part = |id: &str, type_id: u32| {
        [
            json!({"Sequence": {"id": id, "type_id": type_id}}),
            json!({"SpecialToken": {"id": eos, "type_id": type_id}}),
        ]
    };
    let pair = [part("A", 0), part("B", 1)].concat();
    json!({
        "type": "TemplateProcessing",
        "single": part("A", 0),
        "pair": pair,
        "special_tokens": {eos: {"id": eos, "ids": [3], "tokens": [eos]}}
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_is_what_the_rules_leave_nothing_of() {
        assert!(
            ["", " \t", "\u{3000}\u{A0}\u{2028}", "\u{200B}\u{FEFF} \u{AD}", "\u{1C}▁"]
                .iter()
                .all(|t| is_blank(t))
        );
        assert!(["a", " . ", "\u{200D}", "\0"].iter().all(|t| !is_blank(t)));
    }

    #[test]
    fn the_pattern_and_the_function_name_the_same_white_space() {
        let pattern = regex::Regex::new(WHITE_SPACE).unwrap();
        for c in ('\0'..=char::MAX).filter(|&c| c <= '\u{10000}') {
            assert_eq!(pattern.is_match(c.encode_utf8(&mut [0; 4])), is_white_space(c), "{c:?}");
        }
    }

    #[test]
    fn reserved_are_special_tokens_and_whatever_the_decoder_reads_as_a_byte() {
        assert!(["</s>", "<pad>", "<0x0A>", "<0xff>", "<0x+1>"].iter().all(|p| is_reserved(p)));
        assert!(["</s", "▁</s>", "<0xGG>", "<0x0>", "<0x0A", "<0xé>"].iter().all(|p| !is_reserved(p)));
    }
}
