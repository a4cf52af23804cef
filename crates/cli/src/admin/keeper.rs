//! The keeper: has somebody answer where the config says, through every change of it.

use super::looking::Looking;
use super::metrics::Exporter;
use super::paths::Shown;
use super::server::Server;
use crate::config::{Admin, DEFAULT_ADMIN};
use crate::failure::{Failure, say};
use crate::output::reachable;
use crate::up::{self, Board};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use tokio::task::spawn_blocking;

/// Whoever answers how everything is doing, or nobody.
pub(crate) struct Keeper {
    board: Arc<Board>,
    /// For as long as anybody can ask: what was seen stays known when the listener moves.
    looking: Option<Arc<Looking>>,
    /// From the first time that anybody could ask, or [earlier](Keeper::measure).
    exporter: OnceLock<Exporter>,
    answering: Option<Answering>,
}

struct Answering {
    /// As it was asked for.
    listen: SocketAddr,
    server: Server,
}

/// What is to be another; nothing is, before it is [made so](Keeper::change).
pub(crate) struct Change(Wanted);

enum Wanted {
    /// The same listener, for these.
    Same(Option<Admin>),
    /// Another one.
    Other(Option<(Answering, Arc<Looking>)>),
}

impl Keeper {
    /// Nobody answers yet.
    pub(crate) fn new(board: Arc<Board>) -> Keeper {
        Keeper { board, looking: None, exporter: OnceLock::new(), answering: None }
    }

    /// Measures from now on what is built from now on, if anybody can ask for it.
    ///
    /// # Errors
    /// When something else measures this process.
    pub(crate) fn measure(&self, admin: Option<&Admin>) -> Result<(), Failure> {
        admin.map_or(Ok(()), |_| self.exporter().map(drop))
    }

    fn exporter(&self) -> Result<Exporter, Failure> {
        match self.exporter.get() {
            Some(exporter) => Ok(exporter.clone()),
            None => Exporter::install().map(|exporter| self.exporter.get_or_init(|| exporter).clone()),
        }
    }

    /// Makes all that it takes to answer as this says.
    ///
    /// # Errors
    /// When nobody can listen there.
    pub(crate) fn prepare(&self, admin: Option<&Admin>) -> Result<Change, Failure> {
        let wanted = admin.map(|admin| admin.listen.value);
        if self.answering.as_ref().map(|answering| answering.listen) == wanted {
            return Ok(Change(Wanted::Same(admin.cloned())));
        }
        let Some(Admin { listen, access, .. }) = admin else { return Ok(Change(Wanted::Other(None))) };
        let listener = up::listen(listen.value, &listen.origin, &self.board)?;
        let looking = self.looking.clone().unwrap_or_else(|| Arc::new(Looking::start(Arc::clone(&self.board))));
        let shown = Shown { looking: Arc::clone(&looking), exporter: self.exporter()? };
        let server = Server::start(listener, access.clone(), shown)?;
        Ok(Change(Wanted::Other(Some((Answering { listen: listen.value, server }, looking)))))
    }

    /// Has it so from now on.
    pub(crate) fn change(&mut self, Change(wanted): Change) {
        match wanted {
            Wanted::Same(admin) => {
                if let Some((answering, admin)) = self.answering.as_ref().zip(admin)
                    && answering.server.allow(admin.access)
                {
                    say("who may ask at the admin address has changed: another token, or other hosts");
                }
            }
            // Whoever looked for nobody would take every lock once a second.
            Wanted::Other(None) => (self.answering, self.looking) = (None, None),
            Wanted::Other(Some((answering, looking))) => {
                self.answering = Some(answering);
                self.looking = Some(looking);
            }
        }
        self.board.admin_is(self.address());
    }

    /// Has the token known that is in its file now. One of no use changes nothing.
    pub(crate) fn read_again(&mut self, admin: Option<&Admin>) {
        match admin.map(Admin::read_again).transpose().and_then(|admin| self.prepare(admin.as_ref())) {
            Ok(change) => self.change(change),
            Err(failure) => say(format_args!("warning: the admin token stays as it was: {failure}")),
        }
    }

    /// Where it can be asked.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.answering.as_ref().map(|answering| answering.server.local_addr())
    }

    /// Where it can be asked and what for, for people; nothing if it cannot.
    pub(crate) fn summary(&self, admin: Option<&Admin>) -> String {
        let Some((at, admin)) = self.address().zip(admin) else { return String::new() };
        let page = reachable(at);
        let mut top = "carom top".to_owned();
        let mut text = format!("admin: http://{at}/healthz ({})\n", admin.listen.origin);
        if let Some(file) = admin.token_file() {
            top += &format!(" --token-file {}", file.display());
            text += &format!("  for those who show the token in {}; without it, the status alone\n", file.display());
        }
        if page != DEFAULT_ADMIN {
            top += &format!(" http://{page}");
        }
        text + &format!("dashboard: http://{page}/\n  also /metrics and /kang/snapshot; in a terminal, {top}\n")
    }

    /// Ends it, after a last word to those who listen.
    pub(crate) async fn close(self) {
        if let Some(looking) = self.looking {
            let _ = spawn_blocking(move || looking.end()).await;
        }
        if let Some(answering) = self.answering {
            answering.server.close().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Layered;

    #[tokio::test]
    async fn nobody_looks_when_nobody_can_ask() {
        let mut keeper = Keeper::new(Arc::new(Board::new("carom test")));
        let admin = Admin::open(Layered::new("127.0.0.1:0".parse().unwrap(), "a test"));
        keeper.change(keeper.prepare(Some(&admin)).unwrap());
        assert!(keeper.looking.is_some() && keeper.address().is_some());
        keeper.change(keeper.prepare(None).unwrap());
        assert!(keeper.looking.is_none() && keeper.address().is_none());
    }
}
