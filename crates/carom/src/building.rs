//! What building a pool and building a set have in common: the runtime, and why it fails.

use crate::resolver::InputError;
use carom_core::options::OptionsError;
use tokio::runtime::Handle;

/// Why a pool, a set or another of its kind could not be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// An option makes no sense.
    #[error(transparent)]
    Option(#[from] OptionsError),
    /// The service is no name and no address.
    #[error("service {0}")]
    Service(InputError),
    /// Nothing says who serves.
    #[error("nothing says who serves: give a `service`, `backends` or a `resolver`")]
    NoResolver,
    /// There is no tokio runtime here, and none was named.
    #[error("no tokio runtime here: build inside one, or name one with `runtime`")]
    NoRuntime,
}

/// The runtime that was named, or the one this is called in.
pub(crate) fn runtime(named: Option<Handle>) -> Result<Handle, BuildError> {
    match named {
        Some(runtime) => Ok(runtime),
        None => Handle::try_current().map_err(|_| BuildError::NoRuntime),
    }
}
