//! Models of the Hugging Face Hub, against a stand-in for it on this machine.

use crate::common::{Files, golden, stderr, stdout};
use crate::stand_in::{Asked, ID, OLD_ID, Quirks, StandIn, commit, sha256};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tx::candle_core::Device;
use tx::checkpoint::Checkpoint;

/// Nothing listens there.
pub const CLOSED: &str = "http://127.0.0.1:1";
pub const TEXT: [&str; 2] = ["--text", "a b c"];

pub fn tiny() -> PathBuf {
    golden("tiny-marian")
}

pub fn server(quirks: Quirks) -> StandIn {
    StandIn::new(&[("main", &tiny())], quirks)
}

/// `tx` in an environment of its own: `home` has the cache, `variables` come on top.
pub fn command(endpoint: &str, home: &Files, variables: &[(&str, &str)], args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tx"));
    for name in
        ["HF_HUB_CACHE", "HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "TX_MODEL"]
    {
        command.env_remove(name);
    }
    for name in ["SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    std::fs::create_dir_all(home.path("work")).unwrap();
    command.args(args).current_dir(home.path("work"));
    command.env("HF_ENDPOINT", endpoint).env("HF_HOME", home.path("hf")).envs(variables.iter().copied());
    command
}

pub fn translate(endpoint: &str, home: &Files, id: &str) -> Output {
    command(endpoint, home, &[], &["translate", "--model", id, TEXT[0], TEXT[1]]).output().unwrap()
}

/// What the model says.
fn expected() -> String {
    let home = Files::new();
    stdout(&translate(CLOSED, &home, tiny().to_str().unwrap()))
}

pub fn folder(home: &Files) -> PathBuf {
    Path::new(&home.path("hf/hub")).join(format!("models--{}", ID.replace('/', "--")))
}

/// What fails ends with 1 and one sentence, without a panic.
pub fn refused(output: &Output, what: &[&str]) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let lines: Vec<&str> =
        said.lines().filter(|line| !line.contains("fetching") && !line.ends_with("going on")).collect();
    assert_eq!(lines.len(), 1, "{said}");
    what.iter().for_each(|what| assert!(said.contains(what), "{what:?} is not in: {said}"));
    assert!(output.stdout.is_empty());
}

fn names(asked: &[Asked]) -> Vec<&str> {
    asked.iter().map(|asked| asked.path.rsplit('/').next().unwrap()).collect()
}

#[test]
fn a_model_is_fetched_once_and_then_opens_no_socket() {
    let (hub, home) = (server(Quirks::default()), Files::new());
    let output = translate(&hub.endpoint, &home, ID);
    assert_eq!(stdout(&output), expected());
    let said = stderr(&output);
    assert!(said.contains("fetching 5 files"), "{said}");
    assert!(said.contains(&format!("tx: model: {ID}, commit {}", &commit("main")[..7])), "{said}");
    let asked = hub.asked();
    let list = format!("/api/models/{ID}/revision/main?blobs=true");
    assert_eq!(asked[0].path, list);
    let weights = sha256(std::fs::read(tiny().join("model.safetensors")).unwrap());
    let small = ["config.json", "generation_config.json", "tokenizer_config.json", "tokenizer.json"];
    let twice = small.iter().flat_map(|name| [*name, *name]); // each of them is redirected once
    let all: Vec<&str> = twice.chain(["model.safetensors", &weights]).collect();
    assert_eq!(names(&asked[1..]), all);
    // The layout is that of the other programs, and nothing is anywhere else.
    let snapshot = folder(&home).join("snapshots").join(commit("main"));
    let link = std::fs::read_link(snapshot.join("model.safetensors")).unwrap();
    assert_eq!(link, Path::new("../../blobs").join(&weights));
    assert_eq!(std::fs::read_to_string(folder(&home).join("refs/main")).unwrap(), commit("main"));
    assert_eq!(std::fs::read_dir(home.path("work")).unwrap().count(), 0);

    assert_eq!(stdout(&translate(CLOSED, &home, ID)), expected());
    let offline = [("HF_HUB_OFFLINE", "1"), ("TX_MODEL", ID)];
    let output = command(&hub.endpoint, &home, &offline, &["translate", TEXT[0], TEXT[1]]).output().unwrap();
    assert_eq!(stdout(&output), expected());
    let tokenized = command(CLOSED, &home, &[("TX_MODEL", ID)], &["tokenize", "/dev/null"]).output().unwrap();
    assert_eq!(stdout(&tokenized), "");
    assert!(hub.asked().is_empty());
}

#[test]
fn every_family_comes_with_the_files_it_needs() {
    for (family, files) in [
        ("families/m2m100", "config.json generation_config.json tokenizer.json pytorch_model.bin"),
        ("families/pegasus", "config.json generation_config.json tokenizer.json model.safetensors"),
        ("families/marian-npz", "decoder.yml tokenizer.json model.npz"),
        (
            "multilingual/opus",
            "config.json generation_config.json source.spm target.spm vocab.json model.safetensors",
        ),
        (
            "multilingual/m2m100",
            "config.json generation_config.json sentencepiece.bpe.model vocab.json special_tokens_map.json model.safetensors",
        ),
    ] {
        let (hub, home) = (StandIn::new(&[("main", &golden(family))], Quirks::default()), Files::new());
        let output = command(&hub.endpoint, &home, &[], &["models", "pull", ID]).output().unwrap();
        let folder = PathBuf::from(stdout(&output).trim_end());
        let tokenizer = |folder| Checkpoint::open(folder, &Device::Cpu).unwrap().tokenizer.hash();
        assert_eq!(tokenizer(&folder), tokenizer(&golden(family)));
        let mut there: Vec<String> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let mut files: Vec<&str> = files.split(' ').collect();
        there.sort();
        files.sort();
        assert_eq!(there, files);
    }
}

#[test]
fn a_broken_connection_goes_on_where_it_stopped() {
    let hub = server(Quirks { cut: Some(20_000), ..Quirks::default() });
    let home = Files::new();
    let output = translate(&hub.endpoint, &home, ID);
    assert_eq!(stdout(&output), expected());
    let ranges: Vec<Option<String>> =
        hub.asked().into_iter().filter(|asked| asked.is_cdn).map(|asked| asked.range).collect();
    assert!(ranges.len() > 2, "{ranges:?}");
    for (number, range) in ranges.iter().enumerate() {
        assert_eq!(*range, (number > 0).then(|| format!("bytes={}-", 20_000 * number)));
    }
}

#[test]
fn a_download_that_stopped_goes_on_in_the_next_run() {
    // Nothing comes of the weights; what a killed process left is there.
    let hub = server(Quirks { cut: Some(0), ..Quirks::default() });
    let home = Files::new();
    let weights = std::fs::read(tiny().join("model.safetensors")).unwrap();
    refused(
        &translate(&hub.endpoint, &home, ID),
        &[ID, "model.safetensors stopped after 0 bytes", "goes on from there"],
    );
    let part = folder(&home).join("blobs").join(format!("{}.tx-part", sha256(&weights)));
    std::fs::write(&part, &weights[..1234]).unwrap();
    hub.set(Quirks::default());
    hub.asked();
    assert_eq!(stdout(&translate(&hub.endpoint, &home, ID)), expected());
    let asked = hub.asked();
    let weights: Vec<&Asked> = asked.iter().filter(|asked| asked.is_cdn).collect();
    assert_eq!(weights.len(), 1);
    assert_eq!(weights[0].range.as_deref(), Some("bytes=1234-"));
    assert_eq!(asked.len(), 3, "the small files are not asked for again");
    assert!(!part.exists());
}

/// Servers that do not keep to ranges, a part that is longer than the file, and one with a wrong byte.
#[test]
fn what_does_not_fit_is_never_put_together() {
    let weights = std::fs::read(tiny().join("model.safetensors")).unwrap();
    let (no_ranges, other_range) =
        (Quirks { no_ranges: true, ..Quirks::default() }, Quirks { other_range: true, ..Quirks::default() });
    let (long, wrong) = ([weights.as_slice(), b"more"].concat(), vec![7; 1000]);
    for (quirks, part) in [
        (no_ranges, &weights[..999]),
        (other_range, &weights[..999]),
        (Quirks::default(), &long),
        (Quirks::default(), &wrong),
    ] {
        let (hub, home) = (server(quirks), Files::new());
        let blobs = folder(&home).join("blobs");
        std::fs::create_dir_all(&blobs).unwrap();
        std::fs::write(blobs.join(format!("{}.tx-part", sha256(&weights))), part).unwrap();
        assert_eq!(stdout(&translate(&hub.endpoint, &home, ID)), expected());
        assert_eq!(std::fs::read(blobs.join(sha256(&weights))).unwrap(), weights);
    }
}

#[test]
fn what_is_damaged_is_fetched_anew_once() {
    for quirks in [Quirks { wrong: 1, ..Quirks::default() }, Quirks { short: 1, ..Quirks::default() }] {
        let (hub, home) = (server(quirks), Files::new());
        assert_eq!(stdout(&translate(&hub.endpoint, &home, ID)), expected());
    }
    // With and without hashes in the list.
    for bare_list in [false, true] {
        let (hub, home) = (server(Quirks { wrong: 9, bare_list, ..Quirks::default() }), Files::new());
        refused(
            &translate(&hub.endpoint, &home, ID),
            &["model.safetensors came twice", "SHA-256", "removed"],
        );
        let weights = hub.asked().iter().filter(|asked| asked.is_cdn && asked.range.is_none()).count();
        assert_eq!(weights, 2);
        let snapshot = folder(&home).join("snapshots").join(commit("main"));
        assert!(!snapshot.join("model.safetensors").exists());
        assert!(!folder(&home).join("refs/main").exists());
    }
}

#[test]
fn small_files_are_checked_too() {
    for bare_list in [false, true] {
        let quirks = Quirks { wrong_small: true, bare_list, ..Quirks::default() };
        let (hub, home) = (server(quirks), Files::new());
        refused(
            &translate(&hub.endpoint, &home, ID),
            &["config.json came twice", "its hash of git's is", "removed"],
        );
    }
}

#[test]
fn a_mirror_may_list_names_alone() {
    let (hub, home) = (server(Quirks { bare_list: true, ..Quirks::default() }), Files::new());
    assert_eq!(stdout(&translate(&hub.endpoint, &home, ID)), expected());
    assert_eq!(stdout(&translate(CLOSED, &home, ID)), expected());
}

#[test]
fn pulling_repairs_what_is_damaged_here() {
    let (hub, home) = (server(Quirks::default()), Files::new());
    let pull = || command(&hub.endpoint, &home, &[], &["models", "pull", ID]).output().unwrap();
    let path = PathBuf::from(stdout(&pull()).trim_end()).join("model.safetensors");
    let weights = std::fs::read(&path).unwrap();
    std::fs::write(&path, &weights[..100]).unwrap();
    hub.asked();
    stdout(&pull());
    assert_eq!(std::fs::read(&path).unwrap(), weights);
    assert_eq!(hub.asked().len(), 3, "the list, and the weights alone");
}

#[test]
fn two_processes_at_once_both_succeed() {
    let hub = server(Quirks { slow: true, ..Quirks::default() });
    let home = Files::new();
    let run = || translate(&hub.endpoint, &home, ID);
    let outputs =
        std::thread::scope(|scope| [scope.spawn(run), scope.spawn(run)].map(|run| run.join().unwrap()));
    outputs.iter().for_each(|output| assert_eq!(stdout(output), expected()));
    let asked = hub.asked();
    assert_eq!(asked.iter().filter(|asked| asked.is_cdn).count(), 1);
}

#[test]
fn who_changes_a_model_is_waited_for() {
    let (hub, home) = (server(Quirks::default()), Files::new());
    let locks = Path::new(&home.path("hf/hub/.locks")).join(folder(&home).file_name().unwrap());
    std::fs::create_dir_all(&locks).unwrap();
    let lock = std::fs::File::create(locks.join("tx.lock")).unwrap();
    lock.lock().unwrap();
    let mut pull = command(&hub.endpoint, &home, &[], &["models", "pull", ID]);
    let mut child = pull.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut errors, mut said) = (BufReader::new(child.stderr.take().unwrap()), String::new());
    errors.read_line(&mut said).unwrap();
    assert!(said.contains("another process is fetching it: waiting"), "{said}");
    assert!(hub.asked().is_empty());
    lock.unlock().unwrap();
    stdout(&child.wait_with_output().unwrap());
    lock.lock().unwrap();
    let rm = command(CLOSED, &home, &[], &["models", "rm", ID]).output().unwrap();
    refused(&rm, &["is being fetched by another process"]);
}

