//! Dialling: from a backend to a stream that HTTP can be spoken on, with what both sides agreed to speak.

mod aside;
mod error;
mod stream;

pub(crate) use error::{DialError, broke_tls};
pub(crate) use stream::Stream;

use super::stalls::Stalls;
use crate::connect::Connect;
use crate::tcp::{Tcp, Watch};
use crate::tls::{self, Tls};
use aside::Aside;
use carom_core::backend::Backend;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::Instant;

const HTTP1: &[u8] = b"http/1.1";
const HTTP2: &[u8] = b"h2";

/// A version of HTTP that a connection is used with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spoken {
    /// HTTP/1.1, or 1.0: one request at a time.
    Http1,
    /// HTTP/2: many requests at a time.
    Http2,
}

/// What the far side is offered, where it is asked (TLS, with ALPN), and what is taken for agreed elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// Just this one.
    Only(Spoken),
    /// Both, HTTP/2 preferred. Without TLS nobody is asked, and it is HTTP/1.
    Both,
}

/// Opens streams to the backends of one origin. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    tcp: Tcp,
    tls: Option<Tls>,
    offer: Offer,
    aside: Arc<Aside>,
    stalls: Arc<Stalls>,
}

/// A stream that was just dialled.
#[derive(Debug)]
pub(crate) struct Dialled {
    pub(crate) stream: Stream,
    pub(crate) spoken: Spoken,
    pub(crate) made: Made,
}

/// How long it took to make a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) tcp: Duration,
    pub(crate) tls: Option<Duration>,
}

impl Dialer {
    /// Dials without TLS; HTTP/1 unless something else is [offered](Dialer::offering).
    pub(crate) fn plain(tcp: Tcp) -> Dialer {
        let stalls = Stalls::new(true, false);
        Dialer { tcp, tls: None, offer: Offer::Only(Spoken::Http1), aside: Arc::default(), stalls }
    }

    /// Dials with TLS, over sockets as this connector has them, whatever protocols it was built to offer; HTTP/1 unless
    /// something else is [offered](Dialer::offering).
    pub(crate) fn tls(tls: Tls) -> Dialer {
        let dialer = Dialer { tls: Some(tls), ..Dialer::plain(Tcp::default()) };
        dialer.offering(Offer::Only(Spoken::Http1))
    }

    /// The same dialler, whose streams show when bytes arrive from a backend.
    pub(crate) fn reporting_to(self, stalls: &Arc<Stalls>) -> Dialer {
        Dialer { stalls: Arc::clone(stalls), ..self }
    }

    /// The same dialler with another offer; what one of them has [put aside](Dialer::put_aside) any of them takes.
    pub(crate) fn offering(&self, offer: Offer) -> Dialer {
        let names: &[&[u8]] = match offer {
            Offer::Only(Spoken::Http1) => &[HTTP1],
            Offer::Only(Spoken::Http2) => &[HTTP2],
            Offer::Both => &[HTTP2, HTTP1],
        };
        let tls = self.tls.as_ref().map(|tls| tls.offering(names.iter().copied()));
        Dialer { tls, offer, ..self.clone() }
    }

    /// Where its streams show when bytes arrive.
    pub(crate) fn stalls(&self) -> &Arc<Stalls> {
        &self.stalls
    }

    /// Whether the far side can be asked what it speaks.
    pub(crate) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// A stream to this backend: one that was put aside for it, or else a new one.
    ///
    /// Cancel safety: dropping the future closes the socket.
    pub(crate) async fn dial(&self, backend: &Backend) -> Result<Dialled, DialError> {
        if let Offer::Only(spoken) = self.offer
            && let Some(dialled) = self.aside.take(backend, spoken)
        {
            return Ok(dialled);
        }
        match &self.tls {
            None => self.dial_plain(backend).await,
            Some(tls) => self.dial_tls(backend, tls).await,
        }
    }

    /// Keeps a stream for whoever dials this backend next and wants what is spoken on it. Not for long: servers close
    /// connections on which nobody asks for anything.
    pub(crate) fn put_aside(&self, backend: &Backend, dialled: Dialled, runtime: &Handle) {
        self.aside.put(backend, dialled);
        runtime.spawn(Aside::tidy_later(Arc::downgrade(&self.aside)));
    }

    /// Closes what was put aside and is not wanted after all.
    pub(crate) fn clear_aside(&self) {
        self.aside.clear();
    }

    async fn dial_plain(&self, backend: &Backend) -> Result<Dialled, DialError> {
        let start = Instant::now();
        let socket = self.tcp.connect(backend).await.map_err(DialError::Connect)?;
        let spoken = match self.offer {
            Offer::Only(spoken) => spoken,
            Offer::Both => Spoken::Http1,
        };
        let made = Made { tcp: start.elapsed(), tls: None };
        Ok(Dialled { stream: Stream::plain(socket, &self.tcp, self.stalls.pulse(backend)), spoken, made })
    }

    async fn dial_tls(&self, backend: &Backend, tls: &Tls) -> Result<Dialled, DialError> {
        let start = Instant::now();
        let socket = tls.dial(backend).await.map_err(|error| DialError::of_tls(error, self.offer))?;
        let connected = Instant::now();
        let stream = tls.handshake(backend, socket).await.map_err(|error| DialError::of_tls(error, self.offer))?;
        let made = Made { tcp: connected - start, tls: Some(connected.elapsed()) };
        let spoken = self.agreed(&stream)?;
        Ok(Dialled { stream: Stream::tls(stream, tls, self.stalls.pulse(backend)), spoken, made })
    }

    /// What both sides agreed on. A server that does not know of such agreements speaks HTTP/1.
    fn agreed(&self, stream: &tls::Stream) -> Result<Spoken, DialError> {
        let chosen = stream.alpn_protocol();
        let spoken = match chosen {
            Some(HTTP2) => Some(Spoken::Http2),
            Some(HTTP1) | None => Some(Spoken::Http1),
            Some(_) => None,
        };
        match (spoken, self.offer) {
            (Some(spoken), Offer::Both) => Ok(spoken),
            (Some(spoken), Offer::Only(wanted)) if spoken == wanted => Ok(spoken),
            (Some(_) | None, Offer::Only(_) | Offer::Both) => {
                let chosen = chosen.map(|name| String::from_utf8_lossy(name).into_owned());
                Err(DialError::Protocol { offered: self.offer, chosen })
            }
        }
    }
}

impl Dialled {
    /// A watch over the stream's socket, to be kept when hyper owns the stream.
    pub(crate) fn watch(&self) -> Watch {
        self.stream.watch()
    }
}
