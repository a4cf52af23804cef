//! What the ticker knows, and what it has seen.

use super::bytes::{packet, packets};
use serde_json::Value;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

/// What a ticker has seen.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Connections that there are, by number, counted from 1: which tokens each has, in which mode.
    pub connections: BTreeMap<usize, BTreeMap<u32, String>>,
    /// Connections that there have been.
    pub opened: usize,
    /// Most connections at a time.
    pub peak: usize,
    /// Those who came with a wrong key or token.
    pub refused: usize,
    /// Those who came when there were enough.
    pub turned_away: usize,
    /// Tokens that were too many on their connection.
    pub too_many: usize,
    /// Every request: by which connection, and its text.
    pub requests: Vec<(usize, String)>,
    /// What made no sense.
    pub garbled: Vec<String>,
    /// Pings that came.
    pub pings: usize,
    /// Connections that said goodbye.
    pub goodbyes: usize,
}

/// What a connection is to do.
pub(super) enum Order {
    Say(Message),
    Stall,
    Cut,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) api_key: String,
    pub(super) access_token: String,
    pub(super) most_instruments: usize,
    pub(super) most_connections: usize,
    pub(super) beat: Duration,
    pub(super) seen: Seen,
    orders: BTreeMap<usize, mpsc::UnboundedSender<Order>>,
}

impl World {
    pub(super) fn new(api_key: &str, access_token: &str) -> World {
        World {
            api_key: api_key.to_owned(),
            access_token: access_token.to_owned(),
            most_instruments: 3_000,
            most_connections: 3,
            beat: Duration::from_secs(1),
            seen: Seen::default(),
            orders: BTreeMap::new(),
        }
    }

    /// A connection is there: its number, and where its orders come from.
    pub(super) fn enter(&mut self) -> (usize, mpsc::UnboundedReceiver<Order>) {
        let (orders, come) = mpsc::unbounded_channel();
        self.seen.opened += 1;
        let number = self.seen.opened;
        self.orders.insert(number, orders);
        self.seen.connections.insert(number, BTreeMap::new());
        self.seen.peak = self.seen.peak.max(self.seen.connections.len());
        (number, come)
    }

    pub(super) fn leave(&mut self, number: usize) {
        self.orders.remove(&number);
        self.seen.connections.remove(&number);
    }

    /// Does what a text asks for; what to say to it, if anything.
    pub(super) fn asked(&mut self, number: usize, text: &str) -> Option<String> {
        self.seen.requests.push((number, text.to_owned()));
        let Some(asked) = understood(text) else {
            self.seen.garbled.push(text.to_owned());
            return Some(r#"{"type":"error","data":"that is no request"}"#.to_owned());
        };
        let most = self.most_instruments;
        let carried = self.seen.connections.get_mut(&number)?;
        match asked {
            Asked::Drop(tokens) => {
                tokens.iter().for_each(|token| drop(carried.remove(token)));
                None
            }
            Asked::Stream(mode, tokens) => {
                let mut left_out = 0;
                for token in tokens {
                    let is_full = carried.len() == most;
                    match carried.entry(token) {
                        Entry::Vacant(_) if is_full => left_out += 1,
                        Entry::Vacant(free) => {
                            free.insert(mode.clone().unwrap_or("quote".to_owned()));
                        }
                        Entry::Occupied(mut taken) => mode.iter().for_each(|mode| taken.get_mut().clone_from(mode)),
                    }
                }
                self.seen.too_many += left_out;
                (left_out > 0).then(|| format!(r#"{{"type":"error","data":"{left_out} instruments above {most}"}}"#))
            }
        }
    }

    pub(super) fn trade(&mut self, token: u32, price: i32) -> usize {
        let mut told = 0;
        for (number, carried) in &self.seen.connections {
            let (Some(mode), Some(orders)) = (carried.get(&token), self.orders.get(number)) else { continue };
            let message = packets(&[packet(token, mode, price)]);
            told += usize::from(orders.send(Order::Say(Message::binary(message))).is_ok());
        }
        told
    }

    pub(super) fn say(&mut self, message: &Message) {
        // One that has ended meanwhile is about to leave.
        self.order(|| Order::Say(message.clone()));
    }

    pub(super) fn cut(&mut self) {
        self.order(|| Order::Cut);
    }

    pub(super) fn stall(&mut self) {
        self.order(|| Order::Stall);
    }

    fn order(&self, order: impl Fn() -> Order) {
        for orders in self.orders.values() {
            let _ = orders.send(order());
        }
    }
}

enum Asked {
    Drop(Vec<u32>),
    /// In this mode; without one as they are, or else with quotes.
    Stream(Option<String>, Vec<u32>),
}

fn understood(text: &str) -> Option<Asked> {
    let request: Value = serde_json::from_str(text).ok()?;
    let value = request.get("v")?;
    match request.get("a")?.as_str()? {
        "subscribe" => Some(Asked::Stream(None, tokens(value)?)),
        "unsubscribe" => Some(Asked::Drop(tokens(value)?)),
        "mode" => {
            let [mode, listed] = value.as_array()?.as_slice() else { return None };
            let mode = mode.as_str().filter(|mode| matches!(*mode, "ltp" | "quote" | "full"))?;
            Some(Asked::Stream(Some(mode.to_owned()), tokens(listed)?))
        }
        _ => None,
    }
}

fn tokens(value: &Value) -> Option<Vec<u32>> {
    value.as_array()?.iter().map(|token| token.as_u64().and_then(|token| token.try_into().ok())).collect()
}
