//! What a lease's machine wants is asked of the register, one request at a time, and what comes of it is told to all who follow.

use super::Part;
use crate::cluster::{Entry, Register, Role, clock};
use carom_core::feed::lease::{Action, Machine, RequestId, Standing, Written};
use carom_core::seldom::Seldom;
use std::future::pending;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until};

/// How long a watch that has ended is not begun again; the entry is read at intervals meanwhile.
const UNWATCHED: Duration = Duration::from_secs(1);

/// How long a machine that was suspended goes on before it is noticed, at most: timers may have stood still as well.
const NAP: Duration = Duration::from_millis(100);

/// Everything that the task of a lease has.
pub(super) struct Driver<R> {
    register: R,
    key: Arc<str>,
    machine: Machine,
    roles: watch::Sender<Role>,
    parts: watch::Receiver<Part>,
}

/// What the register said.
enum Answer {
    Read(RequestId, Option<Entry>),
    Written(RequestId, Written),
}

type Asked<'a> = Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;

impl<R: Register> Driver<R> {
    pub(super) fn new(
        register: R,
        key: Arc<str>,
        machine: Machine,
        roles: watch::Sender<Role>,
        parts: watch::Receiver<Part>,
    ) -> Driver<R> {
        Driver { register, key, machine, roles, parts }
    }

    /// Until the machine has left.
    pub(super) async fn run(self) {
        let Driver { register, key, mut machine, roles, mut parts } = self;
        let changed = Notify::new();
        let mut watching = pin!(watch_on(&register, &key, &changed));
        let troubles = Troubles::default();
        let mut asked: Option<Asked<'_>> = None;
        loop {
            machine.handle_timeout(now());
            while let Some(action) = machine.poll_action() {
                // The machine waits for one answer at a time: the future of another is of no use to anybody.
                let before = asked.replace(Box::pin(ask(&register, &key, action, &troubles)));
                if before.is_some() {
                    troubles.unanswered();
                }
            }
            tell(&roles, &machine);
            let Some(due) = machine.next_timeout() else { return };
            tokio::select! {
                answer = answered(&mut asked) => match answer {
                    Answer::Read(request, entry) => {
                        machine.handle_wall_clock(wall());
                        machine.handle_read(now(), request, entry);
                    }
                    Answer::Written(request, written) => machine.handle_written(now(), request, written),
                },
                () = changed.notified() => machine.handle_changed(now()),
                // If nobody can say any more which part to take, the handle is gone, and this task with it.
                Ok(()) = parts.changed() => match *parts.borrow_and_update() {
                    Part::Candidate => machine.stand_in(now()),
                    Part::Aside => machine.stand_aside(now()),
                    Part::Leaver => machine.release(now()),
                },
                () = sleep_until(wake(due, &machine)) => {}
                () = &mut watching => {}
            }
        }
    }
}

fn now() -> std::time::Instant {
    clock::now().into_std()
}

fn wake(due: std::time::Instant, machine: &Machine) -> Instant {
    let due = clock::timer(Instant::from_std(due));
    match machine.standing() {
        Standing::Mine { .. } => due.min(Instant::now() + NAP),
        Standing::Nobody | Standing::Other { .. } => due,
    }
}

/// The time since 1970. A clock that is before it is as good as none.
pub(super) fn wall() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO)
}

/// The answer, when there is one.
async fn answered(asked: &mut Option<Asked<'_>>) -> Answer {
    match asked {
        Some(answer) => {
            let answer = answer.await;
            *asked = None;
            answer
        }
        None => pending().await,
    }
}

async fn ask<R: Register>(register: &R, key: &str, action: Action, troubles: &Troubles) -> Answer {
    match action {
        Action::Read { request } => {
            let read = register.read(key).await.inspect_err(|error| troubles.happened(error));
            Answer::Read(request, read.ok())
        }
        Action::Write { request, over, mark } => {
            let written = match register.write(key, over, mark).await {
                Ok(Some(revision)) => Written::Done(revision),
                Ok(None) => Written::Conflict,
                Err(error) => {
                    troubles.happened(&error);
                    Written::Failed
                }
            };
            Answer::Written(request, written)
        }
    }
}

/// Watches for ever.
async fn watch_on<R: Register>(register: &R, key: &str, changed: &Notify) {
    loop {
        let error = register.watch(key, changed).await;
        tracing::debug!(%error, "the lease is not watched for a while");
        sleep(UNWATCHED).await;
    }
}

/// Says what this member is, if that is news.
fn tell(roles: &watch::Sender<Role>, machine: &Machine) {
    let role = match machine.standing() {
        Standing::Nobody => Role::Unknown,
        Standing::Other { holder, epoch } => Role::Follower { owner: holder, epoch },
        Standing::Mine { epoch, until } => Role::Owner { epoch, until: Instant::from_std(until) },
    };
    roles.send_if_modified(|before| {
        let is_news = *before != role;
        match (&*before, &role) {
            (Role::Owner { epoch: before, .. }, Role::Owner { epoch, .. }) if before == epoch => {}
            (Role::Owner { epoch, .. }, _) if machine.is_leaving() => tracing::info!(epoch, "the lease is given back"),
            (Role::Owner { epoch, .. }, _) => {
                tracing::warn!(epoch, "not the owner any more: the lease was not renewed")
            }
            (_, Role::Owner { epoch, .. }) => tracing::info!(epoch, "the owner from now on"),
            (_, Role::Follower { owner, epoch }) if is_news => tracing::info!(%owner, epoch, "another is the owner"),
            (Role::Unknown | Role::Follower { .. }, Role::Unknown | Role::Follower { .. }) => {}
        }
        *before = role;
        is_news
    });
}

/// A register that cannot be asked, or does not answer, is told of now and then.
#[derive(Default)]
struct Troubles {
    failed: Mutex<Seldom>,
    silent: Mutex<Seldom>,
}

impl Troubles {
    fn happened<E: std::error::Error + 'static>(&self, error: &E) {
        if let Some(count) = happened(&self.failed) {
            let error: &(dyn std::error::Error + 'static) = error;
            tracing::warn!(error, count, "the register of leases cannot be asked; trying again");
        }
    }

    /// Something else is asked, as there is no answer to the request before.
    fn unanswered(&self) {
        if let Some(count) = happened(&self.silent) {
            tracing::warn!(
                count,
                "the register of leases does not answer in time; nobody can own the upstream if it stays so; trying again"
            );
        }
    }
}

fn happened(seldom: &Mutex<Seldom>) -> Option<u64> {
    seldom.lock().unwrap_or_else(PoisonError::into_inner).happened(now())
}
