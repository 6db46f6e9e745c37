//! Attention as SVG: rectangles, and plain text in the fonts of whoever looks at it.

use super::visible;
use crate::render::html::escape;
use std::fmt::Write;
use tx::translate::inspection::Map;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Maps with what is said of them; the first axis is drawn from top to bottom.
pub struct Picture {
    pub title: String,
    /// What the rows and columns are.
    pub caption: String,
    /// A map alone has labels; of several each has its name.
    pub maps: Vec<Vec<(String, Map)>>,
}

const INK: &str = "#1b1d21";
const SOFT: &str = "#5a6270";
/// The colours of weight 0 and 1.
const EMPTY: [f32; 3] = [242.0, 244.0, 247.0];
const FULL: [f32; 3] = [10.0, 88.0, 168.0];

const MARGIN: f32 = 20.0;
/// Height of title and caption.
const HEAD: f32 = 52.0;
const FONT: f32 = 13.0;
/// Columns of the terminal that a label or a title takes at most.
const LABEL: usize = 18;
const TITLE: usize = 90;

/// About as wide as text is drawn: letters of one column of a terminal take little more than half their height.
fn width(text: &str) -> f32 {
    text.width() as f32 * 0.6 * FONT
}

/// The beginning of `text`, in `most` columns.
fn shortened(text: &str, most: usize) -> String {
    if text.width() <= most {
        return text.to_string();
    }
    let mut short = String::new();
    for c in text.chars() {
        if short.width() + c.width().unwrap_or(0) + 1 > most {
            break;
        }
        short.push(c);
    }
    short + "…"
}

/// By the square root, so that small weights can be told apart.
fn colour(weight: f32) -> String {
    let share = weight.clamp(0.0, 1.0).sqrt();
    let [r, g, b] = [0, 1, 2].map(|i| (EMPTY[i] + share * (FULL[i] - EMPTY[i])).round() as u8);
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// One piece of text; `place` has its attributes.
fn text(svg: &mut String, place: &str, size: f32, fill: &str, content: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(svg, "<text {place} font-size=\"{size}\" fill=\"{fill}\">{}</text>", escape(content));
}

/// A map whose upper left corner is at (x, y); `cell` is the width and height of its cells.
fn draw(svg: &mut String, map: &Map, (x, y): (f32, f32), cell: (f32, f32)) {
    let gap = if cell.1 > 6.0 { 1.0 } else { 0.0 };
    for (row, (query, weights)) in map.queries.iter().zip(&map.weights).enumerate() {
        for (column, (key, &weight)) in map.keys.iter().zip(weights).enumerate() {
            let (left, top) = (x + column as f32 * cell.0, y + row as f32 * cell.1);
            let (w, h, fill) = (cell.0 - gap, cell.1 - gap, colour(weight));
            let what = escape(&format!("{} looks at {}: {weight:.4}", visible(query), visible(key)));
            let _ = writeln!(
                svg,
                "<rect x=\"{left}\" y=\"{top}\" width=\"{w}\" height=\"{h}\" fill=\"{fill}\"><title>{what}</title></rect>"
            );
            if cell.1 >= 18.0 && weight >= 0.005 {
                let place =
                    format!("x=\"{}\" y=\"{}\" text-anchor=\"middle\"", left + w / 2.0, top + h / 2.0 + 4.0);
                // Where the contrast with either is the same.
                let fill = if weight > 0.55 { "#ffffff" } else { INK };
                text(svg, &place, 11.0, fill, &format!("{:.0}", weight * 100.0));
            }
        }
    }
}

/// Labels left of a map and standing above it.
fn labels(svg: &mut String, map: &Map, (x, y): (f32, f32), cell: (f32, f32)) {
    for (row, query) in map.queries.iter().enumerate() {
        let place =
            format!("x=\"{}\" y=\"{}\" text-anchor=\"end\"", x - 8.0, y + (row as f32 + 0.5) * cell.1 + 4.0);
        text(svg, &place, FONT, INK, &shortened(&visible(query), LABEL));
    }
    for (column, key) in map.keys.iter().enumerate() {
        let (across, down) = (x + (column as f32 + 0.5) * cell.0 + 4.0, y - 8.0);
        let place = format!("transform=\"translate({across} {down}) rotate(-90)\"");
        text(svg, &place, FONT, INK, &shortened(&visible(key), LABEL));
    }
}

/// Room that the labels take.
fn room(labels: &[String]) -> f32 {
    let widest = labels.iter().map(|label| width(&shortened(&visible(label), LABEL)));
    widest.fold(0.0, f32::max) + 14.0
}

/// The drawing.
pub fn svg(picture: &Picture) -> String {
    let mut body = String::new();
    let (title, caption) = (shortened(&picture.title, TITLE), shortened(&picture.caption, 2 * TITLE));
    text(&mut body, &format!("x=\"{MARGIN}\" y=\"34\" font-weight=\"600\""), 16.0, INK, &title);
    text(&mut body, &format!("x=\"{MARGIN}\" y=\"54\""), 12.0, SOFT, &caption);
    let top = MARGIN + HEAD;
    let (wide, high) = match picture.maps.as_slice() {
        [row] if row.len() == 1 => alone(&mut body, &row[0].1, top),
        rows => grid(&mut body, rows, top),
    };
    let heading = (width(&title) * 1.25).max(width(&caption) * 0.95) + MARGIN;
    let (wide, high) = (wide.max(heading) + MARGIN, high + MARGIN);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{wide}\" height=\"{high}\" viewBox=\"0 0 {wide} {high}\" \
         font-family=\"sans-serif\">\n<title>{}</title>\n<rect width=\"{wide}\" height=\"{high}\" fill=\"#ffffff\"/>\n{body}</svg>\n",
        escape(&picture.title)
    )
}

