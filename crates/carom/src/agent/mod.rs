//! HTTP over pools: an [`Agent`] keeps connections to every node of every origin it is asked for.
//!
//! An origin is scheme, host and port. The first request to one asks DNS who serves it, as [`dns`](crate::dns) does, and the
//! connections to it are spread over all its nodes, follow DNS as it changes, avoid nodes that are dead, and are there before
//! they are needed. What `Host` and TLS say stays the origin's.
//!
//! ```
//! use carom::agent::{Agent, Served};
//! # use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! # use tokio::net::TcpListener;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let listener = TcpListener::bind("127.0.0.1:0").await?;
//! # let uri = format!("http://{}/orders", listener.local_addr()?);
//! # tokio::spawn(async move {
//! #     while let Ok((mut socket, _)) = listener.accept().await {
//! #         tokio::spawn(async move {
//! #             while socket.read(&mut [0; 4096]).await? > 0 {
//! #                 socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]").await?;
//! #             }
//! #             Ok::<(), std::io::Error>(())
//! #         });
//! #     }
//! # });
//! let agent = Agent::builder().spares(1).maximum(16).build()?;
//!
//! let response = agent.get(&*uri).await?;
//! assert_eq!(response.status(), 200);
//! let served = response.extensions().get::<Served>().unwrap();
//! println!("{} answered in {:?}", served.backend, served.timings.head);
//! assert_eq!(response.into_body().bytes(1024).await?, "[]");
//! # Ok(()) }
//! ```
//!
//! When a request fails, its [`Error`] says at which [`Step`], at which backend, after how many attempts. A request that meets a
//! connection which the server had closed is tried again, up to twice, if that can do no harm: when nothing of it was sent, or
//! when its method is safe and no byte of an answer came. Over HTTP/2 a server may say that it has not processed a request, for
//! example when it closes a connection after a number of requests. Such a request is sent again whatever it is, unless more than
//! 64 KiB of a body that can be read only once were sent.
//!
//! A backend that stops responding while others respond is *stalled*: it gets no new requests until a byte arrives from it, and safe
//! requests that wait for it are sent to another backend as well; so are those that wait for a backend that becomes unhealthy by its
//! active health checks. See [`Builder::retry_stalled`].
//!
//! An agent and an [`Origin`] are services of tower:
//!
//! ```
//! use carom::agent::{Agent, Body};
//! use std::time::Duration;
//! use tower::ServiceBuilder;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let agent = Agent::builder().build()?;
//! let service = ServiceBuilder::new().timeout(Duration::from_secs(5)).concurrency_limit(100).service(agent);
//! # fn is_service<S: tower_service::Service<http::Request<Body>>>(_: S) {}
//! # is_service(service);
//! # Ok(()) }
//! ```

mod body;
mod builder;
mod dial;
mod error;
mod evidence;
mod health;
mod hedge;
mod http1;
mod http2;
mod limit;
mod making;
mod negotiation;
mod options;
mod origin;
mod origins;
mod probing;
mod retry;
mod routes;
mod served;
mod service;
mod serving;
mod stalls;
mod target;
mod upgraded;

pub use body::Body;
pub use builder::Builder;
pub use error::{Error, Step};
pub use health::HttpCheck;
pub use making::OriginError;
pub use options::OriginOptions;
pub use origin::{Origin, Snapshot};
pub use served::{Protocol, Served, Timings};
pub use upgraded::Upgraded;

use crate::monitor::Monitor;
use crate::pool::Drained;
use crate::ready::ReadyError;
use http::{Request, Response, Uri};
use http_body::Body as HttpBody;
use making::Maker;
use options::Settings;
use origins::{Origins, Taken, sweep};
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use target::{Parts, Target};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

/// Sends requests, and keeps the connections they need. See the [module](self).
///
/// Cheap to clone; all clones are the same agent. When the last one is dropped its origins are closed, but for those that
/// somebody holds.
#[derive(Clone)]
pub struct Agent {
    owner: Arc<Owner>,
}

/// What all handles of an agent own together.
struct Owner {
    settings: Settings,
    origins: Arc<Origins>,
    runtime: Handle,
    monitor: Monitor,
    /// Drops idle origins.
    sweeper: Option<AbortHandle>,
}

impl Agent {
    /// Starts building an agent.
    pub fn builder() -> Builder {
        Builder::new()
    }

    fn new(settings: Settings, max_idle: Option<Duration>, runtime: Handle, monitor: Monitor) -> Agent {
        let origins = Arc::new(Origins::new());
        let sweeper = max_idle.map(|max_idle| runtime.spawn(sweep(Arc::downgrade(&origins), max_idle)).abort_handle());
        Agent { owner: Arc::new(Owner { settings, origins, runtime, monitor, sweeper }) }
    }

    /// Asks for something with `GET`, and waits for the head of the answer. See [`Agent::request`].
    ///
    /// # Errors
    /// As of [`Agent::request`]; and when the URI is none.
    pub async fn get<U>(&self, uri: U) -> Result<Response<Body>, Error>
    where
        U: TryInto<Uri>,
        U::Error: Into<http::Error>,
    {
        // What is kept here is moved about with every request: so there is little, and nothing twice.
        let (origin, request) = self.prepare(parse(uri)?)?;
        origin.serve(request).await
    }

