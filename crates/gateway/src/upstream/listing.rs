//! What a running adapter looks symbols up in, which somebody replaces every morning.

use std::sync::{Arc, Mutex, PoisonError};

/// The instruments that an adapter knows. Clones are the same listing: keep one, and replace what is in it when the broker has
/// published another list. Whatever is streamed goes on; what is subscribed to from then on is looked up anew.
#[derive(Debug)]
pub struct Listing<I>(Arc<Mutex<Arc<I>>>);

impl<I> Listing<I> {
    /// One that begins with these.
    pub fn new(instruments: Arc<I>) -> Listing<I> {
        Listing(Arc::new(Mutex::new(instruments)))
    }

    /// What is looked up at present.
    pub fn current(&self) -> Arc<I> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks things up in these from now on.
    pub fn replace(&self, instruments: Arc<I>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = instruments;
    }
}

impl<I> Clone for Listing<I> {
    fn clone(&self) -> Listing<I> {
        Listing(Arc::clone(&self.0))
    }
}
