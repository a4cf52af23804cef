//! What runs, from its start to its end, through every change of its config.

use super::board::Board;
use super::request::amount;
use super::services::Services;
use super::{Request, banner, board};
use crate::admin::Keeper;
use crate::failure::{Failure, say};
use crate::gateway;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// Everything that runs.
pub(super) struct Running {
    board: Arc<Board>,
    services: Services,
    starting: gateway::Starting,
    admin: Keeper,
    /// What it was last told to be.
    request: Request,
}

impl Running {
    /// Starts all services, or nothing; the [rest](Running::begin) comes after that.
    pub(super) async fn start(request: Request) -> Result<Running, Failure> {
        let board = Arc::new(Board::new("carom up"));
        let admin = Keeper::new(Arc::clone(&board));
        admin.measure(request.admin.as_ref())?;
        let mut services = Services::new(Arc::clone(&board));
        services.change_to(&request.services).await?;
        let starting = gateway::Starting::new(Arc::clone(&board), gateway::Serving::summary);
        Ok(Running { board, services, starting, admin, request })
    }

    /// Starts what remains. A gateway whose bus is not there yet comes later. Cancelled, it can be ended like the rest.
    pub(super) async fn begin(&mut self) -> Result<(), Failure> {
        if let Some(request) = self.request.gateway.take() {
            request.warn();
            self.starting.start(request).await?;
        }
        // Last: whoever is told that all is well can rely on it.
        self.admin.change(self.admin.prepare(self.request.admin.as_ref())?);
        Ok(())
    }

    /// Waits until a gateway runs that came later; for ever if there is none. Cancelling it loses nothing.
    pub(super) async fn gateway_comes(&mut self) {
        self.starting.comes().await;
    }

    /// How much runs, for people.
    pub(super) fn amount(&self) -> String {
        let gateway = match &self.board.lock().gateway {
            board::Gateway::Off => None,
            board::Gateway::Waiting(_) => Some("the gateway as soon as it can start"),
            board::Gateway::Serving(_) => Some("the gateway"),
        };
        amount(self.request.services.len(), gateway)
    }

    pub(super) fn board(&self) -> &Arc<Board> {
        &self.board
    }

    /// Where it is asked how it is doing.
    pub(super) fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.address()
    }

    /// What runs and where, for people.
    pub(super) fn summary(&self) -> String {
        banner::of(&self.request, &self.admin, &self.board)
    }

    /// Reads the config again and does what it says now. What is of no use changes nothing.
    pub(super) async fn reload(&mut self, file: &Path) {
        match self.try_reload(file).await {
            Ok(told) => say(format_args!("{} was read again: {told}", file.display())),
            Err(failure) => say(format_args!("warning: everything stays as it was: {failure}")),
        }
    }

    async fn try_reload(&mut self, file: &Path) -> Result<String, Failure> {
        let mut request = Request::read(file)?;
        let admin = self.admin.prepare(request.admin.as_ref())?;
        let changes = self.services.change_to(&request.services).await?;
        self.admin.change(admin);
        self.reload_gateway(request.gateway.take()).await;
        self.request = request;
        Ok(changes.to_string())
    }

    async fn reload_gateway(&mut self, wanted: Option<gateway::Request>) {
        self.starting.end().await;
        // One that has not come so far starts as the config has it now.
        if let Some(why) = self.board.awaits_gateway() {
            return self.starting.start_instead(wanted, why);
        }
        // Not under the lock: files are read, and whoever hears of it may be slow.
        match (self.board.gateway(), wanted) {
            (None, None) => {}
            (Some(gateway), wanted) => {
                gateway.reload();
                if !wanted.as_ref().is_some_and(|wanted| gateway.is_as(wanted)) {
                    say(
                        "note: the gateway and its feeds are as before: only keys, credentials and instruments change \
                         while it runs",
                    );
                }
            }
            (None, Some(_)) => say("note: the gateway is not started while it runs"),
        }
    }

    /// Lets nobody in to any service from now on; nobody listens for them any more when it returns. Whoever asks how it is doing
    /// is told.
    pub(super) async fn close(&mut self) {
        self.board.stop();
        self.starting.end().await;
        self.services.close().await;
    }

    /// Ends all of it after that: what is under way has the time that the config allows.
    ///
    /// Cancelled, everything is cut short.
    pub(super) async fn finish(self) {
        let gateway = self.board.take_gateway();
        let gateway = async {
            if let Some(gateway) = gateway {
                gateway.stop().await;
            }
        };
        tokio::join!(self.services.finish(), gateway);
        self.admin.close().await;
    }
}
