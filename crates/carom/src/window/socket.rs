//! The task of one socket: opens it, sends what it is given and is still wanted, and reports what it hears until it ends.

use super::Transport;
use super::shared::{Cause, Shared};
use super::transport::Incoming;
use crate::clock;
use carom_core::window::{RequestId, SocketId};
use std::sync::Arc;
use tokio::sync::mpsc;

/// What a socket has to say.
pub(super) struct Report<T: Transport> {
    pub(super) socket: SocketId,
    pub(super) news: News<T::Tag, T::Answer>,
}

pub(super) enum News<G, A> {
    Heard(Incoming<G, A>),
    Ended(Cause),
}

/// Everything a socket's task needs.
pub(super) struct Line<T: Transport> {
    pub(super) id: SocketId,
    pub(super) shared: Arc<Shared<T>>,
    pub(super) node: Arc<T::Node>,
    pub(super) identity: Arc<T::Identity>,
    pub(super) requests: mpsc::UnboundedReceiver<RequestId>,
    pub(super) reports: mpsc::Sender<Report<T>>,
}

impl<T: Transport> Line<T> {
    /// Runs until the socket ends by itself; it is closed by dropping this.
    pub(super) async fn run(mut self) {
        if let Err(error) = self.serve().await {
            let _ = self.reports.send(Report { socket: self.id, news: News::Ended(Arc::new(error)) }).await;
        }
    }

    async fn serve(&mut self) -> Result<(), T::Error> {
        let transport = &self.shared.transport;
        let mut socket = transport.open(&self.node, &self.identity).await?;
        loop {
            tokio::select! {
                biased;
                request = self.requests.recv() => match request {
                    // Those whose answers nobody waits for any more are left out: it may have taken long to get here.
                    Some(request) => {
                        let request = self.shared.step(|table| table.sending(clock::now(), self.id, request));
                        request.map_or(Ok(()), |request| transport.send(&mut socket, &request))?;
                    }
                    // The driver is gone.
                    None => return Ok(()),
                },
                heard = transport.receive(&mut socket) => {
                    let news = News::Heard(heard?);
                    if self.reports.send(Report { socket: self.id, news }).await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }
}
