//! Attention as pictures: a page of HTML, SVG and PNG.

pub mod html;
pub mod png;
pub mod svg;

use unicode_width::UnicodeWidthChar;

/// Blanks, and what only says how other characters are shown.
fn is_invisible(c: char) -> bool {
    c.is_whitespace()
        || c.is_control()
        || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}')
}

/// A token that can be seen by itself, also if it is only a part of a character: a combining mark has a circle to stand on,
/// and what is invisible gives its code.
pub fn visible(token: &str) -> String {
    if token.chars().all(is_invisible) {
        let codes: Vec<String> = token.chars().map(|c| format!("U+{:04X}", u32::from(c))).collect();
        codes.join(" ")
    } else if token.chars().next().is_some_and(|c| c.width() == Some(0) && !is_invisible(c)) {
        format!("\u{25cc}{token}")
    } else {
        token.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_characters_can_be_seen() {
        let cases = [
            ("▁a", "▁a"),
            ("<0xE2>", "<0xE2>"),
            ("\u{308}", "\u{25cc}\u{308}"),
            ("\u{200d}", "U+200D"),
            ("\u{fe0f}", "U+FE0F"),
            ("\u{a0}\u{3000}", "U+00A0 U+3000"),
            ("👩", "👩"),
        ];
        for (token, expected) in cases {
            assert_eq!(visible(token), expected);
        }
    }
}
