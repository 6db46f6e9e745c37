//! Parallel text from files to batches (paper section 5.1), in reading order: `lines` (the one reader of
//! the program), `corpus` and `sources` (which files, which direction), `rows` (pair by pair), `intake` and `filter`
//! (what is dropped, and what train shares with dev and test), `text` (the whole corpus), `cache` (ids on disk),
//! `train_set` (the batches of an epoch), `pairs` (ids), `batches` (token budget).
//!
//! Train is never in memory: it goes line by line to a file (`spool`), is encoded from there into another, and that is
//! mapped.

mod batches;
mod cache;
mod corpus;
mod filter;
mod hashing;
mod ids;
mod intake;
mod lines;
mod names;
mod pairs;
mod rows;
mod sources;
mod spool;
mod text;
mod train_set;
mod zstd;

pub use batches::batches;
pub use cache::{Cache, Meta};
pub use corpus::{Corpus, Split};
pub use filter::{Filters, Overlap, OverlapCounter, Report};
pub use hashing::Digest;
pub(crate) use intake::pair_hash;
pub use lines::{Line, Lines};
pub use pairs::{Batch, Pairs};
pub use rows::{Row, Rows, Seen};
pub use sources::{Corpora, Part, Source};
pub use spool::Spool;
pub use text::{Data, Rest, Text};
pub use train_set::{Epoch, TrainSet};

#[cfg(test)]
mod tests;
