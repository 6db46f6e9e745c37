use crate::common::*;
use tx::candle_core::Device;
use tx::checkpoint::Checkpoint;
use tx::search::LengthPenalty;
use tx::text::Tokenizer;
use tx::translate::alignment::Unit;
use tx::translate::{Options, Translation, Translator};

fn translator(model: &str, from: Option<&str>, to: Option<&str>) -> tx::Result<Translator> {
    let checkpoint = Checkpoint::open(&golden("multilingual").join(model), &Device::Cpu)?;
    let mut translator = Translator::new(checkpoint, &Device::Cpu, None)?;
    translator.set_direction(from, to)?;
    Ok(translator)
}

fn options() -> Options {
    let length_penalty = Some(LengthPenalty::Pow(1.0));
    Options { beam_size: Some(3), max_length: Some(19), length_penalty, split: false, ..Options::default() }
}

fn translate(translator: &Translator, line: &str, options: &Options) -> Translation {
    translator.translate(vec![(1, line.to_string())], options).unwrap().remove(0)
}

/// Source ids, ids and text of beam search as `transformers` has them, for every pair of languages.
#[test]
fn languages_agree_with_transformers() {
    let cases = golden_json("multilingual.json");
    let cases = cases.as_array().unwrap();
    assert!(cases.len() >= 15);
    for case in cases {
        let text = |key: &str| case[key].as_str();
        let translator = translator(text("model").unwrap(), text("source"), text("to")).unwrap();
        let line = text("line").unwrap();
        let ids = |key: &str| serde_json::from_value::<Vec<u32>>(case[key].clone()).unwrap();
        assert_eq!(translator.encode(line).unwrap(), ids("src"), "{case}");
        let found = translate(&translator, line, &options());
        assert_eq!(found.hypotheses[0].ids, ids("ids"), "{case}");
        assert_eq!(found.hypotheses[0].text, text("text").unwrap(), "{case}");
    }
}

/// A line that names its language is translated into it, all its sentences are.
#[test]
fn a_line_may_name_its_language() {
    let (open, german) =
        (translator("opus", None, None).unwrap(), translator("opus", None, Some("de")).unwrap());
    let options = Options { split: true, ..options() };
    let line = "The dog is here. A cat sees it.";
    let found = translate(&open, &format!(">>de<< {line}"), &options);
    assert_eq!(found.sentences, 2);
    assert_eq!(found.hypotheses[0].text, translate(&german, line, &options).hypotheses[0].text);
    let message = format!("{:?}", translate(&open, line, &options).notices);
    assert!(message.contains("say which with --to"), "{message}");
}

/// Marks of languages are in no text and in no alignment.
#[test]
fn alignments_are_of_what_is_said() {
    let options = Options { alignment: Some(Unit::Pieces), ..options() };
    for (model, from) in [("opus", None), ("m2m100", Some("en"))] {
        let translator = translator(model, from, Some("fr")).unwrap();
        let found = translate(&translator, "The dog sees the small house.", &options);
        let best = &found.hypotheses[0];
        let weights = &best.alignment.as_ref().unwrap().weights;
        let pieces = translator.tokenizer().encode("The dog sees the small house.").unwrap().len() - 1;
        let marks = usize::from(model == "m2m100");
        assert_eq!(weights.len(), best.pieces(translator.tokenizer().special_ids().eos).len() - marks);
        assert!(weights.iter().all(|row| row.len() == pieces), "{model}");
    }
}

