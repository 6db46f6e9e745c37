//! Translations in the layouts that other programs write, for those who read these.

use crate::cli::TranslationFormat;
use std::f64::consts::LN_2;
use std::io::{self, Write};
use tx::translate::{Candidate, Translation, Translator};

/// Writes the hypotheses of a line; `word_scores` adds those of pieces to `marian` and those of words to `jsonl`.
pub fn write(
    out: &mut impl Write,
    translator: &Translator,
    translation: &Translation,
    format: TranslationFormat,
    word_scores: bool,
) -> anyhow::Result<()> {
    let hypotheses = &translation.hypotheses;
    match format {
        TranslationFormat::Text => match &hypotheses[0] {
            Candidate { text, alignment: Some(links), .. } => {
                writeln!(out, "{} ||| {links}", unbarred(text))?
            }
            Candidate { text, .. } => writeln!(out, "{text}")?,
        },
        TranslationFormat::Jsonl if word_scores => {
            let mut line = serde_json::to_value(translation)?;
            for (one, hypothesis) in line["hypotheses"].as_array_mut().into_iter().flatten().zip(hypotheses) {
                one["word_log_probs"] = serde_json::json!(word_log_probs(translator, hypothesis));
            }
            writeln!(out, "{line}")?;
        }
        TranslationFormat::Jsonl => writeln!(out, "{}", serde_json::to_string(translation)?)?,
        TranslationFormat::Tsv => {
            for (rank, one) in (1..).zip(hypotheses) {
                let (line, src, text) = (translation.line, escaped(&translation.src), escaped(&one.text));
                write!(out, "{line}\t{rank}\t{}\t{}\t{src}\t{text}", one.score, one.log_prob)?;
                match &one.alignment {
                    Some(links) => writeln!(out, "\t{links}")?,
                    None => writeln!(out)?,
                }
            }
        }
        TranslationFormat::Marian => {
            hypotheses.iter().try_for_each(|one| marian(out, translation.line - 1, one, word_scores))?
        }
        TranslationFormat::Fairseq => {
            let pieces = translation.src_ids.iter().map(|&id| translator.tokenizer().piece(id));
            writeln!(out, "S-{}\t{}", translation.line - 1, pieces.collect::<Vec<_>>().join(" "))?;
            let eos = translator.tokenizer().special_ids().eos;
            hypotheses.iter().try_for_each(|one| fairseq(out, translation.line - 1, one, eos))?;
        }
    }
    Ok(())
}

/// Of each word the sum over its pieces, end marks left out.
fn word_log_probs(translator: &Translator, one: &Candidate) -> Vec<f64> {
    let eos = translator.tgt_tokenizer().special_ids().eos;
    let said = one.ids.iter().zip(&one.token_log_probs).filter(|(id, _)| **id != eos);
    let (ids, log_probs): (Vec<u32>, Vec<f32>) = said.unzip();
    let words = translator.tgt_tokenizer().words(&ids);
    let mut sums = vec![0.0; words.last().map_or(0, |last| last + 1)];
    words.into_iter().zip(log_probs).for_each(|(word, log_prob)| sums[word] += f64::from(log_prob));
    sums
}

/// `LINE ||| TEXT [||| ALIGNMENT] [||| WordScores= ...] ||| F0=LOG_PROB ||| SCORE`, lines from 0.
fn marian(out: &mut impl Write, line: u64, one: &Candidate, word_scores: bool) -> io::Result<()> {
    write!(out, "{line} ||| {}", unbarred(&one.text))?;
    if let Some(links) = &one.alignment {
        write!(out, " ||| {links}")?;
    }
    if word_scores {
        write!(out, " ||| WordScores=")?;
        one.token_log_probs.iter().try_for_each(|x| write!(out, " {x}"))?;
    }
    writeln!(out, " ||| F0={} ||| {}", one.log_prob, one.score)
}

/// `H-LINE SCORE PIECES`, `D-LINE SCORE TEXT`, `P-LINE SCORES` and `A-LINE ALIGNMENT` with tabs between, lines from 0, logarithms to base 2.
fn fairseq(out: &mut impl Write, line: u64, one: &Candidate, eos: u32) -> io::Result<()> {
    let score = one.score / LN_2;
    writeln!(out, "H-{line}\t{score}\t{}", one.pieces(eos).join(" "))?;
    writeln!(out, "D-{line}\t{score}\t{}", escaped(&one.text))?;
    let scores: Vec<String> =
        one.token_log_probs.iter().map(|&x| format!("{:.4}", f64::from(x) / LN_2)).collect();
    writeln!(out, "P-{line}\t{}", scores.join(" "))?;
    match &one.alignment {
        Some(links) => writeln!(out, "A-{line}\t{links}"),
        None => Ok(()),
    }
}

/// `text` with entities in place of the bars of a separator, and of the ampersand of such an entity.
fn unbarred(text: &str) -> String {
    text.replace("&#124;", "&amp;#124;").replace("|||", "&#124;&#124;&#124;")
}

/// `text` on one line and without tabs: these and backslashes as `\t`, `\n`, `\r` and `\\`.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tx::search::Finish;

    fn candidate(text: &str) -> Candidate {
        Candidate {
            text: text.into(),
            tokens: ["▁a", "b", "</s>"].map(String::from).to_vec(),
            ids: vec![7, 8, 3],
            log_prob: -3.0,
            score: -1.0,
            token_log_probs: vec![-0.5, -1.5, -1.0],
            finish: Finish::Eos,
            alignment: None,
        }
    }

    fn written(write: impl Fn(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn marian_as_its_decoder_prints_it() {
        let line = written(|out| marian(out, 4, &candidate("ab"), true));
        assert_eq!(line, "4 ||| ab ||| WordScores= -0.5 -1.5 -1 ||| F0=-3 ||| -1\n");
        let line = written(|out| marian(out, 0, &candidate("a ||| b"), false));
        assert_eq!(line, "0 ||| a &#124;&#124;&#124; b ||| F0=-3 ||| -1\n");
    }

    /// -1 / ln 2 = -1.442695.
    #[test]
    fn fairseq_as_its_generator_prints_it() {
        let lines = written(|out| fairseq(out, 2, &candidate("a\tb"), 3));
        let score = -1.0 / LN_2;
        assert_eq!(lines, format!("H-2\t{score}\t▁a b\nD-2\t{score}\ta\\tb\nP-2\t-0.7213 -2.1640 -1.4427\n"));
        let cut = Candidate { finish: Finish::Cut, ..candidate("ab") };
        assert!(written(|out| fairseq(out, 2, &cut, 9)).contains("\t▁a b </s>\n"));
    }

    #[test]
    fn text_stays_in_its_column() {
        assert_eq!(escaped("a\tb\\n\r\n"), "a\\tb\\\\n\\r\\n");
    }
}
