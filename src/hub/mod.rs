//! Models of the Hugging Face Hub: a local folder for an id. What is in the cache is opened without a socket; what is not is
//! fetched, only the files that are needed, and checked. Without the feature `hub` an id can be told from a path, no more.
//!
//! The crates: hf-hub 0.5 for the cache, which all programs share, and ureq 3 with rustls for the requests. A program of these two alone takes
//! 28 crates, 83 s of one processor to build and 2.5 MB (stripped); with hf-hub's own client 64, 126 s and 2.9 MB; hf-hub 1.0 (blocking,
//! rustls), which brings tokio, hyper and reqwest, 283 crates. `tx` itself becomes 29 crates of 241 and 3.3 MB of 39 larger.
//!
//! hf-hub 0.5 can fetch by itself, but not so that one can rely on it (`api/sync.rs`, read in 0.5.0): it adds to a file when the server
//! answers a range with the whole (`download_from` looks at no status), checks neither size nor hash, panics at a redirect without
//! `Location` and may at relative ones (`metadata`), waits for a lock 5 seconds and no longer, has no time limits, and drops the headers of
//! a refusal, where the Hub says why, and how long to wait. So the requests are made here: one for the list of files, and one a file.
//!
//! The certificates of the system come by rustls-native-certs, two crates on Linux. ureq's platform-verifier would ask the system to judge
//! each server, and find none trustworthy where it has no certificates at all, as in small containers; here those of Mozilla's stand in.

mod id;
#[cfg(feature = "hub")]
mod online;

pub use id::ModelId;
#[cfg(feature = "hub")]
pub use online::{Cached, Event, Hub};
