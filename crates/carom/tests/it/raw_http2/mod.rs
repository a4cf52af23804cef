//! Plain HTTP/2: origins that speak it, and a server that does to each request what the test says, frame by frame.

mod closing;

pub(crate) use closing::{Closes, ClosingServer};

use crate::agent::{API, soon};
use bytes::Bytes;
use carom::agent::{Body, Builder, Error, Origin, OriginOptions, Protocol};
use h2::server::{self, SendResponse};
use h2::{Reason, SendStream};
use http::{Request, Response};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

/// An origin that speaks HTTP/2 without having asked.
pub(crate) fn origin_of(builder: Builder, nodes: impl IntoIterator<Item = SocketAddr>) -> Origin {
    let agent = builder.protocol(Protocol::Http2).build().unwrap();
    let origin = agent.create_pool(API, OriginOptions::default().backends(nodes)).unwrap();
    // It lives for as long as the agent does.
    std::mem::forget(agent);
    origin
}

pub(crate) async fn head(origin: &Origin, request: Request<Body>) -> Result<Response<Body>, Error> {
    soon(origin.request(request)).await
}

pub(crate) fn leases(origin: &Origin) -> usize {
    origin.snapshot().set.expect("it speaks HTTP/2").leases
}

/// What is done with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// `200 done`.
    Answer,
    /// The same, and the server says that it takes no more on this connection.
    AnswerAndLeave,
    /// The head and `half`, and `done` when the test [allows](Raw::finish) it.
    Half,
    /// As [`Act::Half`], and the server says that it takes no more on this connection.
    HalfAndLeave,
    /// The stream is reset.
    Reset(Reason),
    /// The connection is ended with this, this request and all after it unread.
    Leave(Reason),
}

/// The server. Its drop stops it.
pub(crate) struct Raw {
    address: SocketAddr,
    counts: Arc<Counts>,
    finish: watch::Sender<bool>,
    task: AbortHandle,
}

#[derive(Default)]
struct Counts {
    accepted: AtomicUsize,
    requests: AtomicUsize,
    resets: AtomicUsize,
}

impl Raw {
    /// One that takes so many requests at a time on a connection, and asks what to do with each by its number, from 0.
    pub(crate) async fn start(at_a_time: u32, conduct: impl Fn(usize) -> Act + Send + Sync + 'static) -> Raw {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (counts, finish) = (Arc::<Counts>::default(), watch::Sender::new(false));
        let (counted, finishing, conduct) = (Arc::clone(&counts), finish.subscribe(), Arc::new(conduct));
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                counted.accepted.fetch_add(1, Ordering::Relaxed);
                let (counted, finishing, conduct) = (Arc::clone(&counted), finishing.clone(), Arc::clone(&conduct));
                connections.spawn(async move {
                    // However it ends, the client hears of it.
                    let _ = serve(socket, at_a_time, &counted, &finishing, &*conduct).await;
                });
            }
        });
        Raw { address, counts, finish, task: task.abort_handle() }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers that are half sent are sent to their end.
    pub(crate) fn finish(&self) {
        self.finish.send_replace(true);
    }

    pub(crate) fn accepted(&self) -> usize {
        self.counts.accepted.load(Ordering::Relaxed)
    }

    pub(crate) fn requests(&self) -> usize {
        self.counts.requests.load(Ordering::Relaxed)
    }

    /// Answers that the client did not want to the end.
    pub(crate) fn resets(&self) -> usize {
        self.counts.resets.load(Ordering::Relaxed)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    socket: TcpStream,
    at_a_time: u32,
    counts: &Arc<Counts>,
    finishing: &watch::Receiver<bool>,
    conduct: &(dyn Fn(usize) -> Act + Send + Sync),
) -> Result<(), h2::Error> {
    let mut connection = server::Builder::new().max_concurrent_streams(at_a_time).handshake::<_, Bytes>(socket).await?;
    let mut answers = JoinSet::new();
    while let Some(accepted) = connection.accept().await {
        let (_request, mut respond) = accepted?;
        let act = conduct(counts.requests.fetch_add(1, Ordering::Relaxed));
        match act {
            Act::Answer | Act::AnswerAndLeave => {
                begin(&mut respond)?.send_data(Bytes::from_static(b"done"), true)?;
            }
            Act::Half | Act::HalfAndLeave => {
                let stream = begin(&mut respond)?;
                answers.spawn(halves(stream, finishing.clone(), Arc::clone(counts)));
            }
            Act::Reset(reason) => respond.send_reset(reason),
            Act::Leave(reason) => connection.abrupt_shutdown(reason),
        }
        match act {
            Act::AnswerAndLeave | Act::HalfAndLeave => connection.graceful_shutdown(),
            Act::Answer | Act::Half | Act::Reset(_) | Act::Leave(_) => {}
        }
    }
    Ok(())
}

fn begin(respond: &mut SendResponse<Bytes>) -> Result<SendStream<Bytes>, h2::Error> {
    respond.send_response(Response::new(()), false)
}

async fn halves(mut stream: SendStream<Bytes>, mut finishing: watch::Receiver<bool>, counts: Arc<Counts>) {
    if stream.send_data(Bytes::from_static(b"half "), false).is_err() {
        return;
    }
    let reset = tokio::select! {
        _ = finishing.wait_for(|finish| *finish) => false,
        _ = poll_fn(|cx| stream.poll_reset(cx)) => true,
    };
    if reset {
        counts.resets.fetch_add(1, Ordering::Relaxed);
    } else {
        // The client may be gone.
        let _ = stream.send_data(Bytes::from_static(b"done"), true);
    }
}
