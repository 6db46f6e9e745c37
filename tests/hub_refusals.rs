//! What `tx` says where a model of the Hugging Face Hub cannot be had, what it tells whom, and the list of models.

use crate::common::{Files, stderr, stdout};
use crate::hub::{CLOSED, TEXT, command, folder, refused, server, tiny, translate};
use crate::stand_in::{ID, Quirks, commit};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;

/// Every refusal has a sentence of its own that says what to do.
#[test]
fn refusals_say_what_to_do() {
    let page = "<html>log in</html>";
    for (list, said) in [
        (
            (401, "x-error-code: RepoNotFound\r\n", ""),
            &["no model of this name, or it is private", "HF_TOKEN"][..],
        ),
        ((404, "x-error-code: RevisionNotFound\r\n", ""), &["no revision main"]),
        ((404, "", ""), &["no model", "there is no some-one/opus-mt-en-de here"]),
        ((403, "", ""), &["ask for access"]),
        ((429, "retry-after: 17\r\n", ""), &["too many requests", "wait 17 seconds"]),
        ((503, "", ""), &["out of order (status 503)", "later"]),
        ((418, "", ""), &["status 418"]),
        ((200, "", page), &["no list of files", "login page"]),
        ((200, "", "{\"siblings\": []}"), &["without a commit"]),
        ((200, "", "{\"siblings\": [], \"sha\": \"../../../../x\"}"), &["without a commit"]),
        ((200, "", "{\"siblings\": [{}, {\"rfilename\": 1}], \"sha\": \"0123456789\"}"), &["no weights"]),
        ((200, "", "\u{0}\u{1}"), &["no list of files"]),
        ((302, "", ""), &["redirects without saying where to"]),
        ((302, "location: http://[\r\n", ""), &["no address"]),
        ((302, "location: ?\r\n", ""), &["redirects in a circle"]),
    ] {
        let (hub, home) = (server(Quirks { list: Some(list), ..Quirks::default() }), Files::new());
        refused(&translate(&hub.endpoint, &home, ID), &[said, &[ID]].concat());
    }
    for (file, said) in [
        ((401, "x-error-code: GatedRepo\r\n", ""), &["gated", "accept its terms", "set HF_TOKEN"][..]),
        ((403, "x-error-code: GatedRepo\r\n", ""), &["gated"]),
        ((404, "x-error-code: EntryNotFound\r\n", ""), &["gone"]),
        ((429, "", ""), &["too many requests"]),
        ((302, "", ""), &["redirects without saying where to"]),
    ] {
        let (hub, home) = (server(Quirks { file: Some(file), ..Quirks::default() }), Files::new());
        refused(&translate(&hub.endpoint, &home, ID), said);
    }
    let (hub, home) = (server(Quirks::default()), Files::new());
    refused(&translate(&hub.endpoint, &home, "some-one/other"), &["some-one/other", "no model"]);
    refused(&translate(CLOSED, &home, ID), &[ID, CLOSED, "HF_ENDPOINT"]);
    refused(&translate("nowhere", &home, ID), &["HF_ENDPOINT"]);
    let offline =
        |args: &[&str]| command(&hub.endpoint, &home, &[("HF_HUB_OFFLINE", "1")], args).output().unwrap();
    hub.asked();
    refused(
        &offline(&["translate", "--model", ID, TEXT[0], TEXT[1]]),
        &["not in the cache", "HF_HUB_OFFLINE"],
    );
    refused(&offline(&["models", "pull", ID]), &["HF_HUB_OFFLINE"]);
    assert!(hub.asked().is_empty());
    // What is no id stays a path.
    refused(&translate(&hub.endpoint, &home, "./some-one/other"), &["does not exist"]);
    assert!(hub.asked().is_empty());
}

