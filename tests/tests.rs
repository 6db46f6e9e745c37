//! The integration tests, one binary: each module says what it checks and against what.

/// Which source word a word comes from, against the attention that `tx inspect-attention` shows.
mod alignment;
/// `tx beam`: every form of it, edge cases, and what it says of a given translation.
mod beam;
/// The page of `tx beam --html` in a browser.
mod beam_page;
/// Pages in a real browser: how the tests drive one.
mod browser;
/// The page of `tx inspect-attention`: its numbers, every control, the keyboard.
mod browser_attention;
mod common;
/// Models in other forms: one file, `transformers`, CTranslate2; what a model is.
mod conversion;
/// What `tx train` reads: standard input, several corpora, filters, the cache; `--dry-run`; `tx doctor`.
mod corpora;
/// Runs whose files were lost or damaged.
mod damage;
/// Search, caches and batches on the real model: laws that hold for every input.
mod decoding;
/// `tx evaluate` against what it is made of: translations, scores, and `transformers`' probabilities.
mod evaluation;
/// Models of other programs: every family against `transformers`, and what is wrong with damaged ones.
mod families;
/// Layouts for other programs, prepared text, and the scores of given translations.
mod formats;
/// Gradients and training steps against PyTorch.
mod gradients;
/// Damaged and crafted models: every reader says what is wrong, in time and memory.
mod head_profile;
mod hostile;
/// Models of the Hugging Face Hub: fetched, checked, refused, listed.
#[cfg(feature = "hub")]
mod hub;
/// Where the Hub has no model to give; proxies, tokens, and the list of models.
#[cfg(feature = "hub")]
mod hub_refusals;
/// `tx inspect-attention` against `transformers`, in all its formats.
mod inside;
mod inspection;
/// The life of a run: killed, resumed, out of disk, out of time, fine-tuned, averaged.
mod life;
/// Encoder, decoder and attention against `transformers`.
mod model;
/// Models of several languages in the forms of OPUS-MT and M2M100, against `transformers`.
mod multilingual;
/// Decoding in f32, bf16 and int8, and models stored as int8.
mod precision;
/// The program: lines in, lines out, and how it behaves in a pipe.
mod program;
/// The transcripts of README.md, which are run by a shell.
#[cfg(unix)]
mod readme;
/// The report that training leaves.
mod report;
/// Scores by command, against sacreBLEU.
mod scoring;
/// A server on this machine that answers as the Hub does, or worse.
#[cfg(feature = "hub")]
mod stand_in;
/// Whole training runs: they learn, repeat to the byte, and resume.
mod training;
mod vocabularies;
mod walk;
/// What may be asked of translations: what they must contain, several models, unknown pieces, sentence by sentence.
mod wishes;
