use crate::common::*;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tx::candle_core::Device;
use tx::checkpoint::Checkpoint;
use tx::rng::Rng;
use tx::text::Tokenizer;

/// What opening the family `name` says after `change` of the bytes of its `file`.
fn after(name: &str, file: &str, change: impl FnOnce(&mut Vec<u8>)) -> Result<Checkpoint, String> {
    let folder = copy(name);
    let path = folder.path().join(file);
    let mut bytes = std::fs::read(&path).unwrap();
    change(&mut bytes);
    std::fs::write(&path, bytes).unwrap();
    Checkpoint::open(folder.path(), &Device::Cpu).map_err(|error| error.to_string())
}

fn copy(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(golden("families").join(name)).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    folder
}

fn replace(bytes: &mut Vec<u8>, from: &[u8], to: &[u8]) {
    let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
    bytes.splice(at..at + from.len(), to.iter().copied());
}

fn replaced(name: &str, file: &str, from: &str, to: &str) -> String {
    after(name, file, |bytes| replace(bytes, from.as_bytes(), to.as_bytes())).unwrap_err()
}

#[test]
fn options_that_tx_has_not_are_listed_together_with_their_values() {
    let message = replaced(
        "marian",
        "config.json",
        "\"vocab_size\": 46",
        "\"vocab_size\": 46, \"normalize_before\": true, \"do_sample\": true, \"bad_words_ids\": [[7, 8]], \"pruned_heads\": {\"0\": [1]}",
    );
    assert_parts(
        &message,
        &[
            "config.json",
            "normalize_before is true, expected false",
            "do_sample is true, expected false",
            "bad_words_ids is [[7,8]], expected [[45]]",
            "pruned_heads is {\"0\":[1]}",
        ],
    );
    let message = replaced("marian-npz", "model.npz", "type: transformer", "type: transformex");
    assert_parts(&message, &["model.npz", "type is \"transformex\", expected transformer"]);
    let message =
        replaced("m2m100", "config.json", "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false");
    assert_parts(&message, &["tie_word_embeddings is false, expected true"]);
    let message =
        replaced("marian", "generation_config.json", "\"use_cache\": true", "\"forced_bos_token_id\": 7");
    assert_parts(&message, &["generation_config.json", "forced_bos_token_id is 7, expected null"]);
}

#[test]
fn tensors_that_do_not_fit_are_listed_with_both_shapes() {
    let message = replaced("m2m100", "config.json", "\"encoder_ffn_dim\": 24", "\"encoder_ffn_dim\": 25");
    assert_parts(
        &message,
        &[
            "pytorch_model.bin",
            "model.encoder.layers.0.fc1.weight has shape [24, 16], expected [25, 16]",
            "model.encoder.layers.1.fc2.weight has shape [16, 24], expected [16, 25]",
        ],
    );
    // Names in the pickle, of one length, so that nothing else changes.
    let message = replaced(
        "pegasus",
        "model.safetensors",
        "model.encoder.layer_norm.bias",
        "model.encoder.layer_norm.bing",
    );
    assert_parts(
        &message,
        &["model.encoder.layer_norm.bias [16] is missing", "model.encoder.layer_norm.bing [16] is not part"],
    );
    let message = replaced(
        "marian",
        "pytorch_model.bin",
        "model.encoder.layers.0.fc1.bias",
        "model.encoder.layers.1.fc1.bias",
    );
    assert_parts(&message, &["model.encoder.layers.1.fc1.bias more than once"]);
    let message =
        replaced("pegasus", "model.safetensors", "encoder.layers.0.fc1.bias", "encoder.layers.1.fc1.bias");
    assert_parts(&message, &["model.encoder.layers.1.fc1.bias more than once"]);
    let message = replaced("marian-npz", "model.npz", "transformer-dim-ffn: 24", "transformer-dim-ffn: 23");
    assert_parts(
        &message,
        &["encoder_l1_ffn_W1 has shape [16, 24], expected [16, 23]", "decoder_l1_ffn_b1 has shape [1, 24]"],
    );
    let message = replaced("marian-npz", "model.npz", "enc-depth: 2", "enc-depth: 3");
    assert_parts(
        &message,
        &["encoder_l3_self_Wq [16, 16] is missing", "encoder_l3_ffn_ffn_ln_scale [1, 16] is missing"],
    );
    let message = replaced("marian-npz", "model.npz", "enc-depth: 2", "enc-depth: 1");
    assert_parts(&message, &["encoder_l2_self_Wq [16, 16] is not part of such a model"]);
}

