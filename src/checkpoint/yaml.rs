//! As much YAML as Marian's settings use: `key: value` at the beginning of a line, lists below a key or in brackets. What is
//! nested deeper is passed over.

use super::names::{self, short};
use std::collections::BTreeMap;

/// More bytes than any settings have.
const MAX_BYTES: usize = 1 << 20;

/// Values by key; a single value is a list of one.
#[derive(Debug, Default, PartialEq)]
pub struct Settings(BTreeMap<String, Vec<String>>);

impl Settings {
    /// Those of the text `bytes`, which may end with zeros.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > MAX_BYTES {
            return Err(format!("{} bytes of settings, expected {MAX_BYTES} at most", bytes.len()));
        }
        let text = String::from_utf8_lossy(bytes);
        let (mut settings, mut key) = (BTreeMap::<String, Vec<String>>::new(), None);
        for line in text.trim_end_matches('\0').lines() {
            let trimmed = line.trim();
            if trimmed.is_empty() || trimmed.starts_with('#') || trimmed == "---" {
                continue;
            }
            if let Some(item) = trimmed.strip_prefix("- ") {
                if let Some(list) = key.as_ref().and_then(|key| settings.get_mut(key)) {
                    list.push(plain(item));
                }
            } else if !line.starts_with([' ', '\t']) {
                let (name, value) = trimmed
                    .split_once(':')
                    .ok_or_else(|| format!("\"{}\" is no setting (key: value)", short(trimmed)))?;
                let name = plain(name);
                if settings.insert(name.clone(), values(value.trim())).is_some() {
                    names::refuse(&[short(&name)])?;
                }
                key = Some(name);
            }
        }
        Ok(Settings(settings))
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

fn values(value: &str) -> Vec<String> {
    let bare = plain(value);
    let inside = bare.strip_prefix('[').and_then(|inside| inside.strip_suffix(']'));
    match inside.filter(|_| value.starts_with('[')) {
        Some(inside) => inside.split(',').map(plain).filter(|item| !item.is_empty()).collect(),
        None if value.is_empty() => Vec::new(),
        None => vec![bare],
    }
}

/// Without the quotes around it, or a comment behind it.
fn plain(value: &str) -> String {
    let value = value.trim();
    let inside = |quote: char| Some(value.strip_prefix(quote)?.rsplit_once(quote)?.0);
    let bare = || value.split(" #").next().unwrap_or_default().trim_end();
    inside('"').or_else(|| inside('\'')).unwrap_or_else(bare).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_marian_are_read() {
        let text = b"# made by\ntype: transformer\ndim-vocabs:\n  - 65001\n- 65002\ntied: []\nflow: [a, 'b'] # two\nquoted: '#1 # 2' # three\nbare: x#y # z\nempty: \"\"\nmap:\n  inner: 1\nlast: 'x'\n\0";
        let settings = Settings::parse(text).unwrap();
        assert_eq!(settings.get("type"), Some("transformer"));
        assert_eq!(settings.list("dim-vocabs"), ["65001", "65002"]);
        assert_eq!(settings.list("flow"), ["a", "b"]);
        assert_eq!(
            (settings.get("empty"), settings.get("tied"), settings.get("inner")),
            (Some(""), None, None)
        );
        assert_eq!((settings.get("quoted"), settings.get("bare")), (Some("#1 # 2"), Some("x#y")));
        assert_eq!(settings.get("last"), Some("x"));
        let message = |text: &[u8]| Settings::parse(text).unwrap_err();
        assert!(message(b"no setting").contains("\"no setting\" is no setting"));
        assert!(message(b"a: 1\nb: 2\na: 3").contains("it has a more than once"));
        assert!(message(&[b'x'; 1000]).len() < 200);
    }
}
