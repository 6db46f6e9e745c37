//! A beam search as one page of HTML that needs nothing else: the record as JSON, and a script that draws it.

use super::View;
use crate::render::html::{Page, escape};

const PAGE: Page = Page {
    template: include_str!("page.html"),
    style: include_str!("style.css"),
    script: concat!(include_str!("record.js"), include_str!("tree.js"), include_str!("page.js")),
};

/// The page.
pub fn page(view: &View) -> anyhow::Result<String> {
    let best: String =
        view.n_best.iter().map(|one| format!("<li dir=\"auto\">{}</li>", escape(&one.text))).collect();
    let parts = [("heading", escape(view.text)), ("plain", best)];
    Ok(PAGE.fill(&format!("Beam search: {}", view.text), &parts, &view.to_json()?))
}
