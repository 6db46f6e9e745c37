//! The positional encoding as a picture: waves that grow longer from column to column (section 3.5).

use super::heat_map::{letter, terminal_width};
use std::io::{self, Write};
use tx::translate::inspection::Map;

/// Columns of the terminal before the picture.
const LABEL: usize = 5;

/// One character for each dimension, or for every second, third ... where the terminal is narrow.
pub fn write(out: &mut impl Write, rows: &[Vec<f32>]) -> io::Result<()> {
    let d = rows.first().map_or(0, Vec::len);
    let every = d.div_ceil(terminal_width().saturating_sub(LABEL + 1).max(1)).max(1);
    let each = if every == 1 { String::new() } else { format!(", of which every {every}th is shown") };
    writeln!(out, "rows: positions; columns: {d} dimensions{each}; from -1 (blank) to 1 (█)\n")?;
    for (position, row) in rows.iter().enumerate() {
        let shades: String =
            row.iter().step_by(every).map(|&x| letter(((x + 1.0) * 50.0).round() as i32)).collect();
        writeln!(out, "{position:>LABEL$} {}", shades.trim_end())?;
    }
    Ok(())
}

/// The same to be drawn.
pub fn map(rows: &[Vec<f32>]) -> Map {
    // Every so many rows and columns have a number.
    let labels = |count: usize, every: usize| -> Vec<String> {
        (0..count).map(|n| if n % every == 0 { n.to_string() } else { String::new() }).collect()
    };
    let d = rows.first().map_or(0, Vec::len);
    // Colours go by the square root.
    let share = |x: &f32| ((x + 1.0) / 2.0).powi(2);
    let weights = rows.iter().map(|row| row.iter().map(share).collect()).collect();
    Map { queries: labels(rows.len(), 5), keys: labels(d, 16), weights }
}
