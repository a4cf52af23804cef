//! Several gateways for the same users: one of them at a time has the connections to an upstream.
//!
//! Who that is, is agreed upon with a [`Lease`] in a [`Register`], which all of them can reach. Each is told its [`Role`], and
//! does what only the owner may do behind a [`Fence`].
//!
//! ```text
//! clients -> gateway -> Feed<Elected<A>> -> A -> upstream                     the owner
//!                                        ^
//! clients -> gateway -> Feed<Elected<A>> -> session: subscribe, refused, carried   the others
//!
//! upstream -> A -> the owner's feed -> bus on NATS -> every gateway -> its clients
//! ```
//!
//! A [`Share`] is a gateway's part in it. What its clients want goes through one feed, whose adapter is [`Elected`]: packing,
//! waiting, recovery and refusals are the feed's, as always. The owner counts what other members want as interests in its own
//! feed, so the upstream's limits hold for all of them together; and it tells them what of it is carried, so that no member says
//! that it has what the owner has not.

mod clock;
mod elected;
mod fence;
mod guest;
mod hearing;
mod lease;
mod member;
mod memory;
mod message;
#[cfg(feature = "nats")]
mod nats_register;
mod register;
mod relay;
mod role;
mod service;
mod share;
mod standing_aside;

#[cfg(test)]
mod tests;

pub use carom_core::feed::lease::{Entry, Holder, Mark, Options as LeaseOptions};
pub use elected::{CutOff, Elected, ElectedError, Reader, Writer};
pub use fence::{Fence, Fenced};
pub use lease::Lease;
pub use member::Unanswered;
pub use memory::{Memory, MemoryLink};
#[cfg(feature = "nats")]
pub use nats_register::{NatsRegister, NatsRegisterError};
pub use register::Register;
pub use relay::RelayError;
pub use role::Role;
pub use share::{Share, ShareError, ShareSnapshot};
