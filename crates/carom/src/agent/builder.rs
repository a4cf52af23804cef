//! Building an agent.

use super::Agent;
use super::options::Settings;
use crate::building::{self, BuildError};
use crate::monitor::Monitor;
use carom_core::options::OptionsError;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::runtime::Handle;

/// Builds an [`Agent`]; made by [`Agent::builder`]. Every option has a default; [`build`](Builder::build) refuses what makes
/// no sense.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    pub(super) settings: Settings,
    pub(super) max_idle: Option<Duration>,
    runtime: Option<Handle>,
    monitor: Option<Monitor>,
}

impl Builder {
    pub(super) fn new() -> Builder {
        let max_idle = Some(Duration::from_secs(10 * 60));
        Builder { settings: Settings::default(), max_idle, runtime: None, monitor: None }
    }

    /// An origin that nobody has asked for anything in this long is dropped, with its connections; `None` keeps it. Those made
    /// with [`Agent::create_pool`] stay. Default 10 min. Looked at every quarter of it.
    pub fn max_idle(mut self, max_idle: impl Into<Option<Duration>>) -> Builder {
        self.max_idle = max_idle.into();
        self
    }

    /// The nameservers to ask, the first one first. Default: the system's.
    pub fn nameservers(mut self, nameservers: impl IntoIterator<Item = SocketAddr>) -> Builder {
        self.settings.dns = self.settings.dns.nameservers(nameservers);
        self
    }

    /// The name, `name[:port]`, that the nameservers to ask are found under.
    pub fn nameservers_at(mut self, name: &str) -> Builder {
        self.settings.dns = self.settings.dns.nameservers_at(name);
        self
    }

    /// The tokio runtime that the agent and its connections live on. Default: the one that `build` is called in.
    pub fn runtime(mut self, runtime: Handle) -> Builder {
        self.runtime = Some(runtime);
        self
    }

    /// Which monitor sees the pools, sets and resolvers of its origins. Default: [`Monitor::global`].
    pub fn monitor(mut self, monitor: &Monitor) -> Builder {
        self.monitor = Some(monitor.clone());
        self
    }

    /// Builds the agent. Nothing is connected to before somebody asks for something.
    ///
    /// # Errors
    /// When an option makes no sense (the error names it), or when there is no runtime.
    pub fn build(self) -> Result<Agent, BuildError> {
        // Which origins there will be is not known yet.
        self.settings.validate(true)?;
        if self.max_idle.is_some_and(|max_idle| max_idle < Duration::from_millis(1)) {
            return Err(OptionsError::new("max_idle", "must be at least 1ms").into());
        }
        let runtime = building::runtime(self.runtime)?;
        let monitor = self.monitor.unwrap_or_else(|| Monitor::global().clone());
        Ok(Agent::new(self.settings, self.max_idle, runtime, monitor))
    }
}
