//! Proxies: clients of a service come in at one address here, and its backends answer, whoever they are at the moment.
//!
//! Each service is a [`Running`]: a door where clients are let in, and behind it what is spoken, by requests ([`http`]) or by
//! bytes ([`tcp`]).

mod door;
mod http;
mod joining;
mod silence;
mod snapshot;
mod tally;
mod tcp;
mod when_woken;

pub(crate) use snapshot::{Backend, Snapshot, Upstream};

use crate::config::{Protocol, Service};
use crate::entrance::Entrance;
use crate::failure::{Failure, with_causes};
use carom::dns::AnyResolver;
use carom::monitor::Id;
use carom::pool::State;
use carom::resolver::{Resolve, Resolver};
use door::Door;
use http::Requests;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tally::Tally;
use tcp::Sessions;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

/// Longer than any session.
const NO_DEADLINE: Duration = Duration::from_secs(86_400 * 365);

/// A service that can be served: all is made that may be refused, and nobody has been let in.
pub(crate) struct Ready {
    view: View,
    max_clients: usize,
    listener: TcpListener,
}

/// A service that is served. Dropping it cuts everybody short.
pub(crate) struct Running {
    view: View,
    stop: watch::Sender<Option<Instant>>,
    shut: oneshot::Receiver<()>,
    door: JoinHandle<usize>,
}

/// A service that lets nobody in any more.
pub(crate) struct Leaving {
    view: View,
    /// Those inside are cut short without it.
    stop: watch::Sender<Option<Instant>>,
    door: JoinHandle<usize>,
}

/// Sets the deadline of a service that is [`Leaving`].
pub(crate) struct Stop(watch::Sender<Option<Instant>>);

impl Stop {
    pub(crate) fn by(&self, deadline: Instant) {
        let _ = self.0.send(Some(deadline));
    }

    /// Its last client has left.
    pub(crate) fn is_over(&self) -> bool {
        self.0.is_closed()
    }
}

/// How a service is doing, for whoever wants to know. All clones are of the same.
#[derive(Clone)]
pub(crate) struct View(Arc<Behind>);

/// What is behind the door.
struct Behind {
    name: String,
    listen: SocketAddr,
    resolver: Resolver,
    tally: Arc<Tally>,
    spoken: Spoken,
}

impl Behind {
    async fn leave(&self) {
        match &self.spoken {
            Spoken::Http(requests) => requests.leave().await,
            Spoken::Tcp(sessions) => sessions.leave().await,
        }
        self.resolver.stop();
    }
}

/// What is spoken there.
enum Spoken {
    Http(Arc<Requests>),
    Tcp(Arc<Sessions>),
}

impl Spoken {
    /// How the connections to backends are doing, and which pools and sets they are in.
    fn behind(&self) -> (State, Vec<Id>) {
        match self {
            Spoken::Http(requests) => requests.behind(),
            Spoken::Tcp(sessions) => sessions.behind(),
        }
    }
}

impl Ready {
    /// Makes all that it takes to serve a service to whoever comes to this socket.
    ///
    /// # Errors
    /// When an option makes no sense, or the socket cannot be used.
    pub(crate) fn new(service: &Service, listener: std::net::TcpListener) -> Result<Ready, Failure> {
        let cannot_listen = |error| Failure::Unavailable(format!("cannot listen for {}: {error}", service.name));
        listener.set_nonblocking(true).map_err(cannot_listen)?;
        let listener = TcpListener::from_std(listener).map_err(cannot_listen)?;
        let listen = listener.local_addr().map_err(cannot_listen)?;
        let (resolver, tally) = (resolver(service)?, Arc::new(Tally::default()));
        let spoken = match &service.protocol {
            Protocol::Http(own) => Spoken::Http(Arc::new(Requests::new(service, own, &resolver, Arc::clone(&tally))?)),
            Protocol::Tcp(own) => Spoken::Tcp(Arc::new(Sessions::new(service, own, &resolver, Arc::clone(&tally))?)),
        };
        let view = View(Arc::new(Behind { name: service.name.clone(), listen, resolver, tally, spoken }));
        Ok(Ready { view, max_clients: service.max_clients, listener })
    }

