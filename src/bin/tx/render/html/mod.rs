//! What the pages of HTML share: they need no network and no other file, and look alike.

use base64::prelude::{BASE64_STANDARD, Engine};
use half::f16;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The style of every page, for light and dark, wide and narrow.
const STYLE: &str = include_str!("style.css");

/// Sorts the tables of class `sortable` by the columns that are headed by [`sortable`].
pub const SORT: &str = include_str!("sort.js");

/// The button for light and dark, which every page with a script has.
const THEME: &str = include_str!("theme.js");

/// A page whose script draws the data that are in it. The browser is told to run this script alone and to load nothing.
pub struct Page {
    /// The body, with the parts, `{{data}}` and `{{script}}`, in this order.
    pub template: &'static str,
    /// What this page has beyond the style of all.
    pub style: &'static str,
    pub script: &'static str,
}

impl Page {
    /// The page called `title`, with each of `parts` in its place, in the order of the template.
    pub fn fill(&self, title: &str, parts: &[(&str, String)], data: &Value) -> String {
        let (style, script) = (format!("{STYLE}{}", self.style), format!("{THEME}{}", self.script));
        let hash = |text: &str| format!("'sha256-{}'", base64(&Sha256::digest(text)));
        let policy = format!(
            "default-src 'none'; script-src {}; style-src {}; base-uri 'none'; form-action 'none'",
            hash(&script),
            hash(&style)
        );
        let policy = format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n");
        let last = [("data", embedded(data)), ("script", script)];
        head(title, &policy, &style) + &put_in(self.template, parts.iter().chain(&last)) + END
    }
}

/// JSON that can stand in a script element: nothing in it ends or opens an element or a comment, or ends a line of JavaScript.
fn embedded(json: &Value) -> String {
    let json = json.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    json.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

/// Floats of 16 bits, little-endian, in base64.
pub fn floats<'a>(numbers: impl IntoIterator<Item = &'a f32>) -> String {
    base64(&numbers.into_iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect::<Vec<u8>>())
}

/// Bytes as a script reads them with `atob`.
pub fn base64(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

/// A page without data, called `title`, with `style` beyond the style of all: the body `template` with each of `parts` in its place, in
/// the order of the template.
pub fn fill(template: &str, style: &str, title: &str, parts: &[(&str, String)]) -> String {
    head(title, "", &format!("{STYLE}{style}")) + &put_in(template, parts) + END
}

/// What every page begins with, to the end of its head; `policy` is an element.
fn head(title: &str, policy: &str, style: &str) -> String {
    let title = escape(title);
    format!(
        r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{policy}<style>{style}</style>
<title>{title}</title>
</head>
"#
    )
}

const END: &str = "</html>\n";

/// What was put in is never looked at again: a user's text may hold a name too.
fn put_in<'a>(template: &str, parts: impl IntoIterator<Item = &'a (&'a str, String)>) -> String {
    let (mut page, mut rest) = (String::new(), template);
    for (name, content) in parts {
        if let Some((before, after)) = rest.split_once(&format!("{{{{{name}}}}}")) {
            page += before;
            page += content;
            rest = after;
        }
    }
    page + rest
}

/// `text` with what HTML takes for markup written out.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            c => escaped.push(c),
        }
    }
    escaped
}

/// A name and what it stands for, for a `<dl>`.
pub fn pair(name: &str, value: &str) -> String {
    format!("<dt>{}</dt><dd dir=\"auto\">{}</dd>\n", escape(name), escape(value))
}

/// The heading of a column whose cells have a `data-value` to sort by.
pub fn sortable(name: &str) -> String {
    format!(
        "<th scope=\"col\"><button type=\"button\">{name}<span aria-hidden=\"true\"></span></button></th>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_text_is_written_out() {
        assert_eq!(escape("<b a=\"'\">&"), "&lt;b a=&quot;&#39;&quot;&gt;&amp;");
        assert_eq!(pair("src", "<i>"), "<dt>src</dt><dd dir=\"auto\">&lt;i&gt;</dd>\n");
    }

    /// Whatever the text, none of it is markup, and it is read as it was.
    #[test]
    fn data_in_a_page_are_only_that() {
        let value = serde_json::json!({"src": "</script><!-- <script>&amp;\u{2028}\u{2029}\"\\"});
        let inside = embedded(&value);
        for dangerous in ["<", ">", "&", "\u{2028}", "\u{2029}"] {
            assert!(!inside.contains(dangerous), "{inside}");
        }
        assert_eq!(serde_json::from_str::<Value>(&inside).unwrap(), value);
    }

    #[test]
    fn floats_have_two_bytes() {
        assert_eq!(BASE64_STANDARD.decode(floats(&[1.0, -2.0])).unwrap(), [0x00, 0x3c, 0x00, 0xc0]);
    }

    #[test]
    fn parts_are_put_in_once_and_in_order() {
        let parts = [("a", "{{b}}".to_string()), ("b", "2".to_string())];
        assert_eq!(put_in("{{a}} {{b}}", &parts), "{{b}} 2");
        let page = fill("<body>{{a}}</body>\n", "", "<{{a}}>", &parts);
        assert!(page.contains("color-scheme: light dark") && page.contains("<title>&lt;{{a}}&gt;</title>"));
        assert!(page.ends_with("</head>\n<body>{{b}}</body>\n</html>\n"));
    }
}
