//! What a backend does: how connecting, checking and closing go.

use std::time::Duration;

/// What a backend does from now on. Operations under way keep what they started with.
#[derive(Clone, Copy, Debug)]
pub enum Behaviour {
    /// How connecting goes.
    Connect(OnConnect),
    /// How checks of its connections go.
    Check(OnCheck),
    /// How closing its connections goes.
    Close(OnClose),
    /// Whether `liveness` calls its connections open, killed ones aside. At first: true.
    Open(bool),
}

/// How connecting goes. At first: it succeeds.
#[derive(Clone, Copy, Debug)]
pub enum OnConnect {
    /// At once.
    Succeed,
    /// Fails at once, with this text.
    Fail(&'static str),
    /// Succeeds after this delay.
    Slow(Duration),
    /// Hangs until dropped.
    Never,
    /// Panics.
    Panic,
}

/// How a check goes. At first: it passes. Checks of killed connections that would pass fail.
#[derive(Clone, Copy, Debug)]
pub enum OnCheck {
    /// At once.
    Pass,
    /// Fails at once.
    Fail,
    /// Passes after this delay.
    Slow(Duration),
    /// Hangs until dropped.
    Never,
    /// Panics.
    Panic,
}

/// How closing goes. At first: quickly. The connection counts as open until the closing is done, dropped, or has panicked.
#[derive(Clone, Copy, Debug)]
pub enum OnClose {
    /// At once.
    Quick,
    /// After this delay.
    Slow(Duration),
    /// Hangs until dropped.
    Never,
    /// Panics.
    Panic,
}

impl From<OnConnect> for Behaviour {
    fn from(connect: OnConnect) -> Behaviour {
        Behaviour::Connect(connect)
    }
}

impl From<OnCheck> for Behaviour {
    fn from(check: OnCheck) -> Behaviour {
        Behaviour::Check(check)
    }
}

impl From<OnClose> for Behaviour {
    fn from(close: OnClose) -> Behaviour {
        Behaviour::Close(close)
    }
}
