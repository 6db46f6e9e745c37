//! Parallel text from files to batches (paper section 5.1), in reading order: `lines` (the one reader of
//! the program), `corpus` (which files, which direction), `text` (both sides of a split), `filter`
//! (what is dropped, and what train shares with dev and test), `pairs` (ids), `batches` (token budget).

mod batches;
mod corpus;
mod filter;
mod lines;
mod names;
mod pairs;
mod text;
mod zstd;

pub use batches::batches;
pub use corpus::{Corpus, Split};
pub use filter::{Overlap, Report};
pub use lines::{Line, Lines};
pub use pairs::{Batch, Pairs};
pub use text::{Data, Text};

#[cfg(test)]
mod tests;
