//! What is logged of a resolver: who serves, that it has failed or that what it knows grows old, each once.

use super::{Resolution, ResolverState};
use crate::cause::Chain;
use crate::quiet::text_of;
use carom_core::backend::are_the_same;

/// Tells what is new, within the span of the resolver that `name` is.
pub(super) fn tell(name: &str, before: &Resolution, after: &Resolution) {
    let error = || after.last_error.as_ref().map(|error| text_of(&Chain(&**error)));
    let backends = after.backends.len();
    if before.state != after.state {
        match after.state {
            ResolverState::Running => tracing::info!(resolver = name, backends, "it is known who serves"),
            ResolverState::Failed => tracing::warn!(resolver = name, error = error(), "resolver has failed"),
            ResolverState::Starting | ResolverState::Stopping | ResolverState::Stopped => {}
        }
    } else if tracing::enabled!(tracing::Level::DEBUG) && !are_the_same(&before.backends, &after.backends) {
        let known = before.backends.len();
        tracing::debug!(resolver = name, known, backends, "others serve now");
    }
    match (before.stale_since, after.stale_since) {
        (None, Some(_)) => {
            tracing::warn!(resolver = name, error = error(), backends, "who serves may be out of date")
        }
        (Some(_), None) => tracing::info!(resolver = name, backends, "who serves has been confirmed"),
        (None, None) | (Some(_), Some(_)) => {}
    }
}
