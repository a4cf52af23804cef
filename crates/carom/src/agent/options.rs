//! How origins are treated: what the agent's builder sets for all of them, and what one origin has of its own.

use super::health::HttpCheck;
use super::served::Protocol;
use crate::dns::DnsOptions;
use crate::resolver::Resolve;
use crate::resolver::source::Source;
use crate::tls::{self, Tls};
use crate::{Backend, Ejection, Recovery};
use carom_core::options::OptionsError;
use carom_core::{pool, set};
use http::uri::PathAndQuery;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Declares every setting once: how it is given, how it is kept, its default. From that come the settings themselves, what
/// an origin may override, and the setters of both builders.
macro_rules! settings {
    ($($(#[doc = $doc:literal])* $name:ident($given:ty) as $value:expr, $kept:ty = $default:expr;)*) => {
        /// How an origin is treated.
        #[derive(Clone, Debug)]
        pub(super) struct Settings {
            $(pub(super) $name: $kept,)*
        }

        /// What an origin has of its own.
        #[derive(Clone, Debug, Default)]
        struct Overrides {
            $($name: Option<$kept>,)*
        }

        impl Default for Settings {
            fn default() -> Settings {
                Settings { $($name: $default,)* }
            }
        }

        impl Settings {
            fn overridden(&self, by: Overrides) -> Settings {
                Settings { $($name: by.$name.unwrap_or_else(|| self.$name.clone()),)* }
            }
        }

        impl super::Builder {
            $($(#[doc = $doc])*
            pub fn $name(mut self, $name: $given) -> super::Builder {
                self.settings.$name = $value;
                self
            })*
        }

        /// The settings of the agent, for this origin alone.
        impl OriginOptions {
            $($(#[doc = $doc])*
            pub fn $name(mut self, $name: $given) -> OriginOptions {
                self.overrides.$name = Some($value);
                self
            })*
        }
    };
}

settings! {
    /// Idle or connecting connections that are kept for each origin beyond what is in use. Default 2; at most `maximum`. Over
    /// HTTP/2 there are none: one connection carries many requests.
    spares(usize) as spares, usize = 2;
    /// Most connections to each origin; over HTTP/2, most nodes that are connected to, with one connection each, and as many
    /// more over HTTP/1 for upgrades. Default 10.
    maximum(usize) as maximum, usize = 10;
    /// Attempts, timeouts and delays of connecting and of asking DNS. Takes a [`Recovery`], or one [`Policy`](crate::Policy)
    /// for everything. Default: 3 attempts, timeout 2 s up to 8 s, delay 100 ms up to 3 s. A delay below 1 ms is refused,
    /// unless `protocol` is [`Protocol::Http1`]: HTTP/2 connections are made before a request needs them.
    recovery(impl Into<Recovery>) as recovery.into(), Recovery = Recovery::default();
    /// How long a request may wait for connections, over all its attempts, with asking DNS and connecting. Default 30 s; at most
    /// a year.
    claim_timeout(Duration) as claim_timeout, Duration = Duration::from_secs(30);
    /// How long a request waits for a connection while every node is dead, within `claim_timeout`. Then it fails with the
    /// reason of the last attempt. With 0 it fails once an attempt that began after it arrived has failed at every node.
    /// Default 5 s.
    outage_wait(Duration) as outage_wait, Duration = Duration::from_secs(5);
    /// More requests waiting for a connection than this are refused at once. Over HTTP/2 it counts those that wait because the
    /// servers take no more at a time. Default none.
    max_waiters(impl Into<Option<usize>>) as max_waiters.into(), Option<usize> = None;
    /// How long requests should wait for a connection at most under overload: those beyond are refused. Over HTTP/2 it is not
    /// used. Default none: off.
    target_delay(impl Into<Option<Duration>>) as target_delay.into(), Option<Duration> = None;
    /// While no backend is known, requests fail at once instead of waiting for one. Default false.
    error_on_empty(bool) as error_on_empty, bool = false;
    /// How long the head of an answer may take, waiting and connecting included. The body may take as long as it likes, and so
    /// may a request's own, which is not there at once, over HTTP/1: as long as pieces of it are sent, the time begins again.
    /// That a server which has the whole request does not answer in time is held against it, as its errors are. Default none.
    timeout(impl Into<Option<Duration>>) as timeout.into(), Option<Duration> = None;
    /// A connection beyond what the load and `spares` ask for is released after idling this long; `None` keeps it. Default
    /// 60 s.
    connection_max_idle(impl Into<Option<Duration>>) as connection_max_idle.into(),
        Option<Duration> = Some(Duration::from_secs(60));
    /// A connection older than this, or up to 20 % younger, is retired when it is not in use; `None` keeps it. Over HTTP/2
    /// it takes no new requests, from the first one on that finds it so old. Default 30 min.
    max_lifetime(impl Into<Option<Duration>>) as max_lifetime.into(),
        Option<Duration> = Some(Duration::from_secs(30 * 60));
    /// A path, such as `/healthz`, that is asked for with `GET` on connections that idle, every
    /// [`ping_interval`](Self::ping_interval). Any answer below 500 within [`check_timeout`](Self::check_timeout) is health; a
    /// connection without it is replaced. Over HTTP/2 it is a ping of that protocol. Default none: off.
    ping(impl Into<String>) as Some(ping.into()), Option<String> = None;
    /// How long a connection idles before it is [pinged](Self::ping), and again each time. Default 30 s.
    ping_interval(Duration) as ping_interval, Duration = Duration::from_secs(30);
    /// How long a ping, or an orderly close, may take. Default 3 s.
    check_timeout(Duration) as check_timeout, Duration = Duration::from_secs(3);
    /// After how much silence on a connection the system probes whether the far side is still there, in whole seconds.
    /// Default none: off.
    tcp_keepalive(impl Into<Option<Duration>>) as tcp_keepalive.into(), Option<Duration> = None;
    /// Outlier detection: ejects a backend for a while after so many failed requests in a row. A request fails when the connection
    /// breaks before the response head, at [`timeout`](Self::timeout), and with status 502, 504, or 503 without `Retry-After`; other
    /// server errors (5xx) do not count. `None` turns it off. Default: 5 in a row, 10 s times the number of ejections in a row and
    /// at most 60 s, at most half of the backends.
    ejection(impl Into<Option<Ejection>>) as ejection.into(), Option<Ejection> = Some(Ejection::default());
    /// An active health check of every node, whether or not it is in use: over HTTP or gRPC, with the origin's TLS and protocol.
    /// Default none: off.
    health_check(impl Into<Option<HttpCheck>>) as health_check.into(), Option<HttpCheck> = None;
    /// Whether safe requests without a body are sent once more when their backend stalls. A backend is stalled when it has
    /// requests without a response head, and no byte has arrived from it for 20 times the median response time, at least 500 ms and
    /// at most 5 s, while another backend responded or passed an active health check. It gets no new requests, unless all are stalled, until a byte arrives from
    /// it. Its outstanding `GET`, `HEAD` and `OPTIONS` requests are sent to another backend as well, and the first response wins;
    /// at most 20 % of the requests, or 3 per second if that is more. Of requests that arrive meanwhile a copy is sent to it once a
    /// second, to find out whether it is back. Without such requests and without [`health_check`](super::Builder::health_check), it gets one
    /// request after 5 s, then after 10 s, 20 s, and every 30 s. Requests that wait at a backend when it becomes unhealthy by its
    /// checks are sent to another one in the same way. With `false` no request is sent twice, except for copies to a stalled
    /// backend. Default true.
    retry_stalled(bool) as retry_stalled, bool = true;
    /// Slow start: a new or recovered node begins with a tenth of its share of requests, which grows to the whole over this time.
    /// For nodes that are slow until their caches are warm. Default none: off.
    slow_start(impl Into<Option<Duration>>) as slow_start.into(), Option<Duration> = None;
    /// How DNS is asked. Its `srv` and `default_port` follow from the origin, and its `recovery` from the agent's.
    dns(DnsOptions) as dns, DnsOptions = DnsOptions::default();
    /// Whether DNS is asked for SRV records, of `_http._tcp` or `_https._tcp`, before addresses. Where there are any they say
    /// which ports serve, whatever port the URI names. Default true.
    srv(bool) as srv, bool = true;
    /// Whom `https` origins must prove to be, and who this side is. Its `alpn`, `server_name` and `tcp` follow from the
    /// origin and the other settings. Default: the system's roots, and no certificate for this side.
    tls(tls::Builder) as tls, tls::Builder = Tls::builder();
    /// Which HTTP is spoken. Default [`Protocol::Negotiate`].
    protocol(Protocol) as protocol, Protocol = Protocol::Negotiate;
    /// Whether answers say how they came about, with a [`Served`](super::Served) in their extensions. Default true; whoever just
    /// passes answers on can do without.
    served(bool) as served, bool = true;
}

/// Options of one origin; for [`Agent::create_pool`](super::Agent::create_pool). What is not said is as the agent has it.
///
/// ```
/// use carom::agent::OriginOptions;
/// use std::time::Duration;
///
/// let options = OriginOptions::default().backends(["10.0.0.1:8080".parse::<std::net::SocketAddr>()?]).spares(8).maximum(64);
/// # let _ = options;
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Default)]
#[must_use = "options do nothing until they are given to somebody"]
pub struct OriginOptions {
    overrides: Overrides,
    source: Option<Source>,
    server_name: Option<String>,
    pub(super) name: Option<Arc<str>>,
}

impl OriginOptions {
    /// What its pools and sets are called where they are [seen](crate::monitor), in logs and in metrics. Default: the origin.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> OriginOptions {
        self.name = Some(name.into());
        self
    }

    /// These backends and no others, instead of whom DNS says. `Host` and TLS stay the origin's.
    pub fn backends(mut self, backends: impl IntoIterator<Item = impl Into<Backend>>) -> OriginOptions {
        self.source = Some(Source::fixed(backends));
        self
    }

    /// Whoever this resolver says serves, instead of DNS. One that was started, a [`Resolver`](crate::resolver::Resolver), is
    /// only let go of when the origin is closed.
    pub fn resolver(mut self, resolver: impl Resolve) -> OriginOptions {
        self.source = Some(Source::resolver(resolver));
        self
    }

    /// The name that the certificates of an `https` origin must be made out to, and that servers are told. Default: the host
    /// of the origin.
    pub fn server_name(mut self, server_name: impl Into<String>) -> OriginOptions {
        self.server_name = Some(server_name.into());
        self
    }

    /// What holds for this origin, beside an agent's settings.
    pub(super) fn resolve(self, settings: &Settings) -> (Settings, Option<Source>, Option<String>) {
        (settings.overridden(self.overrides), self.source, self.server_name)
    }
}

impl fmt::Debug for OriginOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OriginOptions").field("overrides", &self.overrides).finish_non_exhaustive()
    }
}

