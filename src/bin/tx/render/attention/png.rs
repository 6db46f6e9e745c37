//! A drawing in SVG as PNG, with the text in the fonts of this machine.

use anyhow::Context;
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{FontResolver, Options, Tree, fontdb};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// What plain text is drawn in where it has the letters; each system has one of them.
const FAMILIES: [&str; 8] =
    ["Noto Sans", "DejaVu Sans", "Liberation Sans", "Arial", "Helvetica", "Segoe UI", "Cantarell", "Ubuntu"];

/// Pixels for each unit of the drawing, and most of them on a side: larger drawings have fewer.
const SCALE: f32 = 2.0;
const LONGEST: f32 = 8000.0;

/// A picture, and what it lacks.
pub struct Png {
    pub bytes: Vec<u8>,
    /// Characters that no font has.
    pub missing: BTreeSet<char>,
    /// Whether there is any font.
    pub has_fonts: bool,
}

/// Draws `svg`. In the place of a character that no font has is a question mark: it would take the rest of its text with it.
pub fn png(svg: &str) -> anyhow::Result<Png> {
    let fonts = Arc::new(fonts());
    let (mut svg, mut missing) = (svg.to_string(), BTreeSet::new());
    let tree = loop {
        let (tree, found) = lay_out(&svg, &fonts)?;
        if found.is_subset(&missing) {
            break tree;
        }
        for &c in &found {
            svg = svg.replace(c, "?");
        }
        missing.extend(found);
    };
    let size = tree.size();
    let scale = SCALE.min(LONGEST / size.width().max(size.height()));
    let (width, height) = ((size.width() * scale).ceil() as u32, (size.height() * scale).ceil() as u32);
    let mut pixels = Pixmap::new(width, height).with_context(|| format!("{width} x {height} pixels"))?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
    let bytes = pixels.encode_png().context("the picture")?;
    Ok(Png { bytes, missing, has_fonts: !fonts.is_empty() })
}

/// Those of this machine.
fn fonts() -> fontdb::Database {
    let mut fonts = fontdb::Database::new();
    fonts.load_system_fonts();
    let has = |family: &str| fonts.faces().any(|face| face.families.iter().any(|(name, _)| name == family));
    let first = || fonts.faces().next().map(|face| face.families[0].0.clone());
    if let Some(family) = FAMILIES.into_iter().find(|family| has(family)).map(String::from).or_else(first) {
        fonts.set_sans_serif_family(family);
    }
    fonts
}

/// The drawing with its text put into glyphs, and characters that no font has.
fn lay_out(svg: &str, fonts: &Arc<fontdb::Database>) -> anyhow::Result<(Tree, BTreeSet<char>)> {
    let missing = Mutex::new(BTreeSet::new());
    let usual = FontResolver::default_fallback_selector();
    let resolver = FontResolver {
        select_fallback: Box::new(|c, tried, fonts| {
            // The usual choice is the first font that has it, which may be slanted or bold: at first of the plain ones alone.
            let others = fonts.faces().filter(|face| !is_plain(face)).map(|face| face.id);
            let all_but_plain: Vec<fontdb::ID> = tried.iter().copied().chain(others).collect();
            let found = usual(c, &all_but_plain, fonts).or_else(|| usual(c, tried, fonts));
            if found.is_none() {
                missing.lock().unwrap_or_else(PoisonError::into_inner).insert(c);
            }
            found
        }),
        ..FontResolver::default()
    };
    let options = Options { fontdb: fonts.clone(), font_resolver: resolver, ..Options::default() };
    let tree = Tree::from_str(svg, &options).context("the drawing")?;
    drop(options);
    Ok((tree, missing.into_inner().unwrap_or_else(PoisonError::into_inner)))
}

/// Whether it goes with sans-serif text, or has the pictures of emoji.
fn is_plain(face: &fontdb::FaceInfo) -> bool {
    let is_named = |part: &str| face.families.iter().any(|(name, _)| name.contains(part));
    let (style, weight, stretch) = (fontdb::Style::Normal, fontdb::Weight::NORMAL, fontdb::Stretch::Normal);
    (face.style, face.weight, face.stretch) == (style, weight, stretch)
        && (is_named("Sans") || is_named("Emoji"))
        && !is_named("Mono")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twice the size of the drawing, with its colour; a private character is in no font.
    #[test]
    fn pixels_and_missing_characters() {
        let svg = |text: &str| {
            format!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"4\" height=\"3\"><rect width=\"4\" height=\"3\" fill=\"#0a58a8\"/>\
                 <text y=\"90\" font-family=\"sans-serif\">{text}</text></svg>"
            )
        };
        let plain = png(&svg("a")).unwrap();
        let pixels = Pixmap::decode_png(&plain.bytes).unwrap();
        assert_eq!((pixels.width(), pixels.height()), (8, 6));
        let pixel = pixels.pixel(3, 3).unwrap();
        assert_eq!((pixel.red(), pixel.green(), pixel.blue()), (10, 88, 168));
        assert!(plain.missing.is_empty());
        let odd = png(&svg("\u{10fffd} \u{10fffc}")).unwrap();
        let missing = if odd.has_fonts { vec!['\u{10fffc}', '\u{10fffd}'] } else { vec![] };
        assert_eq!(Vec::from_iter(odd.missing), missing);
    }
}
