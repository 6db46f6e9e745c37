//! Which tokenizer a run trains with: one for both languages, one for each, or one that is finished.

use crate::common::*;
use crate::training::toy;
use tx::checkpoint::Checkpoint;
use tx::config::Tie;
use tx::text::Tokenizer;

const SMALL: [&str; 15] = [
    "--layers",
    "1",
    "--d-model",
    "32",
    "--ff",
    "64",
    "--heads",
    "2",
    "--batch-tokens",
    "400",
    "--max-steps",
    "2",
    "--average",
    "0",
    "--from=en",
];

/// Trains for two steps on the toy corpus.
fn train(folder: &Files, out: &str, args: &[&str]) -> Result<Checkpoint, String> {
    let out = folder.path(out);
    let toy = toy();
    let output = run(&[&["train", toy.to_str().unwrap(), "--out", &out], &SMALL[..], args].concat(), b"");
    if !output.status.success() {
        return Err(format!("{:?} {}", output.status.code(), stderr(&output)));
    }
    Ok(Checkpoint::open(out.as_ref(), &tx::candle_core::Device::Cpu).unwrap())
}

/// Each is learnt from its own side alone, and the model has an embedding for each.
#[test]
fn two_languages_learn_two_vocabularies() {
    let folder = Files::new();
    let model = train(&folder, "two", &["--vocab", "separate", "--tokenizer", "word", "--vocab-size", "300"])
        .unwrap();
    let (src, tgt) = (&model.tokenizer, model.tokenizer.tgt());
    let side = |end: &str| std::fs::read_to_string(toy().join(format!("train.{end}"))).unwrap();
    let of = |text: &str| {
        let lines: Vec<&str> = text.lines().collect();
        Tokenizer::train(tx::text::Kind::Word, &lines, 300, false).unwrap()
    };
    assert_eq!((src.pieces(), tgt.pieces()), (of(&side("en")).pieces(), of(&side("de")).pieces()));
    assert_ne!(src.pieces(), tgt.pieces());
    assert_eq!(model.config.tie, Tie::Decoder);
    assert_eq!([model.config.src_vocab, model.config.tgt_vocab], model.tokenizer.vocab_sizes());
    let file = |name: &str| toy().join(name).to_str().unwrap().to_string();
    let rows = |name: &str| model.weights[name].dims()[0];
    assert_eq!(rows("model.encoder.embed_tokens.weight"), src.vocab_size());
    assert_eq!(rows("model.decoder.embed_tokens.weight"), tgt.vocab_size());
    for args in
        [&["translate", "--text", "Tom is here."][..], &["score-pairs", &file("dev.en"), &file("dev.de")]]
    {
        let output = run(&[args, &["--model", &folder.path("two")]].concat(), b"");
        assert!(output.status.success(), "{}", stderr(&output));
    }
    // Fine-tuning keeps them.
    let tuned = train(&folder, "tuned", &["--init-from", &folder.path("two")]).unwrap();
    assert_eq!(tuned.tokenizer.hash(), model.tokenizer.hash());
}

/// A stopped run is the run that never stopped, when both sides are cut anew in each epoch too.
#[test]
fn a_run_with_two_vocabularies_is_resumed() {
    let toy = toy();
    let args = ["train", toy.to_str().unwrap(), "--verify-resume", "--vocab=separate", "--sample-tokens=0.1"];
    let output = run(&[&args[..], &SMALL[..12]].concat(), b"");
    assert!(output.status.success(), "{}", stderr(&output));
}

/// A SentencePiece model gives its own ids, a folder its tokenizer whatever the form.
#[test]
fn finished_tokenizers_are_taken_as_they_are() {
    let folder = Files::new();
    let spm = golden("multilingual/opus/source.spm");
    let model = train(&folder, "spm", &["--tokenizer", spm.to_str().unwrap()]).unwrap();
    let expected = Tokenizer::open(&spm).unwrap();
    assert_eq!(model.tokenizer.pieces(), expected.pieces());
    assert_eq!(model.tokenizer.encode("Tom is here.").unwrap(), expected.encode("Tom is here.").unwrap());
    assert_eq!(std::fs::read(folder.path("spm/sentencepiece.model")).unwrap(), std::fs::read(&spm).unwrap());
    let opus = golden("multilingual/opus");
    let model = train(&folder, "opus", &["--tokenizer", opus.to_str().unwrap()]).unwrap();
    assert_eq!(model.config.tie, Tie::All);
    assert_eq!(model.tokenizer.hash(), tx::checkpoint::tokenizer(&opus).unwrap().hash());
    let first = folder.path("first");
    train(&folder, "first", &["--vocab=separate", "--vocab-size=300"]).unwrap();
    let second = train(&folder, "second", &["--tokenizer", &first]).unwrap();
    assert_eq!((second.config.tie, second.tokenizer.is_joint()), (Tie::Decoder, false));
}

#[test]
fn what_contradicts_the_vocabulary_is_refused() {
    let folder = Files::new();
    let joint = golden("tiny-marian/tokenizer.json");
    for (args, code, part) in [
        (&["--vocab=separate", "--tie=all"][..], 2, "separate vocabularies cannot have one embedding"),
        (
            &["--tokenizer", joint.to_str().unwrap(), "--vocab=separate"],
            1,
            "--vocab \"separate\", but that of the tokenizer is \"joint\"",
        ),
        (&["--tokenizer", "/no/such.model"], 2, "a SentencePiece .model or a folder"),
        (&["--tokenizer", toy().to_str().unwrap()], 1, "no tokenizer: expected tokenizer.json"),
    ] {
        let message = train(&folder, "out", args).unwrap_err();
        assert_parts(&message, &[&format!("Some({code})"), part]);
    }
}
