//! What feeds of real brokers have in common: where the broker's socket is, and a file that says what is listed there.

use super::super::File;
use super::super::values::{Pem, name};
use crate::failure::with_causes;
use crate::files::of_no_use;
use carom_gateway::address::Address;
use carom_gateway::tables::{Table, TableError, Value};
use carom_gateway::upstream::Dial;
use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a broker's socket is, and who vouches for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Socket {
    pub(crate) url: String,
    /// Trusted besides those whom the system trusts.
    pub(crate) ca: Option<Pem>,
}

/// What a broker lists.
pub(crate) struct Listed<I> {
    pub(crate) file: PathBuf,
    pub(crate) instruments: Arc<I>,
    /// How many there are.
    pub(crate) count: usize,
}

impl Socket {
    pub(super) fn take(table: &mut Table, file: &File<'_>, default: &str) -> Result<Socket, TableError> {
        let accepted = format!("where the broker's socket is, such as \"{default}\"");
        let address = table.read("url", &accepted, address)?;
        let ca = table.read("ca", "the name of a PEM file", |value| Pem::read(file, value))?;
        let url = address.as_ref().map_or_else(|| default.to_owned(), Address::to_string);
        if let (Some(ca), Ok(address)) = (&ca, url.parse()) {
            let built = Dial::to(address).extra_roots(&*ca.text).build();
            built.map_err(|error| table.wrong("ca", with_causes(&error)))?;
        }
        Ok(Socket { url, ca })
    }

    /// Whether there is something of this name after the `?`.
    pub(super) fn asks_for(&self, name: &str) -> bool {
        let query = self.url.split_once('?').map_or("", |(_, query)| query);
        query.split('&').any(|part| part.split('=').next() == Some(name))
    }
}

impl<I> Listed<I> {
    /// Reads the file of the key `instruments`; `accepted` says what is in it.
    pub(super) fn take<E: Error>(
        table: &mut Table,
        file: &File<'_>,
        accepted: &str,
        read: impl FnOnce(&Path) -> Result<I, E>,
        count: impl FnOnce(&I) -> usize,
    ) -> Result<Listed<I>, TableError> {
        table.require("instruments", accepted, |value| {
            let file = file.beside(name(value)?);
            let instruments = read(&file).map_err(|error| of_no_use(&file, with_causes(&error)))?;
            Ok(Listed { file, count: count(&instruments), instruments: Arc::new(instruments) })
        })
    }
}

impl<I> fmt::Debug for Listed<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listed").field("file", &self.file).field("count", &self.count).finish()
    }
}

fn address(value: Value) -> Result<Address, String> {
    value.text()?.parse().map_err(|error: carom_gateway::address::AddressError| with_causes(&error))
}
