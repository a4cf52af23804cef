//! Standing aside: a member that has no credential, or whose credential the upstream refuses, leaves the upstream to others, and
//! needs none as one of them.

use super::Role;
use super::lease::Candidacy;
use crate::source::Source;
use carom::feed::{ConnectionState, State};
use carom_core::seldom::Seldom;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// How long a member that was refused leaves the upstream to others, unless another credential is at hand before. Where all are
/// refused, each of them tries its luck once in so long.
const REFUSED: Duration = Duration::from_secs(300);

/// How long a member does that has no credential to present. It costs nothing to look again.
const LACKING: Duration = Duration::from_secs(60);

/// How often an owner looks whether it can do anything with what it owns.
const LOOK: Duration = Duration::from_secs(1);

/// Why an owner can do nothing with what it owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unfit {
    Refused,
    Lacking,
}

/// Whether a member stands for the lease.
///
/// ```text
///            as the owner, unfit and without a connection
///  Candidate ---------------------------------------------> Aside
///      ^                                                      |
///      +------------------------------------------------------+
///          another credential is said to be at hand, or `until`
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Candidate,
    Aside { until: Instant },
}

/// Follows what this member is, and how it stands with its credential, for as long as both are known.
///
/// - A feed that was refused goes on when somebody else is the owner: sessions with that one want no credential.
/// - An owner that is refused or has no credential, and has no connection left, gives its lease back.
/// - Whoever becomes the owner tries at once what it would have tried later.
pub(super) async fn follow(source: Arc<dyn Source>, mut roles: watch::Receiver<Role>, candidacy: Option<Candidacy>) {
    let (mut states, mut renewals) = (source.states(), source.renewals());
    let (mut standing, mut known, mut told) = (Standing::Candidate, None, Seldom::default());
    let mut counted = *renewals.borrow_and_update();
    loop {
        // What was last told of its state may be some time ago, and one that goes on already is not to be told so again.
        states.borrow_and_update();
        let (role, state) = (roles.borrow_and_update().clone(), source.snapshot().state);
        let renewed = std::mem::replace(&mut counted, *renewals.borrow_and_update()) != counted;
        let now = Instant::now();
        if std::mem::replace(&mut known, hold(&role)) != hold(&role) && known.is_some() {
            source.hurry();
        }
        let mut goes_on = matches!((state, &role), (State::Refused, Role::Follower { .. }));
        let look_at = match (standing, &role) {
            (Standing::Candidate, Role::Owner { epoch, .. }) => match unfit(&*source) {
                None => Some(now + LOOK),
                Some(unfit) => {
                    let until = now + unfit.aside();
                    standing = Standing::Aside { until };
                    unfit.tell(*epoch, &mut told);
                    candidacy.iter().for_each(Candidacy::stand_aside);
                    Some(until)
                }
            },
            (Standing::Candidate, Role::Unknown | Role::Follower { .. }) => None,
            (Standing::Aside { until }, _) if renewed || now >= until => {
                goes_on |= state == State::Refused;
                standing = Standing::Candidate;
                candidacy.iter().for_each(Candidacy::stand_in);
                Some(now + LOOK)
            }
            (Standing::Aside { until }, _) => Some(until),
        };
        if goes_on {
            source.resume();
            // It is no news to who has said it.
            counted += 1;
        }
        let changed = tokio::select! {
            changed = roles.changed() => changed,
            changed = states.changed() => changed,
            changed = renewals.changed() => changed,
            () = at(look_at) => Ok(()),
        };
        if changed.is_err() {
            return;
        }
    }
}

/// Why the owner can do nothing; none also while something is left of its connections, as those that were up when a credential
/// was refused stay.
fn unfit(source: &dyn Source) -> Option<Unfit> {
    let seen = source.snapshot();
    if seen.connections.iter().any(|connection| connection.state != ConnectionState::Waiting) {
        return None;
    }
    let lacking = !seen.connections.is_empty() && seen.connections.iter().all(|connection| connection.lacks_credential);
    match seen.state {
        State::Refused => Some(Unfit::Refused),
        State::Running if lacking => Some(Unfit::Lacking),
        State::Running | State::Stopping | State::Stopped => None,
    }
}

impl Unfit {
    fn aside(self) -> Duration {
        match self {
            Unfit::Refused => REFUSED,
            Unfit::Lacking => LACKING,
        }
    }

    /// Other members may have their credentials from elsewhere, or have them already.
    fn tell(self, epoch: u64, told: &mut Seldom) {
        match self {
            Unfit::Refused => tracing::error!(
                epoch,
                "the upstream that this gateway owns refuses its credential: it is left to other gateways until there is \
                 another credential, or for 5 minutes"
            ),
            Unfit::Lacking => {
                if let Some(count) = told.happened(Instant::now().into_std()) {
                    tracing::error!(
                        epoch,
                        count,
                        "this gateway has no credential for the upstream that it owns: it is left to other gateways for a \
                         minute"
                    );
                }
            }
        }
    }
}

/// Who owns the upstream, and in which hold.
fn hold(role: &Role) -> Option<u64> {
    match role {
        Role::Unknown => None,
        Role::Follower { epoch, .. } | Role::Owner { epoch, .. } => Some(*epoch),
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => pending().await,
    }
}
