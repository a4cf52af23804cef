//! The door of a proxy: clients are let in while there is room, until it is closed; then those inside have a while to finish.

use super::tally::{Present, Tally};
use crate::entrance::Entrance;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};

/// So many are told at a time that there is no room; others are closed without a word.
const TURNED_AWAY: usize = 256;

/// How long somebody has to hear it.
const HEARING: Duration = Duration::from_secs(2);

/// What clients come for.
pub(super) trait Serve: Send + Sync + 'static {
    /// Serves a client until it leaves, or until what it has asked for is done and the door is closed. Called before the door is closed;
    /// the future may be polled later.
    fn serve(self: Arc<Self>, client: TcpStream, closed: Closed) -> impl Future<Output = ()> + Send;

    /// There is no room for it: what there is to say is said in a moment, or not at all.
    fn turn_away(&self, client: TcpStream) -> impl Future<Output = ()> + Send + 'static;
}

/// Where clients come in.
pub(super) struct Door {
    pub(super) entrance: Entrance,
    pub(super) max_clients: usize,
    pub(super) tally: Arc<Tally>,
    /// By when everybody is to have left, once the door is to be closed.
    pub(super) stopping: watch::Receiver<Option<Instant>>,
    /// Told when the door is closed, and nobody listens here any more.
    pub(super) shut: oneshot::Sender<()>,
}

/// Tells those inside that the door is closed.
#[derive(Clone)]
pub(super) struct Closed(watch::Receiver<Option<Instant>>);

impl Closed {
    /// Once somebody says by when everybody is to have left, or is gone who could.
    pub(super) fn new(stopping: watch::Receiver<Option<Instant>>) -> Closed {
        Closed(stopping)
    }

    /// Waits for it; gives by when everybody is to have left. Cancelling it loses nothing.
    pub(super) async fn comes(&mut self) -> Instant {
        match self.0.wait_for(Option::is_some).await {
            Ok(deadline) => deadline.unwrap_or_else(Instant::now),
            Err(_) => Instant::now(),
        }
    }

    /// Whether it is.
    pub(super) fn is_closed(&self) -> bool {
        self.0.borrow().is_some()
    }
}

impl Door {
    /// Lets clients in until the door is to be closed. How many were cut short after that.
    pub(super) async fn run<S: Serve>(self, served: Arc<S>) -> usize {
        let Door { mut entrance, max_clients, tally, stopping, shut } = self;
        let (mut clients, mut turned_away) = (JoinSet::new(), JoinSet::new());
        let mut closed = Closed::new(stopping.clone());
        let deadline = {
            let mut closing = pin!(closed.comes());
            loop {
                let client = tokio::select! {
                    biased;
                    deadline = &mut closing => break deadline,
                    Some(_) = clients.join_next() => continue,
                    Some(_) = turned_away.join_next() => continue,
                    client = entrance.next() => client,
                };
                match tally.enter(max_clients) {
                    Some(present) => {
                        let closed = Closed::new(stopping.clone());
                        clients.spawn(serve(Arc::clone(&served), client, present, closed));
                    }
                    None if turned_away.len() < TURNED_AWAY => {
                        turned_away.spawn(timeout(HEARING, served.turn_away(client)));
                    }
                    None => {}
                }
            }
        };
        // Whoever comes now finds another at the same address, or nobody.
        drop(entrance);
        // If nobody waits for it, it matters to nobody.
        let _ = shut.send(());
        let (mut stopping, mut late) = (stopping, pin!(sleep_until(deadline.into())));
        loop {
            tokio::select! {
                biased;
                client = clients.join_next() => if client.is_none() { return 0 },
                Ok(()) = stopping.changed() => {
                    if let Some(deadline) = *stopping.borrow_and_update() {
                        late.as_mut().reset(deadline.into());
                    }
                }
                () = &mut late => break,
            }
        }
        let cut = clients.len();
        clients.shutdown().await;
        cut
    }
}

fn serve<S: Serve>(
    served: Arc<S>,
    client: TcpStream,
    present: Present,
    closed: Closed,
) -> impl Future<Output = ()> + Send {
    // What is said is whole, or as much of it as there is: nothing is gained by holding it back. If the client has left
    // already, that will be noticed.
    let _ = client.set_nodelay(true);
    let serving = served.serve(client, closed);
    async move {
        let _present = present;
        serving.await;
    }
}
