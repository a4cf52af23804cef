//! The TCP connector on real sockets: bytes pass while the stream is watched, and every kind of end is noticed.

use crate::watch;
use carom::connect::{Connect, Liveness};
use carom::pool::Phase;
use carom::tcp::{Stream, Tcp};
use carom::{Backend, Pool};
use std::future::{Future, poll_fn};
use std::io::{ErrorKind, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use testkit::wait::{LIMIT, soon, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, split};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::yield_now;
use tokio::{join, spawn};

const MEBIBYTE: usize = 1 << 20;

// In a pool

/// A pool of one spare whose backends get no new spares for an hour after they have closed one in silence.
async fn pool_that_holds_off() -> (Pool<Tcp>, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let pool = Pool::builder(Tcp::default().server_first(true))
        .backends([listener.local_addr().unwrap()])
        .spares(1)
        .replace_unused_after(Duration::from_secs(3600))
        .build()
        .unwrap();
    (pool, listener)
}

#[tokio::test]
async fn spare_that_its_backend_greeted_and_closed_is_replaced_at_once() {
    let (pool, listener) = pool_that_holds_off().await;
    let (mut greeted, _) = soon(listener.accept()).await.unwrap();
    greeted.write_all(b"welcome").await.unwrap();
    until("the spare is there", || pool.snapshot().pool.counts.of(Phase::Idle) == 1).await;
    drop(greeted);
    soon(listener.accept()).await.unwrap();
}

#[tokio::test]
async fn spare_that_its_backend_closes_right_after_the_greeting_is_replaced_after_the_delay() {
    let (pool, listener) = pool_that_holds_off().await;
    for _ in 0..3 {
        let (mut greeted, _) = soon(listener.accept()).await.unwrap();
        greeted.write_all(b"welcome").await.unwrap();
        drop(greeted);
    }
    drop(pool);
}

// With an answer still to come

#[tokio::test]
async fn answer_that_comes_late_reaches_no_other_user() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let pool =
        Pool::builder(Tcp::default()).backends([listener.local_addr().unwrap()]).spares(1).maximum(1).build().unwrap();
    let mut first = soon(pool.claim()).await.unwrap();
    let (mut peer, _) = soon(listener.accept()).await.unwrap();
    {
        // Cut short by its caller, as a timeout does.
        let request = async {
            first.write_all(b"1").await.unwrap();
            first.read_u8().await.unwrap()
        };
        assert!(poll_once(pin!(request)).await.is_pending());
    }
    assert_eq!(soon(peer.read_u8()).await.unwrap(), b'1');
    drop(first);
    let mut second = soon(pool.claim()).await.unwrap();
    assert_eq!(second.uses(), 1, "on a connection of its own");
    let _ = peer.write_all(b"1").await;
    second.write_all(b"2").await.unwrap();
    let (mut peer, _) = soon(listener.accept()).await.unwrap();
    assert_eq!(soon(peer.read_u8()).await.unwrap(), b'2');
    peer.write_all(b"2").await.unwrap();
    assert_eq!(soon(second.read_u8()).await.unwrap(), b'2');
    drop(second);

    let again = soon(pool.claim()).await.unwrap();
    assert_eq!(again.uses(), 2, "a connection whose answer was read goes back");
    let snapshot = pool.snapshot();
    assert!(snapshot.cause.is_none(), "the backend is not blamed: {:?}", snapshot.cause);
}

