//! HTTP/1 driven by whoever asks: bodies of every kind, what comes back to the pool and what does not, and cancelling.

use carom::agent::{Agent, Body, Origin, OriginOptions, Served, Step, Upgraded};
use carom::pool::Phase;
use http::{Method, Request};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A server that reads a request's head and then does what the script says with the connection, which it is given back if
/// it is to be used again.
async fn serve<F, Fut>(script: F) -> (SocketAddr, Arc<AtomicUsize>)
where
    F: Fn(TcpStream, String) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Option<TcpStream>> + Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (script, accepted) = (Arc::new(script), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&accepted);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::Relaxed);
            let script = Arc::clone(&script);
            tokio::spawn(async move {
                let mut socket = Some(socket);
                while let Some(mut open) = socket.take() {
                    let Some(head) = head(&mut open).await else { return };
                    socket = script(open, head).await;
                }
            });
        }
    });
    (address, accepted)
}

async fn head(socket: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.ok()?);
    }
    String::from_utf8(head).ok()
}

/// The same bytes to everybody.
async fn always(bytes: &'static str) -> (SocketAddr, Arc<AtomicUsize>) {
    serve(move |mut socket, _| async move {
        socket.write_all(bytes.as_bytes()).await.ok()?;
        Some(socket)
    })
    .await
}

/// An origin with one connection at most, made when it is needed.
fn single(address: SocketAddr) -> (Agent, Origin) {
    let agent = Agent::builder().spares(0).maximum(1).claim_timeout(Duration::from_secs(5)).build().unwrap();
    let origin = agent.create_pool(format!("http://{address}"), OriginOptions::default()).unwrap();
    (agent, origin)
}

fn busy(origin: &Origin) -> usize {
    origin.snapshot().pool.unwrap().pool.counts.of(Phase::Busy)
}

async fn get(origin: &Origin) -> http::Response<Body> {
    origin.request(request(Method::GET)).await.unwrap()
}

fn request(method: Method) -> Request<Body> {
    Request::builder().method(method).uri("/x").body(Body::empty()).unwrap()
}