#[test]
fn revisions_are_kept_apart() {
    let pegasus = golden("families/pegasus");
    let hub = StandIn::new(&[("main", &tiny()), ("refs/pr/1", &pegasus)], Quirks::default());
    let home = Files::new();
    let pull =
        |id: &str| stdout(&command(&hub.endpoint, &home, &[], &["models", "pull", id]).output().unwrap());
    let (main, other) = (pull(ID), pull(&format!("{ID}@refs/pr/1")));
    assert!(main.contains(&commit("main")) && other.contains(&commit("refs/pr/1")));
    assert!(
        std::fs::read_to_string(Path::new(other.trim_end()).join("config.json")).unwrap().contains("pegasus")
    );
    assert_eq!(stdout(&translate(CLOSED, &home, &format!("{ID}@{}", commit("main")))), expected());
    let list = stdout(&command(CLOSED, &home, &[], &["models"]).output().unwrap());
    assert!(list.contains(&format!("{ID}@refs/pr/1 ")) && list.contains(&format!("{ID}  ")), "{list}");
}

#[test]
fn the_oldest_models_have_no_owner() {
    let (hub, home) = (server(Quirks::default()), Files::new());
    assert_eq!(stdout(&translate(&hub.endpoint, &home, OLD_ID)), expected());
    assert_eq!(stdout(&translate(CLOSED, &home, OLD_ID)), expected());
    let list = stdout(&command(CLOSED, &home, &[], &["models"]).output().unwrap());
    assert!(list.contains(&format!("{OLD_ID}  en → de")), "{list}");
    let mistyped = "there is no opus-mt-en-dd here; as a model of the Hugging Face Hub: opus-mt-en-dd: ";
    refused(&translate(&hub.endpoint, &home, "opus-mt-en-dd"), &[mistyped, "has no model opus-mt-en-dd"]);
    refused(&translate(CLOSED, &home, "opus-mt-en-dd"), &[mistyped, "does not answer"]);
    hub.asked();
    refused(&translate(&hub.endpoint, &home, "model.npz"), &["model.npz: does not exist"]);
    assert!(hub.asked().is_empty());
}