#[test]
fn matrices_that_are_not_one_are_refused() {
    let message = replaced(
        "marian-two",
        "config.json",
        "\"share_encoder_decoder_embeddings\": false",
        "\"use_cache\": true",
    );
    assert_parts(
        &message,
        &["source and target embeddings are tied, but the vocabularies have 50 and 46 pieces"],
    );
    let folder = copy("marian-two");
    let path = folder.path().join("config.json");
    let json = std::fs::read_to_string(&path).unwrap();
    let json = json
        .replace("\"share_encoder_decoder_embeddings\": false", "\"share_encoder_decoder_embeddings\": true");
    std::fs::write(&path, json.replace("\"vocab_size\": 50", "\"vocab_size\": 46")).unwrap();
    let message = Checkpoint::open(folder.path(), &Device::Cpu).unwrap_err().to_string();
    assert_parts(&message, &["model.decoder.embed_tokens.weight [46, 16] is not model.shared.weight"]);
}

/// The damage that a download or a disk does: cut, longer, another file in its place.
#[test]
fn damaged_weights_are_named_for_what_they_are() {
    for (name, file) in
        [("marian", "pytorch_model.bin"), ("marian-npz", "model.npz"), ("pegasus", "model.safetensors")]
    {
        let cut = |length: fn(usize) -> usize| {
            after(name, file, |bytes| bytes.truncate(length(bytes.len()))).unwrap_err()
        };
        for message in [cut(|n| n * 9 / 10), cut(|n| n / 20), cut(|_| 7), cut(|_| 0)] {
            assert_parts(&message, &[file, "bytes"]);
        }
        let message = after(name, file, |bytes| bytes.extend([0; 16])).unwrap_err();
        assert_parts(&message, &[file, "bytes"]);
        let put = |text: &[u8]| after(name, file, |bytes| *bytes = text.to_vec()).unwrap_err();
        assert_parts(&put(b"version https://git-lfs.github.com/spec/v1\n"), &[file, "git lfs pull"]);
        assert_parts(&put(b"<!DOCTYPE html>"), &[file, "HTML"]);
    }
    let message = after("marian", "pytorch_model.bin", |bytes| *bytes = b"\x80\x02\x8a\nl\xfc\x9cF".to_vec())
        .unwrap_err();
    assert_parts(&message, &["before 1.6", "save_pretrained"]);
}

#[test]
fn a_pickle_that_wants_to_run_something_is_refused() {
    let message = replaced(
        "marian",
        "pytorch_model.bin",
        "ctorch._utils\n_rebuild_tensor_v2\n",
        "cbuiltins\neval##################\n",
    );
    assert_parts(&message, &["asks to call builtins.eval", "never runs", "save_pretrained"]);
}

#[test]
fn what_is_missing_is_listed_with_the_way_out() {
    let folder = copy("marian");
    std::fs::remove_file(folder.path().join("tokenizer.json")).unwrap();
    std::fs::write(folder.path().join("source.spm"), "").unwrap();
    let message = Checkpoint::open(folder.path(), &Device::Cpu).unwrap_err().to_string();
    assert_parts(&message, &["target.spm, vocab.json missing"]);
    std::fs::rename(folder.path().join("source.spm"), folder.path().join("spiece.model")).unwrap();
    let message = Checkpoint::open(folder.path(), &Device::Cpu).unwrap_err().to_string();
    assert_parts(&message, &["tokenizer.json missing", "it has spiece.model", "save_pretrained"]);
    std::fs::remove_file(folder.path().join("pytorch_model.bin")).unwrap();
    std::fs::write(folder.path().join("pytorch_model.bin.index.json"), "{}").unwrap();
    let message = Checkpoint::open(folder.path(), &Device::Cpu).unwrap_err().to_string();
    assert_parts(
        &message,
        &["model.safetensors, tokenizer.json missing", "in several files", "max_shard_size"],
    );
    let folder = copy("marian-npz");
    std::fs::copy(folder.path().join("model.npz"), folder.path().join("other.npz")).unwrap();
    std::fs::remove_file(folder.path().join("decoder.yml")).unwrap();
    let message = Checkpoint::open(folder.path(), &Device::Cpu).unwrap_err().to_string();
    assert_parts(&message, &["2 models of Marian (model.npz, other.npz): name one"]);
}

