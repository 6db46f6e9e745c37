//! Mutations of the description in front of numbers, whose length is right again afterwards.

use crate::archive::change;
use libfuzzer_sys::fuzzer_mutate;

/// Of a safetensors file: the header in JSON, with its length in 8 bytes before it.
pub fn safetensors(bytes: &mut [u8], size: usize, seed: u32) -> usize {
    let length = bytes[..size].first_chunk().map(|&length| u64::from_le_bytes(length) as usize);
    let end = length.and_then(|length| length.checked_add(8)).filter(|&end| end <= size);
    let Some(end) = end.filter(|_| !seed.is_multiple_of(8)) else {
        return fuzzer_mutate(bytes, size, bytes.len());
    };
    let mut header = bytes[8..end].to_vec();
    change(&mut header, 64);
    let made = [&(header.len() as u64).to_le_bytes(), &header[..], &bytes[end..size]].concat();
    if made.len() > bytes.len() {
        return fuzzer_mutate(bytes, size, bytes.len());
    }
    bytes[..made.len()].copy_from_slice(&made);
    made.len()
}

/// Of a `.npy`: the header with its length in 2 bytes before it, or, where the numbers are a text (Marian's settings), that text, with its
/// length in the header.
pub fn npy(file: &mut Vec<u8>, seed: u32) {
    let length = file.get(8..10).map(|two| 10 + usize::from(u16::from_le_bytes([two[0], two[1]])));
    let Some((mut header, mut data)) =
        length.and_then(|end| file.split_at_checked(end)).map(|(a, b)| (a[10..].to_vec(), b.to_vec()))
    else {
        return change(file, 16);
    };
    if data.starts_with(b"{") || data.is_ascii() {
        change(&mut data, 64);
        header = format!("{{'descr': '|i1', 'fortran_order': False, 'shape': ({},), }}\n", data.len()).into();
    } else if seed.is_multiple_of(4) {
        change(&mut data, 16);
    } else {
        change(&mut header, 16);
    }
    *file = [b"\x93NUMPY\x01\0", &(header.len() as u16).to_le_bytes()[..], &header, &data].concat();
}
