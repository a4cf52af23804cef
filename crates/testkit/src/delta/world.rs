//! What an exchange knows: who is connected, who wants what, and what it was asked for.

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tokio::sync::mpsc;

/// Most contracts in one request for tickers.
const MOST_TICKERS: usize = 150;

/// What all connections share.
pub(super) type Shared = crate::shared::Shared<World>;

#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) seen: Seen,
    pub(super) mute: bool,
    pub(super) turn_away: bool,
    pub(super) complain_of_dropping: bool,
    pub(super) refused: BTreeMap<(String, String), Refusing>,
    orders: BTreeMap<usize, mpsc::UnboundedSender<Order>>,
}

/// What an exchange has seen.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// What is subscribed to on each connection that is up: channels and contracts. Connections are counted from 1.
    pub connections: BTreeMap<usize, BTreeSet<(String, String)>>,
    /// Connections that there ever were.
    pub opened: usize,
    /// Requests so far, in order.
    pub asked: Vec<Asked>,
    /// Pings so far.
    pub pings: usize,
    /// Connections that said goodbye.
    pub goodbyes: usize,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// On which connection.
    pub connection: usize,
    /// `subscribe` or `unsubscribe`.
    pub verb: String,
    /// Which channel.
    pub channel: String,
    /// Of what.
    pub symbols: Vec<String>,
}

/// How something is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusing {
    /// In the list of subscriptions, with the name of the contract.
    Named,
    /// In the list of subscriptions, with the name of the channel alone.
    Unnamed,
    /// With an error that names nothing.
    Complaining,
}

/// What a connection is told to do.
#[derive(Debug)]
pub(super) enum Order {
    Say(String),
    Bytes(Vec<u8>),
    Cut,
    Close(u16, String),
    Silence,
}

impl Seen {
    /// How many contracts each connection has in this channel.
    pub fn carried(&self, channel: &str) -> Vec<usize> {
        let count = |carried: &BTreeSet<(String, String)>| carried.iter().filter(|(name, _)| name == channel).count();
        self.connections.values().map(count).collect()
    }

    /// The sizes of the requests on a connection, by verb and channel.
    pub fn sizes(&self, connection: usize, verb: &str, channel: &str) -> Vec<usize> {
        let ours = |asked: &&Asked| (asked.connection, &*asked.verb, &*asked.channel) == (connection, verb, channel);
        self.asked.iter().filter(ours).map(|asked| asked.symbols.len()).collect()
    }
}

impl World {
    pub(super) fn enter(&mut self, orders: mpsc::UnboundedSender<Order>) -> usize {
        self.seen.opened += 1;
        self.seen.connections.insert(self.seen.opened, BTreeSet::new());
        self.orders.insert(self.seen.opened, orders);
        self.seen.opened
    }

    pub(super) fn leave(&mut self, connection: usize) {
        self.seen.connections.remove(&connection);
        self.orders.remove(&connection);
    }

    /// One that has ended meanwhile is told nothing.
    pub(super) fn order(&self, connection: usize, order: Order) {
        assert!((1..=self.seen.opened).contains(&connection), "there was no connection {connection}");
        if let Some(orders) = self.orders.get(&connection) {
            let _ = orders.send(order);
        }
    }

    /// Says something on every connection that has this contract in this channel.
    pub(super) fn tell(&self, channel: &str, symbol: &str, message: &Value) {
        let topic = (channel.to_owned(), symbol.to_owned());
        for (connection, _) in self.seen.connections.iter().filter(|(_, carried)| carried.contains(&topic)) {
            let _ = self.orders[connection].send(Order::Say(message.to_string()));
        }
    }

    /// What comes of a request: the answer, if there is one.
    pub(super) fn handle(&mut self, connection: usize, text: &str) -> Option<Value> {
        let request: Value = serde_json::from_str(text).unwrap_or_default();
        let verb = request["type"].as_str().unwrap_or_default().to_owned();
        let Some(channels) = request["payload"]["channels"].as_array().filter(|_| verb.ends_with("subscribe")) else {
            return Some(json!({"type": "error", "message": "invalid request"}));
        };
        let mut complaint =
            (verb == "unsubscribe" && self.complain_of_dropping).then(|| "there is nothing to be dropped".to_owned());
        let mut entries = Vec::new();
        for channel in channels {
            let name = channel["name"].as_str().unwrap_or_default().to_owned();
            let symbols: Vec<String> = channel["symbols"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|symbol| Some(symbol.as_str()?.to_owned()))
                .collect();
            self.seen.asked.push(Asked {
                connection,
                verb: verb.clone(),
                channel: name.clone(),
                symbols: symbols.clone(),
            });
            entries.extend(self.apply(connection, &verb, &name, symbols, &mut complaint));
        }
        // All that is subscribed to is listed, old and new.
        for name in ["ob_l2", "ticker"] {
            let carried = self.seen.connections[&connection].iter().filter(|(channel, _)| channel == name);
            let symbols: Vec<_> = carried.map(|(_, symbol)| symbol).collect();
            if !symbols.is_empty() {
                entries.push(json!({"name": name, "symbols": symbols}));
            }
        }
        let answer = complaint.map_or_else(
            || json!({"type": "subscriptions", "channels": entries}),
            |message: String| json!({"type": "error", "message": message}),
        );
        (!self.mute).then_some(answer)
    }

    /// Does what is asked for in one channel; what is refused of it.
    fn apply(
        &mut self,
        connection: usize,
        verb: &str,
        name: &str,
        symbols: Vec<String>,
        complaint: &mut Option<String>,
    ) -> Vec<Value> {
        let most = match name {
            "ticker" => MOST_TICKERS,
            "ob_l2" => 1,
            _ => {
                return vec![
                    json!({"name": name, "error": format!("subscription forbidden on {name}. Unauthorized user")}),
                ];
            }
        };
        if symbols.len() > most {
            return vec![json!({"name": name, "error": format!("at most {most} symbols are allowed")})];
        }
        let carried = self.seen.connections.get_mut(&connection).expect("it is up");
        let mut refused = Vec::new();
        for symbol in symbols {
            let topic = (name.to_owned(), symbol);
            match self.refused.get(&topic) {
                _ if verb == "unsubscribe" => {
                    carried.remove(&topic);
                }
                None => {
                    carried.insert(topic);
                }
                Some(Refusing::Named) => {
                    refused.push(json!({"name": name, "symbols": [topic.1], "error": "no such symbol"}));
                }
                Some(Refusing::Unnamed) => refused.push(json!({"name": name, "error": "no such symbol"})),
                Some(Refusing::Complaining) => *complaint = Some("no such symbol".to_owned()),
            }
        }
        refused
    }
}
