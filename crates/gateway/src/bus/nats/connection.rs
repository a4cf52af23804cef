//! The client of NATS, and what is opened on it.

use super::access::Access;
use super::options::{NatsError, NatsOptions};
use super::post;
use super::reports::Reports;
use super::scope::NatsBus;
use super::subject::{Subjects, escape};
use crate::bus::Bus;
use crate::cluster::{Lease, LeaseOptions, NatsRegister, Register, Share, ShareError};
use crate::credential::Credential;
use crate::upstream::trusting;
use async_nats::{Auth, AuthError, Client, ConnectErrorKind, ConnectOptions, ServerAddr};
use carom_core::options::OptionsError;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::timeout;

/// How long the first connection may take.
const FIRST_CONNECT: Duration = Duration::from_secs(10);
/// How long each attempt may take, from the socket to the server's word.
const ATTEMPT: Duration = Duration::from_secs(2);
/// How often the server is asked whether it is there. Two questions without an answer, and another connection is made: whoever
/// holds a lease cannot wait for a system's own, much longer, patience.
const PING: Duration = Duration::from_secs(1);
/// The longest delay between two attempts.
const LONGEST_DELAY: Duration = Duration::from_secs(2);
/// How long NATS may take to say who owns an upstream, when that is asked for the first time, and whether this gateway may.
const FIRST_ANSWER: Duration = Duration::from_secs(10);

/// A gateway's place at NATS. Cheap to clone; all clones are the same.
///
/// It has two connections: one for ticks, and one for leases and what gateways ask of each other, which must not wait behind them.
///
/// What is published on the bus of a user at a broker is heard on the buses of the same user in other processes, at most once: what
/// is said while a gateway is cut off from NATS does not reach it later. Whoever may publish under the prefix is believed, so
/// let NATS' permissions keep everybody else out.
///
/// ```text
/// {prefix}.{broker}.{user}.tick.{epoch}.{TOPIC}      a tick, by whoever owns the upstream in this epoch; 0 without an election
/// {prefix}.{broker}.{user}.say.{TOPIC}               order updates and invalidated caches
/// {prefix}.{broker}.{user}.ask.{member}              what one gateway asks of another
/// ```
///
/// Of names, everything but letters, digits, `_` and `-` is written as `=` and two hexadecimal digits.
///
/// It does not hear what it says itself, so each gateway has one of its own, also when several are in one process.
#[derive(Clone)]
pub struct Nats {
    ticks: Client,
    asks: Client,
    prefix: Arc<str>,
    member: Arc<str>,
    replicas: usize,
    /// How many there have been.
    shares: Arc<AtomicU64>,
    reports: Arc<Reports>,
}

impl Nats {
    /// Whether this build can connect to NATS.
    pub const AVAILABLE: bool = true;

    /// Connects, within 10 s. A connection that is lost later is made again, for as long as it takes.
    ///
    /// # Errors
    /// [`NatsError`] says why not.
    pub async fn connect(options: NatsOptions) -> Result<Nats, NatsError> {
        let member = member_of(&options.name)?;
        let reports = Arc::new(Reports::default());
        let (ticks, asks) = tokio::try_join!(open(&options, "ticks", &reports), open(&options, "requests", &reports))?;
        let (prefix, replicas) = (options.prefix.as_str().into(), options.replicas);
        Ok(Nats { ticks, asks, prefix, member, replicas, shares: Arc::default(), reports })
    }

    /// What this gateway is called by others: its name, and something that no other has, and that it does not have again when
    /// it is started anew. Each [share](Nats::share) has a number behind that.
    pub fn member(&self) -> &Arc<str> {
        &self.member
    }

    /// Whether NATS can be reached, as far as is known.
    pub fn is_connected(&self) -> bool {
        post::Post::is_connected(&self.ticks) && post::Post::is_connected(&self.asks)
    }

    /// How many messages of NATS were lost, as they came faster than they were read.
    pub fn lost(&self) -> u64 {
        self.reports.lost()
    }

    /// The bus of this user at this broker. There is to be one of it on a connection.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn scope(&self, broker: &str, user: &str) -> Bus {
        Bus::Nats(NatsBus::new(Arc::new(self.ticks.clone()), self.subjects(broker, user), None))
    }

    /// A share in the upstream of this user at this broker, among all gateways that ask for the same with the same prefix: one of
    /// them is elected to have the connections to it. Takes part from now on; see
    /// [`shared_feed`](crate::Builder::shared_feed). There is to be one of it on a connection, and no [`scope`](Nats::scope)
    /// beside it.
    ///
    /// The lease is kept in the bucket `carom_leases` of NATS' key-value store, which is made if it is not there. Whoever connects
    /// has to be allowed to publish to `$KV.carom_leases.>` and `$JS.API.{STREAM.CREATE.KV_carom_leases,DIRECT.GET.KV_carom_leases.>}`, to subscribe to
    /// `$KV.carom_leases.>` and `_INBOX.>`, and both to what begins with the prefix and to `_INBOX.>`.
    ///
    /// # Errors
    /// [`ShareError`], when NATS does not answer within 10 s, keeps no leases, or does not let this gateway write them.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn share(&self, broker: &str, user: &str) -> Result<Share, ShareError> {
        let register = NatsRegister::new(self.asks.clone()).replicas(self.replicas);
        let key = format!("{}.{}.{}", self.prefix, escape(broker), escape(user));
        let subject = register.subject(&key)?;
        // Whoever cannot take part is to hear of it now, and not to wait for ever.
        self.reports.take_complaint();
        let unanswered = |subject| {
            let said = self.reports.take_complaint().map_or("nothing".into(), |said| format!("{said:?}"));
            ShareError::Unanswered { subject, allowed: FIRST_ANSWER, said }
        };
        let reading = timeout(FIRST_ANSWER, register.read(&key)).await;
        reading.map_err(|_| unanswered(register.reads()))??;
        let writing = timeout(FIRST_ANSWER, register.may_write(&key)).await;
        writing.map_err(|_| unanswered(subject))??;
        // Two of the same name would take each other's lease for their own.
        let number = self.shares.fetch_add(1, Ordering::Relaxed) + 1;
        let name: Arc<str> = format!("{}-{number}", self.member).into();
        let lease = Lease::start(register, key, Arc::clone(&name), LeaseOptions::default())?;
        let posts = post::Posts { ticks: Arc::new(self.ticks.clone()), asks: Arc::new(self.asks.clone()) };
        Ok(Share::leased(name, posts, self.subjects(broker, user), lease, (broker, user)))
    }

    fn subjects(&self, broker: &str, user: &str) -> Subjects {
        Subjects::new(&self.prefix, broker, user)
    }
}

