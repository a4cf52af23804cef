//! A gateway, as it is seen.

use super::object::State;
use super::registry::Id;

/// A gateway at one moment. Counts are since it was started.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Gateway {
    /// Where it is in its life.
    pub state: State,
    /// Where clients come to.
    pub listen: String,
    /// Clients, those that have not said who they are included.
    pub clients: usize,
    /// Clients that have said who they are.
    pub authenticated: usize,
    /// Subscriptions: of each client, each mode of each instrument.
    pub subscriptions: usize,
    /// Ticks that came, those included that gave their place to newer ones.
    pub ticks: u64,
    /// Messages that were sent to clients.
    pub delivered: u64,
    /// Ticks that gave their place to newer ones: on the way here, held back by the throttle, and waiting for each client. Those
    /// that [one client](GatewayClient::conflated) was too slow for are a part of it.
    pub conflated: u64,
    /// Ticks that were lost because too many waited.
    pub lost: u64,
    /// Messages of a bus that made no sense.
    pub malformed: u64,
    /// Connections that were turned away by a limit.
    pub refused: u64,
    /// Clients that were closed because they did not read.
    pub slow_closed: u64,
    /// Keys that were nobody's.
    pub wrong_keys: u64,
    /// Its feeds.
    pub feeds: Vec<GatewayFeed>,
    /// Those clients for whom most waits, at most 50 of them, the worst first.
    pub worst: Vec<GatewayClient>,
}

/// A feed of a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct GatewayFeed {
    /// The broker.
    pub broker: String,
    /// Whose it is.
    pub user: String,
    /// Which feed; one of the same snapshot, unless it has stopped.
    pub feed: Option<Id>,
    /// Its part among several gateways that have this feed; `None` when there is one.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub share: Option<GatewayShare>,
    /// Ticks that came over its bus, conflated ones included.
    #[cfg_attr(feature = "serde", serde(default))]
    pub ticks: u64,
    /// How long ago the last of them came; `None` if none did.
    #[cfg_attr(feature = "serde", serde(default))]
    pub last_tick_ms: Option<u64>,
    /// The bus that its ticks go through, if other programs are on it.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub bus: Option<GatewayBus>,
}

/// A bus that connects a gateway with other programs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct GatewayBus {
    /// Its kind: `zeromq` or `nats`.
    pub kind: String,
    /// Programs that are connected to it; of NATS, 1 if that can be reached, and 0 otherwise.
    pub peers: usize,
    /// Messages that other programs did not get because they were too slow.
    pub dropped: u64,
    /// Connections that were turned away.
    pub refused: u64,
}

/// A gateway's part among those that have a feed together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct GatewayShare {
    /// What it is called by the others.
    pub member: String,
    /// Whether it has the connections to the upstream.
    pub owns: bool,
    /// Who has them; `None` while nobody is known to.
    pub owner: Option<String>,
    /// For the how manieth time somebody does, at least: it rises with every change of hands.
    pub epoch: Option<u64>,
    /// Connections of other gateways that are served from here.
    pub sessions: usize,
}

/// A client of a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct GatewayClient {
    /// Its number; never used again.
    pub id: u64,
    /// Where it comes from.
    pub address: String,
    /// Who it is, if it has said so: broker and user, never its key.
    pub user: Option<String>,
    /// Its subscriptions.
    pub subscriptions: usize,
    /// Messages that wait for it.
    pub waiting: usize,
    /// Ticks that gave their place to newer ones before it took them.
    pub conflated: u64,
}
