//! Feeds of Zerodha's Kite: the key of an app, the token of the day, and what Kite lists.

use super::super::File;
use super::super::values::name;
use super::broker::{Listed, Socket};
use super::credential;
use crate::secret::Secret;
use carom_gateway::credential::Credential;
use carom_gateway::kite::{DEFAULT_URL, Instruments};
use carom_gateway::tables::{Table, TableError};

/// How Kite is spoken to.
#[derive(Debug)]
pub(crate) struct Kite {
    pub(crate) api_key: Secret,
    pub(crate) credential: Credential,
    pub(crate) listed: Listed<Instruments>,
    pub(crate) socket: Socket,
}

impl Kite {
    pub(super) fn take(table: &mut Table, file: &File<'_>) -> Result<Kite, TableError> {
        let Ok(api_key) = table.require("api_key", "the key of an app at Kite Connect", name)?.parse();
        let credential = match credential::take(table, file)? {
            Some((_, credential)) => credential,
            None => {
                let accepted = "one of credential_file, credential_command and credential, for the access token";
                return Err(table.missing("credential_file", accepted));
            }
        };
        let accepted = "a file with Kite's list, as of https://api.kite.trade/instruments";
        let listed = Listed::take(table, file, accepted, |path| Instruments::from_file(path), Instruments::len)?;
        let socket = Socket::take(table, file, DEFAULT_URL)?;
        // They would be in it twice.
        if let Some(own) = ["api_key", "access_token"].into_iter().find(|own| socket.asks_for(own)) {
            let problem = "which is put there with every connection; accepted: without it";
            return Err(table.wrong("url", format_args!("there is {own} in it, {problem}")));
        }
        Ok(Kite { api_key, credential, listed, socket })
    }

    /// Whether it is spoken to in the same way; credentials and instruments are read again in any case.
    pub(super) fn means_the_same(&self, other: &Kite) -> bool {
        (&self.api_key, &self.listed.file, &self.socket) == (&other.api_key, &other.listed.file, &other.socket)
    }
}
