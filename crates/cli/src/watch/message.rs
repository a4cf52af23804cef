//! What a gateway says, as far as it is shown.

use crate::output::printable;
use serde::Deserialize;
use serde_json::value::RawValue;

/// A message.
#[derive(Debug)]
pub(super) enum Message {
    Welcome(Welcome),
    BadKey(String),
    /// What became of a subscription: symbols that are refused and why, those that have to wait, and how many are not refused.
    Subscribed {
        refused: Vec<(String, String)>,
        pending: Vec<(String, String)>,
        accepted: usize,
    },
    Tick(Tick),
    Error(String),
}

/// Whose feed it is.
#[derive(Clone, Debug)]
pub(super) struct Welcome {
    pub(super) broker: String,
    pub(super) user: String,
}

/// A symbol, and what is said of it.
#[derive(Debug)]
pub(super) struct Tick {
    /// `NSE:SBIN`
    pub(super) name: String,
    /// As it was sent.
    pub(super) fields: Box<RawValue>,
}

/// `None` for what is not shown.
pub(super) fn read(text: &str) -> Option<Message> {
    let wire: Wire = serde_json::from_str(text).ok()?;
    let failed = wire.status.as_deref() == Some("error");
    match wire.kind.as_deref() {
        Some("market_data") => {
            let name = name(wire.exchange.as_deref(), wire.symbol.as_deref());
            Some(Message::Tick(Tick { name, fields: wire.fields? }))
        }
        Some("auth") if failed => Some(Message::BadKey(wire.problem())),
        Some("auth") => {
            let shown = |text: Option<String>| printable(&text.unwrap_or_default());
            Some(Message::Welcome(Welcome { broker: shown(wire.broker), user: shown(wire.user_id) }))
        }
        Some("subscribe") => {
            let (refused, accepted): (Vec<_>, Vec<_>) =
                wire.subscriptions.iter().partition(|entry| entry.status.as_deref() == Some("error"));
            let pending = accepted.iter().filter(|entry| entry.pending).map(|entry| entry.reason()).collect();
            let refused = refused.iter().map(|entry| entry.reason()).collect();
            Some(Message::Subscribed { refused, pending, accepted: accepted.len() })
        }
        None if wire.code.as_deref() == Some("AUTHENTICATION_ERROR") => Some(Message::BadKey(wire.problem())),
        _ if failed => Some(Message::Error(wire.problem())),
        _ => None,
    }
}

#[derive(Debug, Deserialize)]
struct Wire {
    #[serde(rename = "type")]
    kind: Option<String>,
    status: Option<String>,
    code: Option<String>,
    message: Option<String>,
    broker: Option<String>,
    user_id: Option<String>,
    #[serde(default)]
    subscriptions: Vec<Entry>,
    #[serde(rename = "data")]
    fields: Option<Box<RawValue>>,
    exchange: Option<String>,
    symbol: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    exchange: Option<String>,
    symbol: Option<String>,
    status: Option<String>,
    message: Option<String>,
    /// Whether it is accepted, and waits for something before it ticks.
    #[serde(default)]
    pending: bool,
}

impl Entry {
    /// Which symbol it is, and what is said of it.
    fn reason(&self) -> (String, String) {
        let name = name(self.exchange.as_deref(), self.symbol.as_deref());
        (name, printable(self.message.as_deref().unwrap_or("no reason given")))
    }
}

impl Wire {
    fn problem(&self) -> String {
        let message = printable(self.message.as_deref().unwrap_or("no reason given"));
        match &self.code {
            Some(code) => format!("{message} ({})", printable(code)),
            None => message,
        }
    }
}

fn name(exchange: Option<&str>, symbol: Option<&str>) -> String {
    format!("{}:{}", printable(exchange.unwrap_or("?")), printable(symbol.unwrap_or("?")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_apart() {
        let bad = |text| matches!(read(text), Some(Message::BadKey(problem)) if problem == "Invalid API key (AUTHENTICATION_ERROR)");
        assert!(bad(r#"{"type":"auth","status":"error","code":"AUTHENTICATION_ERROR","message":"Invalid API key"}"#));
        assert!(
            bad(r#"{"status":"error","code":"AUTHENTICATION_ERROR","message":"Invalid API key"}"#),
            "OpenAlgo's own"
        );
        let error = read(r#"{"status":"error","code":"RATE_LIMITED","message":"slow down"}"#);
        assert!(matches!(error, Some(Message::Error(problem)) if problem == "slow down (RATE_LIMITED)"));
        assert!(read(r#"{"type":"pong","status":"success"}"#).is_none());
        assert!(read("no JSON").is_none());
    }

    #[test]
    fn some_of_a_subscription_may_be_refused() {
        let text = r#"{"type":"subscribe","status":"partial","subscriptions":[
            {"symbol":"SBIN","exchange":"NSE","status":"success","mode":"LTP","depth":5,"broker":"b"},
            {"symbol":"NO\u001b","exchange":"NSE","status":"error","message":"unknown","broker":"b"}]}"#;
        let Some(Message::Subscribed { refused, pending, accepted }) = read(text) else { panic!("a subscription") };
        assert_eq!((refused, accepted), (vec![("NSE:NO\\u{1b}".to_owned(), "unknown".to_owned())], 1));
        assert!(pending.is_empty());
    }
}
