//! HTTP clients: the agent next to hyper-util's and reqwest.

use super::{Open, Peer, Request, request};
use crate::http::clients::{Carom, Client, HyperUtil, Reqwest};
use carom::agent::Agent;
use http::HeaderMap;
use std::net::SocketAddr;
use std::sync::Arc;

pub const PEERS: &[Peer] = &[
    Peer::carom("carom", |nodes| {
        Box::pin(async move { Ok(requests_of(Carom::with(Agent::builder().build()?, &nodes)?)) })
    }),
    Peer::other("hyper-util", open::<HyperUtil>),
    Peer::other("reqwest", open::<Reqwest>),
];

/// Their default options set no number of connections.
fn open<C: Client>(nodes: Vec<SocketAddr>) -> Open {
    Box::pin(async move { Ok(requests_of(C::open(&nodes, 0).await?)) })
}

/// A client of the one address that a proxy listens on, which goes with it.
pub fn through<P: Send + Sync + 'static>(proxy: P, address: SocketAddr) -> Open {
    Box::pin(async move {
        let client = HyperUtil::open(&[address], 0).await?;
        let proxy = Arc::new(proxy);
        Ok(request(move || {
            let (client, proxy) = (client.clone(), Arc::clone(&proxy));
            async move {
                let port = port(&client.get().await?);
                drop(proxy);
                port
            }
        }))
    })
}

fn requests_of(client: impl Client) -> Request {
    request(move || {
        let client = client.clone();
        async move { port(&client.get().await?) }
    })
}

fn port(headers: &HeaderMap) -> Result<u16, String> {
    let node = headers.get("x-node").and_then(|node| node.to_str().ok()?.parse().ok());
    node.ok_or_else(|| "no port".into())
}
