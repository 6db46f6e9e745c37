//! As much YAML as Marian's settings use: `key: value` at the beginning of a line, lists below a key or in brackets. What is
//! nested deeper is passed over.

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
                    .ok_or_else(|| format!("{trimmed:.80?} is no setting (key: value)"))?;
                settings.insert(plain(name), values(value.trim()));
                key = Some(plain(name));
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
    match value.strip_prefix('[').and_then(|inside| inside.strip_suffix(']')) {
        Some(inside) => inside.split(',').map(plain).filter(|item| !item.is_empty()).collect(),
        None if value.is_empty() => Vec::new(),
        None => vec![plain(value)],
    }
}

/// Without the quotes around it.
fn plain(value: &str) -> String {
    let value = value.trim();
    let inside = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    inside('"').or_else(|| inside('\'')).unwrap_or(value).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_marian_are_read() {
        let text = b"# made by\ntype: transformer\ndim-vocabs:\n  - 65001\n- 65002\ntied: []\nflow: [a, 'b']\nempty: \"\"\nmap:\n  inner: 1\nlast: 'x'\n\0";
        let settings = Settings::parse(text).unwrap();
        assert_eq!(settings.get("type"), Some("transformer"));
        assert_eq!(settings.list("dim-vocabs"), ["65001", "65002"]);
        assert_eq!(settings.list("flow"), ["a", "b"]);
        assert_eq!(
            (settings.get("empty"), settings.get("tied"), settings.get("inner")),
            (Some(""), None, None)
        );
        assert_eq!(settings.get("last"), Some("x"));
        assert!(Settings::parse(b"no setting").unwrap_err().contains("no setting"));
    }
}
