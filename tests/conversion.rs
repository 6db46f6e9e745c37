use crate::common::*;
use serde_json::Value;
use std::path::Path;

fn ok(args: &[&str]) -> String {
    let output = run(args, b"");
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn translated(model: &Path, more: &[&str]) -> String {
    let model = model.to_str().unwrap();
    ok(&[&["translate", "--format", "jsonl", "--text", "the dog sees\nwe see", "--model", model], more]
        .concat())
}

/// Byte by byte what CTranslate2's own converter writes.
#[test]
fn ctranslate2_has_what_its_converter_makes() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("ct2");
    ok(&["convert", golden("tiny-marian").to_str().unwrap(), out.to_str().unwrap(), "--to", "ct2"]);
    assert!(std::fs::read(out.join("model.bin")).unwrap() == std::fs::read(golden("ct2/model.bin")).unwrap());
    for name in ["config.json", "shared_vocabulary.json"] {
        let json = |path: &Path| serde_json::from_slice::<Value>(&std::fs::read(path).unwrap()).unwrap();
        assert_eq!(json(&out.join(name)), json(&golden("ct2").join(name)), "{name}");
    }
    let again =
        run(&["convert", golden("tiny-marian").to_str().unwrap(), out.to_str().unwrap(), "--to", "ct2"], b"");
    assert!(stderr(&again).contains("not an empty folder"), "{}", stderr(&again));
}

/// Every form of every kind of model becomes a file, and a directory, that translates to the same bits.
#[test]
fn a_model_in_one_file_is_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let quantized = folder.path().join("int8");
    ok(&["quantize", golden("tiny-marian").to_str().unwrap(), quantized.to_str().unwrap()]);
    let models = [
        (golden("tiny-marian"), &[][..]),
        (quantized, &[]),
        (golden("multilingual/opus"), &["--to", "de"]),
        (golden("multilingual/m2m100"), &["--from", "en", "--to", "fr"]),
        (golden("families/pegasus"), &[]),
        (golden("families/marian-npz"), &[]),
        (golden("multilingual/opus-release"), &["--to", "fr"]),
    ];
    for (index, (model, more)) in models.iter().enumerate() {
        let file = folder.path().join(format!("{index}.safetensors"));
        ok(&["bundle", model.to_str().unwrap(), file.to_str().unwrap()]);
        assert_eq!(translated(model, more), translated(&file, more), "{}", model.display());
        let hf = folder.path().join(format!("{index}.hf"));
        if !model.ends_with("int8") {
            ok(&["convert", file.to_str().unwrap(), hf.to_str().unwrap(), "--to", "hf"]);
            assert_eq!(translated(model, more), translated(&hf, more), "{}", model.display());
        }
        let of = |command: &str| {
            ok(&[command, "--model", file.to_str().unwrap(), golden("README.md").to_str().unwrap()])
        };
        assert!(!of("tokenize").is_empty());
        let shown: Value =
            serde_json::from_str(&ok(&["show", "--format", "json", file.to_str().unwrap()])).unwrap();
        assert!(shown["parameters"].as_u64().unwrap() > 0);
    }
    let wrong =
        run(&["translate", "--model", golden("model.safetensors").to_str().unwrap(), "--text", "we"], b"");
    assert!(stderr(&wrong).contains("not a model in one file"), "{}", stderr(&wrong));
}

/// As the same damage in a directory.
#[test]
fn a_damaged_file_is_refused_for_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let path = path.to_str().unwrap();
    ok(&["bundle", golden("tiny-marian").to_str().unwrap(), path]);
    let whole = std::fs::read(path).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&whole).unwrap();
    let without = |gone: [&str; 2]| {
        let rest = tensors.iter().filter(|(name, _)| !gone.contains(name));
        let (_, header) = safetensors::SafeTensors::read_metadata(&whole).unwrap();
        safetensors::serialize(rest, header.metadata().clone()).unwrap()
    };
    let expected = format!("its header asks for {}", whole.len());
    let lfs = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
    let (bias, norm) = ("model.encoder.layers.0.fc1.bias", "model.encoder.layers.0.final_layer_norm.bias");
    for (content, parts) in [
        (whole[..whole.len() * 9 / 10].to_vec(), vec![expected.as_str()]),
        (whole[..7].to_vec(), vec!["7 bytes"]),
        ([&whole[..], &[0; 16]].concat(), vec![&expected]),
        (lfs.to_vec(), vec!["Git LFS"]),
        (b"<!DOCTYPE html><html></html>".to_vec(), vec!["HTML"]),
        (without([bias, norm]), vec![bias, norm, "is missing"]),
        (without(["tx.file/config.json", "tx.file/tokenizer.json"]), vec!["config.json: missing"]),
    ] {
        std::fs::write(path, content).unwrap();
        let output = run(&["translate", "--model", path, "--text", "we"], b"");
        assert_eq!(output.status.code(), Some(1));
        assert_parts(&stderr(&output), &[&[path][..], &parts].concat());
    }
}

#[test]
fn a_model_is_shown_as_it_is() {
    let bundled = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/en-de");
    let shown: Value = serde_json::from_str(&ok(&["show", "--format", "json", bundled])).unwrap();
    assert_eq!(
        (&shown["languages"]["from"], &shown["decoding"]["beam"]),
        (&Value::from("en"), &Value::from(4))
    );
    assert_eq!(shown["architecture"]["d_model"], 256);
    let text = ok(&["show", golden("multilingual/opus").to_str().unwrap()]);
    assert!(
        text.contains("languages      de fr") && text.contains("source.spm + target.spm + vocab.json"),
        "{text}"
    );
}

/// What is inside tx is named as any model is, and leaves it as a directory.
#[test]
fn models_inside_the_program_have_names() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let say = |args: &[&str]| ok(&[&["translate", "--text", "Good morning!"], args].concat());
    let bundled = say(&["--model", "bundled"]);
    assert_eq!(say(&["--model", "bundled", "--to", "de"]), bundled);
    assert_eq!(say(&["--model", "bundled:en-de"]), bundled);
    ok(&["convert", "bundled:en-de", &at("hf"), "--to", "hf"]);
    assert_eq!(say(&["--model", &at("hf")]), bundled);
    ok(&["quantize", "bundled", &at("int8")]);
    assert_eq!(say(&["--model", &at("int8")]), say(&["--model", "bundled", "--compute", "int8"]));
    let shown: Value = serde_json::from_str(&ok(&["show", "--format", "json", "bundled"])).unwrap();
    assert_eq!((&shown["model"], &shown["languages"]["to"]), (&"bundled".into(), &"de".into()));
    for (args, part) in [
        (
            &["translate", "--text", "a", "--model", "bundled", "--to", "tlh"][..],
            "from any language to tlh: there is en → de",
        ),
        (&["translate", "--text", "a", "--model", "bundled:de-en"], "from de to en"),
        (&["bundle", "bundled", &at("one.safetensors")], "`tx convert bundled:en-de OUT --to hf`"),
        (&["train", "nothing", "--init-from", "bundled"], "`tx convert bundled:en-de OUT --to hf`"),
    ] {
        let output = run(args, b"");
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(stderr(&output).contains(part), "{args:?}: {}", stderr(&output));
    }
}
