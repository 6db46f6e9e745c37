//! `tx inspect-attention`: which token looked at which.

use super::{check_beam, options, translator, warn_of_sentences};
use crate::cli::{AttentionKind, Head, InspectArgs, InspectFormat};
use crate::render::heat_map::{self, HeatMap};
use anyhow::{Context, bail};
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use tx::translate::inspection::{Inspection, Weights};

pub fn run(args: InspectArgs) -> anyhow::Result<ExitCode> {
    check_beam("inspect-attention", args.search.beam, 1);
    let translator = translator(&args.search)?;
    let options = options(&args.search);
    warn_of_sentences(&translator, &args.sentence, &options);
    let inspection = translator.inspect(&args.sentence, args.target.as_deref(), &options)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let written = match args.format {
        InspectFormat::Text => write_text(&mut out, &inspection, &args)?,
        InspectFormat::Json => writeln!(out, "{}", serde_json::to_string(&inspection)?),
        InspectFormat::Csv => write_csv(&mut out, &inspection),
    };
    written.and_then(|()| out.flush()).context("standard output")?;
    Ok(ExitCode::SUCCESS)
}

/// One kind of attention with the tokens of its axes.
struct View<'a> {
    kind: &'a str,
    weights: &'a Weights,
    queries: &'a [String],
    keys: &'a [String],
}

fn view(inspection: &Inspection, kind: AttentionKind) -> View<'_> {
    let Inspection { src_tokens, tgt_in, tgt_out, .. } = inspection;
    match kind {
        AttentionKind::EncoderSelf => View {
            kind: "encoder_self",
            weights: &inspection.encoder_self,
            queries: src_tokens,
            keys: src_tokens,
        },
        AttentionKind::DecoderSelf => {
            View { kind: "decoder_self", weights: &inspection.decoder_self, queries: tgt_out, keys: tgt_in }
        }
        AttentionKind::Cross => {
            View { kind: "cross", weights: &inspection.cross, queries: tgt_out, keys: src_tokens }
        }
    }
}

fn write_text(
    out: &mut impl Write,
    inspection: &Inspection,
    args: &InspectArgs,
) -> anyhow::Result<io::Result<()>> {
    let view = view(inspection, args.kind);
    let layers = view.weights.len();
    let layer = args.layer.unwrap_or(layers.saturating_sub(1));
    let Some(heads) = view.weights.get(layer) else {
        bail!("--layer {layer}: {} attention has the layers 0 to {}", view.kind, layers.saturating_sub(1));
    };
    let (weights, head) = match args.head {
        Head::Mean => (heat_map::mean(heads), format!("mean of {} heads", heads.len())),
        Head::One(head) => match heads.get(head) {
            Some(weights) => (weights.clone(), format!("head {head}")),
            None => bail!("--head {head}: layer {layer} has the heads 0 to {} (or `mean`)", heads.len() - 1),
        },
    };
    let map = HeatMap { queries: view.queries, keys: view.keys, weights: &weights };
    let mut write = || -> io::Result<()> {
        writeln!(out, "{} → {}", inspection.src, inspection.tgt)?;
        writeln!(
            out,
            "{} attention, layer {layer}, {head}: each row is a query and sums to 100\n",
            view.kind
        )?;
        map.write(out, heat_map::terminal_width())
    };
    Ok(write())
}

fn write_csv(out: &mut impl Write, inspection: &Inspection) -> io::Result<()> {
    writeln!(out, "kind,layer,head,query,key,query_token,key_token,weight")?;
    for kind in [AttentionKind::EncoderSelf, AttentionKind::DecoderSelf, AttentionKind::Cross] {
        let View { kind, weights, queries, keys } = view(inspection, kind);
        for (layer, heads) in weights.iter().enumerate() {
            for (head, rows) in heads.iter().enumerate() {
                for (q, (row, query)) in rows.iter().zip(queries).enumerate() {
                    for (k, (weight, key)) in row.iter().zip(keys).enumerate() {
                        let (query, key) = (quoted(query), quoted(key));
                        writeln!(out, "{kind},{layer},{head},{q},{k},{query},{key},{weight}")?;
                    }
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
