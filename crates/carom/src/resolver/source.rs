//! The source: whoever says who serves, as a builder keeps it until everything else is known.

use super::{Fixed, Publisher, Resolution, Resolve};
use crate::Backend;
use crate::building::BuildError;
use carom_core::recovery::Recovery;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;
type Resolving = Box<dyn FnOnce(Publisher) -> Running + Send>;
type MakeResolving = Box<dyn FnOnce(&Recovery) -> Result<Resolving, BuildError> + Send>;

/// A resolver yet to be started.
#[derive(Default)]
pub(crate) struct Source {
    /// Makes the resolver, once it is known how patiently it shall ask.
    make: Option<MakeResolving>,
    /// Known before the resolver says so.
    pub(crate) fixed: Vec<Backend>,
    /// What a pool or set is called that has no other name.
    pub(crate) name: Option<Arc<str>>,
}

impl Source {
    /// These backends and no others.
    pub(crate) fn fixed(backends: impl IntoIterator<Item = impl Into<Backend>>) -> Source {
        let fixed = Fixed::new(backends);
        let title = |backend: &Backend| backend.own_name().map_or_else(|| backend.to_string(), str::to_owned);
        let name = match fixed.backends() {
            [] => None,
            [one] => Some(title(one).into()),
            [first, others @ ..] => Some(format!("{} and {} more", title(first), others.len()).into()),
        };
        let known = fixed.backends().to_vec();
        Source { fixed: known, name, ..Source::resolver(fixed) }
    }

    /// Whoever this resolver says serves.
    pub(crate) fn resolver(resolver: impl Resolve) -> Source {
        Source { make: Some(Box::new(move |_| Ok(resolving(resolver)))), ..Source::default() }
    }

    /// A resolver that is made when everything else is known.
    #[allow(dead_code)] // for DNS alone
    pub(crate) fn made<R: Resolve>(
        name: String,
        make: impl FnOnce(&Recovery) -> Result<R, BuildError> + Send + 'static,
    ) -> Source {
        let make = Box::new(move |recovery: &Recovery| make(recovery).map(resolving));
        Source { make: Some(make), name: Some(name.into()), ..Source::default() }
    }

    /// Makes the resolver: nothing runs yet, but what is wrong is found out.
    pub(crate) fn prepare(self, recovery: &Recovery) -> Result<Prepared, BuildError> {
        let make = self.make.ok_or(BuildError::NoResolver)?;
        Ok(Prepared(make(recovery)?))
    }
}

/// A resolver that only needs a runtime.
pub(crate) struct Prepared(Resolving);

impl Prepared {
    pub(crate) fn start(self, runtime: &Handle) -> (watch::Receiver<Resolution>, AbortHandle) {
        let (publisher, resolution) = Publisher::new();
        (resolution, runtime.spawn((self.0)(publisher)).abort_handle())
    }
}

fn resolving(resolver: impl Resolve) -> Resolving {
    Box::new(move |publisher| Box::pin(resolver.run(publisher)))
}
