//! Names in files: those that occur twice (of two tensors of one name, which is the right one?), and those for messages.

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use std::collections::BTreeSet;
use std::fmt;

/// The names that come up more than once, each once.
pub fn repeated<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let (mut seen, mut twice) = (BTreeSet::new(), BTreeSet::new());
    for name in names {
        if !seen.insert(name) {
            twice.insert(name.to_string());
        }
    }
    twice.into_iter().collect()
}

/// What is wrong with a file that has `names` twice; nothing if there are none.
pub fn refuse(names: &[String]) -> Result<(), String> {
    if names.is_empty() {
        return Ok(());
    }
    Err(format!("it has {} more than once, and which of them is meant cannot be told", names.join(", ")))
}

/// A text of a file's for a message: its beginning, on one line.
pub fn short(text: &str) -> String {
    text.chars().take(80).flat_map(char::escape_debug).collect()
}

/// The keys that occur more than once in a JSON object; parsers keep the last and say nothing.
pub fn repeated_keys(json: &[u8]) -> Vec<String> {
    struct Keys;
    impl<'de> Visitor<'de> for Keys {
        type Value = Vec<String>;

        fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
            out.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<String>, A::Error> {
            let mut keys = Vec::new();
            while let Some((key, _)) = map.next_entry::<String, IgnoredAny>()? {
                keys.push(key);
            }
            Ok(keys)
        }
    }
    // What is not an object is reported by who parses it.
    let keys = serde_json::Deserializer::from_slice(json).deserialize_map(Keys).unwrap_or_default();
    repeated(keys.iter().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_repeated_name_is_named_once() {
        let json = br#"{"a": 1, "b": {"a": 2}, "a": [3], "a": 4, "\u0062": 5, "c": 6}"#;
        assert_eq!(repeated_keys(json), ["a", "b"]);
        assert_eq!(repeated_keys(b"[1, 2]"), [""; 0]);
        assert_eq!(short(&"a\n".repeat(99)), "a\\n".repeat(40));
        assert!(refuse(&repeated_keys(json)).unwrap_err().contains("it has a, b more than once"));
    }
}
