//! The encoder-decoder Transformer of *Attention Is All You Need* (Vaswani et al. 2017) for translation: training,
//! decoding, and a look at every number inside.
//!
//! | paper | what | where | test |
//! |---|---|---|---|
//! | 3.1 | LayerNorm(x + Dropout(Sublayer(x))) | [`model::sublayer`], [`ops::add_norm`] | `tests/model.rs`: `logits_agree_with_transformers` |
//! | | pre-norm, x + Dropout(Sublayer(LayerNorm(x))) | [`model::sublayer`], [`ops::layer_norm`] | `tests/families.rs`: `logits_of_every_family_agree_with_transformers` |
//! | 3.1 | encoder and decoder stacks | [`model::encoder`], [`model::decoder`] | `tests/model.rs`: `logits_agree_with_transformers`; `tests/decoding.rs`: `cached_decoding_is_full_decoding` |
//! | 3.2.1 | Attention(Q, K, V) = softmax(QKᵀ/√k) V | [`ops::attention`] | in the module |
//! | 3.2.2 | MultiHead = Concat(head_1 … head_h) W_O | [`model::attention`] | `tests/model.rs`: `attention_weights_agree_with_transformers` |
//! | 3.2.3 | padding and causal masks | [`ops::Spans`] | in the module |
//! | 3.3 | FFN(x) = max(0, xW1+b1)W2+b2 | [`model::feed_forward`] | in the module: `feed_forward_by_hand` |
//! | 3.4 | embedding × √d, three matrices tied | [`model::embedding`], [`model::parameters`] | in the modules |
//! | 3.5 | PE(pos, 2i) = sin(pos/10000^(2i/d)) | [`model::embedding`] | in the module |
//! | 5.1 | batches by tokens, like lengths together | [`data`] | in the module |
//! | 5.3 | Adam and its learning rate | [`train::optim`], [`ops::adam_step`] | in the modules |
//! | 5.4 | dropout, label smoothing | [`ops::dropout`], [`ops::cross_entropy`] | in the modules |
//! | 3 | the probability of a given target, P(y\|x) = Π P(y_t\|y_<t, x) | [`translate::forced`] | `tests/decoding.rs`: `forced_texts_agree_with_transformers` |
//! | 6.1 | average of the last checkpoints | [`checkpoint::average`], [`train::finish`] | in the module; `tests/life.rs` |
//! | 6.1 | beam search with length penalty | [`search`] | in the module |
//! | Table 3 | sizes | [`config::Preset`] | in the module |
//!
//! Modules import downwards: `error config rng workers`, `ops`, `model`, `search`; `text`, `data`, `checkpoint`, `hub`, `score`;
//! `translate`; `train`, `doctor`.

//! ```
//! use tx::candle_core::Device;
//! use tx::translate::{Options, Translator};
//!
//! let translator = Translator::new(tx::bundled::MODELS[0].open(&Device::Cpu)?, &Device::Cpu, None)?;
//! let lines = vec![(1, "Good morning!".to_string())];
//! let translations = translator.translate(lines, &Options::default())?;
//! println!("{}", translations[0].hypotheses[0].text);
//! # Ok::<(), tx::Error>(())
//! ```

#![warn(missing_docs)]

pub mod bundled;
pub mod checkpoint;
pub mod config;
pub mod data;
pub mod doctor;
pub mod error;
pub mod hub;
pub mod model;
pub mod ops;
pub mod rng;
pub mod score;
pub mod search;
pub mod text;
pub mod train;
pub mod translate;
mod workers;

pub use candle_core;
pub use error::{Error, Result};
