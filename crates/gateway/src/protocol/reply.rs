//! Replies: what clients are told, one function for each, as the JSON text that is sent.
//!
//! Keys stand in the order OpenAlgo writes them in; the `request_id` of what is answered is the last one.

use super::json::Object;
use super::label;
use super::refusal::Refusal;
use super::request::{BadEntry, Echo};
use carom_core::feed::{Instrument, Level, Mode, Pending, Topic};
use std::borrow::Cow;

/// What became of one entry of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<'a, T> {
    /// As the client spelled it.
    pub symbol: &'a str,
    /// As the client spelled it.
    pub exchange: &'a str,
    /// What there is to say about it, or why it failed.
    pub outcome: Result<T, Cow<'a, str>>,
}

impl<'a, T> Answer<'a, T> {
    /// It was served.
    pub fn served(instrument: &'a Instrument, told: T) -> Answer<'a, T> {
        Answer { symbol: instrument.symbol(), exchange: instrument.exchange(), outcome: Ok(told) }
    }

    /// It failed, for this reason.
    pub fn failed(instrument: &'a Instrument, reason: impl Into<Cow<'a, str>>) -> Answer<'a, T> {
        Answer { symbol: instrument.symbol(), exchange: instrument.exchange(), outcome: Err(reason.into()) }
    }
}

impl<'a, T> From<&'a BadEntry> for Answer<'a, T> {
    fn from(entry: &'a BadEntry) -> Answer<'a, T> {
        Answer { symbol: &entry.symbol, exchange: &entry.exchange, outcome: Err(entry.message.as_str().into()) }
    }
}

/// What a client has of an instrument that it has subscribed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// How much.
    pub level: Level,
    /// Why the upstream has not accepted it yet; `None` if it has.
    pub pending: Option<Pending>,
}

/// How many of a user's clients have an instrument, at each mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// Of what.
    pub instrument: &'a Instrument,
    /// At each of [`Mode::ALL`].
    pub clients: [usize; 3],
}

/// A refusal of any request but `authenticate`.
pub fn error(refusal: &Refusal) -> String {
    refused(Object::open(String::new()), refusal)
}

/// A refusal of `authenticate`. OpenAlgo leaves out the `type`, so that its clients go on waiting for the answer they have had.
pub fn authentication_refused(refusal: &Refusal) -> String {
    refused(Object::open(String::new()).text("type", "auth"), refusal)
}

