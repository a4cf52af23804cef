//! The clients of the nodes: carom and its peers, each with default options.

pub mod http;
pub mod postgres;
pub mod proxies;
pub mod redis;

use carom_live::AnyError;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

/// One request: the port of the node that responded, or why none did.
pub type Request = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<u16, String>> + Send>> + Send + Sync>;

pub type Open = Pin<Box<dyn Future<Output = Result<Request, AnyError>>>>;

pub struct Peer {
    pub name: &'static str,
    pub is_carom: bool,
    pub open: fn(Vec<SocketAddr>) -> Open,
}

impl Peer {
    const fn carom(name: &'static str, open: fn(Vec<SocketAddr>) -> Open) -> Peer {
        Peer { name, is_carom: true, open }
    }

    const fn other(name: &'static str, open: fn(Vec<SocketAddr>) -> Open) -> Peer {
        Peer { name, is_carom: false, open }
    }
}

fn request<F>(request: impl Fn() -> F + Send + Sync + 'static) -> Request
where
    F: Future<Output = Result<u16, String>> + Send + 'static,
{
    Arc::new(move || Box::pin(request()))
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
