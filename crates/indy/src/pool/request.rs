//! A request: the text that is sent, and what has to be known of it.

use super::SubmitError;
use super::kind::Kind;
use crate::message::LONGEST_MESSAGE;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// A request that can be sent.
///
/// ```
/// use carom_indy::Request;
/// use std::time::Duration;
///
/// let text = r#"{"reqId": 7, "operation": {"type": "3", "ledgerId": 1, "data": 9}, "protocolVersion": 2}"#;
/// assert_eq!(Request::parse(text)?.text(), text); // signed or not, it goes as it is
/// assert!(Request::parse("{}").is_err());
///
/// let information = r#"{"reqId": 8, "operation": {"type": "119"}, "protocolVersion": 2}"#;
/// let of_two = Request::parse(information)?.nodes(["Alpha", "Beta"]).ack_timeout(Duration::from_secs(3));
/// # Ok::<(), carom_indy::SubmitError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    req_id: u64,
    kind: Kind,
    text: String,
    pub(super) nodes: Option<Vec<Arc<str>>>,
    pub(super) ack_timeout: Option<Duration>,
    pub(super) reply_timeout: Option<Duration>,
}

impl Request {
    /// Reads a request, and keeps its text.
    ///
    /// # Errors
    /// When it is no JSON, has no number or type, or is too long.
    pub fn parse(text: impl Into<String>) -> Result<Request, SubmitError> {
        let text = text.into();
        let value = serde_json::from_str(&text).map_err(|error| malformed(format!("not JSON: {error}")))?;
        Request::new(&value, text)
    }

    /// Only these nodes are asked, by alias. As many have to agree as without. Default: all there are. Unknown names, none, and
    /// fewer than have to agree are an error of [`send`](super::Pool::send).
    pub fn nodes(mut self, aliases: impl IntoIterator<Item = impl Into<Arc<str>>>) -> Request {
        self.nodes = Some(aliases.into_iter().map(Into::into).collect());
        self
    }

    /// How long a node may take to say anything to this request. Default: that of the
    /// [pool](super::Opening::ack_timeout).
    pub fn ack_timeout(mut self, timeout: Duration) -> Request {
        self.ack_timeout = Some(timeout);
        self
    }

    /// How long a node that has acknowledged this request may take to answer it. Default: that of the
    /// [pool](super::Opening::reply_timeout).
    pub fn reply_timeout(mut self, timeout: Duration) -> Request {
        self.reply_timeout = Some(timeout);
        self
    }

    /// The number that answers have.
    pub fn req_id(&self) -> u64 {
        self.req_id
    }

    /// What is sent.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    fn new(value: &Value, text: String) -> Result<Request, SubmitError> {
        let req_id = value.get("reqId").and_then(Value::as_u64).ok_or_else(|| malformed("reqId is no number"))?;
        let kind = value.get("operation").and_then(Kind::of).ok_or_else(|| malformed("operation has no type"))?;
        if text.len() > LONGEST_MESSAGE {
            return Err(malformed(format!("{} bytes, and {LONGEST_MESSAGE} is the limit", text.len())));
        }
        Ok(Request { req_id, kind, text, nodes: None, ack_timeout: None, reply_timeout: None })
    }
}

impl TryFrom<&Value> for Request {
    type Error = SubmitError;

    fn try_from(value: &Value) -> Result<Request, SubmitError> {
        Request::new(value, value.to_string())
    }
}

fn malformed(problem: impl Into<String>) -> SubmitError {
    SubmitError::Malformed(problem.into())
}
