//! The admin address, asked through carom's own agent: one view, or one after the other as they come.

use super::events::Reader;
use super::request::Request;
use crate::admin::view::View;
use crate::failure::{Failure, with_causes};
use crate::output::printable;
use crate::target::{Trouble, next_part};
use carom::agent::{Agent, Body};
use carom::monitor::Seen;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::{Response, StatusCode};
use serde::Deserialize as _;
use serde_json::Value;
use std::time::Duration;
use tokio::time::sleep;

/// For the head of an answer, with finding and connecting.
const TIMEOUT: Duration = Duration::from_secs(10);
/// There is a view about every second; after so long without one, nobody is there.
const SILENCE: Duration = Duration::from_secs(10);
const LONGEST_VIEW: usize = 32 << 20;

/// How often it is asked, where too many listen already.
const POLL: Duration = Duration::from_secs(3);
const POLLED: &str = "too many listen already: asked every 3 s";
/// What a server says of an error is not longer.
const LONGEST_SENTENCE: usize = 4096;
const SENTENCE_TIMEOUT: Duration = Duration::from_secs(1);

const VIEW: &str = "/api/snapshot";
const VIEWS: &str = "/api/events";

/// Why there is no view.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lost {
    /// The same would be said again.
    #[error("{0}")]
    Refused(String),
    /// It has no place for another one who listens.
    #[error("{0}")]
    Full(String),
    /// That may pass.
    #[error("{0}")]
    Gone(String),
}

impl From<Trouble> for Lost {
    fn from(trouble: Trouble) -> Lost {
        Lost::Gone(trouble.to_string())
    }
}

/// A view, and the text that it was.
pub(super) async fn one(request: &Request) -> Result<(View, String), Lost> {
    let (mut response, _agent) = ask(request, VIEW, "application/json").await?;
    let mut bytes = Vec::new();
    while let Some(part) = next_part(&mut response, SILENCE).await? {
        if bytes.len() + part.len() > LONGEST_VIEW {
            return Err(Lost::Gone(format!("the answer is longer than {} MB", LONGEST_VIEW >> 20)));
        }
        bytes.extend_from_slice(&part);
    }
    let text = String::from_utf8(bytes).map_err(|_| no_view("it is no text"))?;
    Ok((read(&text)?, text))
}

/// One view after the other.
pub(super) enum Views {
    /// As they come.
    Stream(Box<Stream>),
    /// Where there is no place to listen: each is asked for, after the first in so much time.
    Polled { request: Box<Request>, wait: Duration },
}

/// Views as they come.
pub(super) struct Stream {
    response: Response<Body>,
    reader: Reader,
    /// It has the connection.
    _agent: Agent,
}

impl Views {
    pub(super) async fn open(request: &Request) -> Result<Views, Lost> {
        match Stream::open(request).await {
            Ok(stream) => Ok(Views::Stream(Box::new(stream))),
            Err(Lost::Full(_)) => Ok(Views::Polled { request: Box::new(request.clone()), wait: Duration::ZERO }),
            Err(lost) => Err(lost),
        }
    }

    /// The next one. There may be a place to listen by now, which is taken.
    pub(super) async fn next(&mut self) -> Result<View, Lost> {
        let (request, wait) = match self {
            Views::Stream(stream) => return stream.next().await,
            Views::Polled { request, wait } => (request, wait),
        };
        if !wait.is_zero() {
            sleep(*wait).await;
            match Stream::open(request).await {
                Ok(mut stream) => {
                    let view = stream.next().await;
                    *self = Views::Stream(Box::new(stream));
                    return view;
                }
                Err(Lost::Full(_)) => {}
                Err(lost) => return Err(lost),
            }
        }
        *wait = POLL;
        Ok(one(request).await?.0)
    }

    /// What there is to say of how they come by, if it is not as usual.
    pub(super) fn note(&self) -> Option<&'static str> {
        matches!(self, Views::Polled { .. }).then_some(POLLED)
    }

    /// How long to wait before coming back, if the server has said so.
    pub(super) fn retry(&self) -> Option<Duration> {
        match self {
            Views::Stream(stream) => stream.reader.retry(),
            Views::Polled { .. } => None,
        }
    }
}

impl Stream {
    async fn open(request: &Request) -> Result<Stream, Lost> {
        let (response, agent) = ask(request, VIEWS, "text/event-stream").await?;
        Ok(Stream { response, reader: Reader::default(), _agent: agent })
    }

    /// The next one; of several that have come together, the latest.
    async fn next(&mut self) -> Result<View, Lost> {
        let mut events = Vec::new();
        loop {
            let part = next_part(&mut self.response, SILENCE).await?;
            let Some(part) = part else { return Err(Lost::Gone("the server has ended it".to_owned())) };
            let taken = self.reader.take(&part, &mut events);
            taken.map_err(|error| Lost::Gone(error.to_string()))?;
            let latest = events.drain(..).rfind(|event| event.name == "snapshot");
            if let Some(event) = latest {
                return read(&event.data);
            }
        }
    }
}

