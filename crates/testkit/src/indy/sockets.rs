//! The sockets of a node, and what goes through them.

use super::Shared;
use super::answer::Out;
use crate::listening::{self, Ears};
use carom_indy::zmtp::{KeyPair, Socket};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::select;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until};

/// More than a client may send or take: it is for the tests to see what happens then.
const LIMIT: usize = 16 << 20;

/// Answers whoever comes to a node; ends when it can listen no more.
pub(super) async fn serve(
    node: usize,
    keys: KeyPair,
    shared: Arc<Shared>,
    listeners: watch::Receiver<Option<Arc<Ears>>>,
) {
    listening::serve(listeners, |stream, _| {
        let (socket, closed) = shared.change(|world| world.open(node));
        Session { node, socket, shared: Arc::clone(&shared) }.run(stream, keys.clone(), closed)
    })
    .await;
}

struct Session {
    node: usize,
    socket: u64,
    shared: Arc<Shared>,
}

impl Session {
    /// Until either side has had enough.
    async fn run(self, stream: TcpStream, keys: KeyPair, closed: oneshot::Receiver<()>) {
        select! {
            () = self.converse(stream, keys) => {}
            _ = closed => {}
        }
        // The stream is gone by now: who is not counted is not there.
        self.shared.change(|world| world.close(self.node, self.socket));
    }

    async fn converse(&self, stream: TcpStream, keys: KeyPair) {
        let Ok(mut socket) = Socket::accept(stream, &keys, LIMIT).await else { return };
        let identity = String::from_utf8_lossy(socket.identity()).into_owned();
        self.shared.change(|world| {
            let identities = &mut world.nodes[self.node].identities;
            if !identities.contains(&identity) {
                identities.push(identity);
            }
        });
        let (mut later, mut number) = (BTreeMap::new(), 0_u64);
        loop {
            let due = later.first_key_value().map(|((due, _), _)| *due);
            select! {
                heard = socket.next() => {
                    let Ok(heard) = heard else { return };
                    for out in self.shared.change(|world| world.answer(self.node, &heard)) {
                        match out {
                            Out::Say(delay, text) if delay.is_zero() => drop(socket.push(text.as_bytes())),
                            Out::Say(delay, text) => {
                                number += 1;
                                later.insert((Instant::now() + delay, number), text);
                            }
                            Out::Close => return,
                        }
                    }
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    if let Some((_, text)) = later.pop_first() {
                        drop(socket.push(text.as_bytes()));
                    }
                }
            }
        }
    }
}
