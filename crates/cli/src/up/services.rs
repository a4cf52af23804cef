//! The services that run: started, changed without losing anybody, and ended.

use super::board::{Board, Served};
use crate::config::{Layered, Service};
use crate::failure::{Failure, say};
use crate::proxy;
use futures_util::future::join_all;
use std::collections::BTreeSet;
use std::fmt;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// All services of the board.
pub(super) struct Services {
    board: Arc<Board>,
    /// Those that have ended or changed, with whoever is still being served by them.
    leaving: JoinSet<()>,
    /// Those that have changed, with how long their clients have when the program stops.
    replaced: Vec<(proxy::Stop, Duration)>,
}

/// What is another after a reload, by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) added: Vec<String>,
    pub(super) changed: Vec<String>,
    pub(super) removed: Vec<String>,
    pub(super) kept: usize,
}

impl Services {
    pub(super) fn new(board: Arc<Board>) -> Services {
        Services { board, leaving: JoinSet::new(), replaced: Vec::new() }
    }

    /// Has these run, and no others. Those that are as they were are not touched. Those with other backends follow these, with all
    /// their connections and sessions. Those that have changed otherwise take over the socket, so that nobody who comes is turned
    /// away, and sessions of the old ones go on until they end. Those that are gone have their `drain_timeout`.
    ///
    /// # Errors
    /// When one of them cannot run; then everything stays as it was.
    pub(super) async fn change_to(&mut self, wanted: &[Layered<Service>]) -> Result<Changes, Failure> {
        let mut changes = Changes::default();
        let (mut begun, mut moved) = (Vec::new(), Vec::new());
        for Layered { value: service, origin } in wanted {
            match self.known(service) {
                Known::Same => changes.kept += 1,
                Known::Moved => {
                    changes.changed.push(service.name.clone());
                    moved.push((service, proxy::resolve(service)?));
                }
                Known::Changed => {
                    changes.changed.push(service.name.clone());
                    begun.push((service, self.listener(service, origin)?));
                }
                Known::Not => {
                    changes.added.push(service.name.clone());
                    begun.push((service, self.listener(service, origin)?));
                }
            }
        }
        // Nobody is let in before all of them can run.
        let mut ready = Vec::new();
        for (service, listener) in begun {
            ready.push((service, proxy::Ready::new(service, cloned(&listener)?)?, listener));
        }
        let open = |(service, ready, listener): (&Service, proxy::Ready, TcpListener)| Served {
            service: service.clone(),
            listener,
            running: ready.open(),
        };
        let started: Vec<Served> = ready.into_iter().map(open).collect();
        let names: BTreeSet<&str> = wanted.iter().map(|service| &*service.value.name).collect();
        let (removed, replaced) = {
            let mut state = self.board.lock();
            for (service, resolve) in moved {
                if let Some(served) = state.services.get_mut(&service.name) {
                    served.running.resolve_with(resolve);
                    served.service = service.clone();
                }
            }
            changes.removed = state.services.keys().filter(|name| !names.contains(&***name)).cloned().collect();
            let removed: Vec<Served> = changes.removed.iter().filter_map(|name| state.services.remove(name)).collect();
            let replaced = started.into_iter().filter_map(|new| state.services.insert(new.service.name.clone(), new));
            (removed, replaced.collect())
        };
        self.end(replaced, |_| None).await;
        self.end(removed, |service| Some(service.drain_timeout)).await;
        Ok(changes)
    }

    /// Closes them all: nobody listens for them any more when it returns, and who is served has the time that each allows.
    pub(super) async fn close(&mut self) {
        let services = std::mem::take(&mut self.board.lock().services);
        for (stop, drain_timeout) in &self.replaced {
            stop.by(Instant::now() + *drain_timeout);
        }
        self.end(services.into_values().collect(), |service| Some(service.drain_timeout)).await;
    }

    /// Waits until those that were closed have served whom they had let in.
    ///
    /// Cancelled, those who are still served are cut short.
    pub(super) async fn finish(mut self) {
        while self.leaving.join_next().await.is_some() {}
    }

    /// Has these let nobody in any more; the rest is not waited for. Clients have this much time, or until the program stops.
    async fn end(&mut self, old: Vec<Served>, time: impl Fn(&Service) -> Option<Duration>) {
        self.replaced.retain(|(stop, _)| !stop.is_over());
        while self.leaving.try_join_next().is_some() {}
        self.board.lock().leaving.extend(old.iter().map(|served| served.running.view().clone()));
        let closing = old.into_iter().map(|Served { service, listener, running }| {
            let deadline = time(&service).map(|time| Instant::now() + time);
            async move {
                drop(listener);
                let view = running.view().clone();
                (view, running.close(deadline).await, service, deadline)
            }
        });
        for (view, leaving, Service { name, drain_timeout, .. }, deadline) in join_all(closing).await {
            if deadline.is_none() {
                self.replaced.push((leaving.stop(), drain_timeout));
            }
            let board = Arc::clone(&self.board);
            self.leaving.spawn(async move {
                let cut = leaving.finish().await;
                board.lock().leaving.retain(|other| !other.is(&view));
                if cut > 0 {
                    let plural = if cut == 1 { "" } else { "s" };
                    say(format_args!("warning: service {name}: {cut} client{plural} cut short"));
                }
            });
        }
    }

    fn known(&self, service: &Service) -> Known {
        match self.board.lock().services.get(&service.name) {
            Some(served) if served.service == *service => Known::Same,
            Some(served) if served.service.can_become(service) => Known::Moved,
            Some(_) => Known::Changed,
            None => Known::Not,
        }
    }

    /// Where this service is to listen: on the socket that is there already, whoever's it was, or on a new one.
    fn listener(&self, service: &Service, origin: &str) -> Result<TcpListener, Failure> {
        let listen = service.listen;
        let state = self.board.lock();
        // A port of the system's choice belongs to whom it was chosen for.
        let own = state.services.get(&service.name).filter(|served| served.service.listen == listen);
        let others = || state.services.values().find(|served| served.service.listen == listen && listen.port() != 0);
        if let Some(served) = own.or_else(others) {
            return cloned(&served.listener);
        }
        drop(state);
        super::listen(listen, origin, &self.board)
    }
}

fn cloned(listener: &TcpListener) -> Result<TcpListener, Failure> {
    listener.try_clone().map_err(|error| Failure::Unavailable(format!("a socket cannot be kept open: {error}")))
}

/// What is known of a service of this name.
enum Known {
    Same,
    /// It has other backends.
    Moved,
    Changed,
    Not,
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Changes { added, changed, removed, kept } = self;
        let listed = [("added", added), ("changed", changed), ("removed", removed)];
        let listed = listed.iter().filter(|(_, names)| !names.is_empty());
        let mut told: Vec<String> = listed.map(|(what, names)| format!("{what} {}", names.join(", "))).collect();
        match kept {
            0 if !told.is_empty() => {}
            1 => told.push("1 service is as it was".to_owned()),
            many => told.push(format!("{many} services are as they were")),
        }
        f.write_str(&told.join("; "))
    }
}