impl fmt::Debug for Nats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nats").field("prefix", &self.prefix).field("member", &self.member).finish_non_exhaustive()
    }
}

fn member_of(name: &str) -> Result<Arc<str>, NatsError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(NatsError::NoChance)?;
    Ok(format!("{name}-{:016x}", u64::from_le_bytes(bytes)).into())
}

/// Connects; from then on for ever, whatever becomes of the server. `line` is what the connection is for.
async fn open(options: &NatsOptions, line: &'static str, reports: &Arc<Reports>) -> Result<Client, NatsError> {
    options.validate()?;
    let NatsOptions { urls, access, extra_roots, name, .. } = options;
    let servers = servers(urls)?;
    let mut options = present(access, line, reports).await?;
    if let Some(pem) = extra_roots {
        let tls = trusting(pem.clone())?;
        options = options.tls_client_config(tls.config().clone()).require_tls(true);
    }
    let reports = Arc::clone(reports);
    let connecting = options
        .name(name)
        // What is published here is delivered here without NATS.
        .no_echo()
        .ping_interval(PING)
        .connection_timeout(ATTEMPT)
        // Whoever asks says how long they wait.
        .request_timeout(None)
        .reconnect_delay_callback(|attempts| LONGEST_DELAY.min(Duration::from_millis(100) * attempts.min(100) as u32))
        .max_reconnects(None)
        .event_callback(move |event| {
            reports.happened(line, &event);
            std::future::ready(())
        })
        .connect(servers);
    let urls = || urls.clone();
    match timeout(FIRST_CONNECT, connecting).await {
        Ok(Ok(client)) => Ok(client),
        Ok(Err(error)) => Err(match error.kind() {
            ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
                NatsError::Refused { urls: urls() }
            }
            _ => NatsError::Unreachable { urls: urls(), source: error.into() },
        }),
        Err(_) => Err(NatsError::TimedOut { urls: urls(), timeout: FIRST_CONNECT }),
    }
}

/// Options to connect with, as whoever this is. `line` is what the connection is for.
async fn present(access: &Access, line: &'static str, reports: &Arc<Reports>) -> Result<ConnectOptions, NatsError> {
    if let Some(path) = &access.credentials_file {
        let unusable = |source| NatsError::Credentials { path: path.clone(), source };
        return ConnectOptions::with_credentials_file(path).await.map_err(unusable);
    }
    let (user, file) = match (&access.user, &access.token_file) {
        (Some((user, password)), _) => (Some(user.clone()), password),
        (None, Some(token)) => (None, token),
        (None, None) => return Ok(ConnectOptions::new()),
    };
    let secret = Credential::file(file.clone());
    // Now, so that whoever starts something hears what is wrong with the file.
    secret.present().await?;
    let reports = Arc::clone(reports);
    Ok(ConnectOptions::with_auth_callback(move |_| {
        let (user, secret, reports) = (user.clone(), secret.clone(), Arc::clone(&reports));
        // In a task of its own: the client wants a future that threads could share.
        let reading = tokio::spawn(async move { auth(user, &secret, line, &reports).await });
        async move { reading.await.unwrap_or_else(|stopped| Err(AuthError::new(stopped))) }
    }))
}

/// What is in the file now.
async fn auth(
    user: Option<String>,
    secret: &Credential,
    line: &'static str,
    reports: &Reports,
) -> Result<Auth, AuthError> {
    let presented = secret.present().await.map_err(|error| {
        reports.unpresentable(line, &error);
        AuthError::new(error)
    })?;
    let (mut auth, secret) = (Auth::new(), presented.secret().to_owned());
    match user {
        Some(user) => (auth.username, auth.password) = (Some(user), Some(secret)),
        None => auth.token = Some(secret),
    }
    Ok(auth)
}

pub(super) fn check_urls(urls: &str) -> Result<(), OptionsError> {
    servers(urls).map(drop)
}

fn servers(urls: &str) -> Result<Vec<ServerAddr>, OptionsError> {
    let server = |url: &str| {
        // What was typed may have a password in it, and is not shown.
        let address: ServerAddr =
            url.trim().parse().map_err(|_| OptionsError::new("url", "must be like nats://127.0.0.1:4222"))?;
        if address.host().is_empty() {
            return Err(OptionsError::new("url", "must name a host, such as nats://127.0.0.1:4222"));
        }
        if address.has_user_pass() || address.username().is_some() {
            return Err(OptionsError::new("url", "must not have a user in it: credentials belong in a file"));
        }
        Ok(address)
    };
    urls.split(',').map(server).collect()
}
