//! What a command line for `carom top` means: which admin address, with which token, and how it is shown.

use crate::args;
use crate::config::DEFAULT_ADMIN;
use crate::failure::{Failure, with_causes};
use crate::files;
use crate::target::parse_url;
use carom::tls::{self, Tls};
use http::header::{AUTHORIZATION, HeaderValue};
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderMap, Uri};
use std::env;
use std::path::{Path, PathBuf};

/// The token, when no option says otherwise.
const VARIABLE: &str = "CAROM_ADMIN_TOKEN";
/// No token comes near.
const LONGEST_TOKEN: u64 = 4096;
const LONGEST_PEM: u64 = 16 << 20;

/// What is to be done.
#[derive(Clone, Debug)]
pub(super) struct Request {
    address: Uri,
    token_file: Option<PathBuf>,
    /// With the token, if there is one; it is marked as secret.
    pub(super) headers: HeaderMap,
    pub(super) tls: tls::Builder,
    pub(super) once: Option<Once>,
}

/// How it is printed, if that is all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Once {
    Text,
    Json,
}

impl Request {
    pub(super) fn new(args: args::Top) -> Result<Request, Failure> {
        let args::Top { url, token_file, once, json, ca } = args;
        let address = parse_address(&url)?;
        let token = match &token_file {
            Some(file) if file == Path::new("-") && !once => {
                return Err(Failure::Usage(
                    "--token-file - is for --once: a screen has its keys from there".to_owned(),
                ));
            }
            Some(file) => Some(in_file(file)?),
            None => from_environment()?.map(|token| bearer(&token)).transpose()?,
        };
        let headers = token.into_iter().map(|token| (AUTHORIZATION, token)).collect();
        let tls = tls(&address, ca)?;
        let once = match (once, json) {
            (false, _) => None,
            (true, false) => Some(Once::Text),
            (true, true) => Some(Once::Json),
        };
        Ok(Request { address, token_file, headers, tls, once })
    }

    /// The same with the token that is in the file by now, if it is another one.
    pub(super) fn renewed(&self) -> Option<Request> {
        let token = in_file(self.token_file.as_deref()?).ok()?;
        let is_new = self.headers.get(AUTHORIZATION) != Some(&token);
        let headers = HeaderMap::from_iter([(AUTHORIZATION, token)]);
        is_new.then(|| Request { headers, ..self.clone() })
    }

    /// Where something of it is, below the address that was given.
    pub(super) fn at(&self, path: &str) -> Uri {
        let mut parts = self.address.clone().into_parts();
        let whole = format!("{}{path}", self.address.path().trim_end_matches('/'));
        // Both are paths, and so is one after the other.
        parts.path_and_query = PathAndQuery::try_from(whole).ok();
        Uri::from_parts(parts).unwrap_or_else(|_| self.address.clone())
    }

    /// As people are told where that is.
    pub(super) fn address(&self) -> String {
        self.address.to_string().trim_end_matches('/').to_owned()
    }

    /// As the agent names whom it asks, in its errors.
    pub(super) fn origin(&self) -> String {
        format!(
            "{}://{}",
            self.address.scheme_str().unwrap_or_default(),
            self.address.authority().map_or("", |a| a.as_str())
        )
    }

    pub(super) fn host(&self) -> &str {
        self.address.host().unwrap_or_default()
    }

    pub(super) fn has_token(&self) -> bool {
        self.headers.contains_key(AUTHORIZATION)
    }
}

/// What may be a secret in it is not told.
fn parse_address(url: &str) -> Result<Uri, Failure> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let unwanted = |what: &str| {
        let instead = format!("a token comes by --token-file FILE, or the variable {VARIABLE}");
        Err(Failure::Usage(format!("an admin address has no {what}; {instead}")))
    };
    if authority.contains('@') {
        return unwanted("name and password in it");
    }
    let address = parse_url(url)?;
    if address.query().is_some() {
        return unwanted("query");
    }
    if url.contains("://") || address.port().is_some() {
        return Ok(address);
    }
    // Whoever names a host alone means what is there by default; whoever writes a URL means what it says.
    parse_url(&rest.replacen(authority, &format!("{authority}:{}", DEFAULT_ADMIN.port()), 1))
}

fn in_file(file: &Path) -> Result<HeaderValue, Failure> {
    bearer(&files::read(file, LONGEST_TOKEN)?)
}

fn from_environment() -> Result<Option<String>, Failure> {
    match env::var(VARIABLE) {
        Ok(token) if token.trim().is_empty() => Ok(None),
        Ok(token) => Ok(Some(token)),
        Err(env::VarError::NotPresent) => Ok(None),
        Err(env::VarError::NotUnicode(_)) => Err(Failure::Usage(format!("{VARIABLE} is not UTF-8"))),
    }
}

/// The one in the first line of this, as the server reads its own file.
fn bearer(text: &str) -> Result<HeaderValue, Failure> {
    let token = files::first_line(text);
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Failure::Usage("the token is empty, or has something in it that no token has".to_owned()));
    }
    let value = HeaderValue::try_from(format!("Bearer {token}"));
    let mut value = value.map_err(|_| Failure::Usage("the token cannot be sent".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

fn tls(address: &Uri, ca: Option<PathBuf>) -> Result<tls::Builder, Failure> {
    let Some(file) = ca else { return Ok(Tls::builder()) };
    if address.scheme() != Some(&Scheme::HTTPS) {
        return Err(Failure::Usage(format!("--ca is for https://, and this is {address}")));
    }
    let builder = Tls::builder().roots_pem(files::read(&file, LONGEST_PEM)?);
    // Found out here, it can be said which file it was.
    let built = builder.clone().build();
    built.map_err(|error| Failure::Input(files::of_no_use(&file, with_causes(&error))))?;
    Ok(builder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(url: &str) -> Result<Request, Failure> {
        Request::new(args::Top { url: url.to_owned(), token_file: None, once: true, json: false, ca: None })
    }

    #[test]
    fn what_is_asked_for_is_below_the_address() {
        for (url, asked, shown) in [
            ("http://127.0.0.1:9464", "http://127.0.0.1:9464/api/events", "http://127.0.0.1:9464"),
            ("localhost:1", "http://localhost:1/api/events", "http://localhost:1"),
            ("localhost", "http://localhost:9464/api/events", "http://localhost:9464"),
            ("[::1]/carom", "http://[::1]:9464/carom/api/events", "http://[::1]:9464/carom"),
            ("http://localhost", "http://localhost/api/events", "http://localhost"),
            ("https://ops.test/carom/", "https://ops.test/carom/api/events", "https://ops.test/carom"),
        ] {
            let request = request(url).unwrap();
            assert_eq!(
                (request.at("/api/events").to_string(), request.address()),
                (asked.to_owned(), shown.to_owned())
            );
        }
        for url in
            ["http://me:hush@127.0.0.1", "me:hush@127.0.0.1", "ftp://127.0.0.1", "http://127.0.0.1/?token=hush", ""]
        {
            let told = request(url).unwrap_err();
            assert!(matches!(told, Failure::Usage(_)) && !told.to_string().contains("hush"), "{url}: {told}");
        }
    }

    #[test]
    fn a_token_is_not_shown() {
        assert_eq!(format!("{:?}", bearer("hush").unwrap()), "Sensitive");
        assert_eq!(bearer("hush").unwrap().as_bytes(), b"Bearer hush");
        assert_eq!(bearer(" hush \r\nof the 1st of May\n").unwrap().as_bytes(), b"Bearer hush");
        for token in ["", "two words", "l\u{1b}", "é"] {
            assert!(bearer(token).is_err(), "{token:?}");
        }
    }
}
