//! The instruments that a running adapter knows, which somebody replaces every morning.

use super::instruments::Instruments;
use crate::upstream;

/// What [`Kite`](super::Kite) looks symbols up in.
pub type Listing = upstream::Listing<Instruments>;
