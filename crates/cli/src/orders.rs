//! What a command that serves others is told by signals: to read again what it has read, or to end.

use crate::ending::{Ending, HangUps};
use std::io;

/// Everything that it may be told, from the moment this is made.
pub(crate) struct Orders {
    ending: Ending,
    hang_ups: HangUps,
    /// It was to read something again while only its end was waited for.
    reload: bool,
}

/// What it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Reload,
    Stop,
}

impl Orders {
    pub(crate) fn watch() -> io::Result<Orders> {
        Ok(Orders { ending: Ending::signals()?, hang_ups: HangUps::watch()?, reload: false })
    }

    /// Waits for the next one. Cancelling it loses none.
    pub(crate) async fn next(&mut self) -> Order {
        if std::mem::take(&mut self.reload) {
            return Order::Reload;
        }
        self.comes().await
    }

    async fn comes(&mut self) -> Order {
        tokio::select! {
            () = self.ending.comes() => Order::Stop,
            gone = self.hang_ups.comes() => if gone { Order::Stop } else { Order::Reload },
        }
    }

    /// Waits until it is told to end. Cancelling it loses none: to read again what it is told meanwhile is the [`next`](Orders::next).
    pub(crate) async fn stop(&mut self) {
        while self.comes().await != Order::Stop {
            self.reload = true;
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use rustix::process::{Signal, getpid, kill_process};

    #[tokio::test]
    async fn what_it_is_told_while_it_starts_is_done_afterwards() {
        let mut orders = Orders::watch().unwrap();
        let mut heard = HangUps::watch().unwrap();
        kill_process(getpid(), Signal::HUP).unwrap();
        // Both hear it in the same turn of the only thread.
        tokio::select! {
            biased;
            () = orders.stop() => panic!("nobody said so"),
            _ = heard.comes() => {}
        }
        assert_eq!(orders.next().await, Order::Reload);
    }
}
