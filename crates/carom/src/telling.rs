//! What becomes of backends, told to whoever reads the log: once for each turn they take, not with every retry.

use crate::cause::{Causes, Reason, in_words};
use carom_core::news::{News, Turn};
use std::time::Instant;

/// Whose backend it is.
#[derive(Clone, Copy)]
pub(crate) enum Whose<'a> {
    Pool(&'a str),
    Set(&'a str),
}

/// What is to be told, and why it is so. Collected under the lock, and told after.
pub(crate) type Tale = (News, Option<Reason>);

/// Everything that a machine has to tell.
pub(crate) fn collect(next: impl FnMut() -> Option<News>, causes: &Causes) -> Vec<Tale> {
    let with_reason = |news: News| {
        let reason = match &news {
            News::Backend { backend, turn } => match turn {
                Turn::Dead => causes.reason(backend),
                Turn::Ejected { .. } => causes.failed_use(backend),
                Turn::Unhealthy => causes.failed_health_check(backend),
                Turn::Alive | Turn::Doubted | Turn::Back | Turn::Returned | Turn::ChecksPass => None,
            },
            News::Panic { .. } => None,
        };
        (news, reason)
    };
    std::iter::from_fn(next).map(with_reason).collect()
}

/// A backend has stalled, or has recovered from that.
#[cfg(feature = "http")]
pub(crate) fn tell_stall(whose: Whose<'_>, backend: &carom_core::backend::Backend, stalled: bool) {
    let (pool, set) = whose.fields();
    if stalled {
        tracing::warn!(pool, set, %backend, "backend stalled: no byte arrives from it while other backends respond");
    } else {
        tracing::info!(pool, set, %backend, "backend recovered from a stall");
    }
}

impl<'a> Whose<'a> {
    /// The values of the fields `pool` and `set`, of which one is there.
    fn fields(self) -> (Option<&'a str>, Option<&'a str>) {
        match self {
            Whose::Pool(name) => (Some(name), None),
            Whose::Set(name) => (None, Some(name)),
        }
    }
}

pub(crate) fn tell(whose: Whose<'_>, now: Instant, tales: Vec<Tale>) {
    let (Whose::Pool(name) | Whose::Set(name)) = whose;
    let (pool, set) = whose.fields();
    for (news, reason) in tales {
        let reason = reason.map(|reason| in_words(reason, name));
        let reason = reason.as_deref();
        let (backend, turn) = match news {
            News::Backend { backend, turn } => (backend, turn),
            News::Panic { begins, healthy, known } => {
                if begins {
                    tracing::warn!(pool, set, healthy, known, "panic: ejected and unhealthy backends are used");
                } else {
                    tracing::info!(pool, set, healthy, known, "panic is over");
                }
                continue;
            }
        };
        match turn {
            Turn::Alive => tracing::debug!(pool, set, %backend, "backend works"),
            Turn::Doubted => tracing::debug!(pool, set, %backend, "backend is doubted"),
            Turn::Dead => tracing::warn!(pool, set, %backend, reason, "backend is dead: its attempts ran out"),
            Turn::Back => tracing::info!(pool, set, %backend, "backend is back"),
            Turn::Ejected { until } => {
                let time = until.saturating_duration_since(now);
                tracing::warn!(pool, set, %backend, reason, ?time, "backend ejected: its uses fail");
            }
            Turn::Returned => tracing::info!(pool, set, %backend, "backend takes part again"),
            Turn::Unhealthy => tracing::warn!(pool, set, %backend, reason, "backend unhealthy: health checks fail"),
            Turn::ChecksPass => tracing::info!(pool, set, %backend, "backend healthy: health checks pass"),
        }
    }
}
