//! The table `[admin]`: where people and probes ask how the program is doing, and who may.

use super::File;
use super::layered::{Layered, address};
use super::token::Token;
use super::values::{LISTEN, name};
use crate::failure::Failure;
use carom_gateway::tables::{TableError, Value};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// Where it is without further words: this machine alone.
pub(crate) const DEFAULT_ADMIN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9464);

/// How the program can be asked.
#[derive(Clone, Debug)]
pub(crate) struct Admin {
    pub(crate) listen: Layered<SocketAddr>,
    pub(crate) access: Access,
    /// Where the token is.
    token_file: Option<PathBuf>,
}

/// Who may ask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access {
    /// What everybody has to show; without one, whoever can connect may ask.
    pub(crate) token: Option<Token>,
    /// Names that the listener is known by, besides `localhost` and addresses; in lower case.
    pub(crate) hosts: Vec<String>,
}

impl Admin {
    /// For whoever can connect.
    pub(crate) fn open(listen: Layered<SocketAddr>) -> Admin {
        Admin { listen, access: Access::default(), token_file: None }
    }

    /// None without such a table: nobody opens a port that was not asked for.
    pub(super) fn read(file: &mut File<'_>) -> Result<Option<Admin>, TableError> {
        let Some(mut table) = file.table.table("admin")? else { return Ok(None) };
        let listen = table.read("listen", LISTEN, |value| address(&value.text()?))?;
        let listen = Layered::new(listen.unwrap_or(DEFAULT_ADMIN), table.place("listen"));
        let token_file = table.read("token_file", "the name of a file", name)?.map(|name| file.beside(name));
        let token = match &token_file {
            Some(file) => Some(Token::read(file).map_err(|failure| table.wrong("token_file", failure))?),
            None => None,
        };
        let accepted = "a list of names without ports, such as [\"ops.example.com\"]";
        let hosts = table.read("hosts", accepted, hosts)?.unwrap_or_default();
        let admin = Admin { listen, access: Access { token, hosts }, token_file };
        admin.check().map_err(|problem| table.wrong("listen", problem))?;
        table.finish()?;
        Ok(Some(admin))
    }

    /// Whoever can be reached from elsewhere does not answer everybody.
    pub(crate) fn check(&self) -> Result<(), String> {
        let at = self.listen.value;
        if at.ip().to_canonical().is_loopback() || self.access.token.is_some() {
            return Ok(());
        }
        Err(format!(
            "{at} can be reached from elsewhere, and there is no token_file in [admin]; \
             accepted: an address of this machine alone, such as \"{DEFAULT_ADMIN}\", or any with a token_file"
        ))
    }

    /// The file of what everybody has to show, if they have to.
    pub(crate) fn token_file(&self) -> Option<&Path> {
        self.token_file.as_deref()
    }

    /// The same with the token that is in its file now.
    pub(crate) fn read_again(&self) -> Result<Admin, Failure> {
        let token = self.token_file.as_deref().map(Token::read).transpose()?;
        Ok(Admin { access: Access { token, ..self.access.clone() }, ..self.clone() })
    }
}

fn hosts(value: Value) -> Result<Vec<String>, String> {
    let known = |text: &String| {
        let labels = text.split('.').all(|label| !label.is_empty() && !label.starts_with('-') && !label.ends_with('-'));
        labels && text.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
    };
    let names = value.texts()?;
    match names.iter().find(|name| !known(name)) {
        Some(name) => Err(format!("`{}` is no name", name.escape_debug())),
        None => Ok(names.iter().map(|name| name.to_ascii_lowercase()).collect()),
    }
}
