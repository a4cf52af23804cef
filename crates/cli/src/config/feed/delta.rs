//! Feeds of Delta Exchange, which asks nobody who they are: what it lists.

use super::super::File;
use super::broker::{Listed, Socket};
use carom_gateway::delta::{DEFAULT_URL, Instruments};
use carom_gateway::tables::{Table, TableError};

/// How Delta Exchange is spoken to.
#[derive(Debug)]
pub(crate) struct Delta {
    pub(crate) listed: Listed<Instruments>,
    pub(crate) socket: Socket,
}

impl Delta {
    pub(super) fn take(table: &mut Table, file: &File<'_>) -> Result<Delta, TableError> {
        let accepted = "a file with its list, as of https://api.india.delta.exchange/v2/products";
        let listed = Listed::take(table, file, accepted, |path| Instruments::from_file(path), Instruments::len)?;
        Ok(Delta { listed, socket: Socket::take(table, file, DEFAULT_URL)? })
    }

    /// Whether it is spoken to in the same way; instruments are read again in any case.
    pub(super) fn means_the_same(&self, other: &Delta) -> bool {
        (&self.listed.file, &self.socket) == (&other.listed.file, &other.socket)
    }
}
