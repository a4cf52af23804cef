//! The handle: a resolver that has been started, for as many holders as like.

use super::record::Record;
use super::source::{Prepared, Run};
use super::{Changes, Publisher, Resolution, Resolve, ResolverState};
use crate::monitor::{Id, Monitor};
use crate::{Backend, clock};
use std::any::Any;
use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, watch};
use tracing::Instrument;

/// A resolver that runs, held by whoever follows it. Cheap to clone; it stops when told to, or with its last holder.
///
/// A pool takes one like any other resolver: `.resolver(resolver.clone())`. Closing the pool only lets go of it.
#[derive(Clone)]
pub struct Resolver {
    running: Arc<Running>,
    resolution: watch::Receiver<Resolution>,
}

#[derive(Debug)]
struct Running {
    record: Arc<Record>,
    /// What is seen of it: this, or the one that it follows.
    seen: Arc<Record>,
    id: Id,
    stop: Arc<Notify>,
    replacements: mpsc::UnboundedSender<Run>,
}

impl Resolver {
    /// Starts a resolver, on the tokio runtime that this is called in.
    ///
    /// # Errors
    /// When there is no runtime here.
    pub fn start(resolve: impl Resolve) -> Result<Resolver, StartError> {
        Ok(Resolver::start_on(&Handle::try_current().map_err(|_| StartError)?, resolve))
    }

    /// Starts a resolver as [`start`](Resolver::start) does, to be called this where it is [seen](crate::monitor), whatever it
    /// calls itself. One that does nothing but follow another keeps that one's name.
    ///
    /// # Errors
    /// When there is no runtime here.
    pub fn start_as(name: &str, resolve: impl Resolve) -> Result<Resolver, StartError> {
        let runtime = Handle::try_current().map_err(|_| StartError)?;
        Ok(Resolver::launch(&runtime, Monitor::global(), Some(name), resolve))
    }

    /// Starts a resolver on a runtime.
    pub fn start_on(runtime: &Handle, resolve: impl Resolve) -> Resolver {
        Resolver::start_in(runtime, Monitor::global(), resolve)
    }

    /// Starts a resolver on a runtime, to be seen by this monitor instead of [`Monitor::global`].
    pub fn start_in(runtime: &Handle, monitor: &Monitor, resolve: impl Resolve) -> Resolver {
        Resolver::launch(runtime, monitor, None, resolve)
    }

    fn launch<R: Resolve>(runtime: &Handle, monitor: &Monitor, name: Option<&str>, resolve: R) -> Resolver {
        let (sender, resolution) = watch::channel(Resolution::unknown());
        let record = Arc::new(Record::new(sender.clone()));
        match name {
            Some(name) => record.notes().name_for_good(name),
            None => record.notes().call_after(std::any::type_name::<R>()),
        }
        let other = followed(&resolve);
        let follows = other.is_some();
        let seen = other.unwrap_or_else(|| Arc::clone(&record));
        let id = seen.seen_by(monitor);
        let stop = Arc::new(Notify::new());
        let publisher = Publisher::over(sender.clone(), record.notes());
        let publisher = if follows { publisher.quiet() } else { publisher };
        let span = record.notes().span();
        let (ends, told) = (End(Arc::clone(&record)), Arc::clone(&stop));
        let (replacements, mut replaced) = mpsc::unbounded_channel::<Run>();
        let task = async move {
            let ends = ends;
            let mut run: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(resolve.run(publisher));
            let mut runs = true;
            loop {
                // Dropping `run` ends it wherever it is: in a lookup, in a sleep.
                tokio::select! {
                    biased;
                    () = told.notified() => return,
                    Some(next) = replaced.recv() => {
                        let notes = ends.0.notes();
                        notes.asks_no_more();
                        (run, runs) = (next(Publisher::over(sender.clone(), notes)), true);
                    }
                    () = &mut run, if runs => {
                        ends.0.returned();
                        runs = false;
                    }
                }
            }
        };
        runtime.spawn(task.instrument(span));
        Resolver { running: Arc::new(Running { record, seen, id, stop, replacements }), resolution }
    }

    /// Resolves with another resolver from now on. The known backends stay until it has answered, and as stale if it fails; its
    /// first answer is published as one change. Pools that follow this resolver keep their connections to backends that are in both
    /// sets. Does nothing after [`stop`](Resolver::stop).
    ///
    /// ```
    /// use carom::resolver::{Fixed, Resolver};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let resolver = Resolver::start(Fixed::parse(["10.0.0.1:80"], 80)?)?;
    /// resolver.replace(Fixed::parse(["10.0.0.1:80", "10.0.0.2:80"], 80)?);
    /// resolver.wait_until(|known| known.backends.len() == 2).await?;
    /// # Ok(()) }
    /// ```
    pub fn replace(&self, resolve: impl Resolve) {
        // Fails when it has stopped.
        let _ = self.running.replacements.send(Box::new(move |publisher| Box::pin(resolve.run(publisher))));
    }

