//! What the monitor sees of a pool. What it needs is copied under the lock; words are made after that.

use super::CheckCounts;
use super::shared::Shared;
use crate::cause::Told;
use crate::clock;
use crate::connect::Connect;
use crate::monitor::{self, Object, Observe, Observed, ms, ms_since, ms_until};
use crate::quiet::{drop_quietly, text_of};
use carom_core::pool::{BackendSnapshot, Counters, SlotGlance, State};
use carom_core::slot::Phase;
use std::time::Instant;

impl<C: Connect> Observe for Shared<C> {
    fn observe(&self) -> Option<Observed> {
        let now = clock::now();
        let (pool, told, checks, overdue) = {
            let table = self.lock();
            if table.machine.state() == State::Stopped {
                return None;
            }
            (table.machine.observe(), table.causes.told(), table.checks.counts.clone(), table.overdue)
        };
        let backends = pool.backends().map(|(seen, slots)| describe(now, seen, slots, &told));
        let object = monitor::Pool {
            state: state_of(pool.figures.state),
            options: monitor::PoolOptions {
                spares: pool.figures.spares,
                maximum: pool.figures.maximum,
                claim_timeout_ms: ms(self.claim_timeout),
            },
            resolver: self.resolver,
            target: pool.figures.target,
            waiting: pool.figures.waiting,
            longest_wait_ms: pool.waiting_since.map(|since| ms_since(since, now)),
            dead: pool.figures.dead,
            panic: pool.figures.is_panic,
            backends: backends.collect(),
            last_plan_ms: pool.planned_at.map(|at| ms_since(at, now)),
            cause: told.latest_of(|_| true),
            check_cause: checks.cause.as_ref().map(text_of),
            counters: counters_of(pool.counters, &checks, overdue),
        };
        drop_quietly(&self.name, (told, checks));
        Some(Observed { name: self.name.to_string(), object: Object::Pool(object) })
    }
}

fn describe(now: Instant, seen: &BackendSnapshot, slots: &[SlotGlance], told: &Told) -> monitor::PoolBackend {
    monitor::PoolBackend {
        backend: (&*seen.backend).into(),
        state: seen.state.into(),
        flags: monitor::BackendFlags {
            out: seen.is_out,
            failing: seen.is_failing,
            stalled: seen.stalled,
            unreliable: seen.unreliable || seen.failing,
            slow_start: seen.starts_slowly,
            held_off_ms: seen.held_off_until.filter(|until| *until > now).map(|until| ms_until(until, now)),
            last_success_ms: seen.last_success.map(|at| ms_since(at, now)),
            checks_passed: seen.checks.passed,
            checks_failed: seen.checks.failed,
            check_cause: told.failed_health_check(&seen.backend),
        },
        slots: slots.iter().map(|slot| slot_of(now, slot)).collect(),
        reason: told.reason_of(&seen.backend, seen.state),
        next_attempt_ms: seen.next_attempt.map(|at| ms_until(at, now)),
        ejected_ms: seen.ejected_until.map(|until| ms_until(until, now)),
        typical_use_us: seen.typical_use.map(|took| u64::try_from(took.as_micros()).unwrap_or(u64::MAX)),
    }
}

fn slot_of(now: Instant, slot: &SlotGlance) -> monitor::Slot {
    let phase = match slot.phase {
        Phase::Held => monitor::Phase::Held,
        Phase::Connecting => monitor::Phase::Connecting,
        Phase::Backoff => monitor::Phase::Backoff,
        Phase::Idle => monitor::Phase::Idle,
        Phase::Busy => monitor::Phase::Busy,
        Phase::Checking => monitor::Phase::Checking,
        // There is no other, but the machine may come to have more.
        _ => monitor::Phase::Closing,
    };
    let ms = |at| if phase == monitor::Phase::Backoff { ms_until(at, now) } else { ms_since(at, now) };
    monitor::Slot { phase, ms: slot.at.map(ms) }
}

fn state_of(state: State) -> monitor::State {
    match state {
        State::Starting => monitor::State::Starting,
        State::Running => monitor::State::Running,
        State::Failed => monitor::State::Failed,
        State::Stopping => monitor::State::Stopping,
        _ => monitor::State::Stopped,
    }
}

fn counters_of(counters: Counters, checks: &CheckCounts, overdue: u64) -> monitor::PoolCounters {
    monitor::PoolCounters {
        claims: counters.claims,
        waited: counters.waited,
        waited_ms: counters.waited_for.as_secs_f64() * 1000.0,
        timeouts: counters.timeouts,
        refused: counters.refused,
        given_up: counters.given_up,
        connects: counters.connects,
        connect_failures: counters.connect_failures,
        plans: counters.plans,
        checks: checks.ended,
        check_failures: checks.failed,
        overdue,
    }
}
