//! `carom key`: the keys that clients of a gateway are known by.

mod file;

use crate::args::{self, KeyVerb};
use crate::failure::{Failure, say, with_causes};
use crate::timestamp::Timestamp;
use carom_gateway::keys::{Identity, NewKey};

pub(crate) fn run(args: args::Key) -> Result<(), Failure> {
    match args.verb {
        KeyVerb::New(args) => new(args),
    }
}

fn new(args: args::NewKey) -> Result<(), Failure> {
    let args::NewKey { user, broker, name, file } = args;
    for (option, value) in [("--user", &user), ("--broker", &broker)] {
        if value.trim().is_empty() {
            return Err(Failure::Usage(format!("{option} names nobody")));
        }
    }
    let key = NewKey::generate().map_err(|error| Failure::Unavailable(with_causes(&error)))?;
    let now = Timestamp::now().to_string();
    let table = key.table(&Identity::new(broker, user), name.as_deref(), now.get(..10));
    // Known before it is shown: a key that was seen works.
    match &file {
        Some(file) => file::add(file, &table)?,
        None => say(table.trim_end()),
    }
    crate::output::print(&format!("{}\n", key.reveal()))?;
    if let Some(file) = file {
        say(format_args!("its SHA-256 is in {}; this is the only time that the key is shown", file.display()));
    }
    Ok(())
}
