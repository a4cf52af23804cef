//! The `carom` program. What was typed is read in [`args`], what it means is decided by the command it names.

mod args;
mod config;
mod documents;
#[cfg(unix)]
mod ending;
#[cfg(not(unix))]
#[path = "ending_elsewhere.rs"]
mod ending;
mod exchange;
mod failure;
mod files;
mod gateway;
mod key;
mod ledger;
mod log;
mod orders;
mod output;
mod resolve;
mod secret;
mod terminal;
mod timestamp;
mod watch;

use args::{Args, Command};
use clap::Parser;
use failure::Failure;
use std::io;
use std::process::ExitCode;
use tokio::runtime::{Builder, Runtime};

fn main() -> ExitCode {
    let args = Args::parse();
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(args: Args) -> Result<(), Failure> {
    log::start()?;
    match args.command {
        Command::Resolve(args) => resolve::run(args),
        Command::Ledger(args) => ledger::run(args),
        Command::Gateway(args) => gateway::run(args),
        Command::Exchange(args) => exchange::run(args),
        Command::Watch(args) => watch::run(args),
        Command::Key(args) => key::run(args),
        Command::Completions { shell } => documents::completions(shell),
        Command::Man { command } => documents::man(&command),
    }
}

/// What commands run on that talk to others.
fn runtime() -> Result<Runtime, Failure> {
    Builder::new_current_thread().enable_all().build().map_err(cannot_start)
}

/// Runs a command to its end. A thread that waits for something that may never come, a name to be looked up or a file to be
/// read, ends with the program and does not hold it up.
fn block_on<T>(runtime: Runtime, command: impl Future<Output = T>) -> T {
    let ended = runtime.block_on(command);
    runtime.shutdown_background();
    ended
}

fn cannot_start(error: io::Error) -> Failure {
    Failure::Unavailable(format!("cannot start: {error}"))
}