/// The `tokenizers` library panics on each of them.
#[test]
fn tokenizers_that_the_library_breaks_on_are_refused() {
    let good = std::fs::read_to_string(golden("tiny-marian/tokenizer.json")).unwrap();
    let open = |from: &str, to: &[u8]| {
        let mut bytes = good.clone().into_bytes();
        replace(&mut bytes, from.as_bytes(), to);
        Tokenizer::from_bytes(&bytes, "some/tokenizer.json")
    };
    let message = |from: &str, to: &[u8]| open(from, to).unwrap_err().to_string();
    let at = good.find("\"decoder\"").unwrap() + 13;
    let expected = format!("some/tokenizer.json: not UTF-8 from byte {at} on");
    assert_parts(&message("\"decoder\":{\"type\"", b"\"decoder\":{\"t\xffpe\""), &[&expected]);
    let half = message("\"decoder\":{\"type\"", b"\"decoder\":{\"\\ud800\"");
    assert_parts(&half, &["some/tokenizer.json: not JSON of a tokenizer", "hex escape"]);
    let doubled = ["{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"  \"}"; 40].join(",");
    let sequence = format!("{{\"type\":\"Sequence\",\"normalizers\":[{doubled}]}}");
    assert_parts(
        &message("{\"type\":\"NFC\"}", sequence.as_bytes()),
        &["some/tokenizer.json", "make a text up to 1099511627776 times as long"],
    );
    // An array of one zero, which leads to its 97th number.
    let charsmap = b"{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"BAAAAAAAAAA=\"}";
    let tokenizer = open("{\"type\":\"NFC\"}", charsmap).unwrap();
    for error in [tokenizer.encode("a").unwrap_err(), tokenizer.surfaces("a").unwrap_err()] {
        assert_parts(&error.to_string(), &["\"a\"", "the `tokenizers` library breaks off"]);
    }
    let strip = b"\"decoder\":{\"type\":\"Strip\",\"content\":\"a\",\"start\":0,\"stop\":9},\"";
    let decoder = good[good.find("\"decoder\"").unwrap()..].split_inclusive("},\"").next().unwrap();
    let tokenizer = open(decoder, strip).unwrap();
    let error = tokenizer.decode(&tokenizer.encode("a").unwrap()).unwrap_err().to_string();
    assert_parts(&error, &["the `tokenizers` library breaks off"]);
}

/// One seeded change of a file.
fn damage(bytes: &mut Vec<u8>, rng: &mut Rng) {
    // Half of the changes in the first part, where descriptions stand, or in the last, where the list of a zip archive is.
    let length = bytes.len().max(1);
    let part = [length, length.min(2048), length][rng.below(3)];
    let at = if rng.below(4) == 0 { length - 1 - rng.below(part.min(4096)) } else { rng.below(part) };
    let end = (at + 1 + rng.below(9)).min(bytes.len());
    match rng.below(7) {
        0 => bytes[at] ^= 1 << rng.below(8),
        1 => bytes[at] = rng.below(256) as u8,
        2 => bytes[at..end].fill(0xff),
        3 => bytes[at..end].fill(0),
        4 => bytes.truncate(at),
        5 => {
            let again = bytes[at..end].to_vec();
            bytes.splice(at..at, again);
        }
        // A number becomes a very large one, where there is one.
        _ => match bytes[at..].iter().position(u8::is_ascii_digit) {
            Some(digit) => _ = bytes.splice(at + digit..at + digit, *b"99999"),
            None => _ = bytes.drain(at..end),
        },
    }
}

/// Kibibytes of memory that this process has had at most, where the system says so.
fn peak_memory() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

const FILES: [(&str, &str); 6] = [
    ("marian", "pytorch_model.bin"),
    ("m2m100", "pytorch_model.bin"),
    ("marian-npz", "model.npz"),
    ("marian-npz-pre", "model.npz"),
    ("pegasus", "model.safetensors"),
    ("marian", "config.json"),
];

/// Opens damaged copies in a process of its own, whose time and memory can be told.
#[test]
fn damage_gives_an_error_or_a_model_in_time_and_memory() {
    const CHILD: &str = "TX_TEST_OPENS_DAMAGED_MODELS";
    if std::env::var_os(CHILD).is_some() {
        return open_damaged();
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "hostile::damage_gives_an_error_or_a_model_in_time_and_memory", "--nocapture"])
        .env(CHILD, "1")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > Duration::from_secs(300) {
            child.kill().unwrap();
            panic!("opening damaged models does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(child.wait().unwrap().success(), "see above");
}

fn open_damaged() {
    let largest = FILES.map(|(name, file)| std::fs::metadata(path(name, file)).unwrap().len() as usize);
    let before = peak_memory();
    for (name, file) in FILES {
        let (folder, good) = (copy(name), std::fs::read(path(name, file)).unwrap());
        let mut rng = Rng::new(7, file);
        let (mut opened, mut refused) = (0, 0);
        for _ in 0..400 {
            let mut bytes = good.clone();
            for _ in 0..1 + rng.below(3) {
                if !bytes.is_empty() {
                    damage(&mut bytes, &mut rng);
                }
            }
            std::fs::write(folder.path().join(file), bytes).unwrap();
            match Checkpoint::open(folder.path(), &Device::Cpu) {
                Ok(_) => opened += 1,
                Err(error) => {
                    refused += 1;
                    let place = folder.path().to_string_lossy().into_owned();
                    assert!(error.to_string().contains(&place), "{name}: {error}");
                }
            }
        }
        assert!(opened > 0 && refused > 0, "{name}/{file}: {opened} opened, {refused} refused");
    }
    if let (Some(before), Some(after)) = (before, peak_memory()) {
        let allowed = 4 * largest.into_iter().max().unwrap() / 1024 + 64 * 1024;
        assert!(after - before <= allowed, "{} KiB more, {allowed} allowed", after - before);
    }
}

fn path(name: &str, file: &str) -> impl AsRef<Path> {
    golden("families").join(name).join(file)
}
