//! YAML as Marian uses it: one mapping of scalars and lists of scalars. What is nested deeper is passed over.

use super::names::{self, short};
use saphyr_parser::{Event, Parser, ScalarStyle};
use std::collections::BTreeMap;

/// More bytes than any settings have.
const MAX_BYTES: usize = 1 << 20;

/// Values by key; a single value is a list of one.
pub type Mapping = BTreeMap<String, Vec<String>>;

/// The mapping of the text `bytes`; an error says where it is none.
pub fn mapping(bytes: &[u8]) -> Result<Mapping, String> {
    let text = String::from_utf8_lossy(bytes);
    let (mut mapping, mut key, mut depth) = (Mapping::new(), None, 0);
    for event in Parser::new_from_str(text.trim_end_matches('\0')) {
        let (event, span) = event.map_err(|error| error.to_string())?;
        match event {
            Event::MappingStart(..) | Event::SequenceStart(..) if depth > 0 && key.is_some() => depth += 1,
            Event::MappingStart(..) if depth == 0 => depth = 1,
            Event::MappingEnd | Event::SequenceEnd => {
                depth -= 1;
                if depth == 1 {
                    key = None;
                }
            }
            Event::Scalar(value, style, ..) if depth > 0 => match &key {
                None => {
                    if mapping.insert(value.to_string(), Vec::new()).is_some() {
                        names::refuse(&[short(&value)])?;
                    }
                    key = Some(value);
                }
                Some(name) => {
                    let is_null = style == ScalarStyle::Plain && matches!(&*value, "" | "~");
                    if let Some(values) = mapping.get_mut(&**name).filter(|_| depth < 3 && !is_null) {
                        values.push(value.to_string());
                    }
                    if depth == 1 {
                        key = None;
                    }
                }
            },
            Event::Scalar(..) | Event::SequenceStart(..) | Event::MappingStart(..) | Event::Alias(_) => {
                let (line, column) = (span.start.line(), span.start.col() + 1);
                return Err(format!("line {line}, column {column}: expected key: value"));
            }
            _ => {}
        }
    }
    Ok(mapping)
}

/// The settings of a model.
#[derive(Debug, Default, PartialEq)]
pub struct Settings(Mapping);

impl Settings {
    /// Those of the text `bytes`, which may end with zeros.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > MAX_BYTES {
            return Err(format!("{} bytes of settings, expected {MAX_BYTES} at most", bytes.len()));
        }
        mapping(bytes).map(Settings)
    }

    /// The values of a key, none if it is absent.
    pub fn list(&self, key: &str) -> &[String] {
        self.0.get(key).map_or(&[], Vec::as_slice)
    }

    /// The value of a key that has one.
    pub fn get(&self, key: &str) -> Option<&str> {
        if let [only] = self.list(key) { Some(only) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_marian_are_read() {
        let text = b"# made by\ntype: transformer\ndim-vocabs:\n  - 65001\n  - 65002\ntied: []\nflow: [a, 'b'] # two\nquoted: '#1 # 2'\nbare: x#y # z\nempty: \"\"\nnone:\nmap:\n  inner: 1\n  list: [1, [2]]\nlast: 'x'\n\0";
        let settings = Settings::parse(text).unwrap();
        assert_eq!(settings.get("type"), Some("transformer"));
        assert_eq!(settings.list("dim-vocabs"), ["65001", "65002"]);
        assert_eq!(settings.list("flow"), ["a", "b"]);
        assert_eq!(
            (settings.get("empty"), settings.get("tied"), settings.get("inner")),
            (Some(""), None, None)
        );
        assert_eq!((settings.get("quoted"), settings.get("bare")), (Some("#1 # 2"), Some("x#y")));
        assert_eq!((settings.list("none"), settings.get("last")), (&[][..], Some("x")));
    }

    /// Keys as the emitter of yaml-cpp quotes them.
    #[test]
    fn pieces_and_ids_are_read() {
        let text = "</s>: 0\n\"#\": 2\n\"\\\"\": 3\n',': 4\n\"~\": 5\n▁'s: 6\n? \"\\x85\\u2028\"\n: 7\n\"\\\\\": 8\n▁#: 9\n";
        let pieces: Vec<(String, String)> =
            mapping(text.as_bytes()).unwrap().into_iter().map(|(key, ids)| (key, ids.concat())).collect();
        let expected = [
            ("\"", "3"),
            ("#", "2"),
            (",", "4"),
            ("</s>", "0"),
            ("\\", "8"),
            ("~", "5"),
            ("\u{85}\u{2028}", "7"),
            ("▁#", "9"),
            ("▁'s", "6"),
        ];
        assert_eq!(pieces, expected.map(|(key, id)| (key.to_string(), id.to_string())));
    }

    #[test]
    fn what_is_no_mapping_is_refused_with_its_place() {
        for (text, place) in [
            ("no setting", "line 1, column 1"),
            ("- a", "line 1, column 1"),
            ("a: 1\nb: &x 2\nc: *x", "line 3, column 4"),
            ("a: 1\n? [b]\n: 2", "line 2, column 3"),
            ("a: 'b", "line"),
        ] {
            let error = mapping(text.as_bytes()).unwrap_err();
            assert!(error.contains(place), "{text:?}: {error}");
        }
        let twice = mapping(b"a: 1\nb: 2\na: 3").unwrap_err();
        assert!(twice.contains("it has a more than once"), "{twice}");
    }
}
