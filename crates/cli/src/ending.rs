//! What ends a command that would go on: a signal, or a reader of its output that has left.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use tokio::io::Interest;
use tokio::net::unix::pipe;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGINT, SIGTERM and a closed stdout, from the moment this is made.
pub(crate) struct Ending {
    interrupt: Signal,
    terminate: Signal,
    /// Only asked whether its reader is there: it blocks, as everybody expects of stdout. Files have no readers to tell of.
    stdout: Option<pipe::Sender>,
}

impl Ending {
    pub(crate) fn watch() -> io::Result<Ending> {
        let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let stdout = io::stdout().as_fd().try_clone_to_owned().and_then(pipe::Sender::from_owned_fd_unchecked).ok();
        Ok(Ending { interrupt, terminate, stdout })
    }

    /// SIGINT and SIGTERM alone: whoever serves others is not ended by a reader of its words who has left.
    pub(crate) fn signals() -> io::Result<Ending> {
        Ok(Ending { stdout: None, ..Ending::watch()? })
    }

    /// Waits for one of them. Cancelling it loses none.
    pub(crate) async fn comes(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = left(self.stdout.as_ref()) => {}
        }
    }
}

/// SIGHUP: what was read is to be read again.
pub(crate) struct HangUps {
    signal: Signal,
    on_terminal: bool,
}

impl HangUps {
    pub(crate) fn watch() -> io::Result<HangUps> {
        Ok(HangUps { signal: signal(SignalKind::hangup())?, on_terminal: io::stdout().is_terminal() })
    }

    /// Waits for one; whether it was because the terminal is gone, and with it whoever started this. Cancelling it loses none.
    pub(crate) async fn comes(&mut self) -> bool {
        if self.signal.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
        self.on_terminal && !io::stdout().is_terminal()
    }
}

async fn left(stdout: Option<&pipe::Sender>) {
    if let Some(stdout) = stdout
        && let Ok(readiness) = stdout.ready(Interest::ERROR).await
        && readiness.is_error()
    {
        return;
    }
    std::future::pending().await
}
