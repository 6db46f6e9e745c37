//! The profile as one page of HTML that needs nothing else.

use super::{Column, columns, facts, kind};
use crate::render::html::{SORT, escape, fill, pair, sortable};
use tx::translate::head_profile::{HeadProfile, Profile};

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");

/// The page of the model called `model`, over the files `files`.
pub fn page(model: &str, files: &str, profile: &Profile) -> String {
    let all: Vec<&Column> = columns(profile).collect();
    let head: String = ["attention", "layer", "head"]
        .into_iter()
        .chain(all.iter().map(|column| column.name))
        .map(sortable)
        .collect();
    let rows: String = profile.heads.iter().map(|head| row(head, &all)).collect();
    let title = format!("Heads of the model {model}");
    let parts = [
        ("title", escape(&title)),
        ("facts", pair("text", files) + &pair("pairs", &facts(profile))),
        ("columns", all.iter().map(|column| pair(column.name, column.meaning)).collect()),
        ("heads", format!("<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>")),
        ("script", SORT.to_string()),
    ];
    fill(TEMPLATE, STYLE, &title, &parts)
}

fn row(head: &HeadProfile, columns: &[&Column]) -> String {
    let place = head.place;
    let number = |n: usize| format!("<td class=\"n\" data-value=\"{n}\">{n}</td>");
    let mut cells =
        format!("<th scope=\"row\" data-value=\"{}\">{}</th>", place.kind as u8, kind(place.kind));
    cells += &(number(place.layer) + &number(place.head));
    for column in columns {
        cells += &match (column.value)(head) {
            Some(value) => {
                let bar = if column.is_share {
                    format!(" share\" style=\"--share: {:.3}", value.clamp(0.0, 1.0))
                } else {
                    String::new()
                };
                format!("<td class=\"n{bar}\" data-value=\"{value}\">{value:.*}</td>", column.decimals)
            }
            None => "<td class=\"n\" data-value=\"\"></td>".to_string(),
        };
    }
    format!("<tr>{cells}</tr>\n")
}
