//! The sight of a gateway: what a monitor sees of it.

use crate::bus::{BusStatus, NatsStatus, ZeroMqStatus};
use crate::cluster::ShareSnapshot;
use crate::hub::Heard;
use crate::roll::Standing;
use crate::shared::Shared;
use carom::monitor::{Gateway, GatewayBus, GatewayClient, GatewayFeed, GatewayShare, Object, Observe, Observed, State};
use std::cmp::Reverse;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;

/// What it is called; clients tell gateways apart by where they listen.
const NAME: &str = "gateway";

/// So many clients are shown.
const SHOWN: usize = 50;

/// Held by the server for as long as it runs.
pub(crate) struct Sight {
    pub(crate) shared: Arc<Shared>,
    pub(crate) listen: SocketAddr,
    /// Whether it is to stop.
    pub(crate) stop: watch::Receiver<Option<Instant>>,
}

impl Observe for Sight {
    fn observe(&self) -> Option<Observed> {
        // Nobody is left to say when: it was dropped.
        let stopping = self.stop.borrow().is_some() || self.stop.has_changed().is_err();
        let shared = &self.shared;
        let feeds = shared.scopes.values().filter_map(|scope| {
            let supply = scope.supply.as_ref()?;
            let share = supply.share.as_ref().map(|share| seen(share.snapshot()));
            let (broker, user) = (scope.broker.to_string(), scope.user.to_string());
            let Heard { ticks, last } = shared.hub.heard(scope.id);
            let last_tick_ms = last.map(|last| u64::try_from(last.elapsed().as_millis()).unwrap_or(u64::MAX));
            let (feed, bus) = (Some(supply.source.id()), bus(supply.bus.status()));
            Some(GatewayFeed { broker, user, feed, share, ticks, last_tick_ms, bus })
        });
        let figures = shared.figures();
        let gateway = Gateway {
            state: if stopping { State::Stopping } else { State::Running },
            listen: self.listen.to_string(),
            clients: figures.clients,
            authenticated: figures.authenticated,
            subscriptions: figures.subscriptions,
            ticks: figures.ticks,
            delivered: figures.delivered,
            conflated: figures.conflated,
            lost: figures.lost,
            malformed: figures.malformed,
            refused: figures.refused,
            slow_closed: figures.slow_closed,
            wrong_keys: figures.wrong_keys,
            feeds: feeds.collect(),
            worst: worst(shared),
        };
        Some(Observed { name: NAME.to_owned(), object: Object::Gateway(gateway) })
    }
}

fn seen(ShareSnapshot { member, owns, owner, epoch, sessions, .. }: ShareSnapshot) -> GatewayShare {
    let owner = owner.map(|owner| owner.to_string());
    GatewayShare { member: member.to_string(), owns, owner, epoch, sessions }
}

fn bus(status: BusStatus) -> Option<GatewayBus> {
    match status {
        BusStatus::Memory => None,
        BusStatus::Nats(NatsStatus { connected, dropped, .. }) => {
            Some(GatewayBus { kind: "nats".to_owned(), peers: connected.into(), dropped, refused: 0 })
        }
        BusStatus::ZeroMq(ZeroMqStatus { peers, dropped, refused, .. }) => {
            Some(GatewayBus { kind: "zeromq".to_owned(), peers, dropped, refused })
        }
    }
}

/// Those for whom most waits. There may be thousands: each is looked at by itself, and no lock is held while they are compared.
fn worst(shared: &Shared) -> Vec<GatewayClient> {
    let clients = shared.roll.mailboxes().into_iter();
    let mut all: Vec<_> = clients
        .map(|(id, mailbox)| {
            let (waiting, conflated) = mailbox.backlog();
            (Reverse((waiting, conflated)), id)
        })
        .collect();
    if all.len() > SHOWN {
        all.select_nth_unstable(SHOWN - 1);
        all.truncate(SHOWN);
    }
    all.sort_unstable();
    let show = |(Reverse((waiting, conflated)), id)| {
        // Whoever has left meanwhile is not one of them any more.
        let Standing { address, identity, seat } = shared.roll.standing(id)?;
        Some(GatewayClient {
            id,
            address: address.to_string(),
            user: identity.map(|identity| format!("{} at {}", identity.user, identity.broker)),
            subscriptions: seat.map_or(0, |seat| shared.hub.count_of(seat)),
            waiting,
            conflated,
        })
    };
    all.into_iter().filter_map(show).collect()
}
