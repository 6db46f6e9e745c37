//! What is read, kept, dropped and reported, down to the batches.

use super::*;
use crate::text::{Kind, Tokenizer};

/// The counts are of line feeds.
#[test]
fn sides_of_unequal_length_are_refused() {
    let dir = folder(&[("train.en", "a\u{2028}b\nc\r\nd"), ("train.de", "a\nc\n")]);
    let message = load(&dir).err().unwrap().to_string();
    assert!(
        message.contains("train.en has 3 lines, but ") && message.contains("train.de has 2:"),
        "{message}"
    );
}

/// An empty file is named as such.
#[test]
fn empty_files_are_refused_by_name() {
    let message = load(&folder(&[("train.en", ""), ("train.de", "")])).err().unwrap().to_string();
    assert!(message.contains("train.en and ") && message.contains("train.de have no lines"), "{message}");
}

#[cfg(unix)]
#[test]
fn an_unreadable_file_is_named() {
    let dir = folder(&[("train.en", EN)]);
    std::os::unix::fs::symlink("nowhere", dir.path().join("train.de")).unwrap();
    let message = load(&dir).err().unwrap().to_string();
    assert!(message.contains("train.de: "), "{message}");
}

/// A pair with an empty side goes as a pair, and is counted.
#[test]
fn empty_sides_are_dropped_together_and_counted() {
    let dir = folder(&[
        ("train.en", "one\n\nthree\n \u{A0}\nfive\nsix\n"),
        ("train.de", "eins\nzwei\n\n\u{200B}\nfünf\nsechs\n"),
    ]);
    let data = load(&dir).unwrap();
    let mut pairs: Vec<(String, String)> =
        [data.train, data.data.rest.dev].into_iter().flat_map(|t| t.src.into_iter().zip(t.tgt)).collect();
    pairs.sort();
    let expected =
        [("five", "fünf"), ("one", "eins"), ("six", "sechs")].map(|(s, t)| (s.to_string(), t.to_string()));
    assert_eq!(pairs, expected);
    assert_eq!(
        data.data.reports[0].to_string(),
        "train: 2 of 5 pairs kept; dropped: 1 with an empty source, 1 with an empty target, 1 with both sides empty. \
         WARNING: that is 60.0 % of the pairs"
    );
    let message = load(&folder(&[("train.en", "\n\n"), ("train.de", "a\nb\n")])).err().unwrap().to_string();
    assert_eq!(
        message,
        "nothing is left of train: 0 of 2 pairs kept; dropped: 2 with an empty source. WARNING: that is 100.0 % of the pairs"
    );
}

/// The file and the first damaged line are named.
#[test]
fn damaged_lines_are_reported() {
    let dir = folder(&[
        ("train.en", &b"a\nb\xFF\nc\xFF\n"[..]),
        ("train.de", b"a\nb\nc\n"),
        ("dev.en", b"x\n"),
        ("dev.de", b"x\n"),
    ]);
    let data = load(&dir).unwrap();
    assert_eq!(data.train.src, ["a", "b\u{FFFD}", "c\u{FFFD}"]);
    let path = dir.path().join("train.en");
    let expected = format!(
        "{}: 2 of 3 lines are not UTF-8 (the first is line 2); the bad bytes became U+FFFD",
        path.display()
    );
    assert_eq!(data.data.rest.notices().collect::<Vec<_>>(), [&expected]);
}

fn numbered(n: usize) -> (String, String) {
    ((0..n).map(|i| format!("line {i}\n")).collect(), (0..n).map(|i| format!("Zeile {i}\n")).collect())
}

#[test]
fn a_missing_dev_set_is_held_out_by_seed() {
    let (en, de) = numbered(100);
    let dir = folder(&[("train.en", en), ("train.de", de)]);
    let corpus = find(&dir).unwrap();
    assert!(
        corpus.notices[2].contains("none found (looked for valid.en, val.en, dev.en)"),
        "{:?}",
        corpus.notices
    );
    let load = |seed| load_with(&[Source::new(dir.path())], &Filters::new(100), seed).unwrap();
    let Loaded { train, data, .. } = load(1);
    let dev = &data.rest.dev;
    assert_eq!((train.len(), dev.len()), (95, 5));
    assert_eq!(
        data.rest.notices().collect::<Vec<_>>(),
        ["no dev set: 5 of 100 pairs of train are held out (seed 1)"]
    );
    assert!(dev.src.iter().zip(&dev.tgt).all(|(s, t)| s.replace("line", "Zeile") == *t));
    assert!(dev.src.iter().all(|s| !train.src.contains(s)));
    assert_eq!(load(1).data.rest.dev, *dev);
    assert_ne!(load(2).data.rest.dev.src, dev.src);
    assert!(data.overlaps.is_empty());
    let message =
        super::load(&folder(&[("train.en", "a\n"), ("train.de", "b\n")])).err().unwrap().to_string();
    assert!(message.contains("1 pair, too few"), "{message}");
}

