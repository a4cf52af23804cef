//! How far catching up is: a line on a terminal that is drawn over and over, and gone in the end.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Of the bar, in characters; with the numbers it fits into 80.
const WIDTH: u64 = 30;

/// The line.
#[derive(Debug, Default)]
pub(super) struct Bar {
    /// How many characters there are to be drawn over.
    drawn: AtomicUsize,
}

impl Bar {
    /// On stderr; `None` if that is no terminal.
    pub(super) fn on_terminal() -> Option<Arc<Bar>> {
        io::stderr().is_terminal().then(Arc::default)
    }

    /// Draws so many transactions of so many.
    pub(super) fn show(&self, at: u64, of: u64) {
        let line = line(at, of);
        let before = self.drawn.swap(line.len(), Ordering::Relaxed);
        draw(format_args!("\r{line:<before$}"));
    }

    /// Leaves nothing of it.
    pub(super) fn clear(&self) {
        let before = self.drawn.swap(0, Ordering::Relaxed);
        if before > 0 {
            draw(format_args!("\r{:before$}\r", ""));
        }
    }
}

/// There is nobody to tell when it cannot be drawn.
fn draw(text: std::fmt::Arguments<'_>) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_fmt(text);
    let _ = stderr.flush();
}

fn line(at: u64, of: u64) -> String {
    let done = u128::from(at.min(of)) * u128::from(WIDTH) / u128::from(of.max(1));
    let (done, width) = (done as usize, WIDTH as usize);
    format!("catching up [{:.<width$}] {at} of {of} transactions", "#".repeat(done))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_is_as_full_as_the_ledger() {
        assert_eq!(line(0, 8), "catching up [..............................] 0 of 8 transactions");
        assert_eq!(line(4, 8), "catching up [###############...............] 4 of 8 transactions");
        assert_eq!(line(8, 8), "catching up [##############################] 8 of 8 transactions");
    }

    #[test]
    fn no_numbers_are_too_much_for_it() {
        for (at, of) in [(0, 0), (9, 8), (u64::MAX, u64::MAX), (u64::MAX, 1)] {
            assert_eq!(line(at, of).find(']'), Some(43), "{at} of {of}");
        }
    }
}
