//! Tests that cannot run here.

use std::io::{self, Write};
use std::thread;

/// Reports that the current test, or a part of it, cannot run here and why.
///
/// The line goes to standard error past the capture of the test harness, which hides what passing tests print: it is seen in CI.
pub fn skip(reason: &str) {
    let thread = thread::current();
    let line = format!("SKIPPED: {reason} ({})\n", thread.name().unwrap_or("unnamed thread"));
    let _ = io::stderr().write_all(line.as_bytes());
}
