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
use std::time::Instant;
use tokio::task::JoinSet;

/// All services of the board.
pub(super) struct Services {
    board: Arc<Board>,
    /// Those that have ended or changed, with whoever is still being served by them.
    leaving: JoinSet<()>,
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
        Services { board, leaving: JoinSet::new() }
    }

    /// Has these run, and no others. Those that are as they were are not touched. Those that have changed take over the socket, so
    /// that nobody who comes is turned away, and the old ones finish what they have begun.
    ///
    /// # Errors
    /// When one of them cannot run; then everything stays as it was.
    pub(super) async fn change_to(&mut self, wanted: &[Layered<Service>]) -> Result<Changes, Failure> {
        let mut changes = Changes::default();
        let mut begun = Vec::new();
        for Layered { value: service, origin } in wanted {
            match self.known(service) {
                Known::Same => changes.kept += 1,
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
        let old = {
            let mut state = self.board.lock();
            changes.removed = state.services.keys().filter(|name| !names.contains(&***name)).cloned().collect();
            let mut old: Vec<Served> = changes.removed.iter().filter_map(|name| state.services.remove(name)).collect();
            old.extend(started.into_iter().filter_map(|new| state.services.insert(new.service.name.clone(), new)));
            old
        };
        self.end(old).await;
        Ok(changes)
    }

    /// Closes them all: nobody listens for them any more when it returns, and who is served has the time that each allows.
    pub(super) async fn close(&mut self) {
        let services = std::mem::take(&mut self.board.lock().services);
        self.end(services.into_values().collect()).await;
    }

    /// Waits until those that were closed have served whom they had let in.
    ///
    /// Cancelled, those who are still served are cut short.
    pub(super) async fn finish(mut self) {
        while self.leaving.join_next().await.is_some() {}
    }

    /// Has these let nobody in any more; the rest is not waited for.
    async fn end(&mut self, old: Vec<Served>) {
        while self.leaving.try_join_next().is_some() {}
        self.board.lock().leaving.extend(old.iter().map(|served| served.running.view().clone()));
        let closing = old.into_iter().map(|Served { service, listener, running }| async move {
            drop(listener);
            let view = running.view().clone();
            (view, running.close(Instant::now() + service.drain_timeout).await, service.name)
        });
        for (view, leaving, name) in join_all(closing).await {
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
