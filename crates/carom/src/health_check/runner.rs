//! Runs the health checks that a machine asks for, one task each.

use super::{HealthCheck, Probe};
use crate::cause::Reason;
use crate::connect::{Connect, ConnectError};
use carom_core::backend::Backend;
use carom_core::window::Node;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::task::{Id, JoinSet};
use tokio::time::timeout;
use tracing::Instrument;

/// The health checks of a pool, a set or a requester. `K` names one to the machine, `N` is what is checked. Dropping it cancels
/// those that run.
pub(crate) struct Runner<K, N = Backend> {
    health_check: Option<HealthCheck<N>>,
    tasks: JoinSet<Result<(), Reason>>,
    running: HashMap<Id, (K, Arc<N>)>,
}

/// A health check that has ended.
pub(crate) struct Checked<K, N = Backend> {
    pub(crate) check: K,
    pub(crate) backend: Arc<N>,
    pub(crate) result: Result<(), Reason>,
}

impl<K, N: Node + Send + Sync + 'static> Runner<K, N> {
    pub(crate) fn new(health_check: Option<HealthCheck<N>>) -> Runner<K, N> {
        Runner { health_check, tasks: JoinSet::new(), running: HashMap::new() }
    }

    /// Starts a check; `by_connector` is what one of [`HealthCheck::connector`] does.
    pub(crate) fn start(
        &mut self,
        check: K,
        backend: Arc<N>,
        by_connector: impl Future<Output = Result<(), Reason>> + Send + 'static,
    ) {
        let Some(HealthCheck { probe, schedule, .. }) = self.health_check.clone() else { return };
        let (limit, checked) = (schedule.check_timeout(), Arc::clone(&backend));
        let checking = async move {
            let checking = async {
                match probe {
                    Probe::Connector => by_connector.await,
                    Probe::Function(function) => function(checked).await,
                }
            };
            let timed_out = |_| Err(Arc::new(ConnectError::HealthCheckTimedOut(limit)) as Reason);
            timeout(limit, checking).await.unwrap_or_else(timed_out)
        };
        let span = tracing::debug_span!("health_check", backend = backend.name());
        let task = self.tasks.spawn(checking.instrument(span));
        self.running.insert(task.id(), (check, backend));
    }

    /// Reports a check that has ended, and whether its backend is unhealthy since then.
    pub(crate) fn observe(&self, backend: &N, passed: bool, unhealthy: bool) {
        if let Some(observer) = self.health_check.as_ref().and_then(|check| check.observer.as_ref()) {
            observer(backend, passed, unhealthy);
        }
    }

    /// The next check that ends; `None` if none runs. Cancel safety: no result is lost.
    pub(crate) async fn next(&mut self) -> Option<Checked<K, N>> {
        loop {
            let (id, result) = match self.tasks.join_next_with_id().await? {
                Ok(ended) => ended,
                Err(error) => (error.id(), Err(Arc::new(ConnectError::Panicked) as Reason)),
            };
            if let Some((check, backend)) = self.running.remove(&id) {
                return Some(Checked { check, backend, result });
            }
        }
    }
}

/// Connects, runs the check of the connector if it has one, and closes the connection. `connector` borrows the connector from what
/// keeps it alive.
pub(crate) async fn by_connector<C: Connect, S>(
    shared: Arc<S>,
    connector: fn(&S) -> &C,
    backend: Arc<Backend>,
) -> Result<(), Reason> {
    let (connector, backend) = (connector(&shared), &*backend);
    let mut connection = connector.connect(backend).await.map_err(|error| Arc::new(error) as Reason)?;
    let result = match connector.check(&mut connection) {
        Some(check) => check.await.map_err(|error| Arc::new(error) as Reason),
        None => Ok(()),
    };
    connector.close(connection).await;
    result
}
