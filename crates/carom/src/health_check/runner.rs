//! Runs the health checks that a machine asks for, one task each.

use super::{HealthCheck, Probe};
use crate::cause::Reason;
use crate::connect::{Connect, ConnectError};
use carom_core::backend::Backend;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::task::{Id, JoinSet};
use tokio::time::timeout;
use tracing::Instrument;

/// The health checks of a pool or a set. `K` names one to the machine. Dropping it cancels those that run.
pub(crate) struct Runner<K> {
    health_check: Option<HealthCheck>,
    tasks: JoinSet<Result<(), Reason>>,
    running: HashMap<Id, (K, Arc<Backend>)>,
}

/// A health check that has ended.
pub(crate) struct Checked<K> {
    pub(crate) check: K,
    pub(crate) backend: Arc<Backend>,
    pub(crate) result: Result<(), Reason>,
}

impl<K> Runner<K> {
    pub(crate) fn new(health_check: Option<HealthCheck>) -> Runner<K> {
        Runner { health_check, tasks: JoinSet::new(), running: HashMap::new() }
    }

    /// Starts a check. `connector` borrows the connector from what keeps it alive.
    pub(crate) fn start<C: Connect, S: Send + Sync + 'static>(
        &mut self,
        check: K,
        backend: Arc<Backend>,
        shared: Arc<S>,
        connector: fn(&S) -> &C,
    ) {
        let Some(HealthCheck { probe, schedule }) = self.health_check.clone() else { return };
        let (limit, checked) = (schedule.check_timeout(), Arc::clone(&backend));
        let checking = async move {
            let checking = async {
                match probe {
                    Probe::Connector => by_connector(connector(&shared), &checked).await,
                    Probe::Function(function) => function((*checked).clone()).await,
                }
            };
            let timed_out = |_| Err(Arc::new(ConnectError::HealthCheckTimedOut(limit)) as Reason);
            timeout(limit, checking).await.unwrap_or_else(timed_out)
        };
        let span = tracing::debug_span!("health_check", %backend);
        let task = self.tasks.spawn(checking.instrument(span));
        self.running.insert(task.id(), (check, backend));
    }

    /// The next check that ends; `None` if none runs. Cancel safety: no result is lost.
    pub(crate) async fn next(&mut self) -> Option<Checked<K>> {
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

async fn by_connector<C: Connect>(connector: &C, backend: &Backend) -> Result<(), Reason> {
    let mut connection = connector.connect(backend).await.map_err(|error| Arc::new(error) as Reason)?;
    let result = match connector.check(&mut connection) {
        Some(check) => check.await.map_err(|error| Arc::new(error) as Reason),
        None => Ok(()),
    };
    connector.close(connection).await;
    result
}
