//! The servers, their connections, and the resolver's list of them.

use super::{Event, Moment, World};
use carom_core::backend::Backend;
use carom_core::pool::{Ending, State};
use carom_core::slot::SlotRef;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// How a server treats dials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Healthy,
    Refuses,
    /// Neither accepts nor refuses, ever; checks hang as well.
    Hangs,
    /// Accepts, perhaps too late.
    IsSlow,
    /// Accepts, and closes soon after.
    ClosesSoon,
    /// Accepts, and fails every use.
    FailsUses,
    /// Sometimes this, sometimes that.
    Flaps,
    /// Has no room for more than so many connections.
    HasRoomFor(usize),
}

#[derive(Debug)]
pub(super) struct Server {
    pub(super) backend: Backend,
    pub(super) behaviour: Behaviour,
    pub(super) known: bool,
    /// Goes up when it leaves the resolver's list.
    pub(super) term: u32,
    /// When something about it went wrong last.
    pub(super) failed_at: Option<Moment>,
    /// When it refused a connect last.
    pub(super) refused_at: Option<Moment>,
    /// When the latest attempt began that failed.
    pub(super) tried: Option<Moment>,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) server: usize,
    pub(super) term: u32,
    pub(super) born: Moment,
    /// The far side has not closed it.
    pub(super) alive: bool,
    /// This side has not closed it.
    pub(super) open: bool,
    pub(super) detached: bool,
    /// It ended by a break.
    pub(super) broken: bool,
    /// A check of it was cut short.
    pub(super) doubtful: bool,
    /// Who wants to be told when the far side closes it.
    pub(super) watchers: Vec<SlotRef>,
}

impl Server {
    /// Neighbours share a name: the second of them is the first at a new address.
    pub(super) fn new(index: usize) -> Server {
        let address = SocketAddr::from((Ipv4Addr::new(10, 0, 0, 1 + index as u8), index as u16));
        let backend = Backend::new(format!("db-{}", index / 2), address);
        Server {
            backend,
            behaviour: Behaviour::Healthy,
            known: false,
            term: 0,
            failed_at: None,
            refused_at: None,
            tried: None,
        }
    }
}

impl World {
    pub(crate) fn behave(&mut self, server: usize, behaviour: Behaviour) {
        self.note(|_| format!("server {server} {behaviour:?}"));
        self.servers[server].behaviour = behaviour;
    }

    /// Gives a server some priority and weight; the pool hears of it when the list is published.
    pub(crate) fn rank(&mut self, server: usize) {
        if (self.setting.priorities, self.setting.weights) != (1, 1) {
            let priority = self.random.below(self.setting.priorities) as u16;
            let weight = [0, 1, 10, 1_000][self.random.below(self.setting.weights)];
            let backend = &mut self.servers[server].backend;
            *backend = backend.clone().with_priority(priority, weight);
        }
    }

    pub(super) fn went_wrong(&mut self, server: usize) {
        self.servers[server].failed_at = Some(self.clock);
    }

    pub(super) fn hangs(&self, server: usize) -> bool {
        self.servers[server].behaviour == Behaviour::Hangs
    }

    /// All its connections are closed from afar.
    pub(crate) fn cut_off(&mut self, server: usize) {
        self.note(|_| format!("server {server} closes everything"));
        let its: Vec<usize> = self.open.iter().copied().filter(|&id| self.connections[id].server == server).collect();
        for id in its {
            self.server_closes(id);
        }
    }

    /// Every server is healthy, and connections that were about to be closed from afar are closed now.
    pub(crate) fn faults_stop(&mut self) {
        for server in 0..self.servers.len() {
            self.behave(server, Behaviour::Healthy);
        }
        let doomed: Vec<usize> = self
            .events
            .values()
            .filter_map(|event| if let Event::ServerCloses(id) = event { Some(*id) } else { None })
            .collect();
        for id in doomed {
            self.server_closes(id);
        }
        self.setting = self.setting.clone().calm();
    }

    /// The resolver now knows exactly these.
    pub(crate) fn publish(&mut self, servers: &[usize]) {
        let priority = |&index: &usize| self.servers[index].backend.priority();
        self.note(|_| {
            format!("backends {servers:?}, priorities {:?}", servers.iter().map(priority).collect::<Vec<_>>())
        });
        // A closed pool does not mind any more.
        for (index, server) in self.servers.iter_mut().enumerate().filter(|_| self.books.closed_at.is_none()) {
            let known = servers.contains(&index);
            if server.known && !known {
                server.term += 1;
                server.tried = None;
            }
            server.known = known;
        }
        let mut backends: Vec<Backend> = servers.iter().map(|&index| self.servers[index].backend.clone()).collect();
        backends.extend(backends.first().cloned().filter(|_| self.random.chance(0.2)));
        let now = self.now();
        self.machine.handle_backends(now, &backends);
        assert!(!backends.is_empty() || self.machine.state() != State::Failed, "failed, but nobody is dead");
        self.after_driver_call();
    }

    pub(crate) fn publish_all(&mut self) {
        let all: Vec<usize> = (0..self.servers.len()).collect();
        self.publish(&all);
    }

