//! A connector around another that counts how often it is used.

use carom::Backend;
use carom::connect::{Connect, Liveness};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Passes everything on.
pub struct Counted<C> {
    connector: C,
    dials: Arc<Dials>,
}

/// Connects so far.
#[derive(Debug, Default)]
pub struct Dials {
    made: AtomicUsize,
    refused: AtomicUsize,
}

impl Dials {
    pub fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    pub fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }
}

impl<C> Counted<C> {
    pub fn new(connector: C) -> Counted<C> {
        Counted { connector, dials: Arc::default() }
    }

    pub fn dials(&self) -> Arc<Dials> {
        Arc::clone(&self.dials)
    }
}

impl<C: Connect> Connect for Counted<C> {
    type Connection = C::Connection;
    type Error = C::Error;

    async fn connect(&self, backend: &Backend) -> Result<C::Connection, C::Error> {
        let result = self.connector.connect(backend).await;
        let count = if result.is_ok() { &self.dials.made } else { &self.dials.refused };
        count.fetch_add(1, Ordering::Relaxed);
        result
    }

    fn liveness(&self, connection: &mut C::Connection) -> Liveness {
        self.connector.liveness(connection)
    }

    fn check(&self, connection: &mut C::Connection) -> Option<impl Future<Output = Result<(), C::Error>> + Send> {
        self.connector.check(connection)
    }

    fn closed(&self, connection: &C::Connection) -> Option<impl Future<Output = Liveness> + Send + 'static> {
        self.connector.closed(connection)
    }

    fn recycle(&self, connection: &mut C::Connection) -> Option<impl Future<Output = Result<(), C::Error>> + Send> {
        self.connector.recycle(connection)
    }

    fn close(&self, connection: C::Connection) -> impl Future<Output = ()> + Send {
        self.connector.close(connection)
    }
}
