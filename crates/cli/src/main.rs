//! The `carom` program. What was typed is read in [`args`], what it means is decided by the command it names.

mod admin;
mod args;
mod check;
mod config;
mod documents;
#[cfg(unix)]
mod ending;
#[cfg(not(unix))]
#[path = "ending_elsewhere.rs"]
mod ending;
mod entrance;
mod exchange;
mod failure;
mod files;
mod gateway;
mod get;
#[cfg(unix)]
mod hostname;
#[cfg(not(unix))]
#[path = "hostname_elsewhere.rs"]
mod hostname;
mod key;
mod ledger;
mod load;
mod log;
mod nameservers;
mod notify;
mod orders;
mod output;
mod proxy;
mod resolve;
mod secret;
mod target;
mod terminal;
mod timestamp;
mod top;
mod units;
mod up;
mod watch;

use args::{Args, Command};
use clap::Parser;
use failure::Failure;
use std::io;
use std::process::ExitCode;
use tokio::runtime::{Builder, Runtime};

/// A proxy allocates and frees a few small things for each request; this is where the system's own takes its time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = Args::parse();
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(args: Args) -> Result<(), Failure> {
    log::start(args.command.usual_log())?;
    match args.command {
        Command::Up(args) => up::run(args),
        Command::Check(args) => check::run(args),
        Command::Top(args) => top::run(args),
        Command::Resolve(args) => resolve::run(args),
        Command::Get(args) => get::run(args),
        Command::Load(args) => load::run(args),
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
