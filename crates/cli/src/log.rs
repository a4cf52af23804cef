//! What the library logs, on stderr.

use crate::failure::Failure;
use std::env::{self, VarError};
use std::io;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Registry, fmt};

/// What it is set with.
const VARIABLE: &str = "CAROM_LOG";

/// Logs as `CAROM_LOG` says; as usual when it says nothing.
pub(crate) fn start(usual: Targets) -> Result<(), Failure> {
    let wanted = match env::var(VARIABLE) {
        Ok(text) if text.trim().is_empty() => None,
        Ok(text) => Some(text),
        Err(VarError::NotPresent) => None,
        Err(VarError::NotUnicode(text)) => return Err(Failure::Usage(format!("{VARIABLE}={text:?} is not UTF-8"))),
    };
    let filter = match wanted {
        None => usual,
        Some(text) => text.parse().map_err(|problem| Failure::Usage(format!("{VARIABLE}={text:?}: {problem}")))?,
    };
    let subscriber = Registry::default().with(filter).with(fmt::layer().with_writer(io::stderr).with_ansi(false));
    // Only a second call could fail, and there is none.
    let _ = tracing::subscriber::set_global_default(subscriber);
    Ok(())
}