async fn read(response: http::Response<Body>) -> String {
    String::from_utf8(response.into_body().bytes(1 << 20).await.unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn a_body_that_came_with_its_head_gives_the_connection_back_before_it_is_read() {
    let (address, accepted) = always("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello").await;
    let (_agent, origin) = single(address);
    for turn in 0..10 {
        let response = get(&origin).await;
        let served = response.extensions().get::<Served>().unwrap().clone();
        assert_eq!((served.reused, served.attempts), (turn > 0, 1));
        assert_eq!(served.timings.connect.is_some(), turn == 0);
        assert_eq!(busy(&origin), 0, "at rest already");
        assert_eq!(read(response).await, "hello");
    }
    assert_eq!(accepted.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn bodies_in_pieces_are_read_to_their_end_and_the_connection_is_used_again() {
    let (address, accepted) = serve(|mut socket, _| async move {
        socket.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.ok()?;
        for piece in ["one", "two", "three"] {
            tokio::task::yield_now().await;
            socket.write_all(format!("{:x}\r\n{piece}\r\n", piece.len()).as_bytes()).await.ok()?;
        }
        socket.write_all(b"0\r\n\r\n").await.ok()?;
        Some(socket)
    })
    .await;
    let (_agent, origin) = single(address);
    for _ in 0..10 {
        assert_eq!(read(get(&origin).await).await, "onetwothree");
        assert_eq!(busy(&origin), 0);
    }
    assert_eq!(accepted.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn large_bodies_pass_in_both_directions() {
    let (address, accepted) = serve(|mut socket, head| async move {
        let length: usize = head.to_lowercase().split("content-length: ").nth(1)?.split('\r').next()?.parse().ok()?;
        let mut body = vec![0; length];
        socket.read_exact(&mut body).await.ok()?;
        socket.write_all(format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n").as_bytes()).await.ok()?;
        socket.write_all(&body).await.ok()?;
        Some(socket)
    })
    .await;
    let (_agent, origin) = single(address);
    let large: Vec<u8> = (0..3_000_000u32).map(|byte| byte as u8).collect();
    for _ in 0..3 {
        let request = Request::post("/").body(Body::from(large.clone())).unwrap();
        let response = origin.request(request).await.unwrap();
        assert_eq!(response.into_body().bytes(large.len()).await.unwrap(), large);
    }
    assert_eq!(accepted.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn answers_without_a_body_give_the_connection_back_at_once() {
    for (method, answer) in [
        (Method::HEAD, "HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n"),
        (Method::GET, "HTTP/1.1 204 No Content\r\n\r\n"),
        (Method::GET, "HTTP/1.1 304 Not Modified\r\ncontent-length: 12\r\n\r\n"),
        (Method::GET, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
        (
            Method::GET,
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
        ),
    ] {
        let (address, accepted) = always(answer).await;
        let (_agent, origin) = single(address);
        for _ in 0..3 {
            let response = origin.request(request(method.clone())).await.unwrap();
            assert_eq!(busy(&origin), 0, "{answer}");
            assert_eq!(read(response).await, "", "{answer}");
        }
        assert_eq!(accepted.load(Ordering::Relaxed), 1, "{answer}");
    }
}

#[tokio::test]
async fn connections_that_the_server_closes_are_not_used_again_and_nobody_is_blamed() {
    for answer in [
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nbehind",
    ] {
        let (address, accepted) = serve(move |mut socket, _| async move {
            socket.write_all(answer.as_bytes()).await.ok()?;
            None
        })
        .await;
        let (_agent, origin) = single(address);
        for turn in 1..=5 {
            let response = get(&origin).await;
            assert_eq!(response.extensions().get::<Served>().unwrap().attempts, 1, "{answer}");
            assert_eq!(read(response).await, "ok", "{answer}");
            assert_eq!(accepted.load(Ordering::Relaxed), turn, "{answer}");
        }
    }
}

#[tokio::test]
async fn a_body_dropped_early_costs_the_connection_and_no_more() {
    let (address, accepted) = always("HTTP/1.1 200 OK\r\ncontent-length: 50000\r\n\r\nonly the beginning").await;
    let (_agent, origin) = single(address);
    for turn in 1..=3 {
        let response = get(&origin).await;
        assert_eq!(busy(&origin), 1);
        drop(response);
        assert_eq!(busy(&origin), 0);
        assert_eq!(accepted.load(Ordering::Relaxed), turn);
    }
    assert!(origin.snapshot().pool.unwrap().cause.is_none());
}

#[tokio::test]
async fn what_is_no_answer_is_told_and_blamed() {
    for (answer, step) in [("garbage\r\n\r\n", Step::Receive), ("HTTP/1.1 200 OK\r\nhalf-a-he", Step::Receive)] {
        let (address, accepted) = serve(move |mut socket, _| async move {
            socket.write_all(answer.as_bytes()).await.ok()?;
            None
        })
        .await;
        let (_agent, origin) = single(address);
        let error = origin.request(request(Method::GET)).await.unwrap_err();
        assert_eq!((error.step(), error.attempts()), (step, 1), "{error}");
        assert_eq!(accepted.load(Ordering::Relaxed), 1, "{error}");
        assert!(error.to_string().contains(&address.to_string()), "{error}");
    }
}

#[tokio::test]
async fn an_answer_cut_short_is_told_while_it_is_read() {
    let (address, _) = serve(|mut socket, _| async move {
        socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhalf").await.ok()?;
        None
    })
    .await;
    let (_agent, origin) = single(address);
    let error = get(&origin).await.into_body().bytes(100).await.unwrap_err();
    assert_eq!(error.step(), Step::Receive, "{error}");
    assert_eq!(busy(&origin), 0);
}

#[tokio::test]
async fn a_connection_that_was_closed_in_the_meantime_is_met_by_no_safe_request() {
    // Each connection answers once, and is closed when the next request has arrived.
    let (address, accepted) = serve({
        let answered = Arc::new(AtomicUsize::new(0));
        move |mut socket, _| {
            let answered = Arc::clone(&answered);
            async move {
                if answered.fetch_add(1, Ordering::Relaxed) % 2 == 1 {
                    return None;
                }
                socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.ok()?;
                Some(socket)
            }
        }
    })
    .await;
    let (_agent, origin) = single(address);
    for turn in 0..5 {
        let response = get(&origin).await;
        assert_eq!(response.extensions().get::<Served>().unwrap().attempts, if turn == 0 { 1 } else { 2 });
        assert_eq!(read(response).await, "ok");
    }
    assert_eq!(accepted.load(Ordering::Relaxed), 5);
    let error = origin.request(request(Method::POST)).await.unwrap_err();
    assert_eq!((error.step(), error.attempts()), (Step::Receive, 1), "it may have been carried out");
}

#[tokio::test]
async fn a_connection_that_was_closed_at_rest_is_met_by_no_request_at_all() {
    let (address, accepted) = serve(|mut socket, _| async move {
        socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.ok()?;
        None
    })
    .await;
    let (_agent, origin) = single(address);
    for turn in 1..=20 {
        let response = origin.request(request(Method::POST)).await.unwrap();
        assert_eq!(read(response).await, "ok");
        assert!(accepted.load(Ordering::Relaxed) >= turn);
    }
}

#[tokio::test]
async fn an_upgraded_connection_is_a_stream_and_keeps_its_place() {
    let (address, _) = serve(|mut socket, _| async move {
        socket.write_all(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: echo\r\n\r\nwelcome").await.ok()?;
        let (mut read, mut write) = socket.split();
        tokio::io::copy(&mut read, &mut write).await.ok()?;
        None
    })
    .await;
    let (_agent, origin) = single(address);
    let request =
        Request::get("/").header("connection", "upgrade").header("upgrade", "echo").body(Body::empty()).unwrap();
    let mut response = origin.request(request).await.unwrap();
    assert_eq!(response.status(), 101);
    let mut stream = Upgraded::take(&mut response).unwrap();
    assert!(Upgraded::take(&mut response).is_none());
    let mut greeting = [0; 7];
    stream.read_exact(&mut greeting).await.unwrap();
    assert_eq!(&greeting, b"welcome");
    stream.write_all(b"hello").await.unwrap();
    let mut echo = [0; 5];
    stream.read_exact(&mut echo).await.unwrap();
    assert_eq!((&echo, busy(&origin)), (b"hello", 1));
    stream.shutdown().await.unwrap();
    assert_eq!(stream.read(&mut echo).await.unwrap(), 0, "half-closed, then closed");
    drop(stream);
    assert_eq!(busy(&origin), 0);
}

#[tokio::test]
async fn a_request_dropped_at_any_poll_leaves_the_counts_exact() {
    let (address, _) = serve(|mut socket, _| async move {
        for piece in ["HTTP/1.1 200 OK\r\n", "content-length: 6\r\n\r\n", "abc", "def"] {
            socket.write_all(piece.as_bytes()).await.ok()?;
            tokio::task::yield_now().await;
        }
        Some(socket)
    })
    .await;
    let agent = Agent::builder().spares(0).maximum(2).build().unwrap();
    let origin = agent.create_pool(format!("http://{address}"), OriginOptions::default()).unwrap();
    for polls in 0.. {
        let whole = async { read(get(&origin).await).await };
        let done = {
            let mut whole = pin!(whole);
            let mut left = polls;
            poll_fn(|cx| {
                if left == 0 {
                    return Poll::Ready(None);
                }
                left -= 1;
                whole.as_mut().poll(cx).map(Some)
            })
            .await
        };
        let snapshot = origin.snapshot().pool.unwrap().pool;
        assert_eq!((snapshot.counts.of(Phase::Busy), snapshot.waiting), (0, 0), "after {polls} polls");
        if let Some(body) = done {
            assert_eq!(body, "abcdef");
            break;
        }
    }
    assert!(agent.drain(std::time::Instant::now() + Duration::from_secs(5)).await.is_complete());
}

#[tokio::test]
async fn an_answer_that_begins_before_the_request_has_ended_is_read_whichever_way() {
    use http_body::Frame;
    use http_body_util::StreamBody;

    // Answers at once, then gives back every byte it gets, five in all.
    let (address, accepted) = serve(|mut socket, _| async move {
        socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n").await.ok()?;
        let mut bytes = [0; 5];
        for byte in &mut bytes {
            *byte = socket.read_u8().await.ok()?;
            socket.write_u8(*byte).await.ok()?;
        }
        Some(socket)
    })
    .await;
    let (_agent, origin) = single(address);
    for reads_first in [true, false, true, false] {
        let (feed, fed) = tokio::sync::mpsc::channel::<u8>(1);
        let body = StreamBody::new(Fed(fed));
        let request = Request::post("/").header("content-length", 5).body(body).unwrap();
        let response = origin.request(request).await.unwrap();
        let reading = async { response.into_body().bytes(5).await.unwrap() };
        let feeding = async {
            for byte in *b"hello" {
                feed.send(byte).await.unwrap();
            }
            drop(feed);
        };
        let read = if reads_first {
            tokio::join!(reading, feeding).0
        } else {
            feeding.await;
            reading.await
        };
        assert_eq!(read, "hello");
    }
    assert_eq!(accepted.load(Ordering::Relaxed), 1, "the connection came back each time");

    struct Fed(tokio::sync::mpsc::Receiver<u8>);
    impl futures_core::Stream for Fed {
        type Item = Result<Frame<bytes::Bytes>, std::io::Error>;
        fn poll_next(mut self: std::pin::Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Option<Self::Item>> {
            self.0.poll_recv(cx).map(|byte| Some(Ok(Frame::data(bytes::Bytes::copy_from_slice(&[byte?])))))
        }
    }
}
