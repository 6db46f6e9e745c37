//! Attention weights as a heat map in characters. Wide characters (CJK) take two cells, combining marks none.

use super::pad;
use std::io::{self, Write};
use unicode_width::UnicodeWidthStr;

/// One matrix of weights with the tokens of its rows and columns.
pub struct HeatMap<'a> {
    pub queries: &'a [String],
    pub keys: &'a [String],
    /// [query][key]
    pub weights: &'a [Vec<f32>],
}

/// The mean over the first axis of [head][query][key].
pub fn mean(heads: &[Vec<Vec<f32>>]) -> Vec<Vec<f32>> {
    let Some(first) = heads.first() else { return Vec::new() };
    let cell = |q: usize, k: usize| heads.iter().map(|head| head[q][k]).sum::<f32>() / heads.len() as f32;
    first.iter().enumerate().map(|(q, row)| (0..row.len()).map(|k| cell(q, k)).collect()).collect()
}

/// Columns of the terminal; 100 where there is none.
pub fn terminal_width() -> usize {
    console::Term::stdout().size_checked().map_or(100, |(_, columns)| usize::from(columns))
}

/// Cells of a shade and a percentage up to 100.
const CELL: usize = 4;

impl HeatMap<'_> {
    /// Draws it at most `width` columns wide if it can be: with the keys above their columns, else numbered columns and
    /// a list of the keys.
    pub fn write(&self, out: &mut impl Write, width: usize) -> io::Result<()> {
        let label_width = self.queries.iter().map(|token| token.width()).max().unwrap_or(0);
        let columns: Vec<usize> = self.keys.iter().map(|token| token.width().max(CELL)).collect();
        let is_narrow = label_width + columns.iter().map(|column| column + 1).sum::<usize>() > width;
        let (headers, columns) = if is_narrow {
            ((0..self.keys.len()).map(|k| k.to_string()).collect(), vec![CELL; columns.len()])
        } else {
            (self.keys.to_vec(), columns)
        };
        self.write_row(out, &pad("", label_width), headers.iter().zip(&columns))?;
        for (query, row) in self.queries.iter().zip(self.weights) {
            let cells: Vec<String> = row.iter().map(|&weight| cell(weight)).collect();
            self.write_row(out, &pad(query, label_width), cells.iter().zip(&columns))?;
        }
        if is_narrow {
            let keys: Vec<String> =
                self.keys.iter().enumerate().map(|(k, token)| format!("{k} {token}")).collect();
            writeln!(out, "\ncolumns: {}", keys.join("  "))?;
        }
        Ok(())
    }

    fn write_row<'a>(
        &self,
        out: &mut impl Write,
        label: &str,
        cells: impl Iterator<Item = (&'a String, &'a usize)>,
    ) -> io::Result<()> {
        let mut line = label.to_string();
        for (text, &column) in cells {
            line.push(' ');
            line.push_str(&" ".repeat(column.saturating_sub(text.width())));
            line.push_str(text);
        }
        writeln!(out, "{}", line.trim_end())
    }
}

/// The share in percent with a shade before it; nothing below half a percent.
fn cell(weight: f32) -> String {
    let percent = (weight * 100.0).round() as i32;
    let shade = match percent {
        ..1 => return "·".into(),
        1..20 => ' ',
        20..40 => '░',
        40..60 => '▒',
        60..80 => '▓',
        80.. => '█',
    };
    format!("{shade}{percent:>2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(queries: &[&str], keys: &[&str], weights: &[&[f32]], width: usize) -> String {
        let owned =
            |tokens: &[&str]| -> Vec<String> { tokens.iter().map(|token| token.to_string()).collect() };
        let (queries, keys) = (owned(queries), owned(keys));
        let weights: Vec<Vec<f32>> = weights.iter().map(|row| row.to_vec()).collect();
        let mut out = Vec::new();
        HeatMap { queries: &queries, keys: &keys, weights: &weights }.write(&mut out, width).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn wide_characters_keep_the_columns_straight() {
        let map =
            draw(&["나는", "a"], &["▁ich", "日本語", "</s>"], &[&[0.9, 0.1, 0.0], &[0.25, 0.25, 0.5]], 80);
        let expected = "     ▁ich 日本語 </s>\n나는  █90     10    ·\na     ░25    ░25  ▒50\n";
        assert_eq!(map, expected);
        let widths: Vec<usize> = map.lines().map(UnicodeWidthStr::width).collect();
        assert_eq!(widths, [21, 21, 21]);
    }

    #[test]
    fn a_narrow_terminal_gets_numbered_columns() {
        let map = draw(&["a"], &["Donaudampf", "schifffahrt"], &[&[0.5, 0.5]], 20);
        assert_eq!(map, "     0    1\na  ▒50  ▒50\n\ncolumns: 0 Donaudampf  1 schifffahrt\n");
    }

    #[test]
    fn mean_by_hand() {
        assert_eq!(mean(&[vec![vec![1.0, 0.0]], vec![vec![0.5, 0.5]]]), [[0.75, 0.25]]);
    }
}
