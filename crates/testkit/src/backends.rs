//! Backends that do what a test tells them to.
//!
//! [`Scripted`] is a connector without sockets, for tests with paused time. [`EchoServer`] is a real TCP server, for tests
//! and examples in real time. Never mix them: paused time jumps while a socket is waited for.

mod echo;
mod nobody;
mod scripted;
mod told;

pub use echo::{EchoServer, Mode};
pub use nobody::Nobody;
pub use scripted::{Behaviour, Connection, Ends, OnCheck, OnClose, OnConnect, ScriptError, Scripted};
pub use told::Told;
