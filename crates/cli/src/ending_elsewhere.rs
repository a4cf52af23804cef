//! What ends a command that would go on, where there are no signals: Ctrl-C.

use std::io;

/// Ctrl-C.
pub(crate) struct Ending;

impl Ending {
    pub(crate) fn watch() -> io::Result<Ending> {
        Ok(Ending)
    }

    pub(crate) fn signals() -> io::Result<Ending> {
        Ok(Ending)
    }

    /// Waits for it. Cancelling it loses none.
    pub(crate) async fn comes(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    }
}

/// There are none.
pub(crate) struct HangUps;

impl HangUps {
    pub(crate) fn watch() -> io::Result<HangUps> {
        Ok(HangUps)
    }

    pub(crate) async fn comes(&mut self) -> bool {
        std::future::pending().await
    }
}
