//! Attention weights as a heat map in characters. Wide characters (CJK) take two cells, combining marks none.

use super::attention::visible;
use super::pad;
use std::io::{self, Write};
use tx::translate::inspection::Map;
use unicode_width::UnicodeWidthStr;

/// A map, and how its weights are shaded.
pub struct HeatMap<'a> {
    pub map: &'a Map,
    pub shades: Shades,
}

/// How a weight is made visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shades {
    /// By block elements, where there are no colours.
    Letters,
    /// By the background, of 256 colours.
    Indexed { dark: bool },
    /// By the background, of 24 bits.
    Direct { dark: bool },
}

/// From little to much on a dark and on a light terminal, in the colour cube of 256.
const INDEXED: [[u8; 6]; 2] = [[17, 18, 19, 20, 27, 39], [195, 153, 117, 75, 33, 25]];
/// The same in red, green and blue: least and most.
const DIRECT: [[[f32; 3]; 2]; 2] =
    [[[18.0, 30.0, 52.0], [80.0, 170.0, 255.0]], [[222.0, 235.0, 248.0], [10.0, 88.0, 168.0]]];

impl Shades {
    /// What standard output can show.
    pub fn of_terminal() -> Self {
        let variable = |name| std::env::var(name).unwrap_or_default();
        // Text and background, as some terminals tell; most others are dark.
        let dark = !matches!(variable("COLORFGBG").rsplit(';').next(), Some("7" | "15"));
        match variable("COLORTERM").as_str() {
            _ if !console::colors_enabled() => Shades::Letters,
            "truecolor" | "24bit" => Shades::Direct { dark },
            _ => Shades::Indexed { dark },
        }
    }

    /// The cell of a weight, `text` filled up on the left to `width` columns.
    fn cell(self, weight: f32, width: usize) -> String {
        let percent = (weight * 100.0).round() as i32;
        let text = match (percent, self) {
            (..1, _) => "·".to_string(),
            (_, Shades::Letters) => format!("{}{percent:>2}", letter(percent)),
            _ => format!("{percent} "),
        };
        let text = format!("{}{text}", " ".repeat(width.saturating_sub(text.width())));
        let share = weight.clamp(0.0, 1.0).sqrt();
        let colours = match self {
            Shades::Indexed { dark } => {
                let ramp = INDEXED[usize::from(!dark)];
                format!("48;5;{}", ramp[((share * ramp.len() as f32) as usize).min(ramp.len() - 1)])
            }
            Shades::Direct { dark } => {
                let [least, most] = DIRECT[usize::from(!dark)];
                let [r, g, b] = [0, 1, 2].map(|i| (least[i] + share * (most[i] - least[i])).round() as u8);
                format!("48;2;{r};{g};{b}")
            }
            Shades::Letters => return text,
        };
        if percent < 1 {
            return text;
        }
        // What is bright has dark text.
        let dark = matches!(self, Shades::Indexed { dark: true } | Shades::Direct { dark: true });
        let ink = if dark == (share > 0.75) { 16 } else { 231 };
        format!("\x1b[38;5;{ink};{colours}m{text}\x1b[0m")
    }
}

pub fn letter(percent: i32) -> char {
    match percent {
        ..20 => ' ',
        20..40 => '░',
        40..60 => '▒',
        60..80 => '▓',
        80.. => '█',
    }
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
        let visible = |labels: &[String]| labels.iter().map(|label| visible(label)).collect::<Vec<_>>();
        let (queries, keys) = (visible(&self.map.queries), visible(&self.map.keys));
        let label_width = queries.iter().map(|token| token.width()).max().unwrap_or(0);
        let columns: Vec<usize> = keys.iter().map(|token| token.width().max(CELL)).collect();
        let is_narrow = label_width + columns.iter().map(|column| column + 1).sum::<usize>() > width;
        let (headers, columns): (Vec<String>, _) = if is_narrow {
            ((0..keys.len()).map(|k| k.to_string()).collect(), vec![CELL; columns.len()])
        } else {
            (keys.clone(), columns)
        };
        let header = |(text, &column): (&String, &usize)| {
            format!(" {}{text}", " ".repeat(column.saturating_sub(text.width())))
        };
        let headers: String = headers.iter().zip(&columns).map(header).collect();
        writeln!(out, "{}", format!("{}{headers}", pad("", label_width)).trim_end())?;
        for (query, row) in queries.iter().zip(&self.map.weights) {
            let cell = |(&weight, &column): (&f32, &usize)| format!(" {}", self.shades.cell(weight, column));
            let cells: String = row.iter().zip(&columns).map(cell).collect();
            writeln!(out, "{}", format!("{}{cells}", pad(query, label_width)).trim_end())?;
        }
        if is_narrow {
            let keys: Vec<String> =
                keys.iter().enumerate().map(|(k, token)| format!("{k} {token}")).collect();
            writeln!(out, "\ncolumns: {}", keys.join("  "))?;
        }
        Ok(())
    }
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
        let map = Map { queries, keys, weights };
        HeatMap { map: &map, shades: Shades::Letters }.write(&mut out, width).unwrap();
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

    /// The same columns with colours; nothing is painted behind a weight below half a percent.
    #[test]
    fn colours_by_hand() {
        let direct = |dark, weight| Shades::Direct { dark }.cell(weight, 4);
        assert_eq!(direct(true, 1.0), "\x1b[38;5;16;48;2;80;170;255m100 \x1b[0m");
        // A half of the way: (18 + 80) / 2, (30 + 170) / 2, (52 + 255) / 2
        assert_eq!(direct(true, 0.25), "\x1b[38;5;231;48;2;49;100;154m 25 \x1b[0m");
        assert_eq!(direct(false, 0.25), "\x1b[38;5;16;48;2;116;162;208m 25 \x1b[0m");
        assert_eq!(Shades::Indexed { dark: true }.cell(0.01, 4), "\x1b[38;5;231;48;5;17m  1 \x1b[0m");
        assert_eq!(Shades::Indexed { dark: false }.cell(0.99, 4), "\x1b[38;5;231;48;5;25m 99 \x1b[0m");
        assert_eq!(direct(true, 0.004), "   ·");
    }
}
