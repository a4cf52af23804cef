//! The post by way of a NATS server.

use super::post::{Letter, Post, PostError};
use async_nats::connection::State;
use async_nats::{Client, Message, Request, RequestErrorKind};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};

impl Post for Client {
    fn send(&self, subject: String, payload: Bytes) -> BoxFuture<'_, Result<(), PostError>> {
        async move { self.publish(subject, payload).await.map_err(not_taken) }.boxed()
    }

    fn ask(&self, subject: String, payload: Bytes) -> BoxFuture<'_, Result<Bytes, PostError>> {
        let asked = async move {
            // An inbox of its own goes with whoever waits; the client's own requests are kept until somebody answers.
            let request = Request::new().inbox(self.new_inbox()).payload(payload);
            match self.send_request(subject, request).await {
                Ok(answer) => Ok(answer.payload),
                Err(error) if error.kind() == RequestErrorKind::NoResponders => Err(PostError::NobodyThere),
                Err(error) => Err(not_taken(error)),
            }
        };
        asked.boxed()
    }

    fn hear(&self, subject: String) -> BoxFuture<'_, Result<BoxStream<'static, Letter>, PostError>> {
        let hearing = async move {
            let letters = self.subscribe(subject).await.map_err(not_taken)?;
            Ok(letters.map(Letter::from).boxed())
        };
        hearing.boxed()
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), PostError>> {
        async move { Client::flush(self).await.map_err(not_taken) }.boxed()
    }

    fn is_connected(&self) -> bool {
        self.connection_state() == State::Connected
    }
}

impl From<Message> for Letter {
    fn from(message: Message) -> Letter {
        let reply = message.reply.map(|reply| reply.to_string());
        Letter { subject: message.subject.to_string(), payload: message.payload, reply }
    }
}

fn not_taken(error: impl std::error::Error) -> PostError {
    PostError::NotTaken(error.to_string())
}