/// The client is this user at this broker.
pub fn authenticated(broker: &str, user: &str) -> String {
    success("auth")
        .text("message", "Authentication successful")
        .text("broker", broker)
        .text("user_id", user)
        .json("supported_features", r#"{"ltp":true,"quote":true,"depth":true}"#)
        .close()
}

/// What became of each entry of a `subscribe`: the level it is held at, or why it is not.
///
/// Where all failed the status is still `partial`. What is pending has succeeded, as clients never ask again for what they
/// have asked for; that it is, and why, is told beside that, which OpenAlgo does not do.
pub fn subscribed(broker: &str, answers: &[Answer<'_, Holding>], echo: Option<&Echo>) -> String {
    let status = if answers.iter().all(|answer| answer.outcome.is_ok()) { "success" } else { "partial" };
    let reply = begin("subscribe", status)
        .text("message", "Subscription processing complete")
        .text("broker", broker)
        .objects("subscriptions", answers, |entry, answer| {
            answered(entry, broker, answer, |entry, Holding { level, pending }| {
                let entry = entry.text("mode", label(level.mode)).number("depth", level.depth);
                match pending {
                    None => entry,
                    Some(why) => entry
                        .json("pending", "true")
                        .text("message", &format!("{why}; it will be subscribed as soon as it can be")),
                }
            })
        });
    echoed(reply, "request_id", echo).close()
}

/// What became of each entry of an `unsubscribe` or `unsubscribe_all`.
pub fn unsubscribed(broker: &str, answers: &[Answer<'_, ()>], echo: Option<&Echo>) -> String {
    let (left, failed): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.outcome.is_ok());
    let status = match (left.is_empty(), failed.is_empty()) {
        (_, true) => "success",
        (false, false) => "partial",
        (true, false) => "error",
    };
    let entry = |entry, answer| answered(entry, broker, answer, |entry, ()| entry);
    let reply = begin("unsubscribe", status)
        .text("message", "Unsubscription processing complete")
        .objects("successful", left, entry)
        .objects("failed", failed, entry)
        .text("broker", broker);
    echoed(reply, "request_id", echo).close()
}

/// The client gets order updates from now on.
pub fn orders_subscribed(echo: Option<&Echo>) -> String {
    let reply = success("subscribe_orders").text("message", "Subscribed to order updates");
    echoed(reply, "request_id", echo).close()
}

/// The client gets no more order updates.
pub fn orders_unsubscribed(echo: Option<&Echo>) -> String {
    let reply = success("unsubscribe_orders").text("message", "Unsubscribed from order updates");
    echoed(reply, "request_id", echo).close()
}

/// Whose feed the client is on, and whether that is up.
pub fn broker_info(broker: &str, connected: bool, user: &str, echo: Option<&Echo>) -> String {
    let reply = success("broker_info")
        .text("broker", broker)
        .text("adapter_status", if connected { "connected" } else { "disconnected" })
        .text("user_id", user);
    echoed(reply, "request_id", echo).close()
}

/// Which brokers there are.
pub fn supported_brokers<S: AsRef<str>>(brokers: &[S], echo: Option<&Echo>) -> String {
    let reply = success("supported_brokers").texts("brokers", brokers).number("count", brokers.len());
    echoed(reply, "request_id", echo).close()
}

/// What the client has subscribed to, and what the clients of its user have.
pub fn subscriptions(broker: &str, own: &[Topic], all: &[Wanted<'_>], echo: Option<&Echo>) -> String {
    let reply = success("subscriptions")
        .objects("subscriptions", own, |entry, topic| {
            named(entry, topic.instrument.symbol(), topic.instrument.exchange())
                .text("mode", label(topic.level.mode))
                .number("depth", topic.level.depth)
        })
        .number("count", own.len())
        .objects("all", all, |entry, wanted| {
            named(entry, wanted.instrument.symbol(), wanted.instrument.exchange()).object("clients", |clients| {
                let counts = Mode::ALL.into_iter().zip(wanted.clients);
                counts.fold(clients, |clients, (mode, count)| clients.number(label(mode), count))
            })
        })
        .text("broker", broker);
    echoed(reply, "request_id", echo).close()
}

/// Somebody is there. The server's time is in milliseconds since 1970.
pub fn pong(server_timestamp: u64, timestamp: Option<&Echo>, id: Option<&Echo>, echo: Option<&Echo>) -> String {
    let reply = success("pong").number("server_timestamp", server_timestamp);
    let reply = echoed(echoed(reply, "client_timestamp", timestamp), "_pingId", id);
    echoed(reply, "request_id", echo).close()
}

fn refused(reply: Object, refusal: &Refusal) -> String {
    let reply = reply.text("status", "error").text("code", refusal.code.as_str()).text("message", &refusal.message);
    echoed(reply, "request_id", refusal.echo()).close()
}

fn success(kind: &str) -> Object {
    begin(kind, "success")
}

fn begin(kind: &str, status: &str) -> Object {
    Object::open(String::new()).text("type", kind).text("status", status)
}

fn answered<T: Copy>(
    entry: Object,
    broker: &str,
    answer: &Answer<'_, T>,
    told: impl FnOnce(Object, T) -> Object,
) -> Object {
    let entry = named(entry, answer.symbol, answer.exchange);
    let entry = match &answer.outcome {
        Ok(outcome) => told(entry.text("status", "success"), *outcome),
        Err(reason) => entry.text("status", "error").text("message", reason),
    };
    entry.text("broker", broker)
}

fn named(entry: Object, symbol: &str, exchange: &str) -> Object {
    entry.text("symbol", symbol).text("exchange", exchange)
}

fn echoed(reply: Object, key: &str, echo: Option<&Echo>) -> Object {
    match echo {
        Some(echo) => reply.json(key, echo.as_json()),
        None => reply,
    }
}
