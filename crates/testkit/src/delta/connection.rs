//! A connection to the exchange: one task that answers, passes on what is said, and does as it is told.

use super::world::{Order, Shared};
use futures_util::{SinkExt, StreamExt};
use std::future::pending;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_tungstenite::accept_hdr_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

/// A place in the world, given back when it is dropped.
struct Place {
    shared: Arc<Shared>,
    number: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.change(|world| world.leave(self.number));
    }
}

pub(super) async fn run(shared: Arc<Shared>, socket: impl AsyncRead + AsyncWrite + Unpin) {
    #[allow(clippy::result_large_err, reason = "the library's type")]
    let admit = |_: &Request, response: Response| {
        if !shared.lock().turn_away {
            return Ok(response);
        }
        let mut refusal = ErrorResponse::new(Some("closed for maintenance".to_owned()));
        *refusal.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        Err(refusal)
    };
    let Ok(mut socket) = accept_hdr_async(socket, admit).await else { return };
    let (orders, mut ordered) = mpsc::unbounded_channel();
    let number = shared.change(|world| world.enter(orders));
    let place = Place { shared, number };
    loop {
        let answer = tokio::select! {
            biased;
            order = ordered.recv() => match order {
                Some(Order::Say(text)) => Some(Message::text(text)),
                Some(Order::Bytes(bytes)) => Some(Message::binary(bytes)),
                Some(Order::Cut) | None => return,
                Some(Order::Close(code, reason)) => {
                    let _ = socket.close(Some(CloseFrame { code: code.into(), reason: reason.into() })).await;
                    while let Some(Ok(_)) = socket.next().await {}
                    return;
                }
                Some(Order::Silence) => pending().await,
            },
            message = socket.next() => match message {
                Some(Ok(Message::Text(text))) => {
                    let answer = place.shared.change(|world| world.handle(number, &text));
                    answer.map(|answer| Message::text(answer.to_string()))
                }
                Some(Ok(Message::Ping(_))) => {
                    place.shared.change(|world| world.seen.pings += 1);
                    None
                }
                Some(Ok(Message::Close(_))) => {
                    place.shared.change(|world| world.seen.goodbyes += 1);
                    None
                }
                Some(Ok(_)) => None,
                Some(Err(_)) | None => return,
            },
        };
        if let Some(answer) = answer
            && socket.send(answer).await.is_err()
        {
            return;
        }
    }
}