/// Two names of one commit, and two commits with the same contents.
#[test]
fn a_revision_is_removed_without_what_others_need() {
    let pegasus = golden("families/pegasus");
    let revisions = [("main", tiny()), ("v1", tiny()), ("refs/pr/1", pegasus)];
    let hub =
        StandIn::new(&revisions.each_ref().map(|(name, path)| (*name, path.as_path())), Quirks::default());
    let home = Files::new();
    let models =
        |args: &[&str]| command(&hub.endpoint, &home, &[], &[&["models"], args].concat()).output().unwrap();
    let rm = |revision: &str| models(&["rm", &format!("{ID}@{revision}")]);
    for revision in ["main", "v1", "refs/pr/1"] {
        stdout(&models(&["pull", &format!("{ID}@{revision}")]));
    }
    std::fs::write(folder(&home).join("refs/same"), commit("main")).unwrap();
    let there = |folder_name: &str| std::fs::read_dir(folder(&home).join(folder_name)).unwrap().count();
    let pegasus = 4;
    assert_eq!((there("snapshots"), there("blobs")), (3, 5 + pegasus));
    refused(&rm("v2"), &[&format!("{ID}@v2 is not in the cache")]);
    stdout(&rm("v1"));
    assert_eq!((there("snapshots"), there("blobs")), (2, 5 + pegasus));
    stdout(&rm("refs/pr/1"));
    assert_eq!((there("snapshots"), there("blobs")), (1, 5));
    stdout(&rm("same"));
    assert_eq!(stdout(&translate(CLOSED, &home, ID)), expected());
    refused(&rm("same"), &["not in the cache"]);
    stdout(&rm(&commit("main")));
    assert!(!folder(&home).exists());
}

#[test]
fn a_companys_own_root_is_trusted_where_the_system_has_it() {
    let (hub, home) = (StandIn::encrypted(&[("main", &tiny())]), Files::new());
    let pull = |variables: &[(&str, &str)]| {
        command(&hub.endpoint, &home, variables, &["models", "pull", ID]).output().unwrap()
    };
    refused(&pull(&[]), &["does not answer", "certificate", "SSL_CERT_FILE"]);
    refused(&pull(&[("SSL_CERT_FILE", "/nowhere.pem")]), &["SSL_CERT_FILE names no certificates"]);
    stdout(&pull(&[("SSL_CERT_FILE", golden("tls/ca.pem").to_str().unwrap())]));
}
