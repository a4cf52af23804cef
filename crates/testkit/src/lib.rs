//! Far sides for carom's own tests: made of memory where time is paused, of sockets where it is not.

pub mod backends;
pub mod cases;
pub mod delta;
pub mod dns;
pub mod feed;
pub mod http;
pub mod indy;
pub mod kite;
mod listening;
pub mod nodes;
pub mod pulsar;
mod shared;
