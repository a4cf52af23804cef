//! A connection that many requests share, from its first frames to its end.

use super::gate::{Gate, Pass, Shut};
use super::tasks::{Life, Tasks};
use super::upload::Upload;
use super::{Address, Connector, Line, Ping};
use crate::agent::dial::{DialError, Dialled, Made, Stream};
use crate::agent::stalls::Pulse;
use crate::clock;
use crate::seed::seed;
use carom_core::random::Random;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http2::{self, Builder, SendRequest};
use hyper_util::rt::TokioTimer;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Instant;
use tokio::task::AbortHandle;

type Driving = http2::Connection<Stream, Upload, Tasks>;

/// What became of a request; it comes back if it was not sent.
type Sent = Result<Response<Incoming>, TrySendError<Request<Upload>>>;

/// An HTTP/2 connection. Requests go through [`Connection::send`], each with a [`Pass`].
#[derive(Debug)]
pub(crate) struct Connection {
    sender: SendRequest<Upload>,
    gate: Arc<Gate>,
    tasks: Tasks,
    /// Takes requests and passes them on.
    intake: AbortHandle,
    address: Arc<Address>,
    line: Arc<Line>,
    pulse: Arc<Pulse>,
    made: Made,
    used: AtomicBool,
    responded: AtomicBool,
    blamed: AtomicBool,
    /// From when on it takes no new requests.
    old_at: Option<Instant>,
}

impl Connection {
    /// Greets the far side and waits for its greeting, which says how many requests it takes at a time.
    pub(super) async fn begin(dialled: Dialled, connector: &Connector) -> Result<Connection, DialError> {
        let tasks = Tasks::new();
        let mut builder = Builder::new(tasks.clone());
        // None until the far side has said how many: this is how it is noticed that it has.
        builder.timer(TokioTimer::new()).initial_max_send_streams(0);
        if let Some(Ping { interval, timeout }) = connector.ping {
            builder.keep_alive_interval(interval).keep_alive_timeout(timeout).keep_alive_while_idle(true);
        }
        let (made, pulse) = (dialled.made, Arc::clone(dialled.stream.pulse()));
        let aborting = Aborting(Some(tasks.clone()));
        let failed = |error| DialError::of_greeting(error, made.tls.is_some());
        let (sender, mut driving) = builder.handshake(dialled.stream).await.map_err(failed)?;
        if let Err(why) = greeted(&mut driving, &tasks).await {
            return Err(why.map_or(DialError::Ended, failed));
        }
        tasks.enter(Life::Serving);
        let gate = Arc::new(Gate::new(driving.current_max_send_streams()));
        let intake = Intake { driving: Some(driving), gate: Arc::clone(&gate) };
        let intake = tokio::spawn(intake.run()).abort_handle();
        aborting.disarm();
        let (address, line) = (Arc::clone(&connector.address), Arc::clone(&connector.line));
        let [used, responded, blamed] = [const { AtomicBool::new(false) }; 3];
        // Made together, they shall not all go together.
        let share = 1.0 - 0.2 * Random::new(seed()).fraction();
        let old_at = connector.max_lifetime.and_then(|most| clock::now().checked_add(most.mul_f64(share)));
        Ok(Connection { sender, gate, tasks, intake, address, line, pulse, made, used, responded, blamed, old_at })
    }

    /// Sends a request and waits for the head of its response.
    pub(super) fn send(&self, request: Request<Upload>) -> impl Future<Output = Sent> + Send + use<> {
        let mut sender = self.sender.clone();
        self.gate.enqueue(|| sender.try_send_request(request))
    }

    /// A pass at once, or `None` when as many requests are under way as the far side takes.
    pub(super) fn try_enter(&self) -> Result<Option<Pass>, Shut> {
        self.gate.try_enter()
    }

    /// Waits for a pass.
    pub(super) async fn enter(&self) -> Result<Pass, Shut> {
        self.gate.enter().await
    }

    /// How many requests the far side takes at a time, for the first who asks since that changed.
    pub(super) fn limit_news(&self) -> Option<usize> {
        self.gate.limit_news()
    }

    /// The signs of life of its backend.
    pub(super) fn pulse(&self) -> &Arc<Pulse> {
        &self.pulse
    }

    pub(super) fn line(&self) -> &Line {
        &self.line
    }

    /// Whether it is time for another.
    pub(super) fn is_old(&self) -> bool {
        self.old_at.is_some_and(|at| at <= clock::now())
    }

    /// Whether this is the first response on the connection.
    pub(super) fn is_first_response(&self) -> bool {
        // Later ones only read.
        !self.responded.load(Ordering::Relaxed) && !self.responded.swap(true, Ordering::Relaxed)
    }

    /// Whether this is the first to say that it broke: with one connection many requests fail, and that is one failure.
    pub(super) fn is_first_to_blame(&self) -> bool {
        !self.blamed.swap(true, Ordering::Relaxed)
    }

    pub(super) fn address(&self) -> &Arc<Address> {
        &self.address
    }

    /// How long it took to make it; `None` when it has had a request before. From now on it has.
    pub(crate) fn begin_use(&self) -> Option<Made> {
        (!self.used.swap(true, Ordering::Relaxed)).then_some(self.made)
    }

    pub(super) fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        self.tasks.ended()
    }

    /// Ends it for everybody. When nobody uses it the far side is told.
    pub(super) fn shut(&self) {
        self.gate.close();
        if self.gate.is_empty() {
            self.tasks.enter(Life::Leaving);
        } else {
            self.tasks.abort();
        }
        self.intake.abort();
    }
}

/// Waits for the far side's greeting; says why none came, if that is known.
async fn greeted(driving: &mut Driving, tasks: &Tasks) -> Result<(), Option<hyper::Error>> {
    let mut life = tasks.life();
    while driving.current_max_send_streams() == 0 {
        tokio::select! {
            biased;
            ended = &mut *driving => return Err(ended.err()),
            turned = life.changed() => if turned.is_err() || *life.borrow_and_update() == Life::Ended {
                // Why is for the other to say, who has been told by now.
                let why = poll_fn(|cx| Poll::Ready(Pin::new(&mut *driving).poll(cx))).await;
                return Err(match why {
                    Poll::Ready(Err(error)) => Some(error),
                    Poll::Ready(Ok(())) | Poll::Pending => None,
                });
            },
        }
    }
    Ok(())
}

/// Passes requests on. When it ends, nobody is let in any more.
struct Intake {
    driving: Option<Driving>,
    gate: Arc<Gate>,
}

impl Intake {
    /// Passes requests on until the far side takes no more, and keeps up with how many it takes at a time.
    async fn run(mut self) {
        let mut limit = self.driving.as_ref().map(Driving::current_max_send_streams);
        let ended = poll_fn(|cx| {
            let Some(driving) = &mut self.driving else { return Poll::Ready(Ok(())) };
            let polled = Pin::new(&mut *driving).poll(cx);
            let now = driving.current_max_send_streams();
            if limit.replace(now).is_some_and(|before| before != now) {
                self.gate.set_limit(now);
            }
            polled
        });
        if let Err(error) = ended.await {
            tracing::debug!(%error, "an HTTP/2 connection has ended");
        }
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        self.gate.close();
        self.gate.drop_queue(self.driving.take());
    }
}

/// Ends a connection that is not there yet, if nobody waits for it any more.
struct Aborting(Option<Tasks>);

impl Aborting {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for Aborting {
    fn drop(&mut self) {
        if let Some(tasks) = &self.0 {
            tasks.abort();
        }
    }
}
