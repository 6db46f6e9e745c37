//! Calls of the `tokenizers` crate, which panics on some files that read well (a `Precompiled` whose array leads nowhere, a `Strip` of more
//! characters than there are): here that is an error like others, and nothing is printed. What would take all memory (each of forty rules
//! that doubles all blanks) is found before.

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::Value;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Whether this thread is inside such a call.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// What `call` gives; an error in words.
pub(super) fn guarded<T>(call: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            if !INSIDE.get() {
                usual(panic);
            }
        }));
    });
    INSIDE.set(true);
    // What the crate leaves behind are caches of whole words.
    let result = catch_unwind(AssertUnwindSafe(call));
    INSIDE.set(false);
    match result {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => {
            Err("the `tokenizers` library breaks off: tokenizer.json is damaged, fetch it again".to_string())
        }
    }
}

/// Times that rules may make a text longer; those of real files replace a blank by the three bytes of `▁`, or one character by 33 bytes.
pub(super) const MAX_GROWTH: usize = 1000;

/// Refuses a normalizer or decoder that makes texts much longer.
pub(super) fn check_growth(rules: &Value) -> Result<(), String> {
    let times = growth(rules);
    if times <= MAX_GROWTH {
        return Ok(());
    }
    Err(format!(
        "its rules of replacement make a text up to {times} times as long, expected {MAX_GROWTH} at most"
    ))
}

fn growth(rules: &Value) -> usize {
    let inside = ["normalizers", "decoders"].into_iter().filter_map(|key| rules[key].as_array()).flatten();
    let replaced = rules["pattern"]["String"].as_str().map_or(1, |text| text.len().max(1));
    let content = rules["content"].as_str().map_or(1, |text| text.len().div_ceil(replaced));
    let map = rules["precompiled_charsmap"].as_str().and_then(longest_replacement);
    inside.map(growth).fold(content.max(map.unwrap_or(1)).max(1), usize::saturating_mul)
}

/// Bytes of the longest replacement of a character map: the size of its rules in four bytes, these, and the replacements, each ended by
/// a zero.
fn longest_replacement(base64: &str) -> Option<usize> {
    let bytes = BASE64_STANDARD.decode(base64).ok()?;
    let (size, rest) = bytes.split_first_chunk()?;
    let texts = rest.get(u32::from_le_bytes(*size) as usize..)?;
    Some(longest_text(texts))
}

/// Bytes of the longest of `texts`, each ended by a zero.
pub(super) fn longest_text(texts: &[u8]) -> usize {
    texts.split(|byte| *byte == 0).map(<[u8]>::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_panic_is_an_error() {
        assert_eq!(guarded(|| Ok(7)), Ok(7));
        assert_eq!(guarded::<()>(|| Err("no".into())), Err("no".to_string()));
        let none: [u8; 0] = [];
        assert!(guarded(|| Ok(none[std::hint::black_box(3)])).unwrap_err().contains("damaged"));
        assert!(!INSIDE.get());
    }

    #[test]
    fn growth_is_the_product_of_replacements() {
        let replace =
            |from: &str, to: &str| json!({"type": "Replace", "pattern": {"String": from}, "content": to});
        let rules = json!({"type": "Sequence", "normalizers": [
            {"type": "NFC"},
            {"type": "Sequence", "normalizers": [replace(" ", "▁"), replace("▁", " ")]},
            {"type": "Replace", "pattern": {"Regex": " *"}, "content": "ab"},
            replace("abc", "abcdefg"),
        ]});
        assert_eq!(growth(&rules), 3 * 2 * 3);
        assert_eq!(check_growth(&rules), Ok(()));
        let doubled = vec![replace(" ", "  "); 40];
        let error = check_growth(&json!({"type": "Sequence", "decoders": doubled})).unwrap_err();
        assert!(error.contains("1099511627776 times"), "{error}");
        assert_eq!(growth(&Value::Null), 1);
        let map = [&4u32.to_le_bytes()[..], b"\xFF\xFF\xFF\xFFabc\0abcde\0\0"].concat();
        let rules = json!({"type": "Precompiled", "precompiled_charsmap": BASE64_STANDARD.encode(map)});
        assert_eq!(growth(&rules), 5);
    }
}