#[test]
fn sentences_shared_with_dev_are_counted() {
    let dir = folder(&[
        ("train.en", EN),
        ("train.de", DE),
        ("dev.en", "The dog sleeps.\nTHE CAT  eats fish.\nIt rains.\nNew.\n"),
        ("dev.de", "Der Hund schläft.\nDie Katze frisst Fisch.\nEs gießt.\nNeu.\n"),
        ("test.en", "Fresh.\n"),
        ("test.de", "Frisch.\n"),
    ]);
    let overlaps = load(&dir).unwrap().data.overlaps;
    let expected =
        Overlap { name: "dev".into(), pairs: 4, same_pair: 1, folded_pair: 2, same_src: 2, folded_src: 3 };
    assert_eq!(overlaps, [expected]);
    let warning = overlaps[0].to_string();
    let expected = "warning: dev shares sentences with train: 2 of 4 whole pairs (1 to the letter, ";
    assert!(
        warning.starts_with(expected) && warning.contains("and 3 sources (2 to the letter)"),
        "{warning}"
    );
}

fn tokenizer() -> Tokenizer {
    Tokenizer::train(Kind::Char, &[EN, DE], 100, false).unwrap()
}

/// Over-long pairs are dropped and counted, and none left is an error.
#[test]
fn long_pairs_are_dropped_and_counted() {
    let text = Text {
        name: "train".into(),
        src: vec!["The".into(), "The cat".into(), "is".into()],
        tgt: vec!["Die".into(), "Die Katze".into(), "Die Katze".into()],
        notices: vec![],
    };
    let tokenizer = tokenizer();
    let mut report = Report::new("train", 3);
    // ▁ T h e </s> is 5 long, the others are not shorter.
    let pairs = Pairs::encode(&tokenizer, &text, 5, &mut report).unwrap();
    assert_eq!((pairs.len(), report.kept(), report.is_loud()), (1, 1, true));
    assert!(report.to_string().contains("2 longer than 5 pieces. WARNING: that is 66.7 %"), "{report}");
    let none = Pairs::encode(&tokenizer, &text, 4, &mut Report::new("train", 3)).err().unwrap().to_string();
    assert!(none.contains("nothing is left of train: 0 of 3 pairs kept; dropped: 3 longer than 4"), "{none}");
}

#[test]
fn a_batch_shifts_the_target_by_one() {
    let tokenizer = tokenizer();
    let text = Text {
        name: "train".into(),
        src: vec!["It".into(), "We".into(), "The dog".into()],
        tgt: vec!["Es".into(), "Wir".into(), "Der Hund".into()],
        notices: vec![],
    };
    let pairs = Pairs::encode(&tokenizer, &text, 100, &mut Report::new("train", 3)).unwrap();
    assert_eq!(pairs.lengths(), [(4, 4), (4, 5), (9, 10)]);
    let batch = pairs.batch(&[1, 0], 2);
    let texts = |ids: &[u32]| ids.iter().map(|&id| tokenizer.piece(id)).collect::<Vec<_>>().concat();
    assert_eq!(texts(&batch.src), "▁We</s>▁It</s>");
    assert_eq!(texts(&batch.tgt_in), "<s>▁Wir<s>▁Es");
    assert_eq!(texts(&batch.tgt_out), "▁Wir</s>▁Es</s>");
    assert_eq!((batch.src_lengths.as_slice(), batch.tgt_lengths.as_slice()), (&[4, 4][..], &[5, 4][..]));
    assert_eq!(batch.tgt_tokens(), 9);
}

/// From the folder to the batches of an epoch: every pair arrives once.
#[test]
fn an_epoch_has_every_pair_once() {
    let (en, de) = numbered(300);
    let dir = folder(&[("train.en", en), ("train.de", de)]);
    let Loaded { train, data, .. } = load(&dir).unwrap();
    let tokenizer = Tokenizer::train(Kind::Char, &train.src, 100, false).unwrap();
    let mut report = data.reports[0].clone();
    let pairs = Pairs::encode(&tokenizer, &train, 50, &mut report).unwrap();
    let plan = batches(pairs.lengths(), 200, 1, 1);
    let mut sources: Vec<String> = vec![];
    for rows in &plan {
        let batch = pairs.batch(rows, 2);
        let mut rest = &batch.src[..];
        for &n in &batch.src_lengths {
            sources.push(tokenizer.decode(&rest[..n]).unwrap());
            rest = &rest[n..];
        }
    }
    sources.sort();
    let mut expected = train.src.clone();
    expected.sort();
    assert_eq!(sources, expected);
}

/// Also a pair of two kinds, and a table.
#[test]
fn files_may_be_compressed() {
    let gzip = |text: &str| {
        let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::default());
        std::io::Write::write_all(&mut encoder, text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = ruzstd::encoding::compress_to_vec(DE.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest);
    let table: String = EN.lines().zip(DE.lines()).map(|(en, de)| format!("{en}\t{de}\n")).collect();
    for files in
        [vec![("train.en.gz", gzip(EN)), ("train.de.zst", zstd)], vec![("train.tsv.gz", gzip(&table))]]
    {
        let dir = folder(&files);
        let text = read(&find(&dir).unwrap().train).unwrap();
        assert_eq!(text.src, EN.lines().collect::<Vec<_>>());
        assert_eq!(text.tgt, DE.lines().collect::<Vec<_>>());
    }
}
