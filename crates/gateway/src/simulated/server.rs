//! The server: lets connections in, or says why not, and makes the market move.

use super::connection;
use super::token::Token;
use super::world::{Admitted, Line, Order, QUEUE, Shared};
use crate::upstream::now;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_tungstenite::accept_hdr_async_with_config;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::http::header::AUTHORIZATION;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// How many sockets there may be that have not shaken hands.
const STRANGERS: usize = 64;

/// Room for one symbol of a request, however it is escaped.
const PER_SYMBOL: usize = 1024;

/// Everything the exchange does, until it is dropped.
pub(super) async fn run(shared: Arc<Shared>, listener: TcpListener) {
    tokio::join!(accept(&shared, listener), trade(&shared), kill(&shared));
}

async fn accept(shared: &Arc<Shared>, listener: TcpListener) {
    let mut served = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) if served.len() < shared.options.max_connections + STRANGERS => {
                    served.spawn(serve(Arc::clone(shared), socket));
                }
                Ok((socket, _)) => drop(socket),
                // Out of file descriptors, most likely: some may come free.
                Err(_) => sleep(Duration::from_millis(100)).await,
            },
            Some(_) = served.join_next() => {}
        }
    }
}

async fn serve(shared: Arc<Shared>, socket: TcpStream) {
    // Ticks are gathered already: nothing is to wait for more.
    let _ = socket.set_nodelay(true);
    let longest = shared.options.max_batch * PER_SYMBOL + PER_SYMBOL;
    let config = WebSocketConfig::default()
        .read_buffer_size(16 * 1024)
        .write_buffer_size(64 * 1024)
        .max_message_size(Some(longest))
        .max_frame_size(Some(longest));
    let (frames, waiting) = mpsc::channel(QUEUE);
    let (orders, ordered) = watch::channel(Order::Serve);
    let mut admitted = None;
    // The library's type; it is made once for each connection.
    #[allow(clippy::result_large_err)]
    let admit = |request: &Request, response: Response| {
        let presented = presented(request);
        admitted = Some(admit(&shared, Line { presented, frames, orders })?);
        Ok(response)
    };
    let upgraded = timeout(HANDSHAKE, accept_hdr_async_with_config(socket, admit, Some(config))).await;
    if let (Ok(Ok(socket)), Some(admitted)) = (upgraded, admitted) {
        connection::run(admitted, socket, waiting, ordered).await;
    }
}

fn presented(request: &Request) -> Option<Token> {
    Some(Token::new(request.headers().get(AUTHORIZATION)?.as_bytes().strip_prefix(b"Bearer ")?))
}

/// A place for a connection, or why there is none.
#[allow(clippy::result_large_err, reason = "the library's type")]
fn admit(shared: &Arc<Shared>, line: Line) -> Result<Admitted, ErrorResponse> {
    let most = shared.options.max_connections;
    let admitted = shared.change(|world| {
        let known = world.token.is_none() || world.token == line.presented;
        let problem = if world.refuse_connections {
            Some((StatusCode::SERVICE_UNAVAILABLE, "the exchange takes no connections now".to_owned()))
        } else if !known || world.refuse_credential {
            Some((StatusCode::UNAUTHORIZED, "the token is not valid".to_owned()))
        } else if world.floor.connections() >= most {
            Some((StatusCode::TOO_MANY_REQUESTS, format!("there are {most} connections, and no more are allowed")))
        } else {
            None
        };
        if let Some(problem) = problem {
            world.counts.turned_away += 1;
            return Err(problem);
        }
        world.counts.accepted += 1;
        let number = world.counts.accepted;
        world.floor.enter(number);
        world.lines.insert(number, line);
        world.counts.most_connections = world.counts.most_connections.max(world.floor.connections());
        Ok(number)
    });
    match admitted {
        Ok(number) => Ok(Admitted { shared: Arc::clone(shared), number }),
        Err((status, reason)) => {
            let mut response = ErrorResponse::new(Some(reason));
            *response.status_mut() = status;
            Err(response)
        }
    }
}

/// Lets the market move as fast as it is told to.
async fn trade(shared: &Shared) {
    let rate = shared.options.rate;
    if rate <= 0.0 {
        return;
    }
    let mut rounds = interval(Duration::from_secs_f64((1.0 / rate).clamp(0.01, 1.0)));
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut before, mut owed) = (Instant::now(), 0.0);
    loop {
        let round = rounds.tick().await;
        // A machine that had no time for a while makes up for a second of it, not for all.
        owed += rate * (round - before).as_secs_f64().min(1.0);
        before = round;
        let mut world = shared.lock();
        if world.floor.is_idle() {
            owed = 0.0;
        } else {
            world.trade(owed as u64, now());
            owed = owed.fract();
        }
    }
}

/// Cuts a connection every so often, if it is told to.
async fn kill(shared: &Shared) {
    let Some(every) = shared.options.kill_every else { return };
    loop {
        sleep(every).await;
        shared.order(Order::Cut, |world| world.any().into_iter().collect());
    }
}
