//! The flags of `tx models`.

use clap::{Args, Subcommand};

/// List the models that are here: inside tx, trained, and from the Hugging Face Hub.
#[derive(Debug, Args)]
pub struct ModelsArgs {
    #[command(subcommand)]
    pub action: Option<ModelsAction>,
}

#[derive(Debug, Subcommand)]
pub enum ModelsAction {
    /// Fetch a model from the Hub, or what has changed of it since; prints its folder.
    Pull {
        /// `owner/name`, or `owner/name@revision`.
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Take a model out of the cache, or one revision of it.
    Rm {
        /// `owner/name`, or `owner/name@revision`.
        #[arg(value_name = "ID")]
        id: String,
    },
}
