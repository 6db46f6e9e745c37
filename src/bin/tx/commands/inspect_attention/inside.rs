//! What else there is to see: the walk, the profile of the heads, neighbours, positions.

use super::{draw_picture, format, read, shades, to_output};
use crate::cli::{Head, InspectArgs, InspectFormat, Layer};
use crate::commands::{keep, open_all, options, usage_error};
use crate::render::attention::svg::Picture;
use crate::render::walk::text::Choice;
use crate::render::{positions, profile, walk};
use anyhow::{Context, bail, ensure};
use indicatif::ProgressBar;
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;
use tx::candle_core::{Device, Tensor};
use tx::checkpoint::{self, AlignmentHead};
use tx::model::embedding::positional_encoding;
use tx::model::trace::Kind;
use tx::translate::gold::Gold;
use tx::translate::head_profile::Profile;
use tx::translate::walk::{Stage, Walk};
use tx::translate::{Line, Translator};

/// Refuses what cannot be asked for together, before a model is loaded.
pub fn check(args: &InspectArgs) {
    let inside = &args.inside;
    if !inside.walk && !inside.needs_no_sentence() {
        return;
    }
    let refuse = |message: String| usage_error(message);
    let name = match inside {
        inside if inside.walk => "--walk",
        inside if inside.positions.is_some() => "--positions",
        inside if inside.neighbours.is_some() => "--neighbours",
        _ => "--profile",
    };
    if inside.needs_no_sentence() && (args.sentence.is_some() || args.file.is_some()) {
        refuse(format!("{name} is not about a sentence: leave TEXT out"));
    }
    if inside.walk && (args.file.is_some() || !args.more.is_empty()) {
        refuse("--walk follows one sentence".into());
    }
    let has_page = inside.walk || !inside.profile.is_empty();
    let has_picture = inside.positions.is_some();
    for (flag, path, fits) in [
        ("--html", &args.html, has_page),
        ("--svg", &args.svg, has_picture),
        ("--png", &args.png, has_picture),
    ] {
        if path.is_some() && !fits {
            refuse(format!("{flag} is not for {name}"));
        }
    }
    if !matches!(args.format, None | Some(InspectFormat::Text | InspectFormat::Json)) {
        refuse(format!("{name} has the formats text and json"));
    }
}

/// What is asked for instead of maps; none if that is nothing.
pub fn run(args: &InspectArgs) -> anyhow::Result<Option<ExitCode>> {
    if !args.inside.walk && !args.inside.needs_no_sentence() {
        return Ok(None);
    }
    let (name, translator) = open_all(&args.search)?;
    let inside = &args.inside;
    if let Some(count) = inside.positions {
        see_positions(&translator, count, args)?;
    } else if let Some(word) = &inside.neighbours {
        see_neighbours(&translator, word, args)?;
    } else if inside.walk {
        see_walk(&name, &translator, args)?;
    } else {
        see_profile(&name, &translator, args)?;
    }
    Ok(Some(ExitCode::SUCCESS))
}

fn see_walk(name: &str, translator: &Translator, args: &InspectArgs) -> anyhow::Result<()> {
    let config = translator.model().config();
    let layers = config.encoder.layers.max(config.decoder.layers);
    let heads = config.encoder.heads.max(config.decoder.heads);
    let layer = match args.layer {
        Some(Layer::One(layer)) => layer,
        _ => 0,
    };
    let head = if let Head::One(head) = args.head { head } else { 0 };
    ensure!(layer < layers, "--layer {layer}: the model has the layers 0 to {}", layers - 1);
    ensure!(head < heads, "--head {head}: the model has the heads 0 to {}", heads - 1);
    let choice = Choice { layer, head, shades: shades(args) };
    let text = args.sentence.clone().unwrap_or_default();
    let line = Line { number: 1, text, prefix: args.prefix.clone() };
    let walk = translator.walk(&line, args.target.first().map(String::as_str), &options(&args.search))?;
    if let Some(path) = &args.html {
        keep(path, walk::html::page(name, &walk, config)?.as_bytes())?;
    }
    match format(args) {
        None => Ok(()),
        Some(InspectFormat::Json) => {
            let json = walk_json(&walk, config)?;
            to_output(args, |out| Ok(writeln!(out, "{json}")?))
        }
        Some(_) => to_output(args, |mut out| Ok(walk::text::write(&mut out, &walk, config, choice)?)),
    }
}

fn walk_json(walk: &Walk, config: &tx::config::Config) -> anyhow::Result<Value> {
    let stage = |stage: &Stage| -> anyhow::Result<Value> {
        let (equation, section) = stage.quantity.equation(config);
        let values = match stage.values.rank() {
            3 => json!(stage.values.to_vec3::<f32>()?),
            _ => json!(stage.values.to_vec2::<f32>()?),
        };
        Ok(json!({
            "place": stage.place, "quantity": stage.quantity, "equation": equation, "section": section,
            "shape": stage.values.dims(), "values": values,
        }))
    };
    let stages = walk.stages.iter().map(stage).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(json!({
        "src": walk.src, "tgt": walk.tgt, "src_tokens": walk.src_tokens, "tgt_in": walk.tgt_in, "stages": stages,
        "answers": walk.answers,
    }))
}

