//! Who of several gateways has the connections to a broker, told whenever it is another one.

use crate::failure::say;
use carom_gateway::cluster::Role;
use carom_gateway::keys::Identity;
use std::sync::Arc;
use tokio::sync::watch;

/// Who has them.
#[derive(Debug, PartialEq, Eq)]
enum Owner {
    Nobody,
    Here(u64),
    There(Arc<str>, u64),
}

/// Tells it on stderr, for as long as the gateway takes part.
pub(super) async fn tell(Identity { broker, user, .. }: Identity, mut roles: watch::Receiver<Role>) {
    let mut told = Owner::Nobody;
    loop {
        let owner = Owner::of(&roles.borrow_and_update());
        if owner != told && !owner.is_logged() {
            say(format_args!("the feed of {user} at {broker} {}", owner.shown()));
        }
        told = owner;
        if roles.changed().await.is_err() {
            return;
        }
    }
}

impl Owner {
    fn of(role: &Role) -> Owner {
        match role {
            Role::Unknown => Owner::Nobody,
            Role::Follower { owner, epoch } => Owner::There(Arc::clone(owner), *epoch),
            // For how long it is so, changes all the time.
            Role::Owner { epoch, .. } => Owner::Here(*epoch),
        }
    }

    /// Whether the library says so itself, as it does with `CAROM_LOG=info`.
    fn is_logged(&self) -> bool {
        match self {
            Owner::Nobody => false,
            Owner::Here(_) | Owner::There(..) => {
                tracing::enabled!(target: "carom_gateway::cluster::lease", tracing::Level::INFO)
            }
        }
    }

    fn shown(&self) -> String {
        match self {
            Owner::Nobody => "has no owner that is known".to_owned(),
            Owner::Here(epoch) => format!("is owned here, epoch {epoch}"),
            Owner::There(owner, epoch) => format!("is owned by {owner}, epoch {epoch}"),
        }
    }
}