#[tokio::test]
async fn connection_is_unanswered_from_the_first_byte_written_to_the_first_byte_read() {
    for server_first in [false, true] {
        let tcp = Tcp::default().server_first(server_first);
        let careless = tcp.clone().reuse_without_answer(true);
        let (mut stream, mut peer) = pair(&tcp).await;
        assert_eq!(stream.write(&[]).await.unwrap(), 0);
        stream.flush().await.unwrap();
        assert!(matches!(tcp.liveness(&mut stream), Liveness::Open), "nothing was written");
        for vectored in [false, true] {
            match vectored {
                false => stream.write_all(b"ab").await.unwrap(),
                true => assert_eq!(stream.write_vectored(&[IoSlice::new(b"a"), IoSlice::new(b"b")]).await.unwrap(), 2),
            }
            stream.flush().await.unwrap();
            assert!(poll_once(pin!(stream.read(&mut [0]))).await.is_pending());
            assert!(matches!(tcp.liveness(&mut stream), Liveness::Unanswered));
            assert!(!tcp.liveness(&mut stream).is_usable());
            assert!(matches!(careless.liveness(&mut stream), Liveness::Open));
            let watcher = watch(&tcp, &stream);
            stream = stream.into_inner().expect_err("it is watched");
            assert!(matches!(tcp.liveness(&mut stream), Liveness::Unanswered));
            let mut request = [0; 2];
            soon(peer.read_exact(&mut request)).await.unwrap();
            peer.write_all(b"answer").await.unwrap();
            // Read while it is watched, and while it is not.
            let watcher = vectored.then_some(watcher);
            soon(stream.read_exact(&mut [0; 6])).await.unwrap();
            assert!(matches!(tcp.liveness(&mut stream), Liveness::Open));
            drop(watcher);
        }
    }
}

#[tokio::test]
async fn end_and_reset_are_told_before_an_answer_still_to_come() {
    for is_reset in [false, true] {
        let tcp = Tcp::default();
        let (mut stream, mut peer) = pair(&tcp).await;
        stream.write_all(b"request").await.unwrap();
        soon(peer.read_exact(&mut [0; 7])).await.unwrap();
        let watcher = watch(&tcp, &stream);
        match is_reset {
            false => drop(peer),
            true => reset(peer),
        }
        soon(watcher).await;
        let liveness = tcp.liveness(&mut stream);
        assert_eq!(matches!(liveness, Liveness::Broken(_)), is_reset, "{liveness:?}");
        assert_eq!(matches!(liveness, Liveness::Closed), !is_reset, "{liveness:?}");
    }
}

#[tokio::test]
async fn connection_goes_back_without_an_answer_if_nothing_was_written_or_none_is_expected() {
    for (writes, reuse, goes_back) in [(false, false, true), (true, false, false), (true, true, true)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let pool = Pool::builder(Tcp::default().reuse_without_answer(reuse))
            .backends([listener.local_addr().unwrap()])
            .spares(1)
            .maximum(1)
            .build()
            .unwrap();
        let mut claim = soon(pool.claim()).await.unwrap();
        if writes {
            claim.write_all(b"a metric").await.unwrap();
        }
        drop(claim);
        assert_eq!(soon(pool.claim()).await.unwrap().uses(), if goes_back { 2 } else { 1 });
    }
}

#[tokio::test]
async fn failed_use_without_an_answer_does_not_make_other_connections_suspect() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let pool = Pool::builder(Tcp::default()).backends([listener.local_addr().unwrap()]).spares(2).maximum(2);
    let pool = pool.build().unwrap();
    until("both are there", || pool.snapshot().pool.counts.of(Phase::Idle) == 2).await;
    let mut claim = soon(pool.claim()).await.unwrap();
    claim.write_all(b"request").await.unwrap();
    claim.fail("timed out");
    assert_eq!(pool.snapshot().pool.counts.suspects(), 0);
}

/// Announces itself when it has connected, and gets no answer to that.
struct Announces(Tcp);

impl Connect for Announces {
    type Connection = Stream;
    type Error = std::io::Error;

    async fn connect(&self, backend: &Backend) -> std::io::Result<Stream> {
        let mut stream = self.0.connect(backend).await?;
        stream.write_all(b"client 7").await?;
        Ok(stream)
    }

    fn liveness(&self, stream: &mut Stream) -> Liveness {
        self.0.liveness(stream)
    }
}

#[tokio::test]
async fn connection_that_its_connector_has_written_on_is_lent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let pool = Pool::builder(Announces(Tcp::default())).backends([listener.local_addr().unwrap()]).spares(1).maximum(1);
    let pool = pool.build().unwrap();
    until("the spare is there", || pool.snapshot().pool.counts.of(Phase::Idle) == 1).await;
    let mut claim = soon(pool.claim()).await.unwrap();
    let (mut peer, _) = soon(listener.accept()).await.unwrap();
    peer.write_all(b"!").await.unwrap();
    assert_eq!(soon(claim.read_u8()).await.unwrap(), b'!');
    drop(claim);
    assert_eq!(soon(pool.claim()).await.unwrap().uses(), 2);
}

