//! `config.json` and `generation_config.json` with a zero byte between them, in the model directory of the family that the
//! text names.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;
use tx_fuzz::{Files, open};

static MARIAN: OnceLock<Files> = OnceLock::new();
static PEGASUS: OnceLock<Files> = OnceLock::new();
static M2M100: OnceLock<Files> = OnceLock::new();

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(2, |&byte| byte == 0);
    let (config, generation) = (parts.next().unwrap_or_default(), parts.next().unwrap_or(b"{}"));
    let names = |name: &[u8]| config.windows(name.len()).any(|part| part == name);
    let (files, model) = if names(b"pegasus") {
        (&PEGASUS, "families/pegasus")
    } else if names(b"m2m_100") {
        (&M2M100, "families/m2m100")
    } else {
        (&MARIAN, "families/marian")
    };
    open(files, model, &[("config.json", config), ("generation_config.json", generation)]);
});
