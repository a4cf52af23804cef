//! A way to a server that can be cut: connections stay as they are, and nothing gets through, as if a cable had been pulled.

use std::net::{Ipv4Addr, SocketAddr};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

/// A port that leads to a server. Whoever connects there while it is cut is let in, and hears nothing until it is mended.
pub struct Cut {
    address: SocketAddr,
    passes: watch::Sender<bool>,
    carrying: AbortHandle,
}

impl Cut {
    pub async fn before(server: SocketAddr) -> Cut {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (passes, passing) = watch::channel(true);
        let carrying = tokio::spawn(carry(listener, server, passing)).abort_handle();
        Cut { address, passes, carrying }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Nothing gets through from now on, in neither direction; nobody is told.
    pub fn freeze(&self) {
        self.passes.send_replace(false);
    }

    /// What was sent meanwhile gets through, and all that follows.
    pub fn thaw(&self) {
        self.passes.send_replace(true);
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        self.carrying.abort();
    }
}

async fn carry(listener: TcpListener, server: SocketAddr, passing: watch::Receiver<bool>) {
    let mut both_ways = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        let passing = passing.clone();
        both_ways.spawn(async move {
            // The server is not told either that somebody is there.
            passes(&passing).await;
            let Ok(server) = TcpStream::connect(server).await else { return };
            let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
            // Either end is the end of both, as far as what matters here.
            tokio::select! {
                () = copy(from_client, to_server, &passing) => {}
                () = copy(from_server, to_client, &passing) => {}
            }
        });
        while both_ways.try_join_next().is_some() {}
    }
}

/// Until somebody ends.
async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, passing: &watch::Receiver<bool>) {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let read = from.read(&mut bytes).await.unwrap_or(0);
        passes(passing).await;
        if read == 0 || to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}

async fn passes(passing: &watch::Receiver<bool>) {
    // It ends only with the whole of it, and this with that.
    let _ = passing.clone().wait_for(|passes| *passes).await;
}