fn see_profile(name: &str, translator: &Translator, args: &InspectArgs) -> anyhow::Result<()> {
    let inside = &args.inside;
    let kept_in = inside.store_alignment_head.then(|| folder(args)).transpose()?;
    let [src_path, rest @ ..] = inside.profile.as_slice() else { bail!("--profile needs a file") };
    let src = read(src_path)?;
    let tgt = match rest.first() {
        Some(path) => read(path)?,
        None => {
            let lines: Vec<(u64, String)> = (1..).zip(src.iter().cloned()).collect();
            let found = translator.translate(lines, &options(&args.search))?;
            found
                .into_iter()
                .map(|found| found.hypotheses.into_iter().next().map_or(String::new(), |best| best.text))
                .collect()
        }
    };
    ensure!(
        src.len() == tgt.len(),
        "{} has {} lines and {} has {}: line N of one must translate line N of the other",
        src_path.display(),
        src.len(),
        rest.first().map_or(String::new(), |path| path.display().to_string()),
        tgt.len()
    );
    let gold = inside.gold.as_deref().map(|path| gold(path, src.len())).transpose()?;
    let pairs: Vec<(String, String)> = src.into_iter().zip(tgt).collect();
    let bar = ProgressBar::new(1);
    let found = translator.profile_heads(&pairs, gold.as_deref(), !inside.no_losses, &mut |done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    let found = found?;
    if let Some(path) = &args.html {
        let files: Vec<String> = inside.profile.iter().map(|path| path.display().to_string()).collect();
        keep(path, profile::html::page(name, &files.join(", "), &found).as_bytes())?;
    }
    match format(args) {
        None => {}
        Some(InspectFormat::Json) => to_output(args, |out| Ok(writeln!(out, "{}", json!(found))?))?,
        Some(_) => to_output(args, |mut out| Ok(profile::write(&mut out, &found)?))?,
    }
    kept_in.map_or(Ok(()), |folder| store(translator, &pairs, &found, folder))
}

fn gold(path: &Path, expected: usize) -> anyhow::Result<Vec<Gold>> {
    let lines = read(path)?;
    let found = lines.len();
    ensure!(
        found == expected,
        "{}: {found} lines for {expected} pairs: expected an alignment for each",
        path.display()
    );
    let parse = |(number, line): (usize, &String)| {
        line.parse::<Gold>().map_err(|what| anyhow::anyhow!("{}:{number}: {what}", path.display()))
    };
    (1..).zip(&lines).map(parse).collect()
}

/// The model directory that a head is to be kept in.
fn folder(args: &InspectArgs) -> anyhow::Result<&Path> {
    let Some(path) = args.search.model.first() else {
        bail!("the model inside the program cannot be changed: name a model directory by --model");
    };
    ensure!(path.is_dir(), "{}: a head can only be kept in a model directory", path.display());
    Ok(path)
}

/// Keeps the head that aligns best in the model directory.
fn store(
    translator: &Translator,
    pairs: &[(String, String)],
    found: &Profile,
    folder: &Path,
) -> anyhow::Result<()> {
    let cross = found.heads.iter().filter(|head| head.place.kind == Kind::Cross);
    let rated = cross.filter_map(|head| Some((head.aer?, head.place)));
    let best = match rated.min_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((_, place)) => Some(AlignmentHead { layer: place.layer, head: Some(place.head) }),
        None => translator.find_alignment_head(pairs)?,
    };
    let best = best.context("no head could be found: there is nothing to align")?;
    checkpoint::store_alignment_head(folder, best)?;
    say!(
        "tx: {}: alignments are now read from layer {}, head {}",
        folder.display(),
        best.layer,
        best.head.unwrap_or_default()
    );
    Ok(())
}

fn see_neighbours(translator: &Translator, word: &str, args: &InspectArgs) -> anyhow::Result<()> {
    let found = translator.neighbours(word, args.inside.count)?;
    if args.format == Some(InspectFormat::Json) {
        return to_output(args, |out| Ok(writeln!(out, "{}", json!(found))?));
    }
    to_output(args, |out| {
        writeln!(
            out,
            "cosine between rows of the embedding: 1 is the same direction, 0 has nothing in common\n"
        )?;
        for side in &found {
            if side.pieces.len() > 1 {
                writeln!(
                    out,
                    "{word:?} is no piece of the vocabulary by itself: it is cut into {}",
                    side.pieces.len()
                )?;
            }
            for (piece, neighbours) in &side.pieces {
                writeln!(out, "{piece}  ({} embedding)", side.embedding)?;
                neighbours
                    .iter()
                    .try_for_each(|near| writeln!(out, "  {:>6.3}  {}", near.cosine, near.piece))?;
            }
        }
        Ok(())
    })
}

fn see_positions(translator: &Translator, count: usize, args: &InspectArgs) -> anyhow::Result<()> {
    let config = translator.model().config();
    ensure!(
        (1..=config.max_positions).contains(&count),
        "--positions {count}: the model has 1 to {} positions",
        config.max_positions
    );
    let first = config.first_position;
    let table: Tensor =
        positional_encoding(first..first + count, config.d_model, config.positions, &Device::Cpu)?;
    let rows: Vec<Vec<f32>> = table.to_vec2()?;
    if args.svg.is_some() || args.png.is_some() {
        let title = "Positional encoding".to_string();
        let caption = format!("rows: positions 0 to {}, columns: dimensions; light is -1, dark 1", count - 1);
        draw_picture(
            &Picture { title, caption, maps: vec![vec![(String::new(), positions::map(&rows))]] },
            args,
        )?;
    }
    match format(args) {
        None => Ok(()),
        Some(InspectFormat::Json) => to_output(args, |out| Ok(writeln!(out, "{}", json!(rows))?)),
        Some(_) => to_output(args, |mut out| Ok(positions::write(&mut out, &rows)?)),
    }
}
