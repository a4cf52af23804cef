//! What pools and sets say of a backend.

use crate::top::line::{Line, Tone};
use crate::top::object::Urgency;
use crate::top::sight::Sight;
use carom::monitor::{Backend, BackendFlags, BackendState, PoolBackend, SetBackend};

/// How a backend stands with somebody.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing<'a> {
    pub(super) backend: &'a Backend,
    pub(super) state: BackendState,
    flags: &'a BackendFlags,
    reason: Option<&'a str>,
    next_attempt_ms: Option<u64>,
    ejected_ms: Option<u64>,
}

impl<'a> From<&'a PoolBackend> for Standing<'a> {
    fn from(of: &'a PoolBackend) -> Standing<'a> {
        let PoolBackend { backend, state, flags, reason, next_attempt_ms, ejected_ms, .. } = of;
        let (next_attempt_ms, ejected_ms) = (*next_attempt_ms, *ejected_ms);
        Standing { backend, state: *state, flags, reason: reason.as_deref(), next_attempt_ms, ejected_ms }
    }
}

impl<'a> From<&'a SetBackend> for Standing<'a> {
    fn from(of: &'a SetBackend) -> Standing<'a> {
        let SetBackend { backend, state, flags, reason, next_attempt_ms, ejected_ms, .. } = of;
        let (next_attempt_ms, ejected_ms) = (*next_attempt_ms, *ejected_ms);
        Standing { backend, state: *state, flags, reason: reason.as_deref(), next_attempt_ms, ejected_ms }
    }
}

impl Standing<'_> {
    pub(super) fn urgency(&self) -> Urgency {
        match self.state {
            BackendState::Dead | BackendState::Unhealthy | BackendState::Ejected => Urgency::Impaired,
            _ if self.flags.failing || self.flags.stalled || self.flags.unreliable => Urgency::Strained,
            _ if self.flags.held_off_ms.is_some() => Urgency::Strained,
            _ => Urgency::Fine,
        }
    }

    /// Who it is, how it is, why, and when it is tried again.
    pub(super) fn line(&self, sight: Sight<'_>) -> Line {
        let (tone, state) = match self.state {
            BackendState::Unknown | BackendState::Healthy if self.flags.failing => (Tone::Warn, "failing"),
            BackendState::Unknown | BackendState::Healthy if self.flags.stalled => (Tone::Warn, "stalled"),
            BackendState::Unknown | BackendState::Healthy if self.flags.unreliable => (Tone::Warn, "unreliable"),
            BackendState::Unknown | BackendState::Healthy if self.flags.held_off_ms.is_some() => {
                (Tone::Warn, "held off")
            }
            BackendState::Healthy if self.flags.slow_start => (Tone::Good, "healthy, slow start"),
            BackendState::Unknown => (Tone::Plain, "unknown"),
            BackendState::Healthy => (Tone::Good, "healthy"),
            BackendState::Dead => (Tone::Bad, "DEAD"),
            BackendState::Unhealthy => (Tone::Bad, "UNHEALTHY"),
            BackendState::Ejected => (Tone::Bad, "EJECTED"),
            BackendState::Removed => (Tone::Dim, "removed"),
            _ => (Tone::Plain, "other"),
        };
        let mark = if self.urgency() >= Urgency::Impaired { "! " } else { "  " };
        let mut line = Line::new().add(Tone::Bad, mark).plain(who(self.backend)).plain("  ").add(tone, state);
        // In a panic it is used all the same.
        if matches!(self.state, BackendState::Ejected | BackendState::Unhealthy) && !self.flags.out {
            line.push(Tone::Warn, ", used in a panic");
        }
        if let Some(ms) = self.ejected_ms {
            line.push(Tone::Plain, format_args!(", back {}", sight.left(ms)));
        }
        if let Some(ms) = self.flags.held_off_ms {
            line.push(Tone::Plain, format_args!(", spares {}", sight.left(ms)));
        }
        if let Some(ms) = self.next_attempt_ms {
            line.push(Tone::Plain, format_args!(", next attempt {}", sight.left(ms)));
        }
        match self.reason {
            Some(reason) => line.plain(": ").plain(reason),
            None => line,
        }
    }
}

/// Of who has these backends, so many of them dead, and so many callers in line.
pub(super) fn urgency<'a>(standings: impl Iterator<Item = Standing<'a>>, dead: usize, waiting: usize) -> Urgency {
    let backends = standings.map(|standing| standing.urgency()).max();
    let own = match (dead, waiting) {
        (1.., _) => Urgency::Impaired,
        (0, 1..) => Urgency::Strained,
        (0, 0) => Urgency::Fine,
    };
    own.max(backends.unwrap_or(Urgency::Fine))
}

/// `10.0.0.1:80 (node-1)`.
pub(super) fn who(backend: &Backend) -> String {
    let Backend { name, address, port, .. } = backend;
    let place = if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") };
    if name == address || name.is_empty() { place } else { format!("{place} ({name})") }
}

/// Of these, those in trouble, the worst first; and why in general, where no backend is to blame.
pub(super) fn troubles<'a>(
    standings: impl Iterator<Item = Standing<'a>>,
    cause: Option<&str>,
    sight: Sight<'_>,
) -> Vec<Line> {
    let mut bad: Vec<Standing<'_>> = standings.filter(|standing| standing.urgency() > Urgency::Fine).collect();
    bad.sort_by_key(|standing| std::cmp::Reverse(standing.urgency()));
    let lines: Vec<Line> = bad.iter().map(|standing| standing.line(sight)).collect();
    match cause {
        Some(cause) if lines.is_empty() && !sight.has_said(cause) => {
            vec![Line::new().add(Tone::Warn, "because: ").plain(cause)]
        }
        _ => sight.listed(lines, 2),
    }
}

/// What one of them can be found by.
pub(super) fn words(backend: &Backend) -> [&str; 2] {
    [&backend.name, &backend.address]
}
