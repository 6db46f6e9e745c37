//! A SentencePiece model, alone and with the `vocab.json` of the goldens; or, if it begins as JSON does, a `vocab.json` with the model of the
//! goldens. Texts are cut and put together.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::Path;
use std::sync::OnceLock;
use tx::text::Tokenizer;
use tx_fuzz::{Files, files, guard, tokenize};

static GOLDEN: OnceLock<Files> = OnceLock::new();
const FOLDER: &str = "some/model";

fuzz_target!(|bytes: &[u8]| {
    let golden = GOLDEN.get_or_init(|| files("multilingual/opus"));
    let open = |model: &[u8], vocab: Option<&[u8]>| {
        let (model_path, vocab_path) =
            (Path::new(FOLDER).join("source.spm"), Path::new(FOLDER).join("vocab.json"));
        let vocab = vocab.map(|bytes| (bytes, vocab_path.as_path()));
        tokenize(Tokenizer::from_sentencepiece(model, &model_path, vocab), FOLDER);
    };
    guard::guarded(bytes.len(), || match bytes {
        [b'{', ..] => open(&golden["source.spm"], Some(bytes)),
        model => {
            open(model, None);
            open(model, Some(&golden["vocab.json"]));
        }
    });
});
