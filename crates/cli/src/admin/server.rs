//! The server: lets clients in, a few at a time, and answers them until it is closed.

use super::answer::Answer;
use super::events::LONGEST_STREAM;
use super::paths::{Paths, Shown};
use super::places::{Guest, Places, Worth};
use super::taken::Taken;
use crate::config::Access;
use crate::entrance::Entrance;
use crate::failure::Failure;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::SockRef;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};

const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// However often it asks: a client that stays takes a place that others may need.
const LONGEST_STAY: Duration = Duration::from_secs(300);
/// For what it is in the middle of then; events end by themselves before that.
const LONGEST_ANSWER: Duration = LONGEST_STREAM.saturating_add(Duration::from_secs(60));
/// Who takes nothing of its answer for so long is let go: one that has gone to sleep would keep others from listening.
const LONGEST_STALL: Duration = Duration::from_secs(30);
/// Bytes that the system may hold for a client that does not take them.
const MOST_ON_ITS_WAY: usize = 64 << 10;
/// For the last words, when it ends.
const GOODBYE: Duration = Duration::from_secs(1);
const LONGEST_HEAD: usize = 16 << 10;
const MOST_HEADERS: usize = 64;

/// Answers whoever asks, until it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    access: watch::Sender<Access>,
    closing: watch::Sender<bool>,
    /// The one that lets clients in; theirs end with it.
    task: JoinSet<()>,
}

impl Server {
    /// Shows everything to those who may ask.
    pub(super) fn start(listener: TcpListener, access: Access, shown: Shown) -> Result<Server, Failure> {
        let program = shown.looking.board().program();
        Server::of(listener, access, |access| Paths::new(program, Some(shown), access))
    }

    /// Shows kang what a program of this name holds, to this machine alone; port 0 is one that the system chooses.
    pub(crate) fn kang(program: &str, port: u16) -> Result<Server, Failure> {
        let at = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
        let cannot_listen = |error| Failure::Unavailable(format!("cannot listen on {at} (--kang-port): {error}"));
        let listener = TcpListener::bind(at).map_err(cannot_listen)?;
        Server::of(listener, Access::default(), |access| Paths::new(program, None, access))
    }

    fn of(
        listener: TcpListener,
        access: Access,
        paths: impl FnOnce(watch::Receiver<Access>) -> Paths,
    ) -> Result<Server, Failure> {
        let of_no_use = |error| Failure::Unavailable(format!("the admin socket cannot be used: {error}"));
        listener.set_nonblocking(true).map_err(of_no_use)?;
        let listener = tokio::net::TcpListener::from_std(listener).map_err(of_no_use)?;
        let address = listener.local_addr().map_err(of_no_use)?;
        let (access, allowed) = watch::channel(access);
        let (closing, closed) = watch::channel(false);
        let mut task = JoinSet::new();
        task.spawn(accept(Entrance::new(listener, "admin"), Arc::new(paths(allowed)), closed));
        Ok(Server { address, access, closing, task })
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// These may ask from now on; who follows events comes again, and shows that it may. Whether they are others than before.
    pub(super) fn allow(&self, access: Access) -> bool {
        self.access.send_if_modified(|old| {
            let changed = *old != access;
            *old = access;
            changed
        })
    }

    /// Lets nobody in any more, and waits a moment for those who are answered.
    pub(super) async fn close(mut self) {
        self.closing.send_replace(true);
        let _ = timeout(GOODBYE, self.task.join_next()).await;
    }
}

async fn accept(mut entrance: Entrance, paths: Arc<Paths>, mut closed: watch::Receiver<bool>) {
    let (mut clients, mut places) = (JoinSet::new(), Places::default());
    loop {
        let told = closed.clone();
        tokio::select! {
            () = comes(&mut closed) => break,
            client = entrance.next() => {
                places.make_room();
                let guest = Arc::new(Guest::new());
                // What is on its way is no sign that anybody takes it.
                let _ = SockRef::from(&client).set_send_buffer_size(MOST_ON_ITS_WAY);
                let task = clients.spawn(serve(client, Arc::clone(&paths), Arc::clone(&guest), told));
                places.take(guest, task);
            }
            Some(left) = clients.join_next_with_id() => {
                places.leave(left.map_or_else(|error: JoinError| error.id(), |(task, ())| task));
            }
        }
    }
    drop(entrance);
    while clients.join_next().await.is_some() {}
}

/// Waits until it is to end.
async fn comes(closed: &mut watch::Receiver<bool>) {
    let _ = closed.wait_for(|closed| *closed).await;
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    paths: Arc<Paths>,
    guest: Arc<Guest>,
    mut closed: watch::Receiver<bool>,
) {
    let service = service_fn(|request: Request<Incoming>| {
        let (head, _) = request.into_parts();
        let answered = answer(Arc::clone(&paths), Arc::clone(&guest), Request::from_parts(head, ()));
        async { Ok::<_, Infallible>(answered.await.into_response()) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(LONGEST_HEAD)
        .max_headers(MOST_HEADERS)
        .serve_connection(TokioIo::new(Taken::new(stream, LONGEST_STALL)), service);
    let mut connection = pin!(connection);
    // Whatever a client did wrong is its own business.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = sleep(LONGEST_STAY) => {}
        () = comes(&mut closed) => {}
    }
    // What it is in the middle of is finished; if that is nothing, it ends now.
    connection.as_mut().graceful_shutdown();
    let _ = timeout(LONGEST_ANSWER, connection).await;
}

/// Not on a thread that clients of services need: of a program that holds much, it takes a while to tell all of it.
async fn answer(paths: Arc<Paths>, guest: Arc<Guest>, request: Request<()>) -> Answer {
    let answering = spawn_blocking(move || {
        let answer = paths.answer(&request);
        guest.asked(match (answer.is_stream(), paths.knows(&request)) {
            (true, _) => Worth::Listener,
            (false, true) => Worth::Known,
            (false, false) => Worth::Stranger,
        });
        answer
    });
    let failed = |_| Answer::error(StatusCode::INTERNAL_SERVER_ERROR, "it cannot be told");
    answering.await.unwrap_or_else(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_not_cut_short_by_the_end_of_a_stay() {
        // It holds less than an answer.
        let (mut client, server) = duplex(64);
        let (_access, allowed) = watch::channel(Access::default());
        let (_closing, closed) = watch::channel(false);
        let paths = Arc::new(Paths::new("carom test", None, allowed));
        let serving = tokio::spawn(serve(server, paths, Arc::new(Guest::new()), closed));
        client.write_all(b"GET /kang/snapshot HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let begun = Instant::now();
        let mut answer = String::new();
        while begun.elapsed() <= LONGEST_STAY {
            sleep(LONGEST_STALL / 2).await;
            answer.push(client.read_u8().await.unwrap().into());
        }
        client.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").expect("there is a head");
        let length = format!("content-length: {}\r\n", body.len());
        assert!(body.len() > 64 && head.contains(&length), "{answer}");
        serving.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_is_let_go() {
        let (mut client, server) = duplex(64);
        let (_access, allowed) = watch::channel(Access::default());
        let (_closing, closed) = watch::channel(false);
        let paths = Arc::new(Paths::new("carom test", None, allowed));
        let serving = tokio::spawn(serve(server, paths, Arc::new(Guest::new()), closed));
        client.write_all(b"GET /kang/snapshot HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let begun = Instant::now();
        serving.await.unwrap();
        assert!(begun.elapsed() >= LONGEST_STALL && begun.elapsed() < LONGEST_STAY, "{:?}", begun.elapsed());
    }
}
