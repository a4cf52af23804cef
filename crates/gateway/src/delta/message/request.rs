//! Requests: what the exchange is told.

use serde_json::json;

/// What can be subscribed to of a contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Channel {
    /// How it stands, every 5 seconds.
    Ticker,
    /// The best 15 prices of each side of its order book, twice a second.
    Book,
}

/// Something that the exchange is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// To say this of some contracts.
    Subscribe(Channel),
    /// Not to say it any more.
    Unsubscribe(Channel),
}

impl Channel {
    /// Every channel.
    pub const ALL: [Channel; 2] = [Channel::Ticker, Channel::Book];

    /// What the exchange calls it.
    pub fn name(self) -> &'static str {
        match self {
            Channel::Ticker => "ticker",
            Channel::Book => "ob_l2",
        }
    }

    /// The channel of this name.
    pub fn from_name(name: &str) -> Option<Channel> {
        Channel::ALL.into_iter().find(|channel| channel.name() == name)
    }

    /// Most contracts in one request.
    pub fn most(self) -> usize {
        match self {
            Channel::Ticker => 150,
            // The exchange refuses the whole request otherwise.
            Channel::Book => 1,
        }
    }
}

impl Request {
    /// What it is about.
    pub fn channel(self) -> Channel {
        match self {
            Request::Subscribe(channel) | Request::Unsubscribe(channel) => channel,
        }
    }

    /// As it is sent, about these contracts.
    pub fn to_json<S: AsRef<str>>(self, symbols: &[S]) -> String {
        let (verb, channel) = match self {
            Request::Subscribe(channel) => ("subscribe", channel),
            Request::Unsubscribe(channel) => ("unsubscribe", channel),
        };
        let symbols: Vec<&str> = symbols.iter().map(AsRef::as_ref).collect();
        json!({"type": verb, "payload": {"channels": [{"name": channel.name(), "symbols": symbols}]}}).to_string()
    }
}
