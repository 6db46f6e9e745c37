//! `tx show`: what a model is, without translating.

use super::which::Which;
use crate::cli::{ShowArgs, ShowFormat};
use serde_json::{Value, json};
use std::process::ExitCode;
use tx::candle_core::Device;
use tx::checkpoint::Checkpoint;
use tx::translate::{Options, Translator};

pub fn run(args: ShowArgs) -> anyhow::Result<ExitCode> {
    let which = Which::find(args.model.as_deref(), None, None)?;
    let shown = describe(which.name(), which.weights_size(), which.open(&Device::Cpu)?)?;
    match args.format {
        ShowFormat::Json => println(shown.to_string()),
        ShowFormat::Text => text(&shown),
    }
    Ok(ExitCode::SUCCESS)
}

/// All that is known of a model.
fn describe(name: &str, size: Option<u64>, checkpoint: Checkpoint) -> anyhow::Result<Value> {
    let config = checkpoint.config.clone();
    let parameters: usize = checkpoint.weights.values().map(|tensor| tensor.elem_count()).sum();
    let [src, tgt] = checkpoint.tokenizer.vocab_sizes();
    let files: Vec<&str> = checkpoint.tokenizer.files().iter().map(|(name, _)| *name).collect();
    let sha256 = checkpoint.tokenizer.hash();
    let (info, precision) = (checkpoint.info.clone(), checkpoint.precision);
    let translator = Translator::new(checkpoint, &Device::Cpu, None)?;
    let search = translator.search_options(&Options::default())?;
    let languages = match translator.languages() {
        Some((src, tgt)) => json!({"from": src, "to": tgt}),
        None => json!(translator.choices()),
    };
    let stack =
        |stack: &tx::config::Stack| json!({"layers": stack.layers, "heads": stack.heads, "d_ff": stack.d_ff});
    Ok(json!({
        "model": name,
        "languages": languages,
        "parameters": parameters,
        "weights_bytes": size,
        "compute": format!("{precision:?}").to_lowercase(),
        "architecture": {
            "d_model": config.d_model, "encoder": stack(&config.encoder), "decoder": stack(&config.decoder),
            "activation": config.activation, "norm": config.norm, "positions": config.positions, "tie": config.tie,
            "max_positions": config.max_positions, "src_vocab": config.src_vocab, "tgt_vocab": config.tgt_vocab,
        },
        "tokenizer": {"files": files, "src_pieces": src, "tgt_pieces": tgt, "sha256": sha256},
        "decoding": {
            "beam": search.beam_size, "length_penalty": search.length_penalty, "min_length": search.min_length,
            "no_repeat_ngram": search.rules.no_repeat_ngram, "repetition_penalty": search.rules.repetition_penalty,
        },
        "alignment_head": info.as_ref().and_then(|info| info.alignment_head),
        "provenance": info.map(|info| info.provenance),
    }))
}

/// The same for reading.
fn text(shown: &Value) {
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), String::from);
    let architecture = &shown["architecture"];
    println(format!("model          {}", word(&shown["model"])));
    let languages = match &shown["languages"] {
        Value::Object(pair) => format!("{} → {}", word(&pair["from"]), word(&pair["to"])),
        Value::Array(all) if !all.is_empty() => all.iter().map(word).collect::<Vec<_>>().join(" "),
        _ => "not said".to_string(),
    };
    println(format!("languages      {languages}"));
    let millions = shown["parameters"].as_f64().unwrap_or(0.0) / 1e6;
    let size = shown["weights_bytes"]
        .as_f64()
        .map_or(String::new(), |bytes| format!(", {:.1} MiB", bytes / 1048576.0));
    println(format!("parameters     {millions:.2} million{size}, computes in {}", word(&shown["compute"])));
    for side in ["encoder", "decoder"] {
        let stack = &architecture[side];
        println(format!(
            "{side:<15}{} layers, {} heads, d_ff {}",
            stack["layers"], stack["heads"], stack["d_ff"]
        ));
    }
    println(format!(
        "shape          d_model {}, {}, {}-norm, positions {} up to {}, tied {}",
        architecture["d_model"],
        word(&architecture["activation"]),
        word(&architecture["norm"]),
        word(&architecture["positions"]),
        architecture["max_positions"],
        word(&architecture["tie"])
    ));
    let tokenizer = &shown["tokenizer"];
    let files: Vec<String> = tokenizer["files"].as_array().into_iter().flatten().map(word).collect();
    let pieces = match (&tokenizer["src_pieces"], &tokenizer["tgt_pieces"]) {
        (src, tgt) if src == tgt => src.to_string(),
        (src, tgt) => format!("{src} and {tgt}"),
    };
    println(format!("tokenizer      {pieces} pieces ({})", files.join(" + ")));
    let decoding = &shown["decoding"];
    println(format!(
        "decoding       beam {}, length penalty {}",
        decoding["beam"],
        word(&decoding["length_penalty"])
    ));
    if let Value::Object(head) = &shown["alignment_head"] {
        let of = head["head"].as_u64().map_or("mean".to_string(), |head| head.to_string());
        println(format!("alignments     layer {}, head {of}", head["layer"]));
    }
    trained(&shown["provenance"]);
}

/// Where the weights come from, as far as it was noted.
fn trained(provenance: &Value) {
    if let Some(version) = provenance["version"].as_str() {
        let (step, tokens) = (&provenance["step"], &provenance["tgt_tokens"]);
        println(format!(
            "trained        by tx {version}: {step} steps, {tokens} target tokens, seed {}",
            provenance["settings"]["seed"]
        ));
    }
    let dev = &provenance["dev"];
    let scores: Vec<String> = ["bleu", "chrf", "nll"]
        .into_iter()
        .filter_map(|name| Some(format!("{name} {:.2}", dev[name].as_f64()?)))
        .collect();
    if !scores.is_empty() {
        println(format!("dev            {}", scores.join(", ")));
    }
}

/// Prints a line; a reader that went away needs no more.
fn println(line: String) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout(), "{line}");
}
