//! Weights as a safetensors file, in the model directory of a Pegasus. Seven of eight mutations are of the header alone, whose length
//! fits again afterwards.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use std::sync::OnceLock;
use tx_fuzz::{Files, header, open};

static MODEL: OnceLock<Files> = OnceLock::new();

fuzz_target!(|bytes: &[u8]| open(&MODEL, "families/pegasus", &[("model.safetensors", bytes)]));

fuzz_mutator!(|bytes: &mut [u8], size: usize, max_size: usize, seed: u32| {
    header::safetensors(&mut bytes[..max_size], size, seed)
});
