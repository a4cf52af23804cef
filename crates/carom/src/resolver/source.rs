//! The source: whoever says who serves, as a builder keeps it until everything else is known.

use super::handle::followed;
use super::record::Record;
use super::{Fixed, Publisher, Resolution, Resolve};
use crate::Backend;
use crate::building::BuildError;
use crate::monitor::{Id, Monitor};
use carom_core::recovery::Recovery;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tracing::Instrument;

pub(super) type Running = Pin<Box<dyn Future<Output = ()> + Send>>;
pub(super) type Run = Box<dyn FnOnce(Publisher) -> Running + Send>;
type Prepare = Box<dyn FnOnce(&Recovery) -> Result<Prepared, BuildError> + Send>;

/// A resolver yet to be started.
#[derive(Default)]
pub(crate) struct Source {
    /// Makes the resolver, once it is known how patiently it shall ask.
    make: Option<Prepare>,
    /// Known before the resolver says so.
    pub(crate) fixed: Vec<Backend>,
    /// What a pool or set is called that has no other name.
    pub(crate) name: Option<Arc<str>>,
}

impl Source {
    /// These backends and no others.
    pub(crate) fn fixed(backends: impl IntoIterator<Item = impl Into<Backend>>) -> Source {
        let fixed = Fixed::new(backends);
        let name = fixed.title().map(Into::into);
        let known = fixed.backends().to_vec();
        let make: Prepare = Box::new(move |_| Ok(Prepared { seen: Seen::Not, ..Prepared::new(fixed) }));
        Source { make: Some(make), fixed: known, name }
    }

    /// Whoever this resolver says serves.
    pub(crate) fn resolver(resolver: impl Resolve) -> Source {
        Source { make: Some(Box::new(move |_| Ok(Prepared::new(resolver)))), ..Source::default() }
    }

    /// A resolver that is made when everything else is known.
    #[allow(dead_code)] // for DNS alone
    pub(crate) fn made<R: Resolve>(
        name: String,
        make: impl FnOnce(&Recovery) -> Result<R, BuildError> + Send + 'static,
    ) -> Source {
        let make = Box::new(move |recovery: &Recovery| make(recovery).map(Prepared::new));
        Source { make: Some(make), name: Some(name.into()), ..Source::default() }
    }

    /// Makes the resolver: nothing runs yet, but what is wrong is found out.
    pub(crate) fn prepare(self, recovery: &Recovery) -> Result<Prepared, BuildError> {
        let make = self.make.ok_or(BuildError::NoResolver)?;
        make(recovery)
    }
}

/// A resolver that only needs a runtime.
pub(crate) struct Prepared {
    run: Run,
    seen: Seen,
}

/// What is seen of a resolver.
enum Seen {
    /// Nothing: whoever follows it knows beforehand what it will say.
    Not,
    /// The one that it follows.
    AsAnother(Arc<Record>),
    /// Itself, called after its type until it says otherwise.
    Itself(&'static str),
}

impl Prepared {
    fn new<R: Resolve>(resolver: R) -> Prepared {
        let seen = match followed(&resolver) {
            Some(record) => Seen::AsAnother(record),
            None => Seen::Itself(std::any::type_name::<R>()),
        };
        Prepared { run: Box::new(move |publisher| Box::pin(resolver.run(publisher))), seen }
    }

    /// Starts it, to be seen by this monitor. It is aborted by whoever follows it; then it is not seen any more.
    pub(crate) fn start(
        self,
        runtime: &Handle,
        monitor: &Monitor,
    ) -> (watch::Receiver<Resolution>, AbortHandle, Option<Id>) {
        let (sender, resolution) = watch::channel(Resolution::unknown());
        let record = Arc::new(Record::new(sender.clone()));
        let id = match &self.seen {
            Seen::Not => None,
            Seen::AsAnother(other) => Some(other.seen_by(monitor)),
            Seen::Itself(of_type) => {
                record.notes().call_after(of_type);
                Some(record.seen_by(monitor))
            }
        };
        let span = record.notes().span();
        let publisher = Publisher::over(sender, record.notes());
        let publisher = match &self.seen {
            Seen::Not | Seen::AsAnother(_) => publisher.quiet(),
            Seen::Itself(_) => publisher,
        };
        let task = async move {
            (self.run)(publisher).await;
            // What it has said stays, and so does the sight of it.
            record.returned();
            if id.is_some() {
                std::future::pending::<()>().await;
            }
        };
        (resolution, runtime.spawn(task.instrument(span)).abort_handle(), id)
    }

    /// Whom it follows, if that is a resolver that is seen.
    pub(super) fn followed(&self) -> Option<&Arc<Record>> {
        match &self.seen {
            Seen::AsAnother(record) => Some(record),
            Seen::Not | Seen::Itself(_) => None,
        }
    }
}

/// For whoever wants it as a handle.
impl Resolve for Prepared {
    async fn run(self, publisher: Publisher) {
        if let Seen::Itself(of_type) = self.seen {
            publisher.notes().call_after(of_type);
        }
        (self.run)(publisher).await;
    }
}
