//! What a request is for: whom it means by its target and its `Host`, and whether that makes sense.

use super::refusal::Refusal;
use http::header::{HOST, HeaderValue, TRANSFER_ENCODING};
use http::request::Parts;
use http::uri::{Scheme, Uri};
use http::{Method, Version};

/// Leaves the path and the query in the request, and the host that it is for, if it names one, in `Host`.
///
/// # Errors
/// When it could be taken for one thing here and for another by a backend, or is for a proxy of another kind.
pub(super) fn settle_host(request: &mut Parts) -> Result<(), Refusal> {
    if request.method == Method::CONNECT {
        return Err(Refusal::unimplemented("no tunnels are opened here: CONNECT is not for this service"));
    }
    let (mut host, mut coding) = (None, None);
    // Looking through them once is cheaper than asking for each.
    for (name, value) in &request.headers {
        if *name == HOST {
            if host.replace(value).is_some() {
                return Err(Refusal::bad("there is more than one Host"));
            }
        } else if *name == TRANSFER_ENCODING
            && (coding.replace(value).is_some() || !value.as_bytes().eq_ignore_ascii_case(b"chunked"))
        {
            return Err(Refusal::unimplemented("of transfer codings only `chunked` is understood"));
        }
    }
    if host.is_none() && request.version == Version::HTTP_11 {
        return Err(Refusal::bad("there is no Host"));
    }
    if host.is_some_and(|host| !is_host(host.as_bytes())) {
        return Err(Refusal::bad("the Host is none"));
    }
    if request.uri.authority().is_some() {
        let host = host.cloned();
        let host = absolute(request, host)?;
        request.headers.insert(HOST, host);
    }
    if request.uri.path().starts_with('/') || is_server_wide(request) {
        Ok(())
    } else {
        Err(Refusal::bad("the target is no path"))
    }
}

/// The target of a request as proxies get it, and as HTTP/2 has it: whom it names goes before what `Host` says.
fn absolute(request: &mut Parts, host: Option<HeaderValue>) -> Result<HeaderValue, Refusal> {
    let uri = std::mem::take(&mut request.uri).into_parts();
    // Without a scheme it is in authority-form, which is for CONNECT alone (RFC 9112, 3.2.3): `GET admin` has no path.
    let Some(scheme) = uri.scheme else {
        return Err(Refusal::bad("the target is no path"));
    };
    if scheme != Scheme::HTTP && scheme != Scheme::HTTPS {
        return Err(Refusal::bad("the target is neither http nor https"));
    }
    let authority = uri.authority.filter(|authority| is_host(authority.as_str().as_bytes()));
    let authority = authority.ok_or_else(|| Refusal::bad("the target names no host"))?;
    if request.version == Version::HTTP_2
        && host.is_some_and(|host| !host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes()))
    {
        return Err(Refusal::bad("the Host is not the :authority"));
    }
    if let Some(path) = uri.path_and_query {
        // In absolute-form `http://a?b` means `/?b`, but `:path` has no such form (RFC 9113, 8.3.1).
        if request.version == Version::HTTP_2 && path.as_str().starts_with('?') {
            return Err(Refusal::bad("the target is no path"));
        }
        request.uri = Uri::from(path);
    }
    // It has nothing in it that a value could not have.
    HeaderValue::from_str(authority.as_str()).map_err(|_| Refusal::bad("the target names no host"))
}

fn is_server_wide(request: &Parts) -> bool {
    request.method == Method::OPTIONS && request.uri.path() == "*"
}

/// A name or an address, with a port or without. Nothing that names a user, and nothing that separates.
fn is_host(host: &[u8]) -> bool {
    !host.is_empty() && host.iter().all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]%~".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Request, StatusCode};

    fn host(
        version: Version,
        method: &str,
        target: &str,
        hosts: &[&str],
    ) -> Result<(Option<String>, String), StatusCode> {
        let mut request = Request::builder().version(version).method(method).uri(target);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        let mut request = request.body(()).unwrap().into_parts().0;
        settle_host(&mut request).map_err(|refusal| refusal.status())?;
        let host = request.headers.get(HOST).map(|host| host.to_str().unwrap().to_owned());
        Ok((host, request.uri.to_string()))
    }

    fn passes(host: &str, target: &str) -> Result<(Option<String>, String), StatusCode> {
        Ok((Some(host.to_owned()), target.to_owned()))
    }

    #[test]
    fn the_target_goes_before_the_host() {
        let one = Version::HTTP_11;
        assert_eq!(host(one, "GET", "/a?b", &["a.test:80"]), passes("a.test:80", "/a?b"));
        assert_eq!(host(one, "GET", "http://b.test/a?b", &["a.test"]), passes("b.test", "/a?b"));
        assert_eq!(host(one, "GET", "http://b.test", &["a.test"]), passes("b.test", "/"));
        assert_eq!(host(one, "OPTIONS", "*", &["a.test"]), passes("a.test", "*"));
        assert_eq!(host(Version::HTTP_10, "GET", "/", &[]), Ok((None, "/".to_owned())));
        assert_eq!(host(Version::HTTP_2, "GET", "http://b.test/x", &["B.test"]), passes("b.test", "/x"));
    }

    #[test]
    fn what_can_be_understood_in_two_ways_is_refused() {
        let (one, bad) = (Version::HTTP_11, Err(StatusCode::BAD_REQUEST));
        assert_eq!(host(one, "GET", "/", &[]), bad);
        assert_eq!(host(one, "GET", "/", &["a.test", "b.test"]), bad);
        assert_eq!(host(one, "GET", "/", &["a.test", "a.test"]), bad);
        for nonsense in ["", "a b", "me@a.test", "a.test/x", "a.test,b.test"] {
            assert_eq!(host(one, "GET", "/", &[nonsense]), bad, "{nonsense}");
        }
        assert_eq!(host(one, "GET", "http://me@b.test/", &["b.test"]), bad);
        assert_eq!(host(one, "GET", "ftp://b.test/", &["b.test"]), bad);
        assert_eq!(host(one, "GET", "*", &["b.test"]), bad);
        assert_eq!(host(Version::HTTP_2, "GET", "http://b.test/", &["a.test"]), bad);
    }

    #[test]
    fn a_target_without_a_path_is_refused() {
        let bad = Err(StatusCode::BAD_REQUEST);
        for version in [Version::HTTP_10, Version::HTTP_11] {
            for target in ["admin", "admin:80", "127.0.0.1", "[::1]:80"] {
                assert_eq!(host(version, "GET", target, &["a.test"]), bad, "{target}");
                assert_eq!(host(version, "OPTIONS", target, &["a.test"]), bad, "{target}");
            }
        }
    }

    #[test]
    fn an_asterisk_over_http_2_is_for_options_alone() {
        let with = |method: &str| {
            let uri = Uri::builder().scheme("http").authority("b.test").path_and_query("*").build().unwrap();
            let request = Request::builder().version(Version::HTTP_2).method(method).uri(uri).body(()).unwrap();
            let mut request = request.into_parts().0;
            settle_host(&mut request).map(|()| request.uri.to_string()).map_err(|refusal| refusal.status())
        };
        assert_eq!(with("OPTIONS"), Ok("*".to_owned()));
        assert_eq!((with("GET"), with("POST")), (Err(StatusCode::BAD_REQUEST), Err(StatusCode::BAD_REQUEST)));
    }

    #[test]
    fn tunnels_are_for_others() {
        let refused = Err(StatusCode::NOT_IMPLEMENTED);
        assert_eq!(host(Version::HTTP_11, "CONNECT", "a.test:443", &["a.test:443"]), refused);
    }
}
