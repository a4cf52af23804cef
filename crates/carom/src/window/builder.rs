//! Building a requester: what it sends with, to whom, and every option.

use super::driver::Driver;
use super::error::BuildError;
use super::shared::Shared;
use super::{Requester, Transport};
use crate::health_check::{HealthCheck, Runner};
use crate::monitor::Monitor;
use crate::seed::seed;
use carom_core::window::{Machine, NewError, Options};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tracing::Instrument;

/// Builds a [`Requester`]; made by [`Requester::builder`]. Every option has a default; [`build`](Builder::build) refuses what
/// makes no sense.
#[must_use = "a builder does nothing until `build`"]
pub struct Builder<T: Transport> {
    transport: T,
    nodes: Vec<T::Node>,
    name: Arc<str>,
    monitor: Monitor,
    runtime: Option<Handle>,
    options: Options,
    health_check: Option<HealthCheck<T::Node>>,
}

impl<T: Transport> Builder<T> {
    pub(super) fn new(transport: T) -> Builder<T> {
        Builder {
            transport,
            nodes: Vec::new(),
            name: "requester".into(),
            monitor: Monitor::global().clone(),
            runtime: None,
            options: Options::default(),
            health_check: None,
        }
    }

    /// The nodes that requests are sent to; see [`Requester::set_nodes`] for when they change.
    pub fn nodes(mut self, nodes: impl IntoIterator<Item = impl Into<T::Node>>) -> Builder<T> {
        self.nodes = nodes.into_iter().map(Into::into).collect();
        self
    }

    /// Shown in errors, logs and by the monitor. Default: `requester`.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Builder<T> {
        self.name = name.into();
        self
    }

    /// How long a window takes new requests, from its creation. Default 5 s. Its sockets are open for so long, and longer only
    /// while a request waits on them.
    pub fn active_for(mut self, active_for: Duration) -> Builder<T> {
        self.options.active_for = active_for;
        self
    }

    /// How many requests are started on a window. Default 5. When it has had so many, it takes no more, and its sockets close
    /// as they are done.
    pub fn request_limit(mut self, request_limit: usize) -> Builder<T> {
        self.options.request_limit = request_limit;
        self
    }

    /// How long a node may take to say anything about a request, from when it is asked, opening the socket included.
    /// Default 10 s.
    pub fn ack_timeout(mut self, ack_timeout: Duration) -> Builder<T> {
        self.options.ack_timeout = ack_timeout;
        self
    }

    /// How long a node that has acknowledged a request may take to answer it, also from when it is asked. Default 100 s; not
    /// below `ack_timeout`. Both are for each node by itself: [`all`](Requester::all) waits for the slowest. A request waits no longer than this for a window, if there are `max_windows`.
    pub fn reply_timeout(mut self, reply_timeout: Duration) -> Builder<T> {
        self.options.reply_timeout = reply_timeout;
        self
    }

    /// How long after a node was asked one more node is asked, if the first has not acknowledged the request or answered it.
    /// Default 1 s, above zero; `None` turns it off.
    ///
    /// It applies to [`any`](Requester::any) and [`quorum`](Requester::quorum) while there are nodes that the request did not
    /// ask, and only if it is below the `ack_timeout` of the request. The slow node is waited for until its own deadline, and its
    /// answer counts; but for a minute, or until it responds, it is *unresponsive*: requests that do not ask all nodes at once
    /// ask it last. So are nodes that are silent until their deadline, or whose socket fails while a request waits on it.
    ///
    /// Raise it if nodes that work take longer than this to acknowledge. Requests of `any` and `quorum` have to be ones that may
    /// be sent to more than one node: also without it, the next node is asked after the `ack_timeout`.
    pub fn hedge_after(mut self, hedge_after: impl Into<Option<Duration>>) -> Builder<T> {
        self.options.hedge_after = hedge_after.into();
        self
    }

    /// How many nodes [`any`](Requester::any) asks at once. Default 1: one answer is enough, so one socket is.
    pub fn read_nodes(mut self, read_nodes: usize) -> Builder<T> {
        self.options.read_nodes = read_nodes;
        self
    }

    /// Names of nodes that are asked before others, always the first first: they do not take turns, as others do. Default none.
    /// Names that no node has are passed over.
    pub fn preferred(mut self, preferred: impl IntoIterator<Item = impl Into<Arc<str>>>) -> Builder<T> {
        self.options.preferred = preferred.into_iter().map(Into::into).collect();
        self
    }

    /// How many windows there may be at a time; over it, requests wait in order, for `reply_timeout` at most. Default: as many as
    /// are needed.
    pub fn max_windows(mut self, max_windows: impl Into<Option<usize>>) -> Builder<T> {
        self.options.max_windows = max_windows.into();
        self
    }

    /// An active [health check](crate::health_check) of every node, whether or not it is in use. While the checks of a node fail,
    /// requests that do not ask all nodes at once ask it after the others. It does not replace [`hedge_after`](Builder::hedge_after):
    /// a node may pass its checks and not respond to requests. [`HealthCheck::connector`] opens a socket for each check: not for
    /// nodes that cannot afford it. Default off.
    pub fn health_check(mut self, health_check: impl Into<Option<HealthCheck<T::Node>>>) -> Builder<T> {
        self.health_check = health_check.into();
        self.options.health_check = self.health_check.as_ref().map(|check| check.schedule.clone());
        self
    }

    /// Which monitor sees it. Default: [`Monitor::global`].
    pub fn monitor(mut self, monitor: &Monitor) -> Builder<T> {
        self.monitor = monitor.clone();
        self
    }

    /// The tokio runtime that the requester lives on, with its timers enabled. Default: the one that `build` is called in.
    pub fn runtime(mut self, runtime: Handle) -> Builder<T> {
        self.runtime = Some(runtime);
        self
    }

    /// Builds the requester. Nothing is opened.
    ///
    /// # Errors
    /// When an option makes no sense (the error names it), when there is no node or two of the same name, or when there is no
    /// runtime.
    pub fn build(self) -> Result<Requester<T>, BuildError> {
        let machine = Machine::new(self.options, self.nodes, seed()).map_err(|error| match error {
            NewError::Options(error) => BuildError::Options(error),
            NewError::Nodes(error) => BuildError::Nodes(error),
        })?;
        let runtime = match self.runtime {
            Some(runtime) => runtime,
            None => Handle::try_current().map_err(|_| BuildError::NoRuntime)?,
        };
        let shared = Arc::new(Shared::new(self.name, self.transport, machine));
        let id = self.monitor.register(&shared);
        let span = tracing::info_span!(parent: None, "requester", requester = &*shared.name);
        runtime.spawn(Driver::new(Arc::clone(&shared), Runner::new(self.health_check)).run().instrument(span));
        Ok(Requester::new(shared, id))
    }
}

impl<T: Transport> fmt::Debug for Builder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("name", &self.name).field("options", &self.options).finish_non_exhaustive()
    }
}
