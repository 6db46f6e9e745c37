//! Weights as PyTorch's zip archive, in the model directory of a Marian. Most mutations are of one file in the archive, half of these of
//! the pickle, and the archive around it is whole again afterwards.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use std::sync::OnceLock;
use tx_fuzz::{Files, archive, open};

static MODEL: OnceLock<Files> = OnceLock::new();

fuzz_target!(|bytes: &[u8]| open(&MODEL, "families/marian", &[("pytorch_model.bin", bytes)]));

fuzz_mutator!(|bytes: &mut [u8], size: usize, max_size: usize, seed: u32| {
    archive::mutate(&mut bytes[..max_size], size, seed, "data.pkl", |file, _| archive::change(file, 64))
});
