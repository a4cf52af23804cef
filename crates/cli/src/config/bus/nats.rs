//! The table `[gateway.nats]`: which servers, as whom, and under which names.

use super::super::File;
use super::super::layered::Layered;
use super::super::values::{Pem, name};
use crate::files::{self, of_no_use};
use carom_gateway::bus::{NatsError, NatsOptions};
use carom_gateway::tables::{Table, TableError, Value};
use std::path::PathBuf;

/// Where NATS listens without further words.
const DEFAULT: &str = "nats://127.0.0.1:4222";
/// As the library has it.
const PREFIX: &str = "carom";
/// As the library has it.
const REPLICAS: usize = 1;
/// No credentials come near.
const LONGEST_FILE: u64 = 64 << 10;

/// Servers of NATS, and how they are spoken to.
#[derive(Clone, Debug)]
pub(crate) struct Nats {
    /// With commas between them. There is no password in any of them: that is refused.
    pub(crate) urls: Layered<String>,
    pub(crate) prefix: String,
    /// How many of the servers keep who owns an upstream.
    replicas: usize,
    access: Layered<Access>,
    /// Trusted besides those whom the system trusts.
    ca: Option<Pem>,
}

/// What servers are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Access {
    Nothing,
    Credentials(PathBuf),
    Token(PathBuf),
    User { name: String, password: PathBuf },
}

impl Nats {
    pub(super) fn take(gateway: &mut Table, file: &File<'_>) -> Result<Nats, TableError> {
        let place = gateway.place("bus").to_string();
        let mut nats = Nats {
            urls: Layered::new(DEFAULT.to_owned(), &place),
            prefix: PREFIX.to_owned(),
            replicas: REPLICAS,
            access: Layered::new(Access::Nothing, &place),
            ca: None,
        };
        let Some(mut table) = gateway.table("nats")? else { return Ok(nats) };
        let accepted = "one or a list, such as \"nats://127.0.0.1:4222\"; who connects is said by user, token_file or \
                        credentials_file";
        if let Some(urls) = table.read("url", accepted, urls)? {
            nats.urls = Layered::new(urls, table.place("url"));
        }
        let accepted = "letters, digits, - and _, with dots between them, such as \"carom\"";
        nats.prefix = table.read("prefix", accepted, prefix)?.unwrap_or(nats.prefix);
        let accepted = "from 1 to 5, and not more than there are servers; with 3, one of them may be away";
        nats.replicas = table.read("replicas", accepted, replicas)?.unwrap_or(nats.replicas);
        nats.access =
            Access::take(&mut table, file)?.unwrap_or_else(|| Layered::new(Access::Nothing, &nats.urls.origin));
        nats.ca = table.read("ca", "the name of a PEM file", |value| roots(file, value))?;
        table.finish()?;
        Ok(nats)
    }

    /// As the library takes them; `name` is what servers and other gateways call this one.
    pub(crate) fn options(&self, name: &str) -> NatsOptions {
        let options = NatsOptions::new(&self.urls.value).prefix(&self.prefix).replicas(self.replicas).name(name);
        let options = match &self.ca {
            Some(ca) => options.extra_roots(&*ca.text),
            None => options,
        };
        match &self.access.value {
            Access::Nothing => options,
            Access::Credentials(file) => options.credentials_file(file),
            Access::Token(file) => options.token_file(file),
            Access::User { name, password } => options.user(name, password),
        }
    }

    /// Where to look when servers cannot be spoken to for this reason.
    pub(crate) fn origin_of(&self, error: &NatsError) -> &str {
        match error {
            NatsError::Refused { .. } | NatsError::Credentials { .. } | NatsError::Secret(_) => &self.access.origin,
            _ => &self.urls.origin,
        }
    }
}

/// Wherever it is written.
impl PartialEq for Nats {
    fn eq(&self, other: &Nats) -> bool {
        let values = |nats: &Nats| {
            let Nats { urls, prefix, replicas, access, ca } = nats.clone();
            (urls.value, prefix, replicas, access.value, ca)
        };
        values(self) == values(other)
    }
}

impl Eq for Nats {}

impl Access {
    /// The one that is written, if one is.
    fn take(table: &mut Table, file: &File<'_>) -> Result<Option<Layered<Access>>, TableError> {
        let user = table.read("user", "the name of a user, with password_file", name)?;
        let mut found = |key| table.read(key, "the name of a file that can be read", |value| readable(file, value));
        let (password, token) = (found("password_file")?, found("token_file")?);
        let credentials = found("credentials_file")?;
        let user = match (user, password) {
            (Some(name), Some(password)) => Some(Access::User { name, password }),
            (None, None) => None,
            (Some(_), None) => return Err(table.missing("password_file", "a file with the password of that user")),
            (None, Some(_)) => return Err(table.missing("user", "the name of the user who has that password")),
        };
        let all = [
            ("credentials_file", credentials.map(Access::Credentials)),
            ("token_file", token.map(Access::Token)),
            ("user", user),
        ];
        let mut given = all.into_iter().filter_map(|(key, access)| Some((key, access?)));
        match (given.next(), given.next()) {
            (Some((first, _)), Some((second, _))) => {
                Err(table.wrong(second, format_args!("there is {first} too; accepted: one of them")))
            }
            (first, _) => Ok(first.map(|(key, access)| Layered::new(access, table.place(key)))),
        }
    }
}

fn urls(value: Value) -> Result<String, String> {
    let urls = match value {
        Value::List(urls) => urls.into_iter().map(Value::text).collect::<Result<Vec<_>, _>>()?.join(","),
        value => value.text()?,
    };
    let named = urls.split(',').all(|url| !url.trim().is_empty());
    match NatsOptions::new(&urls).validate() {
        Ok(()) if named => Ok(urls),
        // What was typed may have a password in it, and is not shown.
        Ok(()) | Err(_) => Err("this is no address of a NATS server".to_owned()),
    }
}

fn prefix(value: Value) -> Result<String, String> {
    let prefix = value.text()?;
    match NatsOptions::new(DEFAULT).prefix(&prefix).validate() {
        Ok(()) => Ok(prefix),
        Err(_) => Err(format!("`{}` cannot begin a subject", prefix.escape_debug())),
    }
}

fn replicas(value: Value) -> Result<usize, String> {
    let number = value.whole()?;
    let replicas = usize::try_from(number).unwrap_or(usize::MAX);
    match NatsOptions::new(DEFAULT).replicas(replicas).validate() {
        Ok(()) => Ok(replicas),
        Err(_) => Err(format!("{number} is no number of replicas")),
    }
}

fn roots(file: &File<'_>, value: Value) -> Result<Pem, String> {
    let ca = Pem::read(file, value)?;
    match NatsOptions::new(DEFAULT).extra_roots(&*ca.text).validate() {
        Ok(()) => Ok(ca),
        Err(_) => Err(of_no_use(&ca.file, "there are no certificates in it")),
    }
}

/// Whoever connects reads it again.
fn readable(file: &File<'_>, value: Value) -> Result<PathBuf, String> {
    let path = file.beside(name(value)?);
    let text = files::read(&path, LONGEST_FILE).map_err(|failure| failure.to_string())?;
    if text.trim().is_empty() { Err(of_no_use(&path, "there is nothing in it")) } else { Ok(path) }
}
