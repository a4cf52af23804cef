//! The lease of an upstream: whoever holds it is the owner, and the others know who that is.
//!
//! The rules are those of [`carom_core::feed::lease`]; here they are carried out on a [`Register`].

mod driver;

use super::{Register, Role, clock};
use carom_core::feed::lease::{Machine, Options};
use carom_core::options::OptionsError;
use driver::Driver;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;

/// A part in a lease: one task, which claims it when it is free or its holder is gone, and renews it.
///
/// Dropping it ends that, and with it the hold: the others wait for it to run out. See [`release`](Lease::release).
///
/// ```
/// use carom_gateway::cluster::{Lease, LeaseOptions, Memory, Role};
/// use std::time::Duration;
/// use tokio::time::Instant;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let register = Memory::default();
/// let lease = Lease::start(register.link(), "simulated.demo", "gateway-1", LeaseOptions::default())?;
/// let mut roles = lease.roles();
/// // Nobody knows whether there was somebody else: it takes three seconds.
/// roles.wait_for(|role| matches!(role, Role::Owner { .. })).await?;
///
/// let other = Lease::start(register.link(), "simulated.demo", "gateway-2", LeaseOptions::default())?;
/// other.roles().wait_for(|role| matches!(role, Role::Follower { owner, .. } if &**owner == "gateway-1")).await?;
///
/// // What is given back is taken at once.
/// lease.release(Instant::now() + Duration::from_secs(1)).await;
/// other.roles().wait_for(|role| matches!(role, Role::Owner { .. })).await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Lease {
    roles: watch::Receiver<Role>,
    candidacy: Candidacy,
    task: JoinHandle<()>,
}

/// Which part a member takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// It takes the lease when it can be had.
    Candidate,
    /// It leaves it to others.
    Aside,
    /// None.
    Leaver,
}

/// Says whether a member is to have the lease. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Candidacy(watch::Sender<Part>);

impl Candidacy {
    /// The lease is given back, if this member has it, and left to others. What it did as the owner has ended before.
    pub(super) fn stand_aside(&self) {
        self.take(Part::Aside);
    }

    /// It is taken again when it can be had.
    pub(super) fn stand_in(&self) {
        self.take(Part::Candidate);
    }

    fn take(&self, part: Part) {
        self.0.send_if_modified(|taken| {
            // Who leaves does so for good.
            let is_news = *taken != Part::Leaver && *taken != part;
            if is_news {
                *taken = part;
            }
            is_news
        });
    }
}

impl Lease {
    /// Takes part in the lease of this key from now on. The name of this member is one that no other has, nor had in an earlier
    /// life of the same process: some of it is best left to chance.
    ///
    /// # Errors
    /// An option that makes no sense.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start<R: Register>(
        register: R,
        key: impl Into<Arc<str>>,
        member: impl Into<Arc<str>>,
        options: Options,
    ) -> Result<Lease, OptionsError> {
        let (key, member) = (key.into(), member.into());
        let machine = Machine::new(clock::now().into_std(), member.clone(), options, driver::wall(), seed())?;
        let (roles, role) = watch::channel(Role::Unknown);
        let (part, parts) = watch::channel(Part::Candidate);
        let span = tracing::info_span!(parent: None, "lease", key = &*key, member = &*member);
        let driver = Driver::new(register, key, machine, roles, parts);
        let task = tokio::spawn(driver.run().instrument(span));
        Ok(Lease { roles: role, candidacy: Candidacy(part), task })
    }

    /// What this member is, and what it becomes.
    pub fn roles(&self) -> watch::Receiver<Role> {
        self.roles.clone()
    }

    /// Who says whether this member is to have the lease at all.
    pub(super) fn candidacy(&self) -> Candidacy {
        self.candidacy.clone()
    }

    /// Gives the lease back, so that another member can take it at once: what this one did as the owner has ended before. Takes
    /// no further part.
    ///
    /// When the register has not answered by the deadline, the others have to wait for the hold to run out. So they have if
    /// this is cancelled.
    pub async fn release(mut self, deadline: Instant) {
        self.candidacy.0.send_replace(Part::Leaver);
        // The task ends by itself, or with this value.
        let _ = timeout_at(deadline, &mut self.task).await;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Without chance members come at the same time more often, and the register decides between them.
fn seed() -> u64 {
    getrandom::u64().unwrap_or_default()
}
