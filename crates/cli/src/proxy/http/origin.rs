//! The origin that requests go to: how its servers are called, known and kept.

use crate::config::{self, Backends, Http2, HttpCall, Service};
use crate::proxy::silence::KEEPALIVE;
use carom::agent::{HttpCheck, OriginOptions, Protocol};
use carom::resolver::Resolver;
use http::HeaderValue;

/// How it is called. Health checks say this as their `Host`, and so do requests that say none.
pub(super) fn uri(service: &Service, own: &config::Http) -> String {
    let scheme = if service.tls.is_some() { "https" } else { "http" };
    let authority = match (&own.host, &service.backends) {
        (Some(host), _) => host.clone(),
        (None, Backends::Name(name)) => named(&name.domain, name.port),
        (None, Backends::Addresses(_)) => service.name.clone(),
    };
    format!("{scheme}://{authority}")
}

/// The `Host` that backends are shown; without one, the client's own.
pub(super) fn host(service: &Service, own: &config::Http) -> Option<HeaderValue> {
    let host = match (&own.host, &service.backends) {
        (Some(host), _) => host.clone(),
        (None, Backends::Name(name)) => named(&name.domain, name.port),
        (None, Backends::Addresses(_)) => return None,
    };
    // Whatever is configured has been found to be a host.
    HeaderValue::try_from(host).ok()
}

/// How it is treated.
pub(super) fn options(service: &Service, own: &config::Http, resolver: &Resolver) -> OriginOptions {
    let protocol = match own.http2 {
        Http2::Negotiate => Protocol::Negotiate,
        Http2::Only => Protocol::Http2,
        Http2::Off => Protocol::Http1,
    };
    let mut options = OriginOptions::default()
        .name(&*service.name)
        .resolver(resolver.clone())
        .spares(service.spares)
        .maximum(service.maximum)
        .claim_timeout(service.claim_timeout)
        .outage_wait(service.outage_wait)
        .timeout(own.request_timeout)
        .recovery(service.recovery.policy())
        .connection_max_idle(service.max_idle)
        .ejection(service.ejection.clone())
        .slow_start(service.slow_start)
        .retry_stalled(own.retry_stalled)
        .tcp_keepalive(KEEPALIVE)
        .served(false)
        .protocol(protocol);
    if let Some(tls) = &service.tls {
        options = options.tls(tls.builder());
        match (&tls.server_name, &service.backends) {
            (Some(name), _) => options = options.server_name(name),
            (None, Backends::Name(name)) => options = options.server_name(&*name.domain),
            // That of the origin.
            (None, Backends::Addresses(_)) => {}
        }
    }
    if let Some(check) = &own.check {
        let http = match &check.call {
            HttpCall::Get(path) => HttpCheck::get(path),
            HttpCall::Grpc(service) => HttpCheck::grpc(service),
        };
        options = options.health_check(http.schedule(check.schedule()));
    }
    options
}

/// A name that is resolved, with the port that is written with it.
fn named(domain: &str, port: Option<u16>) -> String {
    port.map_or_else(|| domain.to_owned(), |port| format!("{domain}:{port}"))
}