    /// Lets clients in from now on.
    pub(crate) fn open(self) -> Running {
        let Ready { view, max_clients, listener } = self;
        let (stop, stopping) = watch::channel(None);
        let (tell, shut) = oneshot::channel();
        let Behind { name, tally, spoken, .. } = &*view.0;
        let entrance = Entrance::new(listener, &**name);
        let door = Door { entrance, max_clients, tally: Arc::clone(tally), stopping, shut: tell };
        let door = match spoken {
            Spoken::Http(requests) => tokio::spawn(door.run(Arc::clone(requests))),
            Spoken::Tcp(sessions) => tokio::spawn(door.run(Arc::clone(sessions))),
        };
        Running { view, stop, shut, door }
    }
}

impl Running {
    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    /// Follows another resolver from now on, as if the one before had found other backends: connections and sessions stay.
    pub(crate) fn resolve_with(&self, resolve: impl Resolve) {
        self.view.0.resolver.replace(resolve);
    }

    /// Lets nobody in from now on; nobody listens here any more when it returns. Those who are in may finish what they have
    /// begun, at most until the deadline, or until [`Stop::by`] sets one.
    pub(crate) async fn close(self, deadline: Option<Instant>) -> Leaving {
        let Running { view, stop, shut, door } = self;
        let _ = stop.send(Some(deadline.unwrap_or_else(|| Instant::now() + NO_DEADLINE)));
        // Fails if the door is gone altogether.
        let _ = shut.await;
        match &view.0.spoken {
            // Each request needs a connection for a moment: those that are there serve the last ones.
            Spoken::Http(_) => {}
            Spoken::Tcp(sessions) => sessions.keep_no_spares(),
        }
        Leaving { view, stop, door }
    }
}

impl Leaving {
    /// Sets its deadline later on.
    pub(crate) fn stop(&self) -> Stop {
        Stop(self.stop.clone())
    }

    /// Waits until those who are in have had what they asked for, or the time is over. How many were cut short.
    ///
    /// Meanwhile connections in use are kept, and nothing else: a replaced service knows backends that may be gone for good, and what it
    /// says of them would be taken for what its successor says, which has the same name.
    pub(crate) async fn finish(self) -> usize {
        let Leaving { view, stop: _stop, mut door } = self;
        tokio::select! {
            biased;
            cut = &mut door => return cut.unwrap_or_default(),
            () = view.0.leave() => {}
        }
        door.await.unwrap_or_default()
    }
}

impl View {
    /// A copy of its state for people.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let Behind { name, listen, resolver, tally, spoken } = &*self.0;
        let protocol = match spoken {
            Spoken::Http(_) => "http",
            Spoken::Tcp(_) => "tcp",
        };
        Snapshot::new(name, protocol, *listen, spoken.behind(), &resolver.resolution(), tally)
    }

    /// Its pools and sets.
    pub(crate) fn objects(&self) -> Vec<Id> {
        self.0.spoken.behind().1
    }

    /// Whether both are of the same.
    pub(crate) fn is(&self, other: &View) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Finds out who serves a service, from now on.
fn resolver(service: &Service) -> Result<Resolver, Failure> {
    Resolver::start_as(&service.name, resolve(service)?).map_err(|error| refused(service, &error))
}

/// The resolver of a service, yet to be started.
pub(crate) fn resolve(service: &Service) -> Result<AnyResolver, Failure> {
    service.backends.resolver(service.recovery.policy()).map_err(|error| refused(service, &error))
}

/// An option that the library refuses.
fn refused(service: &Service, error: &dyn Error) -> Failure {
    Failure::Input(format!("service {}: {}", service.name, with_causes(error)))
}
