//! What a command line for `carom gateway` means, with the config and the environment below it.

use crate::args;
use crate::config::{Config, Environment, KeysAt, Layered};
use crate::failure::{Failure, say, with_causes};
use carom_gateway::keys::{Identity, Keys, KeysError, NewKey};

/// What is to be done.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) config: Config,
    pub(super) keys: Keys,
    /// Keys that were made for this run, to be shown once.
    pub(super) made: Vec<(Identity, NewKey)>,
}

impl Request {
    pub(super) fn new(args: args::Gateway) -> Result<Request, Failure> {
        let environment = Environment::read()?;
        if let Some(unused) = &environment.unused {
            say(format_args!("note: ticks stay in this process, and this is not used: {unused}"));
        }
        let mut config = Config::read(args.config.as_deref(), &environment)?;
        put_over(&mut config, args);
        let (keys, made) = match &config.gateway.keys {
            Some(at) => (read(at)?, Vec::new()),
            None => make(&identities(&config))?,
        };
        let request = Request { config, keys, made };
        request.warn();
        Ok(request)
    }

    /// Whether somebody has a key who has a feed too.
    pub(super) fn serves_somebody(&self) -> bool {
        let known = self.keys.identities();
        identities(&self.config).iter().any(|feed| known.contains(feed))
    }

    /// Those who have a key and no feed are served nothing, and a feed nobody has a key for serves nobody. Either may be meant.
    pub(super) fn warn(&self) {
        let (known, feeds) = (self.keys.identities(), identities(&self.config));
        if known.is_empty() {
            return say("warning: there are no keys at all, and nobody is let in");
        }
        for Identity { broker, user } in known.iter().filter(|known| !feeds.contains(known)) {
            say(format_args!("warning: there is a key for {user} at {broker}, and no feed"));
        }
        for Identity { broker, user } in feeds.iter().filter(|feed| !known.contains(feed)) {
            say(format_args!("warning: there is a feed of {user} at {broker}, and no key"));
        }
    }
}

/// Everybody who has a feed.
fn identities(config: &Config) -> Vec<Identity> {
    config.feeds.iter().map(|feed| Identity::new(&*feed.broker, &*feed.user)).collect()
}

/// What was typed goes over everything.
fn put_over(config: &mut Config, args: args::Gateway) {
    let args::Gateway { config: _, listen, keys, tls_certificate, tls_key, .. } = args;
    if let Some(listen) = listen {
        config.gateway.listen = Layered::new(listen, "--listen");
    }
    if let Some(keys) = keys {
        config.gateway.keys = Some(Layered::new(KeysAt::File(keys), "--keys"));
    }
    // Neither can be typed alone.
    if let Some(tls) = tls_certificate.zip(tls_key) {
        config.gateway.tls = Some(tls);
    }
    for feed in &mut config.feeds {
        feed.max_topics_per_connection = args.max_topics_per_connection.unwrap_or(feed.max_topics_per_connection);
        feed.max_connections = args.max_connections.unwrap_or(feed.max_connections);
    }
}

fn read(at: &Layered<KeysAt>) -> Result<Keys, Failure> {
    let keys = match &at.value {
        KeysAt::File(file) => Keys::from_file(file),
        KeysAt::Config(file) => Keys::from_config(file),
    };
    keys.map_err(|error| match &error {
        KeysError::Unreadable { .. } => Failure::Input(format!("{}: {}", at.origin, with_causes(&error))),
        _ => Failure::Input(with_causes(&error)),
    })
}

/// A key for everybody who has a feed.
fn make(feeds: &[Identity]) -> Result<(Keys, Vec<(Identity, NewKey)>), Failure> {
    let made: Result<Vec<_>, KeysError> =
        feeds.iter().map(|identity| Ok((identity.clone(), NewKey::generate()?))).collect();
    let made = made.map_err(|error| Failure::Unavailable(with_causes(&error)))?;
    let keys = Keys::in_memory(made.iter().map(|(identity, key)| (identity.clone(), key.sha256())));
    Ok((keys, made))
}