    /// Sends a request to the origin that its URI names, and waits for the head of the answer.
    ///
    /// A URI with a user name is refused. `Host` is the origin's unless the request has its own.
    ///
    /// Cancel safety: the connection is closed, or over HTTP/2 the stream alone, and nobody is blamed.
    ///
    /// # Errors
    /// [`Error`] says at which step it failed.
    pub async fn request<B>(&self, request: Request<B>) -> Result<Response<Body>, Error>
    where
        B: HttpBody + Send + 'static,
        B::Error: Into<Box<dyn StdError + Send + Sync>>,
    {
        let origin = self.origin(request.uri())?;
        origin.serve(request.map(Body::new)).await
    }

    /// Makes the pool of an origin before anybody asks for something, with options of its own. It stays until the agent is
    /// closed.
    ///
    /// # Errors
    /// When it exists, when an option makes no sense, or when the agent is closed.
    pub fn create_pool<U>(&self, origin: U, options: OriginOptions) -> Result<Origin, OriginError>
    where
        U: TryInto<Uri>,
        U::Error: Into<http::Error>,
    {
        let uri = parse(origin).map_err(OriginError::Uri)?;
        let target = Target::of(&uri).map_err(OriginError::Uri)?;
        let exists = |origin: &Origin| OriginError::Exists { origin: origin.name().into() };
        if let Some(origin) = self.owner.origins.find(Parts::of(&uri).map_err(OriginError::Uri)?) {
            return Err(exists(&origin));
        }
        let origin = self.make(&target, options, true)?;
        let origin = self.owner.origins.add(target, origin).map_err(|taken| match taken {
            Taken::Exists(origin) => exists(&origin),
            Taken::Closed => OriginError::Closed,
        })?;
        origin.find_out_ahead(&self.owner.runtime);
        Ok(origin)
    }

    /// Waits until `n` backends of an origin have a working connection, for example before a server accepts requests. The origin
    /// is made if it is not known. Over HTTP/1 see [`Pool::ready`](crate::Pool::ready), over HTTP/2
    /// [`Set::ready`](crate::Set::ready), with this agent's [`spares`](Builder::spares) and [`maximum`](Builder::maximum). Which
    /// of them is spoken is found out first.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// As there; and [`ReadyError::Origin`] when there is no such origin.
    pub async fn ready<U>(&self, origin: U, n: usize, within: Duration) -> Result<(), ReadyError>
    where
        U: TryInto<Uri>,
        U::Error: Into<http::Error>,
    {
        let origin = parse(origin).and_then(|uri| self.origin(&uri)).map_err(|error| match error.step() {
            Step::Closed => ReadyError::Closed { name: "agent".into() },
            _ => ReadyError::Origin { error: Arc::new(error) },
        })?;
        origin.ready(n, within).await
    }

    /// The origin that a URI names, if it is known.
    pub fn pool<U: TryInto<Uri>>(&self, origin: U) -> Option<Origin> {
        let uri = origin.try_into().ok()?;
        self.owner.origins.find(Parts::of(&uri).ok()?)
    }

    /// Every origin that is known at present.
    pub fn origins(&self) -> Vec<Origin> {
        self.owner.origins.all()
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.owner.origins.is_closed()
    }

    /// Closes the agent: requests that wait for a connection fail, and so does every later one. Answers that are being read
    /// can be read to their end. Does not wait; see [`Agent::drain`].
    pub fn close(&self) {
        self.owner.close();
    }

    /// Closes the agent and waits until everything has come back and is closed, or until the deadline. Takes a
    /// `std::time::Instant` or tokio's.
    ///
    /// Cancel safe: the agent stays closed.
    pub async fn drain(&self, deadline: impl Into<tokio::time::Instant>) -> Drained {
        let deadline = deadline.into();
        let mut drained = Drained::default();
        for origin in self.owner.close() {
            drained = drained.and(origin.drain(deadline).await);
        }
        drained
    }

    fn prepare(&self, uri: Uri) -> Result<(Origin, Request<Body>), Error> {
        let origin = self.origin(&uri)?;
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = uri;
        Ok((origin, request))
    }

    fn origin(&self, uri: &Uri) -> Result<Origin, Error> {
        if let Some(origin) = self.owner.origins.find(Parts::of(uri)?) {
            return Ok(origin);
        }
        if self.is_closed() {
            return Err(Error::closed());
        }
        let target = Target::of(uri)?;
        let origin = self.make(&target, OriginOptions::default(), false)?;
        self.owner.origins.add(target, origin).or_else(Taken::or_existing)
    }

    fn make(&self, target: &Target, options: OriginOptions, lasts: bool) -> Result<Origin, OriginError> {
        let Owner { settings, runtime, monitor, .. } = &*self.owner;
        Origin::make(Maker::new(target, settings, options, runtime, monitor)?, lasts)
    }
}

fn parse<U>(uri: U) -> Result<Uri, Error>
where
    U: TryInto<Uri>,
    U::Error: Into<http::Error>,
{
    uri.try_into().map_err(|error| {
        let error: http::Error = error.into();
        Error::request("this is no URI").caused_by(Arc::new(error) as Arc<_>)
    })
}

impl Owner {
    fn close(&self) -> Vec<Origin> {
        if let Some(sweeper) = &self.sweeper {
            sweeper.abort();
        }
        let origins = self.origins.close();
        for origin in &origins {
            origin.close();
        }
        origins
    }
}

/// Whoever holds an origin keeps it: only [`Agent::close`] closes those.
impl Drop for Owner {
    fn drop(&mut self) {
        if let Some(sweeper) = &self.sweeper {
            sweeper.abort();
        }
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("origins", &self.origins()).finish_non_exhaustive()
    }
}