/// An agent is made for each time: one that had no luck would not try again as soon as it is asked to.
async fn ask(request: &Request, path: &str, kind: &'static str) -> Result<(Response<Body>, Agent), Lost> {
    let agent = Agent::builder().tls(request.tls.clone()).srv(false).spares(1).maximum(1);
    let agent = agent.claim_timeout(TIMEOUT).outage_wait(Duration::ZERO).timeout(TIMEOUT).build();
    let agent = agent.map_err(|error| Lost::Refused(with_causes(&error)))?;
    let mut asked = http::Request::new(Body::from(bytes::Bytes::new()));
    *asked.uri_mut() = request.at(path);
    *asked.headers_mut() = request.headers.clone();
    asked.headers_mut().insert(ACCEPT, HeaderValue::from_static(kind));
    asked.headers_mut().insert(USER_AGENT, HeaderValue::from_static(concat!("carom/", env!("CARGO_PKG_VERSION"))));
    let mut response = agent.request(asked).await.map_err(|error| failed(error, request))?;
    accepted(&mut response, request, path, kind).await?;
    Ok((response, agent))
}

/// Whom it was asked is told by whoever tells this.
fn failed(error: carom::agent::Error, request: &Request) -> Lost {
    let Trouble { step, message } = Trouble::from(error);
    let problem = message.strip_prefix(&request.origin()).and_then(|rest| rest.strip_prefix(": "));
    Lost::Gone(format!("{step}: {}", problem.unwrap_or(&message)))
}

async fn accepted(response: &mut Response<Body>, request: &Request, path: &str, kind: &str) -> Result<(), Lost> {
    let status = response.status();
    match status {
        StatusCode::OK => {}
        StatusCode::UNAUTHORIZED if request.has_token() => {
            return Err(Lost::Refused("the token is not the one that the admin address wants".to_owned()));
        }
        StatusCode::UNAUTHORIZED => {
            let text = "the admin address wants a token: --token-file FILE, or the variable CAROM_ADMIN_TOKEN";
            return Err(Lost::Refused(text.to_owned()));
        }
        StatusCode::MISDIRECTED_REQUEST => {
            let host = printable(request.host());
            let text = format!("nobody of the name `{host}` is there: ask by address, or list it under [admin] hosts");
            return Err(Lost::Refused(text));
        }
        StatusCode::NOT_FOUND => return Err(no_view(&format!("there is no {path}"))),
        StatusCode::SERVICE_UNAVAILABLE if path == VIEWS => return Err(Lost::Full(answered(response).await)),
        _ => return Err(Lost::Gone(answered(response).await)),
    }
    let said = response.headers().get(CONTENT_TYPE).map(|said| String::from_utf8_lossy(said.as_bytes()));
    let said = said.unwrap_or_default();
    let is = said.split(';').next().unwrap_or_default().trim();
    if !is.eq_ignore_ascii_case(kind) {
        let said = if is.is_empty() { "of no kind".to_owned() } else { printable(is) };
        return Err(no_view(&format!("the answer is {said}, not {kind}")));
    }
    Ok(())
}

/// The status of an answer, and what the server says of it in its own words.
async fn answered(response: &mut Response<Body>) -> String {
    #[derive(serde::Deserialize)]
    struct Said {
        error: String,
    }
    let mut bytes = Vec::new();
    // What does not come, or goes on and on, is not worth a wait: the status is known.
    while let Ok(Some(part)) = next_part(response, SENTENCE_TIMEOUT).await {
        bytes.extend_from_slice(&part);
        if bytes.len() > LONGEST_SENTENCE {
            break;
        }
    }
    let status = response.status();
    match serde_json::from_slice(&bytes) {
        Ok(Said { error }) => format!("the answer is {status}: {}", printable(&error)),
        Err(_) => format!("the answer is {status}"),
    }
}

fn read(text: &str) -> Result<View, Lost> {
    let error = match serde_json::from_str(text) {
        Ok(view) => return Ok(view),
        Err(error) => error,
    };
    without_what_is_not_known(text).ok_or_else(|| no_view(&printable(&error.to_string())))
}

/// A later version may tell of objects, or of states of them, that are not known here: the others are worth seeing nevertheless.
fn without_what_is_not_known(text: &str) -> Option<View> {
    let mut said: Value = serde_json::from_str(text).ok()?;
    let objects = said.get_mut("monitor")?.get_mut("objects")?.as_array_mut()?;
    objects.retain(|object| Seen::deserialize(object).is_ok());
    serde_json::from_value(said).ok()
}

fn no_view(problem: &str) -> Lost {
    Lost::Gone(format!("that is no admin address of carom, or one of another version: {problem}"))
}

impl Lost {
    /// As the end of the command, which it is when there was nothing to see yet.
    pub(super) fn at(&self, request: &Request) -> Failure {
        Failure::Unavailable(format!("{}: {self}", printable(&request.address())))
    }
}
