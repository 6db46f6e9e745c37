//! A beam search as one page of HTML that needs nothing else: the record as JSON, and a script that draws it.

use super::View;
use crate::render::html::{escape, fill};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

const TEMPLATE: &str = include_str!("page.html");
const SCRIPT: &str = concat!(include_str!("record.js"), include_str!("tree.js"), include_str!("page.js"));
const STYLE: &str = include_str!("style.css");

/// The page. The browser is told to run this script alone and to load nothing.
pub fn page(view: &View) -> anyhow::Result<String> {
    let hash = STANDARD.encode(Sha256::digest(SCRIPT));
    let policy =
        format!("default-src 'none'; script-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'");
    let best: String =
        view.n_best.iter().map(|one| format!("<li dir=\"auto\">{}</li>", escape(&one.text))).collect();
    let parts = [
        ("own_style", STYLE.into()),
        ("policy", escape(&policy)),
        ("title", escape(&format!("Beam search: {}", view.text))),
        ("heading", escape(view.text)),
        ("plain", best),
        ("record", embedded(&view.to_json()?.to_string())),
        ("script", SCRIPT.into()),
    ];
    Ok(fill(TEMPLATE, &parts))
}

/// JSON that can stand in a `<script>`: nothing in it ends or opens an element or a comment, or ends a line of JavaScript.
fn embedded(json: &str) -> String {
    let json = json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    json.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::embedded;
    use serde_json::{Value, json};

    /// Whatever the text, none of it is markup, and it is read as it was.
    #[test]
    fn a_record_in_a_page_is_only_that() {
        let value = json!({"src": "</script><!-- <script>&amp;\u{2028}\u{2029}\"\\"});
        let inside = embedded(&value.to_string());
        for dangerous in ["<", ">", "&", "\u{2028}", "\u{2029}"] {
            assert!(!inside.contains(dangerous), "{inside}");
        }
        assert_eq!(serde_json::from_str::<Value>(&inside).unwrap(), value);
    }
}