    pub(super) fn backends_change(&mut self) {
        let mut known: Vec<usize> = (0..self.servers.len()).filter(|&index| self.servers[index].known).collect();
        let any = self.random.below(self.servers.len());
        match self.random.below(10) {
            0 => known.clear(),
            1 => {
                self.note(|_| "the resolver failed".to_owned());
                self.machine.handle_resolver_failed();
                return self.after_driver_call();
            }
            // The same name at another address.
            2 | 3 => {
                let other = any ^ 1;
                known.retain(|&index| index != other && index != any);
                known.push(any);
            }
            4 | 5 => known.retain(|&index| index != any),
            6 => known = (0..self.servers.len()).filter(|_| self.random.chance(0.5)).collect(),
            _ => {
                if !known.contains(&any) {
                    known.push(any);
                }
            }
        }
        if self.random.chance(0.3) {
            self.rank(any);
        }
        self.publish(&known);
    }

    pub(super) fn weather_turns(&mut self) {
        let server = self.random.below(self.servers.len());
        let behaviour = match self.random.below(10) {
            0..=2 => Behaviour::Healthy,
            3 => Behaviour::IsSlow,
            4 => Behaviour::Refuses,
            5 => Behaviour::Hangs,
            6 => Behaviour::ClosesSoon,
            7 | 8 => Behaviour::Flaps,
            _ => Behaviour::HasRoomFor(self.random.below(4)),
        };
        self.behave(server, behaviour);
        if self.random.chance(0.4) {
            self.cut_off(server);
        }
    }

    /// A dial reaches a server.
    pub(super) fn dialled(&mut self, task: SlotRef, server: usize) {
        let open = self.open.iter().filter(|&&id| self.connections[id].server == server).count();
        let delay = self.between(Duration::ZERO, self.setting.dial);
        let behaviour = match self.servers[server].behaviour {
            Behaviour::Flaps => match self.random.below(4) {
                0 => Behaviour::Healthy,
                1 => Behaviour::Refuses,
                2 => Behaviour::ClosesSoon,
                _ => Behaviour::Hangs,
            },
            steady => steady,
        };
        match behaviour {
            Behaviour::Hangs => {}
            Behaviour::Refuses => self.later(delay, Event::DialEnds(task, false)),
            Behaviour::HasRoomFor(room) if open >= room => {
                self.books.turned_away += 1;
                self.later(delay, Event::DialEnds(task, false));
            }
            Behaviour::Healthy
            | Behaviour::HasRoomFor(_)
            | Behaviour::ClosesSoon
            | Behaviour::FailsUses
            | Behaviour::Flaps => {
                self.later(delay, Event::Accepted(task));
            }
            Behaviour::IsSlow => {
                let delay = self.between(Duration::ZERO, self.setting.longest_attempt());
                self.later(delay, Event::Accepted(task));
            }
        }
    }

    /// How many dials have found no room so far.
    pub(crate) fn turned_away(&self) -> usize {
        self.books.turned_away
    }

    pub(super) fn accepted(&mut self, task: SlotRef) {
        let Some((server, term)) = self.dialling(task) else { return };
        let id = self.connections.len();
        self.note(|_| format!("connection {id} to {server}"));
        self.connections.push(Connection {
            server,
            term,
            born: self.clock,
            alive: true,
            open: true,
            detached: false,
            broken: false,
            doubtful: false,
            watchers: Vec::new(),
        });
        self.open.insert(id);
        self.give_dial(task, id);
        let latency = self.latency();
        self.later(latency, Event::DialEnds(task, true));
        let lives = match self.servers[server].behaviour {
            Behaviour::ClosesSoon | Behaviour::Flaps => Some(self.between(Duration::ZERO, Duration::from_millis(150))),
            Behaviour::Healthy
            | Behaviour::Refuses
            | Behaviour::Hangs
            | Behaviour::IsSlow
            | Behaviour::FailsUses
            | Behaviour::HasRoomFor(_) => {
                let mortal = self.setting.mortal;
                self.random.chance(mortal).then(|| self.between(Duration::ZERO, Duration::from_secs(5)))
            }
        };
        if let Some(lives) = lives {
            self.later(lives, Event::ServerCloses(id));
        }
        self.check();
    }

    pub(super) fn server_closes(&mut self, id: usize) {
        self.connections[id].alive = false;
        self.connections[id].broken = self.random.chance(self.setting.breaks);
        if !self.setting.liveness {
            return;
        }
        for slot in std::mem::take(&mut self.connections[id].watchers) {
            let latency = self.latency();
            self.later(latency, Event::WatchEnds(slot, Ending::Seen));
        }
    }

    /// This side is done with a connection.
    pub(super) fn drop_connection(&mut self, id: usize) {
        let connection = &mut self.connections[id];
        assert!(connection.open && !connection.detached, "connection {id} closed twice");
        connection.open = false;
        let server = connection.server;
        let watchers = std::mem::take(&mut connection.watchers);
        self.open.remove(&id);
        self.went_wrong(server);
        // What watches it may notice, and may be long in saying so: the slot has another connection by then.
        for slot in watchers {
            let late = self.between(Duration::ZERO, Duration::from_millis(500));
            self.later(late, Event::WatchEnds(slot, Ending::Seen));
        }
    }

    pub(super) fn detach_connection(&mut self, id: usize) {
        self.connections[id].detached = true;
        self.open.remove(&id);
    }
}
