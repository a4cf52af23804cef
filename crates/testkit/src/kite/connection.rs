//! One connection to the ticker: who comes in, what is asked, what is said.

use super::world::{Order, World};
use crate::shared::Shared;
use futures_util::{SinkExt, StreamExt};
use std::future::pending;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval_at};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

pub(super) async fn run(socket: TcpStream, shared: Arc<Shared<World>>) {
    let mut entered = None;
    // The error is a whole response, as tungstenite has it.
    #[expect(clippy::result_large_err)]
    let door = |request: &Request, response: Response| match shared.change(|world| let_in(world, request)) {
        Ok(place) => {
            entered = Some(place);
            Ok(response)
        }
        Err((status, reason)) => {
            let mut response = ErrorResponse::new(Some(reason.to_owned()));
            *response.status_mut() = status;
            Err(response)
        }
    };
    let accepted = accept_hdr_async(socket, door).await;
    let Some((number, orders)) = entered else { return };
    if let Ok(socket) = accepted {
        serve(socket, number, orders, &shared).await;
    }
    shared.change(|world| world.leave(number));
}

type Place = (usize, mpsc::UnboundedReceiver<Order>);

fn let_in(world: &mut World, request: &Request) -> Result<Place, (StatusCode, &'static str)> {
    let query = request.uri().query().unwrap_or_default();
    let is = |name: &str, value: &str| query.split('&').any(|pair| pair == format!("{name}={value}"));
    let version = request.headers().get("X-Kite-Version").is_some_and(|version| version == "3");
    if !version || !is("api_key", &world.api_key) || !is("access_token", &world.access_token) {
        world.seen.refused += 1;
        return Err((StatusCode::FORBIDDEN, "incorrect api_key or access_token"));
    }
    if world.seen.connections.len() >= world.most_connections {
        world.seen.turned_away += 1;
        return Err((StatusCode::TOO_MANY_REQUESTS, "too many connections"));
    }
    Ok(world.enter())
}

async fn serve(
    mut socket: WebSocketStream<TcpStream>,
    number: usize,
    mut orders: mpsc::UnboundedReceiver<Order>,
    shared: &Shared<World>,
) {
    let every = shared.lock().beat;
    let mut beats = interval_at(Instant::now() + every, every);
    loop {
        let say = tokio::select! {
            order = orders.recv() => match order {
                Some(Order::Say(message)) => Some(message),
                Some(Order::Stall) => pending().await,
                Some(Order::Cut) | None => return,
            },
            _ = beats.tick() => Some(Message::binary(vec![0])),
            heard = socket.next() => match heard {
                Some(Ok(Message::Text(text))) => shared.change(|world| world.asked(number, &text)).map(Message::text),
                Some(Ok(Message::Ping(_))) => {
                    shared.change(|world| world.seen.pings += 1);
                    None
                }
                Some(Ok(Message::Close(_))) => {
                    shared.change(|world| world.seen.goodbyes += 1);
                    None
                }
                Some(Ok(_)) => None,
                Some(Err(_)) | None => return,
            },
        };
        if let Some(message) = say
            && socket.send(message).await.is_err()
        {
            return;
        }
    }
}