#[test]
fn the_token_goes_to_the_hub_alone() {
    let (hub, home) = (server(Quirks::default()), Files::new());
    std::fs::create_dir_all(home.path("hf")).unwrap();
    std::fs::write(home.path("hf/token"), "hf_secret\n").unwrap();
    stdout(&translate(&hub.endpoint, &home, ID));
    for asked in hub.asked() {
        assert_eq!(asked.token.as_deref(), (!asked.is_cdn).then_some("Bearer hf_secret"), "{}", asked.path);
    }
    let gated = Quirks { list: Some((401, "", "")), ..Quirks::default() };
    hub.set(gated);
    let home = Files::new();
    let variables = [("HF_TOKEN", "hf_old")];
    let output = command(&hub.endpoint, &home, &variables, &["models", "pull", ID]).output().unwrap();
    refused(&output, &["does not take your token"]);
    assert_eq!(hub.asked()[0].token.as_deref(), Some("Bearer hf_old"));
}

#[test]
fn a_proxy_is_asked_unless_no_proxy_names_the_host() {
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    let seen = std::thread::spawn(move || {
        let (mut stream, _) = proxy.accept().unwrap();
        let lines = BufReader::new(&stream).lines().map_while(Result::ok);
        let asked: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
        stream.write_all(b"HTTP/1.1 502 No\r\ncontent-length: 0\r\n\r\n").unwrap();
        asked.join("\n")
    });
    let home = Files::new();
    let pull = |endpoint: &str, variables: &[(&str, &str)]| {
        command(endpoint, &home, variables, &["models", "pull", ID]).output().unwrap()
    };
    refused(
        &pull("http://hub.invalid", &[("http_proxy", &address)]),
        &["hub.invalid", &address["http://".len()..]],
    );
    assert!(seen.join().unwrap().contains("hub.invalid"));
    let hub = server(Quirks::default());
    stdout(&pull(&hub.endpoint, &[("HTTP_PROXY", CLOSED), ("NO_PROXY", "localhost,127.0.0.1")]));
}

#[test]
fn models_are_listed_and_removed() {
    let (hub, home) = (server(Quirks::default()), Files::new());
    let tx = |args: &[&str]| command(&hub.endpoint, &home, &[], args).output().unwrap();
    let bundled = stdout(&tx(&["models"]));
    assert!(bundled.starts_with("bundled:en-de  en → de  ") && bundled.lines().count() == 1, "{bundled}");
    stdout(&tx(&["models", "pull", ID]));
    // Others share the cache.
    let other = Path::new(&home.path("hf/hub")).join("models--a--b/snapshots/0123456789");
    std::fs::create_dir_all(&other).unwrap();
    for (name, content) in
        [("config.json", "{\"model_type\": \"bert\"}"), ("model.safetensors", ""), ("tokenizer.json", "")]
    {
        std::fs::write(other.join(name), content).unwrap();
    }
    let tiny = tiny();
    let variables = [("TX_MODEL", tiny.to_str().unwrap())];
    let output = command(CLOSED, &home, &variables, &["models"]).output().unwrap();
    let list = stdout(&output);
    assert_eq!(list.lines().count(), 3, "{list}");
    assert!(list.contains("tiny-marian") && list.contains("$TX_MODEL"), "{list}");
    assert!(list.contains(&format!("Hub, commit {}", &commit("main")[..7])), "{list}");
    assert!(stderr(&output).contains("1 more"), "{}", stderr(&output));
    let removed = tx(&["models", "rm", ID]);
    assert!(stdout(&removed).is_empty() && stderr(&removed).contains("removed"), "{}", stderr(&removed));
    assert!(!folder(&home).exists() && other.exists());
    refused(&tx(&["models", "rm", ID]), &["not in the cache"]);
    refused(&tx(&["models", "rm", "a/b@main"]), &["not in the cache"]);
    stdout(&tx(&["models", "rm", "a/b@0123456789"]));
    assert!(!other.exists());
    refused(&tx(&["models", "rm", "../x"]), &["no id"]);
}
