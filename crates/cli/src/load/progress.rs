//! How far it is: a line on a terminal that is drawn over and over, and gone in the end.

use crate::terminal;
use std::env;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// A bar is no wider, and where it would be narrower there is none.
const WIDTH: std::ops::RangeInclusive<usize> = 10..=30;

/// How far it is, and how it goes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    pub(super) elapsed: Duration,
    /// For how long it goes on.
    pub(super) duration: Option<Duration>,
    pub(super) requests: u64,
    /// How many there are to be.
    pub(super) wanted: Option<u64>,
    pub(super) failed: u64,
    /// Requests a second, of late.
    pub(super) rate: f64,
}

/// The line, if there is a terminal for it.
#[derive(Debug)]
pub(super) struct Bar {
    drawn: bool,
}

impl Bar {
    /// On stderr; `None` if that is no terminal, or one that cannot draw over a line.
    pub(super) fn on_terminal() -> Option<Bar> {
        let draws = io::stderr().is_terminal() && env::var_os("TERM").is_none_or(|term| term != "dumb");
        draws.then_some(Bar { drawn: false })
    }

    pub(super) fn show(&mut self, progress: &Progress) {
        // In the last column some terminals begin the next line.
        let width = terminal::columns_of_stderr().saturating_sub(1);
        // The cursor waits where it began, so that whoever else has a line to say says it over this one.
        draw(format_args!("\r{}\x1b[K\r", line(progress, width)));
        self.drawn = true;
    }
}

impl Drop for Bar {
    /// Leaves nothing of it.
    fn drop(&mut self) {
        if self.drawn {
            draw(format_args!("\r\x1b[K"));
        }
    }
}

/// There is nobody to tell when it cannot be drawn.
fn draw(text: std::fmt::Arguments<'_>) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_fmt(text);
    let _ = stderr.flush();
}

/// A bar and as much of the figures as fits.
fn line(progress: &Progress, width: usize) -> String {
    let elapsed = progress.elapsed.as_secs_f64();
    let mut figures = vec![
        match progress.duration {
            Some(duration) => format!("{elapsed:.1} of {:.1} s", duration.as_secs_f64()),
            None => format!("{elapsed:.1} s"),
        },
        match progress.wanted {
            Some(wanted) => format!("{} of {wanted} requests", progress.requests),
            None => format!("{} requests", progress.requests),
        },
        format!("{:.0}/s", progress.rate),
    ];
    if progress.failed > 0 {
        figures.push(format!("{} failed", progress.failed));
    }
    let figures = figures.join(", ");
    // Two brackets and a blank.
    let room = width.saturating_sub(figures.len() + 3).min(*WIDTH.end());
    if !WIDTH.contains(&room) {
        return terminal::cut(&figures, width).to_owned();
    }
    let done = (share(progress) * room as f64) as usize;
    format!("[{:.<room$}] {figures}", "#".repeat(done.min(room)))
}

/// Of time or requests, whichever is over sooner.
fn share(progress: &Progress) -> f64 {
    let time = progress.duration.map_or(0.0, |of| progress.elapsed.as_secs_f64() / of.as_secs_f64());
    let requests = progress.wanted.map_or(0.0, |of| progress.requests as f64 / of as f64);
    time.max(requests)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: Progress = Progress {
        elapsed: Duration::from_millis(5000),
        duration: Some(Duration::from_secs(10)),
        requests: 51_234,
        wanted: None,
        failed: 0,
        rate: 10_246.8,
    };

    #[test]
    fn the_bar_is_as_full_as_what_ends_first() {
        let by_time = line(&HALF, 79);
        assert_eq!(by_time, "[###############...............] 5.0 of 10.0 s, 51234 requests, 10247/s");
        let by_count = line(&Progress { wanted: Some(60_000), ..HALF }, 79);
        assert!(
            by_count.starts_with("[########################.....] 5.0 of 10.0 s, 51234 of 60000 requests"),
            "{by_count}"
        );
        let alone = line(&Progress { duration: None, wanted: Some(51_234), failed: 7, ..HALF }, 100);
        assert_eq!(alone, "[##############################] 5.0 s, 51234 of 51234 requests, 10247/s, 7 failed");
    }

    #[test]
    fn no_terminal_is_too_narrow() {
        assert_eq!(line(&HALF, 39), "5.0 of 10.0 s, 51234 requests, 10247/s");
        for width in 0..120 {
            let much = Progress { requests: u64::MAX, wanted: Some(u64::MAX), failed: u64::MAX, rate: 1e12, ..HALF };
            for progress in [HALF, much, Progress::default(), Progress { wanted: Some(1), requests: 9, ..HALF }] {
                assert!(line(&progress, width).len() <= width, "{width}: {progress:?}");
            }
        }
    }
}
