//! The models inside the library (see the `README.md` of their folders in `assets/`).

use crate::checkpoint::{Bytes, Checkpoint};
use crate::error::{Error, Result};
use crate::text::Tokenizer;
use candle_core::Device;
use std::path::Path;

/// A model inside the library.
#[derive(Debug)]
pub struct Bundled {
    src: &'static str,
    tgt: &'static str,
    /// The files of its directory by name.
    files: [(&'static str, &'static [u8]); 3],
}

/// All of them; a constant might be in the binary more than once.
pub static MODELS: [Bundled; 1] = [Bundled {
    src: "en",
    tgt: "de",
    files: [
        ("config.json", include_bytes!("../assets/en-de/config.json")),
        ("model.safetensors", include_bytes!("../assets/en-de/model.safetensors")),
        ("tokenizer.json", include_bytes!("../assets/en-de/tokenizer.json")),
    ],
}];

/// The first that translates from and to these languages, where any are named.
pub fn find(from: Option<&str>, to: Option<&str>) -> Result<&'static Bundled> {
    let is = |asked: Option<&str>, language: &str| asked.is_none_or(|asked| asked == language);
    MODELS.iter().find(|model| is(from, model.src) && is(to, model.tgt)).ok_or_else(|| {
        let all: Vec<String> = MODELS.iter().map(|model| format!("{} → {}", model.src, model.tgt)).collect();
        let (from, to) = (from.unwrap_or("any language"), to.unwrap_or("any language"));
        Error::Config(format!(
            "no model inside tx translates from {from} to {to}: there is {}; name another by --model",
            all.join(", ")
        ))
    })
}

impl Bundled {
    /// Source and target language.
    pub fn languages(&self) -> (&'static str, &'static str) {
        (self.src, self.tgt)
    }

    /// What it is called wherever a model is named: `bundled:en-de`.
    pub fn name(&self) -> String {
        format!("bundled:{}-{}", self.src, self.tgt)
    }

    /// Its tokenizer.
    pub fn tokenizer(&self) -> Result<Tokenizer> {
        let bytes = |name: &str| Ok(self.file(name).map(<[u8]>::to_vec));
        Tokenizer::from_files(Path::new("bundled"), |name| self.file(name).is_some(), bytes)
    }

    /// Bytes of its files.
    pub fn size(&self) -> u64 {
        self.files.iter().map(|(_, bytes)| bytes.len() as u64).sum()
    }

    /// Bytes of its weights.
    pub fn weights_size(&self) -> u64 {
        let weights = self.files.iter().filter(|(name, _)| name.ends_with(".safetensors"));
        weights.map(|(_, bytes)| bytes.len() as u64).sum()
    }

    /// Opens it.
    pub fn open(&self, device: &Device) -> Result<Checkpoint> {
        Checkpoint::from_files(Path::new("bundled"), device, |name| {
            Ok(self.file(name).map(|bytes| Box::new(bytes) as Bytes))
        })
    }

    fn file(&self, name: &str) -> Option<&'static [u8]> {
        self.files.iter().find(|(file, _)| *file == name).map(|(_, bytes)| *bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_choose_and_are_those_of_the_model() {
        for model in &MODELS {
            let (src, tgt) = model.languages();
            assert!(std::ptr::eq(find(Some(src), Some(tgt)).unwrap(), model));
            let info = model.open(&Device::Cpu).unwrap().info.unwrap();
            assert_eq!((info.src_lang.as_str(), info.tgt_lang.as_str()), (src, tgt));
            assert_eq!(model.tokenizer().unwrap().hash(), info.tokenizer_sha256);
        }
        assert!(std::ptr::eq(find(None, None).unwrap(), &MODELS[0]));
        let error = find(None, Some("tlh")).unwrap_err().to_string();
        assert!(error.contains("from any language to tlh: there is en → de"), "{error}");
    }
}
