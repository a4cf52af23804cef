//! What it takes to make an origin, and why it may not work.

use super::dial::Dialer;
use super::error::{Error, Step};
use super::options::{OriginOptions, Settings};
use super::stalls::Stalls;
use super::target::Target;
use crate::building::BuildError;
use crate::dns::resolver_for;
use crate::monitor::Monitor;
use crate::resolver::Resolver;
use crate::resolver::source::Source;
use crate::tcp::Tcp;
use crate::tls::TlsError;
use http::header::HeaderValue;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::runtime::Handle;

/// Why an origin could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OriginError {
    /// The agent has it already.
    #[error("{origin} exists")]
    Exists {
        /// Its name.
        origin: Arc<str>,
    },
    /// The agent is closed.
    #[error("the agent is closed")]
    Closed,
    /// The URI does not name an origin.
    #[error(transparent)]
    Uri(Error),
    /// An option makes no sense, or the host is no name and no address.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The TLS settings make no sense.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// As requests fail with it.
impl From<OriginError> for Error {
    fn from(error: OriginError) -> Error {
        match error {
            OriginError::Uri(error) => error,
            OriginError::Closed => Error::closed(),
            OriginError::Tls(error) => {
                Error::new(Step::Tls, "TLS cannot be set up").caused_by(Arc::new(error) as Arc<_>)
            }
            OriginError::Exists { .. } | OriginError::Build(_) => {
                Error::request("the origin cannot be set up").caused_by(Arc::new(error) as Arc<_>)
            }
        }
    }
}

/// All that an origin is made of.
pub(super) struct Maker {
    pub(super) name: Arc<str>,
    /// What its pools and sets are called.
    pub(super) title: Arc<str>,
    pub(super) host: HeaderValue,
    pub(super) settings: Settings,
    pub(super) dialer: Dialer,
    pub(super) stalls: Arc<Stalls>,
    pub(super) resolver: Resolver,
    /// Whether anybody has to be asked who serves.
    pub(super) resolves: bool,
    pub(super) runtime: Handle,
    pub(super) monitor: Monitor,
}

impl Maker {
    /// Starts the resolver; nothing is connected to yet.
    pub(super) fn new(
        target: &Target,
        settings: &Settings,
        options: OriginOptions,
        runtime: &Handle,
        monitor: &Monitor,
    ) -> Result<Maker, OriginError> {
        let name: Arc<str> = target.to_string().into();
        let title = options.name.clone().unwrap_or_else(|| Arc::clone(&name));
        let (settings, source, server_name) = options.resolve(settings);
        settings.validate(target.is_https()).map_err(BuildError::from)?;
        let stalls = Stalls::new(settings.retry_stalled, settings.health_check.is_some());
        let dialer = dialer(target, &settings, server_name)?.reporting_to(&stalls);
        let resolves = match &source {
            Some(source) => source.fixed.is_empty(),
            None => target.host().parse::<IpAddr>().is_err(),
        };
        let source = source.unwrap_or_else(|| discovery(target, &settings));
        let resolver = Resolver::start_in(runtime, monitor, source.prepare(&settings.recovery)?);
        let (host, runtime, monitor) = (target.authority(), runtime.clone(), monitor.clone());
        Ok(Maker { name, title, host, settings, dialer, stalls, resolver, resolves, runtime, monitor })
    }
}

fn dialer(target: &Target, settings: &Settings, server_name: Option<String>) -> Result<Dialer, TlsError> {
    let tcp = Tcp::default().keepalive(settings.tcp_keepalive);
    if !target.is_https() {
        return Ok(Dialer::plain(tcp));
    }
    let server_name = server_name.unwrap_or_else(|| target.host().to_owned());
    Ok(Dialer::tls(settings.tls.clone().tcp(tcp).server_name(server_name).build()?))
}

/// DNS, or the address itself if the host is one.
fn discovery(target: &Target, settings: &Settings) -> Source {
    let (service, options) = (target.service(), settings.dns.clone());
    let srv = settings.srv.then_some(if target.is_https() { "_https._tcp" } else { "_http._tcp" });
    Source::made(service.clone(), move |recovery| {
        let options = options.recovery(recovery.clone());
        let options = match srv {
            Some(srv) => options.srv(srv),
            None => options,
        };
        resolver_for(&service, options).map_err(BuildError::Service)
    })
}
