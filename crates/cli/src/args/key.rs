//! What can be typed after `carom key`.

use clap::Subcommand;
use std::path::PathBuf;

/// Make the keys that clients of a gateway are known by
#[derive(Debug, clap::Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Key {
    #[command(subcommand)]
    pub(crate) verb: KeyVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyVerb {
    New(NewKey),
}

/// Make a key: 256 bits of chance, which can be seen this one time
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Output:
  The key, 64 hexadecimal digits, in a line. On stderr the table that makes it known in a keys
  file, which has its SHA-256 alone; with --file that table is written there instead. A gateway
  that runs is told with SIGHUP.

Exit codes:
  0  there is a new key
  1  the file or the output could not be written
  2  the command line or the file that is there makes no sense

Examples:
  carom key new --user demo 2>> keys.toml          the key on the terminal, the table in the file
  carom key new --user demo --file keys.toml       the same, and others cannot read the file
  carom key new --user asha --broker zerodha --name laptop --file keys.toml > laptop.key")]
pub(crate) struct NewKey {
    /// Whose it is: a user that some [[feed]] of the gateway is for
    #[arg(short, long, value_name = "USER")]
    pub(crate) user: String,

    /// The broker of that [[feed]]
    #[arg(short, long, value_name = "BROKER", default_value = "simulated")]
    pub(crate) broker: String,

    /// What it is for, as a note in the file
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) name: Option<String>,

    /// The keys file to add it to; made, for its owner alone, if it is not there
    ///
    /// It is replaced as a whole or not at all, so that a gateway that reads it meanwhile sees the old keys or the new ones. A
    /// file that is there keeps its owner, its group and what both may do with it; others may do nothing from then on.
    /// Somebody else who adds a key to it just then is waited for, up to 2 s.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}
