//! What a command line for `carom gateway` means, with the config and the environment below it.

use super::banner::typed;
use crate::args;
use crate::config::{self, Admin, Bus, Config, Environment, KeysAt, Layered, ZeroMq};
use crate::failure::{Failure, say, with_causes};
use carom_gateway::keys::{Identity, Keys, KeysError, NewKey};

/// What is to be done.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) gateway: config::Gateway,
    pub(crate) feeds: Vec<config::Feed>,
    pub(super) keys: Keys,
    /// Keys that were made for this run, to be shown once.
    pub(crate) made: Vec<(Identity, NewKey)>,
}

impl Request {
    /// With where it can be asked how it is doing.
    pub(super) fn new(args: args::Gateway) -> Result<(Request, Option<Admin>), Failure> {
        let environment = Environment::read()?;
        let mut config = Config::read(args.config.as_deref(), &environment)?;
        environment.tell_unused(&config.gateway.bus.value);
        put_over(&mut config, args);
        if let Some(admin) = &config.admin {
            admin.check().map_err(|problem| Failure::Usage(format!("{}: {problem}", admin.listen.origin)))?;
        }
        let request = Request::of(config.gateway, config.feeds)?;
        request.warn();
        Ok((request, config.admin))
    }

    /// What these tables mean, with the keys that they name.
    pub(crate) fn of(gateway: config::Gateway, feeds: Vec<config::Feed>) -> Result<Request, Failure> {
        let (keys, made) = match &gateway.keys {
            Some(at) => (read(at, &feeds)?, Vec::new()),
            None => make(&identities(&feeds))?,
        };
        Ok(Request { gateway, feeds, keys, made })
    }

    /// How many keys there are.
    pub(crate) fn known_keys(&self) -> usize {
        self.keys.len()
    }

    /// Whether somebody has a key who has a feed too.
    pub(super) fn serves_somebody(&self) -> bool {
        let known = self.keys.identities();
        identities(&self.feeds).iter().any(|feed| known.contains(feed))
    }

    /// Says what may not be meant.
    pub(crate) fn warn(&self) {
        if let Bus::ZeroMq(ZeroMq { listen, .. }) = &self.gateway.bus.value
            && !listen.value.ip().to_canonical().is_loopback()
        {
            say(format_args!("warning: whoever can reach {listen} is on the bus: ZeroMQ asks nobody who they are"));
        }
        for warning in self.feeds.iter().flat_map(|feed| feed.warnings(&self.gateway.bus.value)) {
            say(format_args!("warning: {warning}"));
        }
        self.warn_of_keys();
    }

    /// Those who have a key and no feed are served nothing, and a feed nobody has a key for serves nobody. Either may be meant.
    pub(super) fn warn_of_keys(&self) {
        let (known, feeds) = (self.keys.identities(), identities(&self.feeds));
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
fn identities(feeds: &[config::Feed]) -> Vec<Identity> {
    feeds.iter().map(|feed| Identity::new(&*feed.broker, &*feed.user)).collect()
}

/// What was typed goes over everything.
fn put_over(config: &mut Config, args: args::Gateway) {
    let args::Gateway { config: _, listen, admin, keys, tls_certificate, tls_key, .. } = args;
    if let Some(listen) = listen {
        config.gateway.listen = Layered::new(listen, "--listen");
    }
    if let Some(admin) = admin.map(|admin| Layered::new(admin, "--admin")) {
        match &mut config.admin {
            Some(configured) => configured.listen = admin,
            None => config.admin = Some(Admin::open(admin)),
        }
    }
    if let Some(keys) = keys {
        config.gateway.keys = Some(Layered::new(KeysAt::File(keys), "--keys"));
    }
    // Neither can be typed alone.
    if let Some(tls) = tls_certificate.zip(tls_key) {
        config.gateway.tls = Some(tls);
    }
    for feed in &mut config.feeds {
        feed.limit(args.max_topics_per_connection, args.max_connections);
    }
}

fn read(at: &Layered<KeysAt>, feeds: &[config::Feed]) -> Result<Keys, Failure> {
    let keys = match &at.value {
        KeysAt::File(file) => Keys::from_file(file),
        KeysAt::Config(file) => Keys::from_config(file),
    };
    keys.map_err(|error| match &error {
        KeysError::Unreadable { .. } => {
            let mut problem = format!("{}: {}", at.origin, with_causes(&error));
            if let (KeysAt::File(file), Some(config::Feed { user, broker, .. })) = (&at.value, feeds.first())
                && !file.exists()
            {
                let (user, broker) = (typed(user), typed(broker));
                let file = typed(&file.display().to_string());
                problem += &format!("; `carom key new --user {user} --broker {broker} --file {file}` makes it");
            }
            Failure::Input(problem)
        }
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
