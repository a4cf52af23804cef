//! What a command line means that names a URL: the request, the agent that makes it, and how its failures are told.

use crate::args;
use crate::failure::{Failure, with_causes};
use crate::files;
use crate::nameservers::Nameservers;
use crate::output::printable;
use bytes::{Buf, Bytes};
use carom::agent::{self, Agent, Body, Protocol, Step};
use carom::tls::{self, Tls};
use http::header::{HOST, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri};
use http_body_util::BodyExt;
use std::fmt;
use std::path::Path;
use std::time::Duration;
use tokio::time::timeout;

const LONGEST_PEM: u64 = 16 << 20;
const LONGEST_BODY: u64 = 256 << 20;

/// What is asked for, of whom, and how.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) uri: Uri,
    pub(crate) method: Method,
    /// For the head of an answer, and then for each part of its body.
    pub(crate) timeout: Duration,
    headers: HeaderMap,
    body: Bytes,
    protocol: Protocol,
    tls: tls::Builder,
    nameservers: Option<Nameservers>,
    srv: bool,
}

impl Target {
    pub(crate) fn new(args: args::Target, data: Option<String>) -> Result<Target, Failure> {
        let uri = parse_url(&args.url)?;
        let body = data.as_deref().map(read_body).transpose()?;
        let method = match &args.method {
            Some(method) => parse_method(method)?,
            None if body.is_some() => Method::POST,
            None => Method::GET,
        };
        let secure = uri.scheme() == Some(&http::uri::Scheme::HTTPS);
        if !secure && (args.insecure || args.ca.is_some()) {
            let option = if args.insecure { "--insecure" } else { "--ca" };
            return Err(Failure::Usage(format!("{option} is for https://, and this is {uri}")));
        }
        let mut tls = Tls::builder();
        if let Some(file) = &args.ca {
            tls = tls.roots_pem(files::read(file, LONGEST_PEM)?);
            // Found out here, it can be said which file it was.
            let built = tls.clone().build();
            built.map_err(|error| Failure::Input(files::of_no_use(file, with_causes(&error))))?;
        }
        if args.insecure {
            tls = tls.dangerous_accept_any_certificate();
        }
        Ok(Target {
            uri,
            method,
            timeout: args.timeout,
            headers: parse_headers(&args.headers)?,
            body: body.unwrap_or_default(),
            protocol: match (args.http1, args.http2) {
                (true, _) => Protocol::Http1,
                (false, true) => Protocol::Http2,
                (false, false) => Protocol::Negotiate,
            },
            tls,
            nameservers: Nameservers::parse(&args.resolvers)?,
            srv: !args.no_srv,
        })
    }

    /// The agent for it, with what is up to the command.
    pub(crate) fn agent(&self, tune: impl FnOnce(agent::Builder) -> agent::Builder) -> Result<Agent, Failure> {
        let builder = Agent::builder()
            .tls(self.tls.clone())
            .protocol(self.protocol)
            .srv(self.srv)
            .timeout(self.timeout)
            // The user wants to see that nothing answers, not to wait for it.
            .outage_wait(Duration::ZERO);
        let builder = match &self.nameservers {
            None => builder,
            Some(Nameservers::At(addresses)) => builder.nameservers(addresses.iter().copied()),
            Some(Nameservers::Named(name)) => builder.nameservers_at(name),
        };
        tune(builder).build().map_err(|error| Failure::Input(with_causes(&error)))
    }

    pub(crate) fn request(&self) -> Request<Body> {
        let mut request = Request::new(Body::from(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        request
    }
}

/// Why there is no answer, or no end of it.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    /// Where it failed, in a word.
    pub(crate) step: String,
    pub(crate) message: String,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.step, self.message)
    }
}

impl From<agent::Error> for Trouble {
    fn from(error: agent::Error) -> Trouble {
        // Some of it is what a server or a nameserver says.
        Trouble { step: error.step().to_string(), message: printable(&with_causes(&error)) }
    }
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Failure {
        Failure::Unavailable(trouble.to_string())
    }
}

/// The next part of a body; `None` at its end. Cancelled, no part is lost.
pub(crate) async fn next_part(response: &mut Response<Body>, within: Duration) -> Result<Option<Bytes>, Trouble> {
    loop {
        let frame = timeout(within, response.body_mut().frame()).await.map_err(|_| Trouble {
            step: Step::Timeout.to_string(),
            message: format!("the body stopped: nothing of it came within {within:?}"),
        })?;
        let Some(frame) = frame.transpose()? else { return Ok(None) };
        // Trailers are none of it.
        if let Ok(mut data) = frame.into_data() {
            return Ok(Some(data.copy_to_bytes(data.remaining())));
        }
    }
}

/// As it is named in a line.
pub(crate) fn protocol(version: http::Version) -> &'static str {
    match version {
        http::Version::HTTP_2 => "HTTP/2",
        http::Version::HTTP_10 => "HTTP/1.0",
        _ => "HTTP/1.1",
    }
}

