//! What the pages of HTML share: they need no network and no other file, and look alike.

/// The style of every page, for light and dark, wide and narrow.
const STYLE: &str = include_str!("style.css");

/// `template` with `{{style}}` and each of `parts` in its place. The parts come in the order of the template, and what was
/// put in is never looked at again: a user's text may hold a name too.
pub fn fill(template: &str, parts: &[(&str, String)]) -> String {
    let (mut page, mut rest) = (String::new(), template);
    for (name, content) in
        [("style", STYLE)].into_iter().chain(parts.iter().map(|(name, part)| (*name, part.as_str())))
    {
        if let Some((before, after)) = rest.split_once(&format!("{{{{{name}}}}}")) {
            page += before;
            page += content;
            rest = after;
        }
    }
    page + rest
}

/// `text` with what HTML takes for markup written out.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            c => escaped.push(c),
        }
    }
    escaped
}

/// A name and what it stands for, for a `<dl>`.
pub fn pair(name: &str, value: &str) -> String {
    format!("<dt>{}</dt><dd dir=\"auto\">{}</dd>\n", escape(name), escape(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_text_is_written_out() {
        assert_eq!(escape("<b a=\"'\">&"), "&lt;b a=&quot;&#39;&quot;&gt;&amp;");
        assert_eq!(pair("src", "<i>"), "<dt>src</dt><dd dir=\"auto\">&lt;i&gt;</dd>\n");
    }

    #[test]
    fn parts_are_put_in_once_and_in_order() {
        let parts = [("a", "{{b}}".to_string()), ("b", "2".to_string())];
        assert_eq!(fill("{{a}} {{b}}", &parts), "{{b}} 2");
        assert!(fill("<style>{{style}}</style>{{a}}", &parts).contains("color-scheme: light dark"));
    }
}
