//! The command `tx`: flags in, text out. What it computes is in the library.

/// A line on stderr. Unlike `eprintln!` it does not panic when nobody reads stderr any more.
macro_rules! say {
    ($($arg:tt)*) => {{
        use std::io::Write;
        // There is nowhere left to report this to.
        let _ = writeln!(std::io::stderr(), $($arg)*);
    }};
}

mod cli;
mod commands;
mod config_file;
mod render;

use clap::{CommandFactory, Parser};
use cli::{Cli, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = match config_file::expand(std::env::args_os().collect()) {
        Ok(args) => args,
        Err(error) => {
            fail(&error);
            return ExitCode::from(2);
        }
    };
    let cli = Cli::parse_from(args);
    set_up(&cli.command);
    let result = match cli.command {
        Command::Train(args) => commands::train::run(*args),
        Command::Translate(args) => commands::translate::run(args),
        Command::Beam(args) => commands::beam::run(args),
        Command::InspectAttention(args) => commands::inspect_attention::run(args),
        Command::Score(args) => commands::score::run(args),
        Command::Evaluate(args) => commands::evaluate::run(args),
        Command::Doctor(args) => commands::doctor::run(args),
        Command::Average(args) => commands::average::run(args),
        Command::Quantize(args) => commands::convert::quantize(args),
        Command::Convert(args) => commands::convert::convert(args),
        Command::Bundle(args) => commands::convert::one_file(args),
        Command::Show(args) => commands::show::run(args),
        Command::Tokenize(args) => commands::tokenize::tokenize(args),
        Command::Detokenize(args) => commands::tokenize::detokenize(args),
        Command::ScorePairs(args) => commands::score_pairs::run(args),
        Command::Models(args) => commands::models::run(args),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "tx", &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
    };
    result.unwrap_or_else(|error| fail(&error))
}

/// Prints the chain of causes. A reader that went away is no failure: `tx translate | head -1` ends quietly.
fn fail(error: &anyhow::Error) -> ExitCode {
    let is_closed_pipe = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe);
    if is_closed_pipe {
        return ExitCode::SUCCESS;
    }
    say!("tx: {error:#}");
    ExitCode::FAILURE
}

/// One setting caps every pool of threads. candle's own pool spins beside rayon's, which does the work here: it
/// gets one.
fn set_up(command: &Command) {
    let machine = match command {
        Command::Train(args) => &args.machine,
        Command::Translate(args) => &args.search.machine,
        Command::Beam(args) => &args.search.machine,
        Command::InspectAttention(args) => &args.search.machine,
        Command::Evaluate(args) => &args.search.machine,
        Command::ScorePairs(args) => &args.search.machine,
        Command::Tokenize(_)
        | Command::Detokenize(_)
        | Command::Score(_)
        | Command::Doctor(_)
        | Command::Average(_)
        | Command::Quantize(_)
        | Command::Convert(_)
        | Command::Bundle(_)
        | Command::Show(_)
        | Command::Models(_)
        | Command::Completions { .. } => return,
    };
    // SAFETY: nothing else runs yet; the libraries read these variables when they start their first thread.
    unsafe {
        std::env::set_var("CANDLE_NUM_THREADS", "1");
        if let Some(threads) = machine.threads {
            std::env::set_var("RAYON_NUM_THREADS", threads.to_string());
        }
    }
}
