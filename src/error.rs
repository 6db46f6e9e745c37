//! The one error type of the library. A message says what was expected, what was found, where, and
//! what to do next; the binary prints it with its chain of causes.

use std::path::{Path, PathBuf};

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong in the library.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder could not be read or written.
    #[error("{}: {cause}", path.display())]
    Io {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },

    /// A file was read, but its content is not what it should be.
    #[error("{}: {what}", path.display())]
    Format {
        /// Which one.
        path: PathBuf,
        /// What is wrong, and the way out.
        what: String,
    },

    /// Parallel text that cannot be used as asked.
    #[error("{0}")]
    Data(String),

    /// Settings that contradict each other or lie outside their range.
    #[error("{0}")]
    Config(String),

    /// A tokenizer could not be trained or applied.
    #[error("tokenizer: {0}")]
    Tokenizer(String),

    /// A number that should be finite is not, or training went wrong.
    #[error("{0}")]
    Numeric(String),

    /// A model of the Hub could not be had.
    #[error("{0}")]
    Hub(String),

    /// An error of the tensor library.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
}

impl Error {
    /// An [`Error::Io`] about `path`.
    pub fn io(path: impl AsRef<Path>, cause: std::io::Error) -> Self {
        Error::Io { path: path.as_ref().to_path_buf(), cause }
    }

    /// An [`Error::Format`] about `path`.
    pub fn format(path: impl AsRef<Path>, what: impl Into<String>) -> Self {
        Error::Format { path: path.as_ref().to_path_buf(), what: what.into() }
    }
}
