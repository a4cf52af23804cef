//! What tells one origin from another: scheme, host and port.

use super::error::Error;
use http::header::HeaderValue;
use http::uri::{Scheme, Uri};
use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};

/// An origin: scheme, host and port. The default port is the same as none, and letters are the same in either case.
#[derive(Clone, Debug)]
pub(super) struct Target {
    https: bool,
    /// In lower case; an IPv6 address in brackets.
    host: Box<str>,
    port: u16,
}

impl Target {
    /// The origin of an absolute URI.
    pub(super) fn of(uri: &Uri) -> Result<Target, Error> {
        let Parts { https, host, port } = Parts::of(uri)?;
        Ok(Target { https, host: host.to_ascii_lowercase().into(), port })
    }

    pub(super) fn is_https(&self) -> bool {
        self.https
    }

    /// The host as TLS and DNS want it: an IPv6 address without its brackets.
    pub(super) fn host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    /// Host and port, as resolvers take them.
    pub(super) fn service(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// What requests say in `Host` when they say nothing themselves.
    pub(super) fn authority(&self) -> HeaderValue {
        let authority = if self.port == default_port(self.https) { self.host.to_string() } else { self.service() };
        HeaderValue::try_from(authority).expect("the host of a URI can be said in a header")
    }
}

/// `https://api.example.com`, with the port if it is not the default one.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.https { "https" } else { "http" }, self.host)?;
        if self.port != default_port(self.https) {
            write!(f, ":{}", self.port)?;
        }
        Ok(())
    }
}

/// An origin as a URI names it, borrowed: looking one up allocates nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'a> {
    https: bool,
    host: &'a str,
    port: u16,
}

impl<'a> Parts<'a> {
    pub(super) fn of(uri: &'a Uri) -> Result<Parts<'a>, Error> {
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            // Not quoted: it may be a password.
            let problem = "a URI with a user name is refused: say who you are in a header";
            return Err(Error::request(problem));
        }
        let refused = |problem: &str| Error::request(format!("`{}` {problem}", Public(uri)));
        let https = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(_) => return Err(refused("is neither http nor https")),
            None => return Err(refused("does not say which origin: a scheme and a host are needed")),
        };
        let authority = uri.authority().ok_or_else(|| refused("has no host"))?;
        if authority.host().is_empty() {
            return Err(refused("has no host"));
        }
        let port = match authority.port() {
            Some(port) => port.as_u16(),
            // A colon with nothing behind it means the default, but one with nonsense behind it does not.
            None if authority.as_str().len() > authority.host().len() + 1 => {
                return Err(refused("has a port that is none"));
            }
            None => default_port(https),
        };
        if port == 0 {
            return Err(refused("has port 0, which nobody can listen on"));
        }
        Ok(Parts { https, host: authority.host(), port })
    }
}

/// As much of a URI as others may read: what follows the host, or a question mark, can be a secret.
struct Public<'a>(&'a Uri);

impl fmt::Display for Public<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.scheme(), self.0.authority()) {
            (Some(scheme), Some(authority)) => write!(f, "{scheme}://{authority}"),
            (None, Some(authority)) => write!(f, "{authority}"),
            (_, None) => f.write_str(self.0.path()),
        }
    }
}

fn default_port(https: bool) -> u16 {
    if https { 443 } else { 80 }
}

/// What owned and borrowed origins are compared by.
pub(super) trait Named {
    fn parts(&self) -> Parts<'_>;
}

impl Named for Target {
    fn parts(&self) -> Parts<'_> {
        Parts { https: self.https, host: &self.host, port: self.port }
    }
}

impl Named for Parts<'_> {
    fn parts(&self) -> Parts<'_> {
        *self
    }
}

impl<'a> Borrow<dyn Named + 'a> for Target {
    fn borrow(&self) -> &(dyn Named + 'a) {
        self
    }
}

impl Hash for dyn Named + '_ {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Parts { https, host, port } = self.parts();
        (https, port).hash(state);
        let mut lower = [0; 64];
        for part in host.as_bytes().chunks(lower.len()) {
            let lower = &mut lower[..part.len()];
            lower.copy_from_slice(part);
            lower.make_ascii_lowercase();
            state.write(lower);
        }
    }
}

impl PartialEq for dyn Named + '_ {
    fn eq(&self, other: &Self) -> bool {
        let (one, other) = (self.parts(), other.parts());
        one.https == other.https && one.port == other.port && one.host.eq_ignore_ascii_case(other.host)
    }
}

impl Eq for dyn Named + '_ {}

impl Hash for Target {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self as &dyn Named).hash(state);
    }
}

impl PartialEq for Target {
    fn eq(&self, other: &Target) -> bool {
        (self as &dyn Named) == (other as &dyn Named)
    }
}

impl Eq for Target {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn target(uri: &str) -> Target {
        Target::of(&uri.parse().unwrap()).unwrap()
    }

    #[test]
    fn default_ports_and_letter_case_make_no_difference() {
        let same = ["http://API.example.com/orders?all", "http://api.example.com:80", "HTTP://api.EXAMPLE.com:/"];
        let origins = HashMap::from([(target("http://api.example.com"), ())]);
        for uri in same {
            assert_eq!(target(uri), target("http://api.example.com"), "{uri}");
            let uri: Uri = uri.parse().unwrap();
            assert!(origins.contains_key(&Parts::of(&uri).unwrap() as &dyn Named), "{uri}");
        }
        for uri in ["https://api.example.com", "http://api.example.com:443", "http://example.com"] {
            assert_ne!(target(uri), target("http://api.example.com"), "{uri}");
        }
    }

    #[test]
    fn the_host_header_leaves_out_the_default_port_alone() {
        let said = |uri: &str| (target(uri).authority().to_str().unwrap().to_owned(), target(uri).to_string());
        let pair = |host: &str, origin: &str| (host.to_owned(), origin.to_owned());
        assert_eq!(said("https://a.test:443/x"), pair("a.test", "https://a.test"));
        assert_eq!(said("http://A.test:8080"), pair("a.test:8080", "http://a.test:8080"));
        assert_eq!(said("http://[::1]:8080"), pair("[::1]:8080", "http://[::1]:8080"));
        assert_eq!((target("https://[::1]").host(), &*target("https://[::1]").service()), ("::1", "[::1]:443"));
    }

    #[test]
    fn what_names_no_origin_is_refused_and_says_why() {
        let refused = |uri: &str| Target::of(&uri.parse().unwrap()).unwrap_err().to_string();
        assert!(refused("/orders").starts_with("`/orders` does not say which origin"));
        assert_eq!(refused("ftp://a.test/"), "`ftp://a.test` is neither http nor https");
        assert_eq!(refused("http://a.test:0/"), "`http://a.test:0` has port 0, which nobody can listen on");
    }

    #[test]
    fn what_is_refused_is_quoted_without_secrets() {
        let secrets = [
            "http://me:secret@a.test/",
            "ftp://me:secret@a.test/",
            "me:secret@a.test",
            "ftp://a.test/orders?key=secret",
            "/orders?key=secret",
            "http://a.test:0/secret",
        ];
        for uri in secrets {
            let told = Target::of(&uri.parse().unwrap()).unwrap_err().to_string();
            assert!(!told.contains("secret"), "{told}");
        }
    }
}
