//! One operation per file: the formula as ordinary tensor operations (`*_plain`, the specification, runs on
//! every device), the fused form for the CPU with its backward pass, and the test that compares the two.
//!
//! Activations are `[n, d]`: the rows of a batch's real tokens one after the other, without padding.

mod activation;
mod adam;
mod add_norm;
#[cfg(target_arch = "x86_64")]
mod amx;
mod attention;
mod bf16;
#[cfg(test)]
pub(crate) mod check;
mod compute;
mod cpu;
mod cross_entropy;
mod dropout;
mod embedding;
mod grad_norm;
mod in_place;
mod kernel;
mod lanes;
mod layer_norm;
mod linear;
mod log_softmax;
mod matmul;
mod memory;
mod packed;
mod rows;
mod simd;
mod spans;
mod team;

pub use activation::{activation, activation_plain};
pub use adam::{AdamOptions, adam_step, adam_step_plain};
pub use add_norm::{add_norm, add_norm_plain, layer_norm_plain};
pub use attention::*;
pub use bf16::{Bf16Level, bf16_level};
pub use compute::Compute;
pub use cross_entropy::{Loss, cross_entropy, cross_entropy_plain, smoothed_targets};
pub use dropout::{Dropout, dropout, dropout_plain, kept};
pub use embedding::{Lookup, embedding, embedding_plain};
pub use grad_norm::{grad_norm, grad_norm_plain};
pub use in_place::{add_in_place, mix_in_place};
pub use layer_norm::layer_norm;
pub use linear::{linear, linear_plain, linear_relu, linear_relu_plain};
pub use log_softmax::*;
pub use memory::keep_freed_memory;
pub use packed::{Int8Matrix, PackedLinear, Precision};
pub use spans::*;
pub use team::together;
