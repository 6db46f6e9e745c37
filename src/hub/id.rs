//! What names a model on the Hub: `owner/name`, or `owner/name@revision` (a branch, a tag, `refs/pr/N` or a commit). The oldest
//! models have no owner. What is allowed is what `huggingface_hub` allows (`validate_repo_id`), so that no id leads out of the cache.

use std::fmt;

/// The revision that is meant where none is named.
const MAIN: &str = "main";
/// Characters of owner and name together, at most.
const LONGEST: usize = 96;

/// The id of a model on the Hub.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModelId {
    name: String,
    revision: Option<String>,
}

impl ModelId {
    /// `text` as an id, if it has the form of one.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, revision) = match text.split_once('@') {
            Some((name, revision)) => (name, Some(revision)),
            None => (text, None),
        };
        let (owner, model) = name.split_once('/').map_or((None, name), |(owner, model)| (Some(owner), model));
        let fits = name.len() <= LONGEST
            && owner.map_or(!is_file(model), is_name)
            && is_name(model)
            && revision.is_none_or(is_revision);
        fits.then(|| ModelId { name: name.to_string(), revision: revision.map(str::to_string) })
    }

    /// `owner/name`, or the name of one without an owner.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The revision, `main` where none was named.
    pub fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or(MAIN)
    }

    /// Whether a revision was named.
    pub fn names_revision(&self) -> bool {
        self.revision.is_some()
    }
}

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}", self.name)?;
        self.revision.as_ref().map_or(Ok(()), |revision| write!(f, "@{revision}"))
    }
}

/// Whether a name alone is rather that of a file which is not there.
fn is_file(name: &str) -> bool {
    [".npz", ".safetensors", ".bin"].iter().any(|ending| name.ends_with(ending))
}

/// Letters, digits and `-_.`, but neither `--` (which divides owner and name in the cache) nor `..`.
fn is_name(text: &str) -> bool {
    let mark = |c: char| "-.".contains(c);
    !text.is_empty()
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && !text.starts_with(mark)
        && !text.ends_with(mark)
        && !text.contains("--")
        && !text.contains("..")
}

/// A name of git's, as far as it can be a path in the cache.
fn is_revision(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && !part.contains("..")
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.+".contains(c))
    };
    text.len() <= 200 && text.split('/').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_what_is_none() {
        for (text, name, revision) in [
            ("Helsinki-NLP/opus-mt-en-de", "Helsinki-NLP/opus-mt-en-de", "main"),
            ("a/b@refs/pr/7", "a/b", "refs/pr/7"),
            ("t5-small", "t5-small", "main"),
            ("t5-small@v1", "t5-small", "v1"),
            ("facebook/m2m100_418M@v1.0", "facebook/m2m100_418M", "v1.0"),
        ] {
            let id = ModelId::parse(text).unwrap();
            assert_eq!((id.name(), id.revision(), id.to_string()), (name, revision, text.to_string()));
        }
        for text in [
            "",
            ".",
            "~",
            "a--b",
            "model.npz",
            "@main",
            "/",
            "a/",
            "/b",
            "a/b/c",
            "./a",
            "../a",
            "a/..",
            "a/.b",
            "~/b",
            "a b/c",
            "a--b/c",
            "a/b@",
            "a/b@..",
            "a/b@x/../../y",
            "a/b@/x",
            "a/b@x\\y",
            "C:/b",
            "a\\b/c",
            "-a/b",
            "ä/b",
        ] {
            assert_eq!(ModelId::parse(text), None, "{text}");
        }
    }
}
