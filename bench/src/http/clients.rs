//! Who asks: the agent and its peers, each as its documentation shows it.

use carom::agent::{Agent, Origin, OriginOptions};
use carom::resolver::Fixed;
use http::HeaderMap;
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::{self, connect::HttpConnector, connect::dns::Name};
use hyper_util::rt::TokioExecutor;
use std::future::{Future, Ready, ready};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

/// Its name stands for all nodes.
const URL: &str = "http://nodes.test/orders";

pub trait Client: Clone + Send + Sync + 'static {
    const NAME: &'static str;

    /// A client for these nodes of one service, which so many use at a time.
    fn open(nodes: &[SocketAddr], concurrency: usize) -> impl Future<Output = Result<Self, String>>;

    /// One request, whose answer is read to its end; its headers. Anything but 200 is a failure.
    fn get(&self) -> impl Future<Output = Result<HeaderMap, String>> + Send;
}

#[derive(Clone)]
pub struct Carom {
    origin: Origin,
    /// It ends with this.
    _agent: Agent,
}

impl Carom {
    /// With the options of this agent.
    pub fn with(agent: Agent, nodes: &[SocketAddr]) -> Result<Carom, String> {
        let options = OriginOptions::default().resolver(Fixed::new(nodes.iter().copied()));
        let origin = agent.create_pool("http://nodes.test", options).map_err(text)?;
        Ok(Carom { origin, _agent: agent })
    }
}

impl Client for Carom {
    const NAME: &'static str = "carom";

    async fn open(nodes: &[SocketAddr], concurrency: usize) -> Result<Carom, String> {
        Carom::with(Agent::builder().spares(concurrency).maximum(concurrency).build().map_err(text)?, nodes)
    }

    async fn get(&self) -> Result<HeaderMap, String> {
        let request = http::Request::get(URL).body(carom::agent::Body::empty()).map_err(text)?;
        let response = self.origin.request(request).await.map_err(text)?;
        read(response).await
    }
}

/// hyper-util's `client::legacy`.
#[derive(Clone)]
pub struct HyperUtil(legacy::Client<HttpConnector<InTurn>, Empty<bytes::Bytes>>);

impl Client for HyperUtil {
    const NAME: &'static str = "hyper-util";

    async fn open(nodes: &[SocketAddr], _: usize) -> Result<HyperUtil, String> {
        let mut connector = HttpConnector::new_with_resolver(InTurn::new(nodes));
        connector.set_nodelay(true);
        Ok(HyperUtil(legacy::Client::builder(TokioExecutor::new()).build(connector)))
    }

    async fn get(&self) -> Result<HeaderMap, String> {
        let request = http::Request::get(URL).body(Empty::new()).map_err(text)?;
        read(self.0.request(request).await.map_err(text)?).await
    }
}

#[derive(Clone)]
pub struct Reqwest(reqwest::Client);

impl Client for Reqwest {
    const NAME: &'static str = "reqwest";

    async fn open(nodes: &[SocketAddr], _: usize) -> Result<Reqwest, String> {
        let client = reqwest::Client::builder().no_proxy().dns_resolver(Arc::new(InTurn::new(nodes))).build();
        client.map(Reqwest).map_err(text)
    }

    async fn get(&self) -> Result<HeaderMap, String> {
        read(self.0.get(URL).send().await.map_err(text)?.into()).await
    }
}

/// All nodes for any name, each time with another one first, as a nameserver would: peers take the first that accepts.
#[derive(Clone)]
pub struct InTurn {
    nodes: Arc<[SocketAddr]>,
    asked: Arc<AtomicUsize>,
}

impl InTurn {
    fn new(nodes: &[SocketAddr]) -> InTurn {
        InTurn { nodes: nodes.into(), asked: Arc::default() }
    }

    fn answer(&self) -> std::vec::IntoIter<SocketAddr> {
        let first = self.asked.fetch_add(1, Ordering::Relaxed) % self.nodes.len();
        let mut nodes = self.nodes.to_vec();
        nodes.rotate_left(first);
        nodes.into_iter()
    }
}

impl tower_service::Service<Name> for InTurn {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Ready<io::Result<std::vec::IntoIter<SocketAddr>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Name) -> Self::Future {
        ready(Ok(self.answer()))
    }
}

impl reqwest::dns::Resolve for InTurn {
    fn resolve(&self, _: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let nodes: reqwest::dns::Addrs = Box::new(self.answer());
        Box::pin(ready(Ok(nodes)))
    }
}

async fn read<B>(response: http::Response<B>) -> Result<HeaderMap, String>
where
    B: http_body::Body<Error: std::error::Error> + Unpin,
{
    if response.status() != 200 {
        return Err(response.status().to_string());
    }
    let (head, mut body) = response.into_parts();
    while let Some(frame) = body.frame().await {
        frame.map_err(text)?;
    }
    Ok(head.headers)
}

/// With its causes, and without what differs from one to the next.
fn text(error: impl std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
