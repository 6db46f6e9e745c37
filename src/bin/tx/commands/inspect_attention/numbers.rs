//! All weights as text: an object or rows for each sentence.

use serde::Serialize;
use std::io::{self, Write};
use tx::model::trace::Kind;
use tx::translate::inspection::{Inspection, View};

#[derive(Serialize)]
struct Numbered<'a> {
    line: u64,
    #[serde(flatten)]
    inspection: &'a Inspection,
}

pub fn write_jsonl(out: &mut impl Write, found: &[(u64, Inspection)]) -> anyhow::Result<()> {
    for (line, inspection) in found {
        writeln!(out, "{}", serde_json::to_string(&Numbered { line: *line, inspection })?)?;
    }
    Ok(())
}

pub fn write_csv(out: &mut impl Write, found: &[(u64, Inspection)]) -> io::Result<()> {
    writeln!(out, "line,kind,layer,head,query,key,query_token,key_token,weight")?;
    for (line, inspection) in found {
        for &kind in Kind::ALL {
            write_rows(out, *line, &inspection.view(kind))?;
        }
    }
    Ok(())
}

fn write_rows(out: &mut impl Write, line: u64, view: &View) -> io::Result<()> {
    let View { name, weights, queries, keys } = view;
    for (layer, heads) in weights.iter().enumerate() {
        for (head, rows) in heads.iter().enumerate() {
            for (q, (row, query)) in rows.iter().zip(&queries.pieces).enumerate() {
                for (k, (weight, key)) in row.iter().zip(&keys.pieces).enumerate() {
                    let (query, key) = (quoted(query), quoted(key));
                    writeln!(out, "{line},{name},{layer},{head},{q},{k},{query},{key},{weight}")?;
                }
            }
        }
    }
    Ok(())
}

/// A CSV field (RFC 4180).
fn quoted(field: &str) -> String {
    format!("\"{}\"", field.replace('"', "\"\""))
}
