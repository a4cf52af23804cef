//! The machines behind [carom](https://docs.rs/carom): how connections to a service of many nodes are planned, lent,
//! recovered and let go, as plain state machines.
//!
//! Nothing here opens a socket, reads a clock, spawns a task, takes a lock or rolls dice. Events and the current time go
//! in; actions come out. A whole service with failing nodes and thousands of callers therefore runs in a plain `#[test]`,
//! and the same seed gives the same run.
//!
//! Most users want the `carom` crate, which drives these machines on tokio. Use this one to drive them from another
//! runtime, or to simulate.
//!
//! ```
//! use carom_core::backend::Backend;
//! use carom_core::pool::{Action, Claimed, Machine, Options, Request};
//! use std::time::{Duration, Instant};
//!
//! # #[allow(clippy::disallowed_methods)]
//! let start = Instant::now(); // the machine never asks: time is an argument
//! let mut pool = Machine::new(Options::default(), 7, start).unwrap();
//! pool.handle_backends(start, &[Backend::fixed("10.0.0.1:5432".parse().unwrap())]);
//! pool.handle_timeout(start); // plan what the change asks for
//!
//! // It wants a connection; a driver would open one and say so.
//! let Some(Action::Connect { slot, .. }) = pool.poll_action() else { panic!() };
//! pool.handle_connected(start + Duration::from_millis(3), slot, false);
//!
//! // A claim is served at once.
//! let claim = pool.claim(start + Duration::from_millis(5), Request::within(Duration::from_secs(1)));
//! assert!(matches!(claim, Claimed::Granted { .. }));
//! ```

pub mod backend;
mod backends;
pub mod ejection;
pub mod feed;
pub mod filter;
pub mod health_check;
pub mod idle;
mod list;
pub mod news;
pub mod options;
pub mod pick;
pub mod plan;
pub mod pool;
pub mod random;
pub mod recovery;
pub mod resolver;
pub mod seldom;
pub mod set;
pub mod slot;
mod timers;
pub mod waiters;
pub mod window;

pub use backends::stall;
