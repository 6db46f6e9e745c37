//! Which files make a corpus, and which way it is translated.

use super::*;

fn direction(names: &[&str], from: Option<&str>, to: Option<&str>) -> Result<(String, String), String> {
    let files: Vec<(&str, &str)> = names.iter().map(|name| (*name, "x\n")).collect();
    let corpus = Corpus::find(folder(&files).path(), from, to).map_err(|e| e.to_string())?;
    Ok((corpus.from, corpus.to))
}

fn pair(from: &str, to: &str) -> Result<(String, String), String> {
    Ok((from.into(), to.into()))
}

#[test]
fn english_is_the_source_else_the_alphabet_decides() {
    let two = |a: &str, b: &str| direction(&[&format!("train.{a}"), &format!("train.{b}")], None, None);
    assert_eq!(two("de", "en"), pair("en", "de"));
    assert_eq!(two("de.gz", "en_GB.zst"), pair("en_GB", "de"));
    assert_eq!(two("eng_Latn", "deu_Latn"), pair("eng_Latn", "deu_Latn"));
    assert_eq!(two("fr", "de"), pair("de", "fr"));
    assert_eq!(two("tgt", "src"), pair("src", "tgt"));
    assert_eq!(two("pt-BR", "zh_Hant_TW"), pair("pt-BR", "zh_Hant_TW"));
    assert_eq!(direction(&["train.de", "train.en"], Some("de"), None), pair("de", "en"));
    assert_eq!(direction(&["train.de", "train.en"], None, Some("en")), pair("de", "en"));
}

#[test]
fn more_than_two_languages_need_a_choice() {
    let names = ["train.cs", "train.de", "train.en"];
    let message = direction(&names, None, None).unwrap_err();
    assert!(message.contains("cs, de, en; choose two with --from and --to"), "{message}");
    assert!(direction(&names, Some("en"), None).is_err());
    assert_eq!(direction(&names, Some("de"), Some("cs")), pair("de", "cs"));
    assert!(direction(&names, Some("de"), Some("de")).unwrap_err().contains("both de"));
}

/// What looks like a language and is none does not count, unless it is asked for.
#[test]
fn other_endings_are_not_languages() {
    let names = [
        "train.en",
        "train.ko",
        "train.attribution.gz",
        "train.log",
        "train.md",
        "LICENSE.md",
        "pretrain.de",
    ];
    let files: Vec<(&str, &str)> = names.iter().map(|name| (*name, "x\n")).collect();
    let dir = folder(&files);
    let corpus = find(&dir).unwrap();
    assert_eq!((corpus.from.as_str(), corpus.to.as_str()), ("en", "ko"));
    let notice = corpus.notices.last().unwrap();
    assert!(notice.starts_with("not used: train.attribution.gz, train.log, train.md ("), "{notice}");
    assert_eq!(direction(&names, Some("en"), Some("log")), pair("en", "log"));
}

#[test]
fn splits_are_found_by_name() {
    let names = [
        "train.de",
        "train.en",
        "train.en.gz",
        "val.de",
        "val.en",
        "dev.de",
        "dev.en",
        "test_2016.de",
        "test_2016.en",
        "test.de",
        "test.en",
        "test_2017.en",
        "testament.de",
        "testament.en",
    ];
    let files: Vec<(&str, &str)> = names.iter().map(|name| (*name, "x\n")).collect();
    let corpus = find(&folder(&files)).unwrap();
    assert_eq!(corpus.dev.unwrap().name, "val");
    assert_eq!(corpus.tests.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["test", "test_2016"]);
    assert_eq!(
        corpus.notices,
        [
            "direction: en to de (--from and --to choose another)",
            "train: train.en and train.de",
            "dev: val.en and val.de",
            "test: test.en and test.de, test_2016.en and test_2016.de",
            "test_2017 lacks en or de, left out",
            "not used: dev.de, dev.en, test_2017.en, train.en.gz (another file was chosen or its partner is missing)",
        ]
    );
}

/// The message says what was looked for and what is there.
#[test]
fn missing_files_are_named() {
    let message = |files: &[(&str, &str)]| find(&folder(files)).unwrap_err().to_string();
    let one = message(&[("train.en", EN), ("notes.txt", "")]);
    assert!(one.contains("train.XX and train.YY") && one.contains("found notes.txt, train.en"), "{one}");
    assert!(message(&[]).contains("the folder has no files"));
    assert!(message(&[("dev.en", EN), ("dev.de", DE)]).contains("looked for two files train.XX"));
    let half = message(&[("train.en", EN), ("train.de", DE), ("dev.en", EN)]);
    assert!(half.contains("dev.en has no partner dev.de"), "{half}");
    let dir = folder(&[("train.en", EN), ("train.de", DE)]);
    let asked = Corpus::find(dir.path(), Some("en"), Some("fr")).unwrap_err().to_string();
    assert!(asked.contains("no train.fr; found train.de, train.en"), "{asked}");
    let absent = Corpus::find("no/such/folder", None, None).unwrap_err().to_string();
    assert!(absent.contains("no/such/folder"), "{absent}");
}

#[test]
fn a_table_has_both_sides() {
    let columns = |content: &str, from, to| {
        let dir = folder(&[("train.tsv", content)]);
        let corpus = Corpus::find(dir.path(), from, to).unwrap();
        let text = read(&corpus.train).unwrap();
        (format!("{}-{}", corpus.from, corpus.to), text.src.join("|"), text.tgt.join("|"))
    };
    let expect =
        |languages: &str, src: &str, tgt: &str| (languages.to_string(), src.to_string(), tgt.to_string());
    assert_eq!(columns("de\ten\nja\tyes\nnein\tno\n", None, None), expect("en-de", "yes|no", "ja|nein"));
    assert_eq!(columns("Hi\tJa\r\nno\tnein\r\n", None, None), expect("src-tgt", "Hi|no", "Ja|nein"));
    assert_eq!(columns("Go.\tGeh.\tCC-BY\n", Some("en"), Some("de")), expect("en-de", "Go.", "Geh."));
    assert_eq!(columns("id\tde\ten\n7\tja\tyes\n", Some("en"), Some("de")), expect("en-de", "yes", "ja"));
    assert_eq!(columns("en\tde\nno tab here\n", None, None), expect("en-de", "no tab here", ""));
    let message = find(&folder(&[("train.tsv", "one column\n")])).unwrap_err().to_string();
    assert!(message.contains("train.tsv: line 1: expected two columns"), "{message}");
}

/// SHA-256 of "abc" is the example of the standard (FIPS 180-2).
#[test]
fn files_are_hashed_for_provenance() {
    let dir = folder(&[
        ("train.en", "abc"),
        ("train.de", "x"),
        ("dev.en", "d"),
        ("dev.de", "e"),
        ("test.en", "abc"),
        ("test.de", "y"),
    ]);
    let hashes = Corpora::find(&[Source::new(dir.path())], None, None).unwrap().hashes().unwrap();
    assert_eq!(load(&dir).unwrap().data.hashes, hashes);
    assert_eq!(
        hashes.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["train.en", "train.de", "dev.en", "dev.de", "test.en", "test.de"]
    );
    assert_eq!(hashes[0].1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!(hashes[0].1, hashes[4].1);
}
