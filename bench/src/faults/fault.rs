//! The faults: how long each lasts, and how many nodes there are.

use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Kill,
    ShortFreeze,
    LongFreeze,
    RestartOnly,
    RestartIdle,
    Unavailable,
    Slow,
    Reset,
    Close,
}

/// In the order of the table.
pub const FAULTS: [Fault; 9] = [
    Fault::Kill,
    Fault::ShortFreeze,
    Fault::LongFreeze,
    Fault::RestartOnly,
    Fault::RestartIdle,
    Fault::Unavailable,
    Fault::Slow,
    Fault::Reset,
    Fault::Close,
];

/// The faulty node resets every k-th request, or closes a connection after k of them.
pub const EVERY: u64 = 10;

impl Fault {
    pub fn name(self) -> &'static str {
        match self {
            Fault::Kill => "kill -9 of one of three nodes, down for 3 s",
            Fault::ShortFreeze => "SIGSTOP of one of three for 3 s",
            Fault::LongFreeze => "SIGSTOP of one of three for 15 s",
            Fault::RestartOnly => "restart of the only node, down for 2 s",
            Fault::RestartIdle => "restart of one of three, connections idle",
            Fault::Unavailable => "one of three responds 503 for 5 s",
            Fault::Slow => "one of three is ten times slower for 5 s",
            Fault::Reset => "one of three resets every 10th request for 5 s",
            Fault::Close => "one of three closes after 10 requests",
        }
    }

    /// From the fault until it is repaired.
    pub fn lasts(self) -> Duration {
        Duration::from_secs(match self {
            Fault::Kill | Fault::ShortFreeze => 3,
            Fault::LongFreeze => 15,
            Fault::RestartOnly => 2,
            Fault::Unavailable | Fault::Slow | Fault::Reset => 5,
            // Over before the load, and never over.
            Fault::RestartIdle | Fault::Close => 0,
        })
    }

    pub fn nodes(self) -> usize {
        match self {
            Fault::RestartOnly => 1,
            _ => 3,
        }
    }
}
