//! What can be typed after `carom ledger`.

use super::parse_time;
use clap::{Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// Ask a pool of Hyperledger Indy nodes
#[derive(Debug, clap::Args)]
#[command(override_usage = "carom ledger --genesis FILE [OPTIONS] status
       carom ledger --genesis FILE [OPTIONS] get-txn [--ledger LEDGER] N
       carom ledger --genesis FILE [OPTIONS] submit FILE")]
#[command(disable_help_subcommand = true)]
#[command(after_help = "\
Output:
  JSON, indented on a terminal and otherwise in one line; `status` is text unless --json is given.
  How far catching up is (on a terminal), warnings and errors go to stderr.

Exit codes:
  0  there is an answer
  1  there is none: no answer in time, no agreement, a refusal; or the output could not be written
  2  nothing was asked: the command line, the genesis or the request makes no sense

Examples:
  carom ledger -g pool_transactions_genesis status
  carom ledger -g pool_transactions_genesis -c ~/.cache/carom get-txn 5
  carom ledger -g pool_transactions_genesis get-txn --ledger domain 9 | jq .txn.data
  sign < nym.json | carom ledger -g pool_transactions_genesis submit -")]
pub(crate) struct Ledger {
    /// The genesis of the pool: its first transactions, a JSON text a line; has to be given
    #[arg(short, long, value_name = "FILE", global = true)]
    pub(crate) genesis: Option<PathBuf>,

    /// A folder to keep the pool ledger in, so that the next run asks for what is new alone
    ///
    /// It is made if it is not there; one folder can serve many pools and processes. Without it all beyond the genesis is asked
    /// for at every run.
    #[arg(short, long, value_name = "DIR", global = true)]
    pub(crate) cache: Option<PathBuf>,

    /// Print JSON in one line, also on a terminal
    ///
    /// Of `status`: size, root, caught_up, agreeing (how many nodes have this ledger), needed (how many must), and for each of
    /// nodes its alias, address, answers, size, root and error (null where there is none).
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// How long a node may take to say anything: 500 or 500ms, 5s, 1m
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "10s", global = true)]
    pub(crate) ack_timeout: Duration,

    /// How long a node that has acknowledged a request may take to answer it; at least as long
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "100s", global = true)]
    pub(crate) reply_timeout: Duration,

    #[command(subcommand)]
    pub(crate) question: Question,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Question {
    /// Print how far the pool ledger goes, who the nodes are, and what each of them says
    Status,
    /// Print a transaction on which more nodes agree than may lie
    GetTxn {
        /// Its number; the first is 1
        #[arg(value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        number: u64,

        /// The ledger that it is in
        #[arg(short, long, value_enum, default_value_t, hide_possible_values = true)]
        #[arg(help = "The ledger: pool, which says who the nodes are, domain, config or audit")]
        ledger: LedgerName,
    },
    /// Send a request as it is, signed if it has to be, and print what the pool says to it
    Submit {
        /// A file with the request, in JSON; - is stdin
        file: PathBuf,
    },
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum LedgerName {
    #[default]
    Pool,
    Domain,
    Config,
    Audit,
}
