//! What is drawn: on a terminal, and as pages of HTML.

pub mod attention;
pub mod beam;
pub mod comparison;
#[cfg(feature = "hub")]
pub mod download_bar;
pub mod evaluation;
pub mod heat_map;
pub mod html;
pub mod lines_bar;
pub mod positions;
pub mod profile;
pub mod progress;
pub mod report;
pub mod translations;
pub mod walk;

use unicode_width::UnicodeWidthStr;

/// `text` filled up with blanks to `width` cells of the terminal.
pub fn pad(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}