#[test]
fn languages_that_there_are_not_are_refused_with_those_that_there_are() {
    for (model, from, to, part) in [
        ("opus", None, Some("ko"), "--to ko is none of the model's languages: one of de fr"),
        ("m2m100", None, Some("ko"), "translates between many languages: expected --from: one of af am"),
        ("m2m100", Some("en"), None, "expected --to"),
        ("m2m100", Some("xx"), Some("ko"), "--from xx is none"),
    ] {
        let message = translator(model, from, to).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
    for (args, part) in [
        (&["--to", "ko"][..], "--to ko is not the model's"),
        (&["--model", "/nowhere/at-all", "--to", "ko"], "does not exist"),
    ] {
        let output = run(&[&["translate", "--text", "we"], args].concat(), b"");
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
    }
}

/// Quantized and averaged models keep all files of their tokenizers.
#[test]
fn written_models_have_their_tokenizers() {
    let folder = tempfile::tempdir().unwrap();
    for model in ["opus", "m2m100"] {
        let (from, to) = (golden("multilingual").join(model), folder.path().join(model));
        let output = run(&["quantize", from.to_str().unwrap(), to.to_str().unwrap()], b"");
        assert!(output.status.success(), "{}", stderr(&output));
        let files = ["source.spm", "target.spm", "vocab.json", "sentencepiece.bpe.model"];
        for file in files.into_iter().filter(|file| from.join(file).is_file()) {
            assert!(to.join(file).is_file(), "{file}");
        }
        let args = ["translate", "--from", "en", "--to", "fr", "--text", "The dog", "--model"];
        let output = run(&[&args[..], &[to.to_str().unwrap()]].concat(), b"");
        assert!(output.status.success(), "{}", stderr(&output));
    }
}

/// A folder with a `.npz` and these files, each of them a golden one under another name or a text.
fn release(files: &[(&str, &str)]) -> (tempfile::TempDir, tx::Result<Tokenizer>) {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in [("model.npz", "")].iter().chain(files) {
        let path = golden("multilingual").join(content);
        let content = if path.is_file() { std::fs::read(path).unwrap() } else { content.as_bytes().to_vec() };
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    let tokenizer = tx::checkpoint::tokenizer(folder.path());
    (folder, tokenizer)
}

/// The ids are those of Marian: of the SentencePiece model itself, and the padding comes after the larger of both.
#[test]
fn marian_cuts_with_sentencepiece_itself() {
    let model = |name: &str| Tokenizer::open(golden("multilingual/opus").join(name)).unwrap();
    let (src, tgt) = (model("source.spm"), model("target.spm"));
    let line = "Tom sees the old house.";
    let (_folder, joint) = release(&[("vocab.spm", "opus/source.spm")]);
    let joint = joint.unwrap();
    assert_eq!(joint.encode(line).unwrap(), src.encode(line).unwrap());
    assert_eq!(joint.special_ids().pad as usize, src.vocab_size());
    assert!(joint.is_joint());
    let yml = "vocabs: [/far/away/src.spm, /far/away/trg.spm]";
    let files = [("src.spm", "opus/source.spm"), ("trg.spm", "opus/target.spm"), ("decoder.yml", yml)];
    let (_folder, two) = release(&files);
    let two = two.unwrap();
    assert_ne!(src.vocab_size(), tgt.vocab_size());
    let pad = src.vocab_size().max(tgt.vocab_size());
    assert_eq!(two.vocab_sizes(), [pad + 1; 2]);
    for (two, own) in [(&two, &src), (two.tgt(), &tgt)] {
        assert_eq!(two.encode(line).unwrap(), own.encode(line).unwrap());
        assert_eq!(two.special_ids().pad as usize, pad);
    }
}

#[test]
fn marian_without_a_vocabulary_is_refused_with_what_is_missing() {
    let spm = [("source.spm", "opus/source.spm"), ("target.spm", "opus/target.spm")];
    let with = |files: &[(&'static str, &'static str)]| [&spm[..], files].concat();
    for (files, part) in [
        (spm.to_vec(), "expected tokenizer.json, a vocab.spm, or a vocab.yml with source.spm and target.spm"),
        (vec![("vocab.yml", "</s>: 0\n<unk>: 1\n")], "source.spm"),
        (with(&[("a.vocab.yml", ""), ("b.vocab.yml", "")]), "which vocabulary (a.vocab.yml, b.vocab.yml)?"),
        (with(&[("vocab.yml", "</s>: 0\n<unk>: one\n")]), "\"<unk>\" has no id but \"one\""),
        (with(&[("vocab.yml", "</s>: 0\n<unk>: 2\n")]), "1 is used not at all"),
        (with(&[("vocab.yml", "</s>")]), "vocab.yml: line 1, column 1: expected key: value"),
    ] {
        let (_folder, found) = release(&files);
        let message = found.unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
}