/// A map with its labels; gives where it ends.
fn alone(svg: &mut String, map: &Map, top: f32) -> (f32, f32) {
    let side = (900.0 / map.keys.len().max(map.queries.len()).max(1) as f32).floor().clamp(3.0, 30.0);
    let has_labels = side >= 13.0;
    let (x, y) = match has_labels {
        true => (MARGIN + room(&map.queries), top + room(&map.keys)),
        false => (MARGIN, top),
    };
    let cell = (side, if has_labels { side.min(26.0) } else { side });
    draw(svg, map, (x, y), cell);
    if has_labels {
        labels(svg, map, (x, y), cell);
    }
    (x + map.keys.len() as f32 * cell.0, y + map.queries.len() as f32 * cell.1)
}

/// Maps side by side, each below its name; gives where they end.
fn grid(svg: &mut String, rows: &[Vec<(String, Map)>], top: f32) -> (f32, f32) {
    let (mut wide, mut y) = (0.0f32, top);
    for row in rows {
        let (mut x, mut low) = (MARGIN, y);
        for (name, map) in row {
            let side = (150.0 / map.keys.len().max(map.queries.len()).max(1) as f32).clamp(0.5, 16.0);
            text(svg, &format!("x=\"{x}\" y=\"{}\"", y + 12.0), 12.0, SOFT, name);
            draw(svg, map, (x, y + 20.0), (side, side));
            low = low.max(y + 20.0 + side * map.queries.len() as f32);
            x += (side * map.keys.len() as f32).max(width(name)) + 16.0;
        }
        (wide, y) = (wide.max(x - 16.0), low + 16.0);
    }
    (wide, y - 16.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> Map {
        let owned = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect();
        Map { queries: owned(&["<b>", "y"]), keys: owned(&["a"]), weights: vec![vec![1.0], vec![0.25]] }
    }

    fn picture(maps: Vec<Vec<(String, Map)>>) -> String {
        svg(&Picture { title: "a & b".into(), caption: "cross".into(), maps })
    }

    #[test]
    fn a_map_alone_has_its_labels_values_and_colours() {
        let svg = picture(vec![vec![("one".into(), map())]]);
        for part in [
            "&lt;b&gt; looks at a: 1.0000",
            "y looks at a: 0.2500",
            ">a &amp; b</text>",
            "fill=\"#0a58a8\"",
            // Half way: (242 + 10) / 2, (244 + 88) / 2, (247 + 168) / 2
            "fill=\"#7ea6d0\"",
            ">100</text>",
            ">25</text>",
            "rotate(-90)",
        ] {
            assert!(svg.contains(part), "{part} {svg}");
        }
        assert!(!svg.contains("<b>") && !svg.contains("one"));
    }

    #[test]
    fn several_maps_have_their_names() {
        let svg =
            picture(vec![vec![("one".into(), map()), ("two".into(), map())], vec![("three".into(), map())]]);
        assert_eq!(svg.matches("<rect").count(), 1 + 3 * 2);
        for name in [">one<", ">two<", ">three<"] {
            assert!(svg.contains(name), "{svg}");
        }
    }

    #[test]
    fn long_labels_are_cut_by_columns() {
        assert_eq!(shortened("Donaudampfschifffahrt", 10), "Donaudamp…");
        assert_eq!(shortened("日本語日本語", 6), "日本…");
        assert_eq!(shortened("short", 5), "short");
    }
}
