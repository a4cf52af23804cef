//! What the library logs, on stderr.

use crate::failure::Failure;
use crate::output::printable;
use std::env::{self, VarError};
use std::io::{self, Write};
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
    let subscriber =
        Registry::default().with(filter).with(fmt::layer().with_writer(|| Escaped(io::stderr())).with_ansi(false));
    // Only a second call could fail, and there is none.
    let _ = tracing::subscriber::set_global_default(subscriber);
    Ok(())
}

/// Writes events without control characters. The subscriber writes each event with one call.
struct Escaped<W>(W);

impl<W: Write> Write for Escaped<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let (line, end) = text.strip_suffix('\n').map_or((&*text, ""), |line| (line, "\n"));
        self.0.write_all((printable(line) + end).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_without_control_characters() {
        let mut log = Escaped(Vec::new());
        log.write_all("WARN from \u{1b}[2J\u{202e}\nINFO forged é\n".as_bytes()).unwrap();
        assert_eq!(String::from_utf8(log.0).unwrap(), "WARN from \\u{1b}[2J\\u{202e}\\nINFO forged é\n");
    }
}