impl Settings {
    /// Refuses what makes no sense, by name, for origins over TLS or without.
    pub(super) fn validate(&self, https: bool) -> Result<(), OptionsError> {
        if self.timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(OptionsError::new("timeout", "must be above zero"));
        }
        if let Some(health_check) = &self.health_check {
            health_check.validate()?;
        }
        if let Some(ping) = &self.ping
            && !(ping.starts_with('/') && ping.parse::<PathAndQuery>().is_ok())
        {
            return Err(OptionsError::new("ping", format!("must be a path such as `/healthz`, not `{ping}`")));
        }
        let options = pool::Options {
            spares: self.spares,
            maximum: self.maximum,
            max_waiters: self.max_waiters,
            outage_wait: self.outage_wait,
            recovery: self.recovery.clone(),
            max_idle: self.connection_max_idle,
            max_lifetime: self.max_lifetime,
            check_after: Some(self.ping_interval),
            check_timeout: self.check_timeout,
            target_delay: self.target_delay,
            ejection: self.ejection.clone(),
            slow_start: self.slow_start,
            ..pool::Options::default()
        };
        // By the names that they have here.
        options.validate().map_err(|refused| match refused.option() {
            "max_idle" => OptionsError::new("connection_max_idle", refused.problem()),
            "check_after" => OptionsError::new("ping_interval", refused.problem()),
            _ => refused,
        })?;
        let options = set::Options { lease_timeout: self.claim_timeout, ..set::Options::default() };
        options.validate().map_err(|refused| OptionsError::new("claim_timeout", refused.problem()))?;
        let may_be_http2 = match self.protocol {
            Protocol::Negotiate => https,
            Protocol::Http1 => false,
            Protocol::Http2 => true,
        };
        match self.recovery.require_connect_delay() {
            Err(problem) if may_be_http2 => {
                Err(OptionsError::new("recovery", format!("of HTTP/2 connections: {problem}")))
            }
            Err(_) | Ok(()) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_what_it_says_and_the_rest_from_its_agent() {
        let agent = Settings { maximum: 7, timeout: Some(Duration::from_secs(5)), ..Settings::default() };
        let (own, source, server_name) =
            OriginOptions::default().spares(3).timeout(None).server_name("a.test").resolve(&agent);
        assert_eq!((own.spares, own.maximum, own.timeout), (3, 7, None));
        assert!(source.is_none());
        assert_eq!(server_name.as_deref(), Some("a.test"));
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let refused = |settings: Settings| settings.validate(true).unwrap_err().option();
        let zero = Duration::ZERO;
        assert_eq!(refused(Settings { claim_timeout: zero, ..Settings::default() }), "claim_timeout");
        assert_eq!(refused(Settings { timeout: Some(zero), ..Settings::default() }), "timeout");
        assert_eq!(refused(Settings { spares: 11, ..Settings::default() }), "spares");
        for ping in ["healthz", "http://a.test/healthz", "/a b", ""] {
            assert_eq!(refused(Settings { ping: Some(ping.into()), ..Settings::default() }), "ping", "{ping}");
        }
        assert_eq!(refused(Settings { slow_start: Some(zero), ..Settings::default() }), "slow_start");
        let ping_interval = Settings { ping_interval: zero, ..Settings::default() };
        assert_eq!(refused(ping_interval), "ping_interval");
        assert_eq!(refused(Settings { ping_interval: Duration::MAX, ..Settings::default() }), "ping_interval");
        assert_eq!(refused(Settings { claim_timeout: Duration::MAX, ..Settings::default() }), "claim_timeout");
        assert!(Settings { ping: Some("/healthz?deep".into()), ..Settings::default() }.validate(true).is_ok());
    }
}
