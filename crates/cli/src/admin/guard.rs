//! The guard: who may ask. It has to be the right name, a question and no order, and the token where one is wanted.

use super::answer::Answer;
use crate::config::Access;
use http::header::{ALLOW, AUTHORIZATION, HOST, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use http::uri::Authority;
use http::{Method, Request, StatusCode, Version};
use std::net::IpAddr;

/// Why somebody is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("there must be one Host")]
    Host,
    /// A page of somebody else, whose name was made to lead here, would read everything.
    #[error("this is not known by that name: use an address, localhost, or a name listed as hosts in [admin]")]
    Name,
    /// It could read nothing of the answer, but would take places that others need.
    #[error("this is not for pages of other places")]
    Elsewhere,
    #[error("only GET and HEAD")]
    Method,
    /// The same whatever was wrong with it.
    #[error("a token is needed: Authorization: Bearer TOKEN")]
    Token,
}

impl Refusal {
    pub(super) fn answer(self) -> Answer {
        let status = match self {
            Refusal::Host => StatusCode::BAD_REQUEST,
            Refusal::Name => StatusCode::MISDIRECTED_REQUEST,
            Refusal::Elsewhere => StatusCode::FORBIDDEN,
            Refusal::Method => StatusCode::METHOD_NOT_ALLOWED,
            Refusal::Token => StatusCode::UNAUTHORIZED,
        };
        let answer = Answer::error(status, &self.to_string());
        match self {
            Refusal::Host | Refusal::Name | Refusal::Elsewhere => answer,
            Refusal::Method => answer.with(ALLOW, HeaderValue::from_static("GET, HEAD")),
            Refusal::Token => answer.with(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")),
        }
    }
}

/// Whether this may be answered at all, to whoever has the token if there is one.
///
/// Simple probes speak HTTP/1.0 and name no host; browsers always do. They are answered `at_probes` alone.
pub(super) fn admit<B>(request: &Request<B>, access: &Access, at_probes: bool) -> Result<(), Refusal> {
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => {
            let host = Authority::try_from(host.as_bytes()).map_err(|_| Refusal::Host)?;
            is_ours(&host, access)?;
        }
        (None, _) if request.version() == Version::HTTP_10 && at_probes => {}
        _ => return Err(Refusal::Host),
    }
    // What is asked for as a proxy is asked names its host once more.
    request.uri().authority().map_or(Ok(()), |authority| is_ours(authority, access))?;
    match *request.method() {
        Method::GET | Method::HEAD => {}
        _ => return Err(Refusal::Method),
    }
    if is_from_elsewhere(request.headers()) && !(is_link(request.headers()) && request.uri().path() == "/") {
        return Err(Refusal::Elsewhere);
    }
    Ok(())
}

/// Whether a page of another place asks, as browsers tell; nobody else says anything of the kind.
fn is_from_elsewhere(headers: &HeaderMap) -> bool {
    let own = |site: &HeaderValue| site == "same-origin" || site == "none";
    headers.get_all("sec-fetch-site").iter().any(|site| !own(site))
}

/// Whether somebody has followed a link, and it is not just something on a page.
fn is_link(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-mode").is_some_and(|mode| mode == "navigate")
}

/// Whether somebody has shown the token, if one is wanted.
pub(super) fn has_shown(headers: &HeaderMap, access: &Access) -> bool {
    let Some(token) = &access.token else { return true };
    let mut shown = headers.get_all(AUTHORIZATION).iter();
    // Also of nothing, so that it takes as long.
    let given = shown.next().and_then(bearer).unwrap_or_default();
    token.is(given) && shown.next().is_none()
}

fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let value = value.as_bytes();
    let (scheme, token) = value.split_at(value.iter().position(|byte| *byte == b' ')?);
    scheme.eq_ignore_ascii_case(b"bearer").then(|| token.trim_ascii())
}

fn is_ours(authority: &Authority, access: &Access) -> Result<(), Refusal> {
    let host = authority.host();
    let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let named =
        || host.eq_ignore_ascii_case("localhost") || access.hosts.iter().any(|own| own.eq_ignore_ascii_case(host));
    if authority.as_str().contains('@') || !(literal.parse::<IpAddr>().is_ok() || named()) {
        return Err(Refusal::Name);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(host: Option<&str>, version: Version, uri: &str) -> Result<(), Refusal> {
        let access = Access { token: None, hosts: vec!["ops.example.com".to_owned()] };
        let mut request = Request::get(uri).version(version);
        if let Some(host) = host {
            request = request.header(HOST, host);
        }
        admit(&request.body(()).unwrap(), &access, uri == "/healthz")
    }

    #[test]
    fn only_names_that_nobody_else_could_take_are_answered() {
        for host in ["127.0.0.1", "127.0.0.1:9464", "[::1]:9464", "10.0.0.7", "LocalHost:1", "OPS.example.com:80"] {
            assert_eq!(asked(Some(host), Version::HTTP_11, "/"), Ok(()), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "example.com", "127.0.0.1.evil.example", "x@localhost"] {
            assert_eq!(asked(Some(host), Version::HTTP_11, "/healthz"), Err(Refusal::Name), "{host}");
        }
        for host in ["", "a b", "localhost:port:9", "/"] {
            assert_eq!(asked(Some(host), Version::HTTP_11, "/"), Err(Refusal::Host), "{host}");
        }
        assert_eq!(asked(Some("localhost"), Version::HTTP_11, "http://evil.example/"), Err(Refusal::Name));
        assert_eq!(asked(Some("localhost"), Version::HTTP_11, "http://127.0.0.1/"), Ok(()));
    }

    #[test]
    fn pages_of_other_places_can_lead_here_and_no_more() {
        let asked = |uri: &str, site: &str, mode: &str| {
            let request = Request::get(uri).header(HOST, "localhost:9464");
            let request = request.header("sec-fetch-site", site).header("sec-fetch-mode", mode);
            admit(&request.body(()).unwrap(), &Access::default(), false)
        };
        for site in ["cross-site", "same-site", "something-new"] {
            assert_eq!(asked("/api/events", site, "no-cors"), Err(Refusal::Elsewhere), "{site}");
            assert_eq!(asked("/api/events", site, "navigate"), Err(Refusal::Elsewhere), "{site}");
            assert_eq!(asked("/", site, "no-cors"), Err(Refusal::Elsewhere), "{site}");
            assert_eq!(asked("/", site, "navigate"), Ok(()), "{site}");
        }
        assert_eq!(asked("/api/events", "same-origin", "cors"), Ok(()));
        assert_eq!(asked("/metrics", "none", "navigate"), Ok(()), "as typed by a person");
    }

    #[test]
    fn only_old_probes_need_name_no_host() {
        assert_eq!(asked(None, Version::HTTP_10, "/healthz"), Ok(()));
        assert_eq!(asked(None, Version::HTTP_10, "/metrics"), Err(Refusal::Host));
        assert_eq!(asked(None, Version::HTTP_11, "/healthz"), Err(Refusal::Host));
        assert_eq!(asked(Some("evil.example"), Version::HTTP_10, "/healthz"), Err(Refusal::Name));
    }
}
