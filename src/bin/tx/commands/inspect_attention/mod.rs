//! `tx inspect-attention`: which token looked at which.

mod inside;
mod npz;
mod numbers;

use super::{check_beam, check_folder, keep, open_all, open_input, options, usage_error, warn_of_sentences};
use crate::cli::{AlignmentUnit, AttentionKind, Head, InspectArgs, InspectFormat, Layer};
use crate::render::attention::html::{self, Start};
use crate::render::attention::png::png;
use crate::render::attention::svg::{Picture, svg};
use crate::render::heat_map::{self, HeatMap, Shades};
use anyhow::{Context, bail, ensure};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use tx::model::trace::Kind;
use tx::text::is_blank;
use tx::translate::alignment::Unit;
use tx::translate::inspection::{Inspection, Map, Shown, View, mean};
use tx::translate::{Line, Translator};

/// Maps with their names: rows are layers, columns heads.
type Maps = Vec<Vec<(String, Map)>>;

pub fn run(args: InspectArgs) -> anyhow::Result<ExitCode> {
    check(&args);
    for path in [&args.html, &args.svg, &args.png, &args.output].into_iter().flatten() {
        check_folder(path)?;
    }
    if let Some(code) = inside::run(&args)? {
        return Ok(code);
    }
    let lines = lines(&args)?;
    let (name, translator) = open_all(&args.search)?;
    let (found, failed) = inspect_all(&translator, lines, &args)?;
    layers(&found[0].1.view(kind(&args)), &args)?;
    if let Some(path) = &args.html {
        let languages =
            translator.languages().map_or(String::new(), |(src, tgt)| format!(" ({src} → {tgt})"));
        keep(path, html::page(&format!("{name}{languages}"), &found, &start(&args)).as_bytes())?;
    }
    if args.svg.is_some() || args.png.is_some() {
        draw(&found[0].1, &args)?;
    }
    if let Some(format) = format(&args) {
        write(format, &found, &args)?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Refuses what cannot be asked for together, before a model is loaded.
fn check(args: &InspectArgs) {
    let refuse = |message: &str| usage_error(message);
    check_beam(args.search.beam, 1);
    inside::check(args);
    let several = args.file.is_some() || !args.more.is_empty();
    let count = args.more.len() + 1;
    if !args.target.is_empty() && args.file.is_some() {
        refuse("--target goes with TEXT; with --file, give the translations by --target-file");
    }
    if !args.target.is_empty() && args.target.len() != count {
        refuse(&format!("{} times --target for {count} sentences: expected one for each", args.target.len()));
    }
    if args.format == Some(InspectFormat::Json) && several {
        refuse("--format json is one object for one sentence; jsonl has an object for each");
    }
    if args.format == Some(InspectFormat::Npz) && args.output.is_none() {
        refuse("--format npz is no text: say with --output FILE where to write it");
    }
    if (args.svg.is_some() || args.png.is_some()) && several {
        refuse("--svg and --png draw one sentence; --html has room for several");
    }
}

/// What goes out besides the files that are asked for: text, unless there are any.
fn format(args: &InspectArgs) -> Option<InspectFormat> {
    let draws = args.html.is_some() || args.svg.is_some() || args.png.is_some();
    args.format.or((!draws).then_some(InspectFormat::Text))
}

/// The lines of a file.
fn read(path: &Path) -> anyhow::Result<Vec<String>> {
    Ok(open_input(path)?.map(|line| Ok(line?.text)).collect::<tx::Result<_>>()?)
}

/// What to look at: sentences with their numbers, and the translations that are given.
fn lines(args: &InspectArgs) -> anyhow::Result<Vec<(Line, Option<String>)>> {
    let texts = match &args.file {
        Some(path) => read(path)?,
        None => args.sentence.iter().chain(&args.more).cloned().collect(),
    };
    let targets = match &args.target_file {
        Some(path) => {
            let targets = read(path)?;
            let (sentences, lines) = (texts.len(), targets.len());
            ensure!(
                sentences == lines,
                "{}: {lines} lines for {sentences} sentences: expected a translation for each",
                path.display()
            );
            targets
        }
        None => args.target.clone(),
    };
    let line = |(number, text)| Line { number, text, prefix: args.prefix.clone() };
    let targets = targets.into_iter().map(Some).chain(std::iter::repeat(None));
    Ok((1..).zip(texts).map(line).zip(targets).collect())
}

/// Looks at every sentence; of several those that cannot be looked at are told of, and blank ones no failure.
fn inspect_all(
    translator: &Translator,
    lines: Vec<(Line, Option<String>)>,
    args: &InspectArgs,
) -> anyhow::Result<(Vec<(u64, Inspection)>, bool)> {
    let options = options(&args.search);
    let (count, mut found, mut failed) = (lines.len(), Vec::new(), false);
    for (line, target) in lines {
        if count > 1 && is_blank(&line.text) {
            say!("tx: line {} is blank: there is nothing to look at", line.number);
            continue;
        }
        if target.is_none() {
            warn_of_sentences(translator, &line.text, &options);
        }
        match translator.inspect(&line, target.as_deref(), &options) {
            Ok(inspection) => found.push((line.number, inspection)),
            Err(error) if count == 1 => return Err(error.into()),
            Err(error) => {
                say!("tx: line {}: {error}", line.number);
                failed = true;
            }
        }
    }
    ensure!(!found.is_empty(), "there is no sentence to look at");
    Ok((found, failed))
}

fn kind(args: &InspectArgs) -> Kind {
    match args.kind {
        AttentionKind::EncoderSelf => Kind::EncoderSelf,
        AttentionKind::DecoderSelf => Kind::DecoderSelf,
        AttentionKind::Cross => Kind::Cross,
    }
}

fn shown(args: &InspectArgs) -> Shown {
    let unit = if args.unit == AlignmentUnit::Words { Unit::Words } else { Unit::Pieces };
    Shown { unit, marks: !args.hide_marks }
}

/// The layers that the flags choose, once it is sure that these have the head that they choose.
fn layers(view: &View, args: &InspectArgs) -> anyhow::Result<Vec<usize>> {
    let count = view.weights.len();
    let layers = match args.layer {
        None => vec![count.saturating_sub(1)],
        Some(Layer::All) => (0..count).collect(),
        Some(Layer::One(layer)) if layer < count => vec![layer],
        Some(Layer::One(layer)) => {
            bail!("--layer {layer}: {} attention has the layers 0 to {}", view.name, count.saturating_sub(1))
        }
    };
    for &layer in &layers {
        let heads = view.weights[layer].len();
        if let Head::One(head) = args.head
            && head >= heads
        {
            bail!("--head {head}: layer {layer} has the heads 0 to {} (or `mean`)", heads.saturating_sub(1));
        }
    }
    Ok(layers)
}

/// The maps that the flags choose.
fn maps(view: &View, args: &InspectArgs) -> anyhow::Result<Maps> {
    let map = |layer: usize| {
        let heads = &view.weights[layer];
        let map = |name, weights| (format!("layer {layer}, {name}"), view.map(weights, shown(args)));
        let head = |head: usize| map(format!("head {head}"), &heads[head]);
        match args.head {
            Head::Mean => vec![map(format!("mean of {} heads", heads.len()), &mean(heads))],
            Head::All => (0..heads.len()).map(head).collect(),
            Head::One(one) => vec![head(one)],
        }
    };
    Ok(layers(view, args)?.into_iter().map(map).collect())
}

/// What a page shows first.
fn start(args: &InspectArgs) -> Start {
    let layer = match args.layer {
        Some(Layer::One(layer)) => Some(layer),
        Some(Layer::All) | None => None,
    };
    let head = match args.head {
        Head::One(head) => Some(head),
        Head::Mean | Head::All => None,
    };
    Start { kind: kind(args), layer, head, shown: shown(args) }
}

/// What the rows of a map are.
fn sums(args: &InspectArgs) -> &'static str {
    if args.hide_marks { "sums to 100 without the marks" } else { "sums to 100" }
}

fn draw(inspection: &Inspection, args: &InspectArgs) -> anyhow::Result<()> {
    let view = inspection.view(kind(args));
    let maps = maps(&view, args)?;
    let name = match maps.as_slice() {
        [row] if row.len() == 1 => format!(", {}", row[0].0),
        _ => String::new(),
    };
    let caption = format!("{} attention{name}: each row is a query and {}", view.name, sums(args));
    draw_picture(&Picture { title: format!("{} → {}", inspection.src, inspection.tgt), caption, maps }, args)
}

/// Writes the picture in the forms that are asked for.
fn draw_picture(picture: &Picture, args: &InspectArgs) -> anyhow::Result<()> {
    let drawing = svg(picture);
    if let Some(path) = &args.svg {
        keep(path, drawing.as_bytes())?;
    }
    if let Some(path) = &args.png {
        let png = png(&drawing)?;
        if !png.has_fonts {
            say!("tx: no font was found on this machine: the picture has no text");
        }
        if !png.missing.is_empty() {
            let missing: Vec<String> =
                png.missing.iter().map(|&c| format!("{c} (U+{:04X})", u32::from(c))).collect();
            say!("tx: no font of this machine has {}: install one that has", missing.join(", "));
        }
        keep(path, &png.bytes)?;
    }
    Ok(())
}

fn write(format: InspectFormat, found: &[(u64, Inspection)], args: &InspectArgs) -> anyhow::Result<()> {
    to_output(args, |mut out| print(&mut out, format, found, args))
}

/// What `print` writes, to --output or standard output.
fn to_output(
    args: &InspectArgs,
    print: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let Some(path) = &args.output else {
        let mut out = BufWriter::new(io::stdout().lock());
        print(&mut out)?;
        return out.flush().context("standard output");
    };
    let mut bytes = Vec::new();
    print(&mut bytes)?;
    keep(path, &bytes)
}

/// The formats that are text.
fn print(
    out: &mut impl Write,
    format: InspectFormat,
    found: &[(u64, Inspection)],
    args: &InspectArgs,
) -> anyhow::Result<()> {
    match format {
        InspectFormat::Text => {
            for (at, (_, inspection)) in found.iter().enumerate() {
                print_maps(out, inspection, args, at > 0)?;
            }
            Ok(())
        }
        InspectFormat::Json => Ok(writeln!(out, "{}", serde_json::to_string(&found[0].1)?)?),
        InspectFormat::Jsonl => numbers::write_jsonl(out, found),
        InspectFormat::Csv => numbers::write_csv(out, found).context("standard output"),
        InspectFormat::Npz => Ok(out.write_all(&npz::archive(found)?)?),
    }
}

/// How maps are shaded where they go.
fn shades(args: &InspectArgs) -> Shades {
    if args.output.is_some() { Shades::Letters } else { Shades::of_terminal() }
}

fn print_maps(
    out: &mut impl Write,
    inspection: &Inspection,
    args: &InspectArgs,
    follows: bool,
) -> anyhow::Result<()> {
    let view = inspection.view(kind(args));
    if follows {
        writeln!(out)?;
    }
    writeln!(out, "{} → {}", inspection.src, inspection.tgt)?;
    for (at, (name, map)) in maps(&view, args)?.iter().flatten().enumerate() {
        let gap = if at > 0 { "\n" } else { "" };
        writeln!(out, "{gap}{} attention, {name}: each row is a query and {}\n", view.name, sums(args))?;
        HeatMap { map, shades: shades(args) }.write(out, heat_map::terminal_width())?;
    }
    Ok(())
}