    /// What the monitor calls it that it was started in. One that does nothing but follow another is seen as that one.
    pub fn id(&self) -> Id {
        self.running.id
    }

    /// It is seen by this monitor too from now on.
    #[allow(dead_code, reason = "for DNS alone")]
    pub(crate) fn seen_by(&self, monitor: &Monitor) {
        self.running.seen.seen_by(monitor);
    }

    /// Where it is.
    pub fn state(&self) -> ResolverState {
        self.resolution.borrow().state
    }

    /// Who serves, as far as is known.
    pub fn backends(&self) -> Arc<[Backend]> {
        Arc::clone(&self.resolution.borrow().backends)
    }

    /// Its latest trouble, if it has not succeeded since.
    pub fn last_error(&self) -> Option<Arc<dyn Error + Send + Sync>> {
        self.resolution.borrow().last_error.clone()
    }

    /// Everything it knows.
    pub fn resolution(&self) -> Resolution {
        self.resolution.borrow().clone()
    }

    /// Waits until it is in this state, and says what it knows then. Cancelling is harmless.
    ///
    /// # Errors
    /// When it has stopped, and that was not what was waited for.
    pub async fn wait_for(&self, state: ResolverState) -> Result<Resolution, Stopped> {
        self.wait_until(|resolution| resolution.state == state).await
    }

    /// Waits until it knows something that is as wanted. Cancelling is harmless.
    ///
    /// # Errors
    /// When it has stopped before.
    pub async fn wait_until(&self, wanted: impl Fn(&Resolution) -> bool) -> Result<Resolution, Stopped> {
        let mut resolution = self.resolution.clone();
        let found = resolution.wait_for(|known| wanted(known) || known.state == ResolverState::Stopped).await;
        let known = found.map_err(|_| Stopped)?.clone();
        if wanted(&known) { Ok(known) } else { Err(Stopped) }
    }

    /// What it knows, as changes: first everything there is, then what comes and goes.
    pub fn changes(&self) -> Changes {
        Changes::new(self.resolution.clone())
    }

    /// A receiver of everything it says, for those who want more than changes.
    pub fn subscribe(&self) -> watch::Receiver<Resolution> {
        self.resolution.clone()
    }

    /// A reference that does not keep it running.
    pub fn downgrade(&self) -> WeakResolver {
        WeakResolver { running: Arc::downgrade(&self.running), resolution: self.resolution.clone() }
    }

    /// Stops it, in the middle of whatever it does. What it knew stays readable. Stopping again does nothing.
    pub fn stop(&self) {
        self.running.stop();
    }
}

/// A reference to a resolver that does not keep it running.
#[derive(Clone, Debug)]
pub struct WeakResolver {
    running: Weak<Running>,
    resolution: watch::Receiver<Resolution>,
}

impl WeakResolver {
    /// The resolver, if somebody still holds it.
    pub fn upgrade(&self) -> Option<Resolver> {
        Some(Resolver { running: self.running.upgrade()?, resolution: self.resolution.clone() })
    }
}

/// Follows the other, and holds it for as long.
impl Resolve for Resolver {
    async fn run(self, publisher: Publisher) {
        let mut resolution = self.resolution.clone();
        loop {
            let known = resolution.borrow_and_update().clone();
            match known.state {
                // What it said last stays, and grows old.
                ResolverState::Stopping | ResolverState::Stopped => {
                    if !known.backends.is_empty() {
                        let stale_since = known.stale_since.or_else(|| Some(clock::now()));
                        publisher.relay(Resolution { state: ResolverState::Running, stale_since, ..known });
                    }
                    return;
                }
                ResolverState::Starting | ResolverState::Running | ResolverState::Failed => publisher.relay(known),
            }
            if resolution.changed().await.is_err() {
                return;
            }
        }
    }
}

impl Running {
    fn stop(&self) {
        if self.record.stopping() {
            self.stop.notify_one();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// However the task ends, and be it with its runtime, the resolver has stopped then.
struct End(Arc<Record>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.stopped();
        tracing::info!(resolver = &*self.0.notes().title(), "resolver has stopped");
    }
}

/// What is seen of a resolver that does nothing but follow another: the other.
pub(super) fn followed(resolve: &impl Resolve) -> Option<Arc<Record>> {
    let resolve: &dyn Any = resolve;
    let handle = resolve.downcast_ref::<Resolver>().map(|resolver| &resolver.running.seen);
    handle.or_else(|| resolve.downcast_ref::<Prepared>().and_then(Prepared::followed)).map(Arc::clone)
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.resolution.borrow();
        f.debug_struct("Resolver").field("state", &known.state).field("backends", &known.backends.len()).finish()
    }
}

/// There is no tokio runtime here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no tokio runtime here: start inside one, or name one with `start_on`")]
pub struct StartError;

/// A resolver that ended before it said anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the resolver ended without an answer")]
pub struct ResolverEnded;

/// The resolver has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the resolver has stopped")]
pub struct Stopped;
