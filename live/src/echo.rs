//! What the load does with a connection, whatever it is: it has a word sent back, and sees whose reply it got.

use crate::{AnyError, resp};
use bb8_postgres::PostgresConnectionManager;
use bb8_postgres::tokio_postgres::{Client, NoTls};
use bb8_redis::RedisConnectionManager;
use bb8_redis::redis::aio::MultiplexedConnection;
use bb8_redis::redis::{self, RedisError};
use carom::{managers, tcp, tls};
use std::error::Error;
use std::future::Future;

/// A connection to something that repeats a word.
pub trait Echo: Send + 'static {
    fn echo(&mut self, word: &str) -> impl Future<Output = Result<String, AnyError>> + Send;
}

impl Echo for tcp::Stream {
    async fn echo(&mut self, word: &str) -> Result<String, AnyError> {
        resp::command(self, &["ECHO", word]).await
    }
}

impl Echo for tls::Stream {
    async fn echo(&mut self, word: &str) -> Result<String, AnyError> {
        resp::command(self, &["ECHO", word]).await
    }
}

impl Echo for MultiplexedConnection {
    async fn echo(&mut self, word: &str) -> Result<String, AnyError> {
        Ok(redis::cmd("ECHO").arg(word).query_async(self).await?)
    }
}

impl Echo for managers::bb8::Managed<RedisConnectionManager> {
    async fn echo(&mut self, word: &str) -> Result<String, AnyError> {
        (**self).echo(word).await
    }
}

impl Echo for managers::deadpool::Managed<deadpool_redis::Manager> {
    async fn echo(&mut self, word: &str) -> Result<String, AnyError> {
        (**self).echo(word).await
    }
}

impl Echo for Client {
    async fn echo(&mut self, word: &str) -> Result<String, AnyError> {
        Ok(self.query_one("SELECT $1::text", &[&word]).await?.try_get(0)?)
    }
}

impl Echo for managers::bb8::Managed<PostgresConnectionManager<NoTls>> {
    async fn echo(&mut self, word: &str) -> Result<String, AnyError> {
        (**self).echo(word).await
    }
}

impl Echo for managers::deadpool::Managed<deadpool_postgres::Manager> {
    async fn echo(&mut self, word: &str) -> Result<String, AnyError> {
        let statement = self.prepare_cached("SELECT $1::text").await?;
        Ok(self.query_one(&statement, &[&word]).await?.try_get(0)?)
    }
}

/// Whether the client gave up on a server that may only have been slow: redis clients do so after half a second.
pub fn is_impatience(error: &AnyError) -> bool {
    let error: &(dyn Error + 'static) = &**error;
    error.downcast_ref::<RedisError>().is_some_and(RedisError::is_timeout)
}