/// A URL, with http:// when it has no scheme.
pub(crate) fn parse_url(text: &str) -> Result<Uri, Failure> {
    let no_url =
        |problem: &dyn fmt::Display| Failure::Usage(format!("`{}`: {problem}", without_password(text).escape_debug()));
    let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let uri: Uri = whole.parse().map_err(|error: http::uri::InvalidUri| no_url(&error))?;
    match uri.scheme_str() {
        Some("http" | "https") => {}
        _ => return Err(no_url(&"a URL begins with http:// or https://")),
    }
    let authority = uri.authority().filter(|authority| !authority.host().is_empty());
    let authority = authority.ok_or_else(|| no_url(&"the host is missing"))?;
    if authority.as_str().contains('@') {
        return Err(no_url(&"a name and password are sent with -H 'authorization: ...', not in a URL"));
    }
    let port = authority.as_str().strip_prefix(authority.host()).unwrap_or_default();
    if !port.is_empty() && authority.port_u16().is_none_or(|port| port == 0) {
        return Err(no_url(&"the port is none: 1 to 65535"));
    }
    Ok(uri)
}

/// As it may be shown and kept: a name and password before the host, or what was meant as one, are left out.
fn without_password(url: &str) -> String {
    match url.rsplit_once('@') {
        Some((_, rest)) => format!("...@{rest}"),
        None => url.to_owned(),
    }
}

fn parse_method(text: &str) -> Result<Method, Failure> {
    let method: Option<Method> = text.parse().ok().filter(|method| *method != Method::CONNECT);
    method.ok_or_else(|| Failure::Usage(format!("`{}` is no method to ask with", text.escape_debug())))
}

/// What was typed, and who we are unless that was typed too.
fn parse_headers(typed: &[String]) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    for header in typed {
        let parsed = header.split_once(':').and_then(|(name, value)| {
            let name: HeaderName = name.trim_end().parse().ok()?;
            let value = HeaderValue::from_bytes(value.trim().as_bytes()).ok()?;
            Some((name, value))
        });
        let (name, value) = parsed.ok_or_else(|| {
            Failure::Usage(format!("`{}` is no header, such as `accept: */*`", header.escape_debug()))
        })?;
        if name == HOST && headers.contains_key(HOST) {
            return Err(Failure::Usage("there is one Host at most".to_owned()));
        }
        headers.append(name, value);
    }
    let own = HeaderValue::from_static(concat!("carom/", env!("CARGO_PKG_VERSION")));
    headers.entry(USER_AGENT).or_insert(own);
    Ok(headers)
}

/// The text itself, or what is in the file that follows an `@`.
fn read_body(text: &str) -> Result<Bytes, Failure> {
    match text.strip_prefix('@') {
        Some(file) => Ok(files::read_bytes(Path::new(file), LONGEST_BODY)?.into()),
        None => Ok(Bytes::copy_from_slice(text.as_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_a_scheme_a_host_and_a_port_that_can_be() {
        for (text, meant) in [
            ("http://api.test/orders?x=1", "http://api.test/orders?x=1"),
            ("https://api.test", "https://api.test/"),
            ("api.test:8080/orders", "http://api.test:8080/orders"),
            ("[::1]:8080", "http://[::1]:8080/"),
            ("127.0.0.1", "http://127.0.0.1/"),
            ("HTTP://api.test/#part", "http://api.test/"),
        ] {
            assert_eq!(parse_url(text).unwrap().to_string(), meant);
        }
        for text in [
            "",
            "/",
            "/orders",
            "ftp://api.test/",
            "http://",
            "http:///orders",
            "http://a b/",
            "http://api.test:0/",
            "http://api.test:70000/",
            "http://api.test:/",
            "http://me:secret@api.test/",
            "http://\u{1b}[2J/",
            ":80",
        ] {
            assert!(matches!(parse_url(text), Err(Failure::Usage(_))), "{text}: {:?}", parse_url(text));
        }
        for text in
            ["http://me:hush@api.test/", "http://me:hu/hush@api.test/", "me:hush :@api.test", "ftp://hush@a.test"]
        {
            let told = parse_url(text).unwrap_err().to_string();
            assert!(told.contains("`...@a") && !told.contains("hu"), "{told}");
        }
    }

    #[test]
    fn headers_are_names_and_values() {
        let typed = ["Accept: */*", "x-one:1", "X-One:  2 ", "empty:"].map(str::to_owned);
        let headers = parse_headers(&typed).unwrap();
        let values: Vec<_> = headers.get_all("x-one").iter().collect();
        assert_eq!(values, ["1", "2"]);
        assert_eq!((headers["accept"].as_bytes(), headers["empty"].as_bytes()), (&b"*/*"[..], &b""[..]));
        assert!(headers[USER_AGENT].to_str().unwrap().starts_with("carom/"));
        let own = parse_headers(&["user-agent: me".to_owned()]).unwrap();
        assert_eq!((own.len(), own[USER_AGENT].as_bytes()), (1, &b"me"[..]));
        for text in ["", "accept", ": x", "a b: c", "x: a\nb: c", "x: \u{1b}"] {
            assert!(matches!(parse_headers(&[text.to_owned()]), Err(Failure::Usage(_))), "{text:?}");
        }
        assert!(parse_headers(&["host: a".to_owned(), "Host: b".to_owned()]).is_err());
    }

    #[test]
    fn methods_are_words() {
        assert_eq!((parse_method("GET").unwrap(), parse_method("PURGE").unwrap().as_str()), (Method::GET, "PURGE"));
        for text in ["", "GE T", "CONNECT", "G\n"] {
            assert!(parse_method(text).is_err(), "{text:?}");
        }
    }
}
