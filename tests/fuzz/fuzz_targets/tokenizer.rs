//! A `tokenizer.json`: opened, texts cut with it and put together.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tx::text::Tokenizer;
use tx_fuzz::{guard, tokenize};

const PATH: &str = "some/model/tokenizer.json";

fuzz_target!(|bytes: &[u8]| {
    guard::guarded(bytes.len(), || tokenize(Tokenizer::from_bytes(bytes, PATH), PATH));
});
