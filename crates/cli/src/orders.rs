//! What a command that serves others is told by signals: to read again what it has read, or to end.

use crate::ending::{Ending, HangUps};
use std::io;

/// Everything that it may be told, from the moment this is made.
pub(crate) struct Orders {
    ending: Ending,
    hang_ups: HangUps,
}

/// What it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Reload,
    Stop,
}

impl Orders {
    pub(crate) fn watch() -> io::Result<Orders> {
        Ok(Orders { ending: Ending::signals()?, hang_ups: HangUps::watch()? })
    }

    /// Waits for the next one. Cancelling it loses none.
    pub(crate) async fn next(&mut self) -> Order {
        tokio::select! {
            () = self.ending.comes() => Order::Stop,
            gone = self.hang_ups.comes() => if gone { Order::Stop } else { Order::Reload },
        }
    }
}
