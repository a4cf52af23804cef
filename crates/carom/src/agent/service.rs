//! Agents and origins as services of tower, so that its layers compose with them.

use super::{Agent, Body, Error, Origin};
use http::{Request, Response};
use http_body::Body as HttpBody;
use std::error::Error as StdError;
use std::pin::Pin;
use std::task::{Context, Poll};
use tower_service::Service;

type Requesting = Pin<Box<dyn Future<Output = Result<Response<Body>, Error>> + Send>>;

/// Always ready: each request waits for its own connection.
macro_rules! service {
    ($handle:ty) => {
        impl<B> Service<Request<B>> for $handle
        where
            B: HttpBody + Send + 'static,
            B::Error: Into<Box<dyn StdError + Send + Sync>>,
        {
            type Response = Response<Body>;
            type Error = Error;
            type Future = Requesting;

            fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
                Poll::Ready(Ok(()))
            }

            fn call(&mut self, request: Request<B>) -> Requesting {
                let (handle, request) = (self.clone(), request.map(Body::new));
                Box::pin(async move { handle.request(request).await })
            }
        }
    };
}

service!(Agent);
service!(Origin);
