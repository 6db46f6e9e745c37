//! Lines in parts: by sentences, since models are trained on these, and what is too long for the model in segments that
//! are not: at sentence ends if it can be, else at clause ends, else between words, else anywhere. Nothing is dropped.

/// The sentences of `text` in the language that a model names, by the rules and abbreviations of Wikimedia's sentencex.
pub fn sentences<'a>(language: &str, text: &'a str) -> Vec<&'a str> {
    let sentences = sentencex::segment(language, text).into_iter().map(str::trim);
    sentences.filter(|sentence| !sentence.is_empty()).collect()
}

/// Whether a character makes words that blanks divide.
pub(super) fn is_letter(c: char) -> bool {
    c.is_alphanumeric() && (!is_unspaced(c) || matches!(c, '\u{AC00}'..='\u{D7A3}'))
}

/// Whether words of this character's script follow each other without blanks, or as in Korean their endings do.
pub(super) fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{E00}'..='\u{EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}' | '\u{3040}'..='\u{30FF}'
        | '\u{3400}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7A3}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
}

/// Places to cut at, the best first.
const CUTS: [fn(&[char], usize) -> bool; 4] = [after_sentence, after_clause, after_blank, anywhere];

fn after_sentence(text: &[char], at: usize) -> bool {
    match text[at - 1] {
        '。' | '！' | '？' | '．' => true,
        before => {
            before.is_whitespace() && at >= 2 && matches!(text[at - 2], '.' | '!' | '?' | '…' | '؟' | '।')
        }
    }
}

fn after_clause(text: &[char], at: usize) -> bool {
    match text[at - 1] {
        '、' | '，' | '；' | '：' => true,
        before => {
            before.is_whitespace()
                && at >= 2
                && matches!(text[at - 2], ',' | ';' | ':' | '،' | '؛' | ')' | '–' | '—')
        }
    }
}

fn after_blank(text: &[char], at: usize) -> bool {
    text[at - 1].is_whitespace()
}

fn anywhere(_: &[char], _: usize) -> bool {
    true
}

/// Cuts `text` into segments of which `fits` holds, each as long as it can be. A single character counts as fitting.
pub fn split(text: &str, fits: impl Fn(&str) -> bool) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let segment =
        |from: usize, to: usize| -> String { chars[from..to].iter().collect::<String>().trim().to_string() };
    let mut segments = Vec::new();
    let mut from = 0;
    while from < chars.len() {
        let to = if fits(&segment(from, chars.len())) {
            chars.len()
        } else {
            let longest = longest_fit(from, chars.len(), |to| fits(&segment(from, to)));
            let cut_by = |is_cut: &fn(&[char], usize) -> bool| {
                (from + 1..=longest).rev().find(|&at| is_cut(&chars, at))
            };
            CUTS.iter().find_map(cut_by).unwrap_or(longest)
        };
        segments.push(segment(from, to));
        from = to;
    }
    segments.retain(|segment| !segment.is_empty());
    segments
}

/// The largest end above `from` that fits, by bisection: a longer text never has fewer pieces, or hardly.
fn longest_fit(from: usize, end: usize, fits: impl Fn(usize) -> bool) -> usize {
    let (mut good, mut bad) = (from + 1, end);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if fits(middle) {
            good = middle;
        } else {
            bad = middle;
        }
    }
    good
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split_at(text: &str, limit: usize) -> Vec<String> {
        split(text, |segment| segment.chars().count() <= limit)
    }

    #[test]
    fn cuts_at_the_best_place_that_fits() {
        assert_eq!(split_at("One. Two, three. Four", 17), ["One. Two, three.", "Four"]);
        assert_eq!(split_at("One, two, three four", 12), ["One, two,", "three four"]);
        assert_eq!(split_at("one two three", 8), ["one two", "three"]);
        assert_eq!(split_at("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(split_at("一二三。四五六。七", 5), ["一二三。", "四五六。七"]);
        assert_eq!(split_at("short", 10), ["short"]);
    }

    /// Abbreviations, ordinals and quotations end no sentence; a language without rules of its own has those of English.
    #[test]
    fn sentences_of_a_line() {
        let english = "Mr. Smith paid $3.50. \"Really?\" he asked. Yes!";
        assert_eq!(sentences("en", english), ["Mr. Smith paid $3.50.", "\"Really?\" he asked.", "Yes!"]);
        assert_eq!(
            sentences("de", "Am 3. Oktober kam er z. B. an. Gut."),
            ["Am 3. Oktober kam er z. B. an.", "Gut."]
        );
        assert_eq!(sentences("ja", "これは本です。はい。"), ["これは本です。", "はい。"]);
        assert_eq!(sentences("xx", "One. Two."), ["One.", "Two."]);
        assert_eq!(sentences("", "no end"), ["no end"]);
        assert!(sentences("en", "").is_empty());
    }

    #[test]
    fn nothing_is_dropped() {
        let text = "The road goes on and on, ".repeat(40);
        let joined = split_at(&text, 33).join(" ");
        assert_eq!(joined, text.trim());
    }
}
