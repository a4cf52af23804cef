//! Requests: what a client can ask for.

use carom_core::feed::{Instrument, Mode};
use std::fmt;
use zeroize::Zeroize;

/// Longest symbol, in bytes; an entry with a longer one fails by itself.
pub const MAX_SYMBOL: usize = 64;

/// Longest exchange, in bytes; an entry with a longer one fails by itself.
pub const MAX_EXCHANGE: usize = 32;

/// Most levels of an order book; whoever asks for more gets these, and is told so in the reply.
pub const MAX_DEPTH: u16 = 200;

/// Longest JSON text, in bytes, that is sent back as it came: `request_id`, and `timestamp` and `_pingId` of a ping.
pub const MAX_ECHO: usize = 4096;

/// What a client asks for.
///
/// An entry of a list that cannot be served is an error of its own, with what to say about it; the rest is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// `authenticate` or `auth`: who it is.
    Authenticate {
        /// From `api_key` or `apikey`; none if there is no text in them.
        key: Option<ApiKey>,
        /// To be sent back if it is refused.
        echo: Option<Echo>,
    },
    /// `subscribe`: ticks of these from now on.
    Subscribe {
        /// Of what, in the order asked for; entries without a symbol or exchange are left out.
        entries: Vec<Result<Instrument, BadEntry>>,
        /// How much of each; [`Mode::Quote`] unless it says otherwise.
        mode: Mode,
        /// Levels of the order book, 1 to [`MAX_DEPTH`]. What is no positive integer counts as not said: 5.
        depth: u16,
        /// To be sent back.
        echo: Option<Echo>,
    },
    /// `unsubscribe`: no more of these.
    Unsubscribe {
        /// Of what, in the order asked for; entries without a symbol or exchange are left out.
        entries: Vec<Result<Leave, BadEntry>>,
        /// To be sent back.
        echo: Option<Echo>,
    },
    /// `unsubscribe_all`: no more of anything.
    UnsubscribeAll {
        /// To be sent back.
        echo: Option<Echo>,
    },
    /// `subscribe_orders`: what becomes of its user's orders.
    SubscribeOrders {
        /// To be sent back.
        echo: Option<Echo>,
    },
    /// `unsubscribe_orders`: no more of that.
    UnsubscribeOrders {
        /// To be sent back.
        echo: Option<Echo>,
    },
    /// `get_broker_info`: whose feed it is on, and whether that is up.
    BrokerInfo {
        /// To be sent back.
        echo: Option<Echo>,
    },
    /// `get_supported_brokers`: which brokers there are.
    SupportedBrokers {
        /// To be sent back.
        echo: Option<Echo>,
    },
    /// `get_subscriptions`: what it has subscribed to, and how many have subscribed to what. OpenAlgo does not have this one.
    Subscriptions {
        /// To be sent back.
        echo: Option<Echo>,
    },
    /// `ping`: whether anybody is there.
    Ping {
        /// The client's time, to be sent back.
        timestamp: Option<Echo>,
        /// `_pingId`, to be sent back.
        id: Option<Echo>,
        /// `request_id`, to be sent back.
        echo: Option<Echo>,
    },
}

impl Request {
    /// Whether only those who have said who they are may ask for this.
    pub fn needs_authentication(&self) -> bool {
        match self {
            Request::Authenticate { .. } | Request::SupportedBrokers { .. } | Request::Ping { .. } => false,
            Request::Subscribe { .. }
            | Request::Unsubscribe { .. }
            | Request::UnsubscribeAll { .. }
            | Request::SubscribeOrders { .. }
            | Request::UnsubscribeOrders { .. }
            | Request::BrokerInfo { .. }
            | Request::Subscriptions { .. } => true,
        }
    }

    /// Its `request_id`, if it has one that is not null.
    pub fn echo(&self) -> Option<&Echo> {
        match self {
            Request::Authenticate { echo, .. }
            | Request::Subscribe { echo, .. }
            | Request::Unsubscribe { echo, .. }
            | Request::UnsubscribeAll { echo }
            | Request::SubscribeOrders { echo }
            | Request::UnsubscribeOrders { echo }
            | Request::BrokerInfo { echo }
            | Request::SupportedBrokers { echo }
            | Request::Subscriptions { echo }
            | Request::Ping { echo, .. } => echo.as_ref(),
        }
    }
}

/// An instrument that a client wants no more of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leave {
    /// Of what.
    pub instrument: Instrument,
    /// At which mode; at every mode the client has, if it did not say.
    pub mode: Option<Mode>,
}

/// An entry of a list that cannot be served, and what the reply says about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BadEntry {
    /// What it gave as symbol, cut short where that is too long.
    pub symbol: String,
    /// What it gave as exchange, cut short where that is too long.
    pub exchange: String,
    /// What is wrong with it.
    pub message: String,
}

/// JSON of a client's that is sent back to it as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Echo(Box<str>);

impl Echo {
    /// The text must be JSON.
    pub(super) fn new(json: &str) -> Echo {
        Echo(json.into())
    }

    /// Its text, which is JSON of at most [`MAX_ECHO`] bytes.
    pub fn as_json(&self) -> &str {
        &self.0
    }
}

/// What a client presents to say who it is. Not shown by `Debug`, and wiped when dropped.
///
/// Not to be checked with `==`, which takes the longer the more of it is right.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    pub(super) fn new(text: String) -> ApiKey {
        ApiKey(text)
    }

    /// The key itself: for whoever checks it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(..)")
    }
}

impl Drop for ApiKey {
    fn drop(&mut self) {
        std::mem::take(&mut self.0).into_bytes().as_mut_slice().zeroize();
    }
}
