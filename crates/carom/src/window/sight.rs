//! The sight of a requester: what a monitor sees of it.

use super::Transport;
use super::shared::Shared;
use crate::clock;
use crate::monitor::{
    self, Object, Observe, Observed, OpenWindow, State, WindowCounters, WindowOptions, WindowSocket, ms, ms_since,
    ms_until,
};
use crate::quiet::{drop_quietly, text_of};
use carom_core::window::{Counters, Latest, Node, SocketSnapshot, WindowSnapshot};
use std::time::Instant;

impl<T: Transport> Observe for Shared<T> {
    fn observe(&self) -> Option<Observed> {
        let (snapshot, options, failure) = {
            let table = self.lock();
            if table.machine.is_closed() {
                return None;
            }
            let options = table.machine.options();
            let options = WindowOptions {
                active_for_ms: ms(options.active_for),
                request_limit: options.request_limit,
                max_windows: options.max_windows,
            };
            (table.machine.snapshot(), options, table.failure.clone())
        };
        let cause = failure.as_deref().map(text_of);
        drop_quietly(&self.name, failure);
        let now = clock::now();
        let unresponsive = snapshot.unresponsive.iter().filter(|(_, until)| now < *until);
        let window = monitor::Window {
            state: state(snapshot.latest),
            options,
            nodes: snapshot.nodes.iter().map(|node| node.name().to_owned()).collect(),
            unresponsive: unresponsive.map(|(node, _)| node.name().to_owned()).collect(),
            unhealthy: snapshot.unhealthy.iter().map(|node| node.name().to_owned()).collect(),
            asking: snapshot.asking,
            in_line: snapshot.in_line,
            windows: snapshot.windows.into_iter().map(|window| show(window, now)).collect(),
            cause,
            counters: count(snapshot.counters),
        };
        Some(Observed { name: self.name.to_string(), object: Object::Window(window) })
    }
}

/// Nothing is open for most of the time, so what has happened last decides.
fn state(latest: Option<Latest>) -> State {
    match latest {
        None => State::Starting,
        Some(Latest::Failed) => State::Failed,
        Some(Latest::Answered) => State::Running,
    }
}

fn show<N: Node>(window: WindowSnapshot<N>, now: Instant) -> OpenWindow {
    let show =
        |socket: SocketSnapshot<N>| WindowSocket { node: socket.node.name().to_owned(), waiting: socket.waiting };
    OpenWindow {
        id: window.id.number(),
        age_ms: ms_since(window.created, now),
        active_ms: window.active_until.map(|until| ms_until(until, now)),
        started: window.started,
        asking: window.asking,
        sockets: window.sockets.into_iter().map(show).collect(),
    }
}

fn count(Counters { requests, answered, failed, windows, sockets }: Counters) -> WindowCounters {
    WindowCounters { requests, answered, failed, windows, sockets }
}