// Reading and writing

#[tokio::test]
async fn a_mebibyte_goes_round_on_a_stream_nobody_watches() {
    let (stream, peer) = pair(&Tcp::default()).await;
    goes_round(stream, peer).await;
}

#[tokio::test]
async fn a_mebibyte_goes_round_while_the_stream_is_watched() {
    let tcp = Tcp::default().server_first(true);
    let (stream, peer) = pair(&tcp).await;
    let never_polled = watch(&tcp, &stream);
    let watcher = spawn(watch(&tcp, &stream));
    let stream = goes_round(stream, peer).await;
    assert!(stream.into_inner().is_err(), "it is watched to the end");
    soon(watcher).await.unwrap();
    drop(never_polled);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mebibyte_goes_round_while_watchers_come_and_go_on_other_threads() {
    let tcp = Tcp::default();
    let (stream, peer) = pair(&tcp).await;
    // Each ends at the first bytes that it sees unread, or is dropped half way: neither may cost the reader a wake-up.
    let watchers: Vec<_> = (0..64).map(|_| spawn(watch(&tcp, &stream))).collect();
    watchers.iter().step_by(2).for_each(|watcher| watcher.abort());
    goes_round(stream, peer).await;
    for watcher in watchers {
        let _ = soon(watcher).await;
    }
}

#[tokio::test]
async fn writing_waits_for_room() {
    let (mut stream, mut peer) = pair(&Tcp::default()).await;
    let sent = vec![7; 64 * MEBIBYTE];
    let mut writing = pin!(stream.write_all(&sent));
    assert!(poll_once(writing.as_mut()).await.is_pending(), "more than the buffers of both sides hold");

    let mut received = vec![0; sent.len()];
    let (written, read) = soon(async { join!(writing, peer.read_exact(&mut received)) }).await;
    written.unwrap();
    read.unwrap();
    assert!(sent == received);
}

#[tokio::test]
async fn vectored_writes_go_out_as_one() {
    let (mut stream, mut peer) = pair(&Tcp::default()).await;
    assert!(tokio::io::AsyncWrite::is_write_vectored(&stream));
    assert_eq!(soon(stream.write_vectored(&[IoSlice::new(b"two "), IoSlice::new(b"parts")])).await.unwrap(), 9);
    let mut received = [0; 9];
    soon(peer.read_exact(&mut received)).await.unwrap();
    assert_eq!(&received, b"two parts");
}

#[tokio::test]
async fn half_close_is_seen_by_the_peer_which_can_still_send() {
    for watched in [false, true] {
        let tcp = Tcp::default();
        let (mut stream, mut peer) = pair(&tcp).await;
        let watcher = watched.then(|| watch(&tcp, &stream));

        stream.write_all(b"last words").await.unwrap();
        soon(stream.shutdown()).await.unwrap();
        let mut received = String::new();
        soon(peer.read_to_string(&mut received)).await.unwrap();
        assert_eq!(received, "last words");
        assert_eq!(stream.write_all(b"more").await.unwrap_err().kind(), ErrorKind::BrokenPipe);

        peer.write_all(b"still here").await.unwrap();
        drop(peer);
        let mut received = String::new();
        soon(stream.read_to_string(&mut received)).await.unwrap();
        assert_eq!(received, "still here");
        drop(watcher);
    }
}

#[tokio::test]
async fn a_stream_whose_user_ended_sending_is_of_no_use_to_others() {
    let tcp = Tcp::default();
    let (mut stream, _peer) = pair(&tcp).await;
    assert!(tcp.liveness(&mut stream).is_usable());
    stream.shutdown().await.unwrap();
    assert!(!tcp.liveness(&mut stream).is_usable());
}

#[tokio::test]
async fn shutting_down_a_reset_stream_is_no_error() {
    let tcp = Tcp::default();
    let (mut stream, peer) = pair(&tcp).await;
    reset(peer);
    soon(watch(&tcp, &stream)).await;
    stream.shutdown().await.unwrap();
}

// Noticing the end

#[tokio::test]
async fn the_end_of_file_ends_it() {
    for tcp in [Tcp::default(), Tcp::default().server_first(true)] {
        let (mut stream, peer) = pair(&tcp).await;
        let mut watcher = pin!(watch(&tcp, &stream));
        assert!(poll_once(watcher.as_mut()).await.is_pending());
        assert!(tcp.liveness(&mut stream).is_usable());
        drop(peer);
        soon(watcher).await;
        assert!(!tcp.liveness(&mut stream).is_usable());
        soon(watch(&tcp, &stream)).await;
    }
}

#[tokio::test]
async fn a_watch_sees_the_end_of_a_stream_that_somebody_else_has() {
    let tcp = Tcp::default();
    let (stream, mut peer) = pair(&tcp).await;
    let watch = tcp.watch(&stream);
    let reading = spawn(async move {
        let (mut stream, mut all) = (stream, Vec::new());
        stream.read_to_end(&mut all).await.map(|_| (all, stream))
    });
    assert!(watch.is_open());
    peer.write_all(b"hello").await.unwrap();
    drop(peer);
    let (read, _stream) = soon(reading).await.unwrap().unwrap();
    assert_eq!(read, b"hello");
    soon(watch.closed()).await;
    assert!(!watch.is_open());
}

#[tokio::test]
async fn a_reset_ends_it() {
    for tcp in [Tcp::default(), Tcp::default().server_first(true)] {
        let (mut stream, peer) = pair(&tcp).await;
        let mut watcher = pin!(watch(&tcp, &stream));
        assert!(poll_once(watcher.as_mut()).await.is_pending());
        assert!(tcp.liveness(&mut stream).is_usable());
        reset(peer);
        soon(watcher).await;
        assert!(!tcp.liveness(&mut stream).is_usable());
        soon(watch(&tcp, &stream)).await;
    }
}

#[tokio::test]
async fn unexpected_bytes_end_it_and_stay_unread() {
    let tcp = Tcp::default();
    let (mut stream, mut peer) = pair(&tcp).await;
    let mut watcher = pin!(watch(&tcp, &stream));
    assert!(poll_once(watcher.as_mut()).await.is_pending());
    peer.write_all(b"late").await.unwrap();
    soon(watcher).await;
    assert!(!tcp.liveness(&mut stream).is_usable());

    let mut received = [0; 4];
    soon(stream.read_exact(&mut received)).await.unwrap();
    assert_eq!(&received, b"late");
    assert!(tcp.liveness(&mut stream).is_usable(), "nothing waits any more");
}

#[tokio::test]
async fn a_server_that_may_speak_first_ends_only_at_the_end() {
    let tcp = Tcp::default().server_first(true);
    let (mut stream, mut peer) = pair(&tcp).await;
    let mut watcher = pin!(watch(&tcp, &stream));
    peer.write_all(b"welcome").await.unwrap();
    soon(stream.get_ref().readable()).await.unwrap();
    assert!(poll_once(watcher.as_mut()).await.is_pending());
    assert!(tcp.liveness(&mut stream).is_usable());

    drop(peer);
    soon(watcher).await;
    assert!(!tcp.liveness(&mut stream).is_usable(), "the end behind the bytes was seen");
    let mut received = String::new();
    soon(stream.read_to_string(&mut received)).await.unwrap();
    assert_eq!(received, "welcome");
}

#[tokio::test]
async fn a_server_that_may_speak_first_ends_at_a_reset_behind_its_bytes() {
    let tcp = Tcp::default().server_first(true);
    let (mut stream, mut peer) = pair(&tcp).await;
    let mut watcher = pin!(watch(&tcp, &stream));
    peer.write_all(b"welcome").await.unwrap();
    soon(stream.get_ref().readable()).await.unwrap();
    assert!(poll_once(watcher.as_mut()).await.is_pending());
    reset(peer);
    soon(watcher).await;
    assert!(!tcp.liveness(&mut stream).is_usable());
}

#[tokio::test]
async fn a_watcher_that_saw_bytes_notices_the_end_after_they_were_read() {
    let tcp = Tcp::default().server_first(true);
    let (mut stream, mut peer) = pair(&tcp).await;
    let mut watcher = pin!(watch(&tcp, &stream));
    peer.write_all(b"welcome").await.unwrap();
    soon(stream.get_ref().readable()).await.unwrap();
    assert!(poll_once(watcher.as_mut()).await.is_pending());
    let mut received = [0; 7];
    soon(stream.read_exact(&mut received)).await.unwrap();
    assert!(tcp.liveness(&mut stream).is_usable());
    drop(peer);
    soon(watcher).await;
    assert!(!tcp.liveness(&mut stream).is_usable());
}

#[tokio::test]
async fn waiting_bytes_do_not_make_a_watcher_spin() {
    let tcp = Tcp::default().server_first(true);
    let (stream, mut peer) = pair(&tcp).await;
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut watcher = pin!(watch(&tcp, &stream));
    assert!(watcher.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert_eq!(wakes.count(), 0);

    peer.write_all(b"welcome").await.unwrap();
    soon(stream.get_ref().readable()).await.unwrap();
    assert!(watcher.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let before = wakes.count();

    // Round trips elsewhere make the driver look at every socket again and again. A watcher that looks at its own once a second
    // is woken in few of them.
    let (mut elsewhere, mut far) = pair(&Tcp::default()).await;
    for _ in 0..100 {
        elsewhere.write_all(b"x").await.unwrap();
        far.read_u8().await.unwrap();
        yield_now().await;
        assert!(watcher.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    assert!(wakes.count() - before < 50, "{} wake-ups", wakes.count() - before);
}

/// A use that must not be repeated asks the system; everything else is answered from what the runtime has heard of.
#[test]
fn liveness_asks_the_driver_and_a_watch_the_system() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let tcp = Tcp::default();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let backend = Backend::fixed(listener.local_addr().unwrap());
    let mut stream = runtime.block_on(tcp.connect(&backend)).unwrap();
    let (peer, _) = listener.accept().unwrap();
    assert!(tcp.liveness(&mut stream).is_usable());

    // From here on the runtime is not entered, so its driver learns of nothing.
    drop(peer);
    let started = Instant::now();
    while tcp.watch(&stream).is_open() {
        assert!(started.elapsed() < LIMIT, "the end is never seen");
        std::thread::yield_now();
    }
    assert!(tcp.liveness(&mut stream).is_usable());
    runtime.block_on(watch(&tcp, &stream));
    assert!(matches!(tcp.liveness(&mut stream), Liveness::Closed));
}

#[tokio::test]
async fn a_reset_is_told_from_an_end_by_liveness_and_by_a_watcher() {
    for (is_reset, is_read) in [(false, false), (false, true), (true, false), (true, true)] {
        let tcp = Tcp::default();
        let (mut stream, peer) = pair(&tcp).await;
        if is_reset {
            reset(peer)
        } else {
            drop(peer)
        }
        if is_read {
            // The error of a reset is reported once: to the user.
            assert_eq!(soon(stream.read(&mut [0])).await.is_err(), is_reset);
        }
        let seen = [soon(watch(&tcp, &stream)).await, tcp.liveness(&mut stream)];
        for liveness in seen {
            assert_eq!(matches!(liveness, Liveness::Broken(_)), is_reset, "{liveness:?} after {is_reset} {is_read}");
        }
    }
}

// Living with watchers

#[tokio::test]
async fn a_watcher_outlives_the_borrow_and_the_connector() {
    fn outlives<F: Future<Output = Liveness> + Send + 'static>(watcher: F) -> F {
        watcher
    }
    let (stream, peer, watcher) = {
        let tcp = Tcp::default();
        let (stream, peer) = pair(&tcp).await;
        let watcher = outlives(watch(&tcp, &stream));
        (stream, peer, watcher)
    };
    let mut moved = stream;
    moved.write_all(b"moved").await.unwrap();
    let watcher = spawn(watcher);
    drop(peer);
    soon(watcher).await.unwrap();
}

#[tokio::test]
async fn dropping_a_watcher_leaves_the_stream_usable() {
    let tcp = Tcp::default().reuse_without_answer(true);
    let (mut stream, mut peer) = pair(&tcp).await;
    for _ in 0..3 {
        let mut watcher = Box::pin(watch(&tcp, &stream));
        assert!(poll_once(watcher.as_mut()).await.is_pending());
        drop(watcher);

        let mut received = [0; 4];
        let (sent, read) = soon(async { join!(peer.write_all(b"ping"), stream.read_exact(&mut received)) }).await;
        sent.unwrap();
        read.unwrap();
        stream.write_all(&received).await.unwrap();
        soon(peer.read_exact(&mut received)).await.unwrap();
        assert_eq!(&received, b"ping");
        assert!(tcp.liveness(&mut stream).is_usable());
    }
}

#[tokio::test]
async fn the_socket_is_given_up_once_nobody_watches() {
    let tcp = Tcp::default();
    let (stream, mut peer) = pair(&tcp).await;
    let watcher = watch(&tcp, &stream);
    let stream = stream.into_inner().expect_err("it is watched");
    drop(watcher);
    let mut socket = stream.into_inner().expect("nobody watches");
    socket.write_all(b"x").await.unwrap();
    assert_eq!(soon(peer.read_u8()).await.unwrap(), b'x');
}

#[tokio::test]
async fn closing_reaches_the_peer_even_while_a_watcher_lives() {
    let tcp = Tcp::default();
    let (stream, mut peer) = pair(&tcp).await;
    let watcher = watch(&tcp, &stream);
    soon(tcp.close(stream)).await;
    assert_eq!(soon(peer.read(&mut [0])).await.unwrap(), 0);
    drop(peer);
    soon(watcher).await;
}

// Connecting

#[tokio::test]
async fn a_stream_knows_both_addresses() {
    let (stream, peer) = pair(&Tcp::default()).await;
    assert_eq!(stream.peer_addr().unwrap(), peer.local_addr().unwrap());
    assert_eq!(stream.local_addr().unwrap(), peer.peer_addr().unwrap());
    stream.set_nodelay(false).unwrap();
    assert!(!stream.get_ref().nodelay().unwrap());
}

#[tokio::test]
async fn a_refused_connect_is_an_error() {
    // Bound and not listening: nobody else can take the port meanwhile.
    let reserved = TcpSocket::new_v4().unwrap();
    reserved.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let backend = Backend::fixed(reserved.local_addr().unwrap());
    let error = soon(Tcp::default().connect(&backend)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

async fn pair(tcp: &Tcp) -> (Stream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let backend = Backend::fixed(listener.local_addr().unwrap());
    let (stream, accepted) = soon(async { join!(tcp.connect(&backend), listener.accept()) }).await;
    (stream.unwrap(), accepted.unwrap().0)
}

fn reset(peer: TcpStream) {
    peer.set_zero_linger().unwrap();
    drop(peer);
}

/// Sends a mebibyte to a peer that echoes it, reads it back meanwhile, and returns the stream with its peer gone.
async fn goes_round(stream: Stream, peer: TcpStream) -> Stream {
    let echo = spawn(async move {
        let (mut read, mut write) = peer.into_split();
        copy(&mut read, &mut write).await
    });
    let sent: Vec<u8> = (0..MEBIBYTE).map(|position| (position * 31 % 251) as u8).collect();
    let mut received = Vec::new();
    let (mut read, mut write) = split(stream);
    let (written, all) = soon(async {
        join!(
            async {
                write.write_all(&sent).await?;
                write.shutdown().await
            },
            read.read_to_end(&mut received)
        )
    })
    .await;
    written.unwrap();
    assert_eq!(all.unwrap(), MEBIBYTE);
    assert!(sent == received);
    soon(echo).await.unwrap().unwrap();
    read.unsplit(write)
}

async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wakes {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}
