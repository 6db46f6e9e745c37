//! What the heads do: a table on the terminal, and a page.

pub mod html;

use std::io::{self, Write};
use tx::model::trace::Kind;
use tx::translate::head_profile::{HeadProfile, Profile};

/// A column of the table.
pub struct Column {
    pub name: &'static str,
    pub meaning: &'static str,
    pub decimals: usize,
    /// Whether it is a share of 1.
    pub is_share: bool,
    pub value: fn(&HeadProfile) -> Option<f64>,
}

pub const COLUMNS: [Column; 9] = [
    Column {
        name: "entropy",
        meaning: "of a query's weights, in bits: 0 looks at one place, 3 at as many as 8",
        decimals: 2,
        is_share: false,
        value: |head| Some(head.entropy),
    },
    Column {
        name: "end",
        meaning: "weight on the end mark of the source; in the decoder's self-attention on the start mark",
        decimals: 2,
        is_share: true,
        value: |head| Some(head.end_mass),
    },
    Column {
        name: "offset",
        meaning: "how many places after its own a query looks on average; in cross-attention after the diagonal",
        decimals: 2,
        is_share: false,
        value: |head| Some(head.relative_position),
    },
    Column {
        name: "diagonal",
        meaning: "1: all weight on its own place; 0: no nearer to it than if spread evenly",
        decimals: 2,
        is_share: true,
        value: |head| Some(head.diagonality),
    },
    Column {
        name: "previous",
        meaning: "weight on the place before its own",
        decimals: 2,
        is_share: true,
        value: |head| Some(head.previous),
    },
    Column {
        name: "own",
        meaning: "weight on its own place",
        decimals: 2,
        is_share: true,
        value: |head| Some(head.current),
    },
    Column {
        name: "next",
        meaning: "weight on the place after its own",
        decimals: 2,
        is_share: true,
        value: |head| Some(head.next),
    },
    Column {
        name: "AER",
        meaning: "alignment error rate of its links between words against the gold alignment: 0 is best",
        decimals: 3,
        is_share: true,
        value: |head| head.aer,
    },
    Column {
        name: "loss",
        meaning: "what the negative log-likelihood per target token grows by without this head",
        decimals: 4,
        is_share: false,
        value: |head| head.loss,
    },
];

/// `encoder self`
pub fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::EncoderSelf => "encoder self",
        Kind::DecoderSelf => "decoder self",
        Kind::Cross => "cross",
    }
}

/// The columns that any head has a value in.
pub fn columns(profile: &Profile) -> impl Iterator<Item = &'static Column> + '_ {
    COLUMNS.iter().filter(|column| profile.heads.iter().any(|head| (column.value)(head).is_some()))
}

/// The facts above the table.
pub fn facts(profile: &Profile) -> String {
    let left_out = match profile.left_out {
        0 => String::new(),
        n => format!(", {n} left out (blank or too long)"),
    };
    format!("{} pairs{left_out}; negative log-likelihood {:.4} per target token", profile.pairs, profile.nll)
}

/// The table.
pub fn write(out: &mut impl Write, profile: &Profile) -> io::Result<()> {
    writeln!(out, "{}\n", facts(profile))?;
    let columns: Vec<&Column> = columns(profile).collect();
    let header: String = columns.iter().map(|column| format!(" {:>8}", column.name)).collect();
    writeln!(out, "attention     layer head{header}")?;
    for head in &profile.heads {
        let cell = |column: &&Column| match (column.value)(head) {
            Some(value) => format!(" {value:>8.*}", column.decimals),
            None => format!(" {:>8}", ""),
        };
        let cells: String = columns.iter().map(cell).collect();
        let row =
            format!("{:<13} {:>5} {:>4}{cells}", kind(head.place.kind), head.place.layer, head.place.head);
        writeln!(out, "{}", row.trim_end())?;
    }
    writeln!(out)?;
    columns.iter().try_for_each(|column| writeln!(out, "{:<9} {}", column.name, column.meaning))
}
