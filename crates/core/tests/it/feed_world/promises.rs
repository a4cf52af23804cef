//! What the feed machine promises, held against the world's own books.

use super::upstream::Upstream;
use super::{Setting, World, ms};
use carom_core::feed::{
    Change, ConnectionId, ConnectionState, Counters, Instrument, Level, Placement, Standing, State, Topic,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

impl World {
    pub(super) fn promise_connections_are_within_the_limit(&self) {
        let open = self.upstream.links.len();
        let most = self.setting.options.max_connections;
        assert!(open <= most, "{open} connections, {most} allowed: {:?}", self.upstream.links);
    }

    /// However connections fail, soon or late: no more are opened in a while than ever longer delays leave time for.
    pub(super) fn promise_connections_are_not_opened_in_a_loop(&mut self) {
        let limits = self.setting.limits;
        let since = self.clock.saturating_sub(limits.max_delay);
        let Upstream { openings, reasons, .. } = &mut self.upstream;
        for moments in [&mut *openings, reasons] {
            while moments.front().is_some_and(|moment| *moment < since) {
                moments.pop_front();
            }
        }
        // On each line: one at first, one after a long life, and one after each delay.
        let each = 2 + limits.delays_in(limits.max_delay);
        let most = each * self.setting.options.max_connections + reasons.len();
        assert!(openings.len() <= most, "opened {} times in {:?}, not {most}", openings.len(), limits.max_delay);
    }

    /// The same over a long time, in which no connection lived for long.
    pub(crate) fn promise_openings_are_rare(&self, time: Duration) {
        let most = (1 + self.setting.limits.delays_in(time)) * self.setting.options.max_connections;
        assert!(self.upstream.opened <= most, "opened {} times in {time:?}, not {most}", self.upstream.opened);
    }

    /// A goodbye is for those who can hear it, and those who can get one.
    pub(super) fn promise_only_the_living_get_a_goodbye(&self, id: ConnectionId, goodbye: bool) {
        let (options, link) = (&self.setting.options, &self.upstream.links[&id]);
        let silent = options.stall_after.is_some_and(|stall_after| link.heard + stall_after <= self.clock);
        let hangs =
            link.writing.is_some() && link.last_write.is_some_and(|at| at + options.write_timeout <= self.clock);
        let stalled = link.up && (silent || hangs);
        assert!(!goodbye || !stalled || self.closing, "a goodbye for {link:?}");
        assert!(goodbye || stalled || self.abandoned, "no goodbye for {link:?}");
    }

    pub(super) fn promise_a_write_makes_sense(&self, id: ConnectionId, changes: &[Change]) {
        let link = self.upstream.links.get(&id).expect("what is written to is there");
        assert!(link.up && !link.told_to_end, "a write to what is not up: {link:?}");
        assert!(link.writing.is_none(), "one write at a time");
        let options = &self.setting.options;
        assert!((1..=options.batch).contains(&changes.len()), "{} changes in a batch", changes.len());
        if let Some(before) = link.last_write {
            assert!(self.clock >= before + options.pace, "written at {:?} and at {before:?}", self.clock);
        }
        let distinct: BTreeSet<_> = changes.iter().map(|change| &change.instrument).collect();
        assert_eq!(distinct.len(), changes.len(), "an instrument twice in a batch");
        let added = changes.iter().filter(|change| change.from.is_none()).count();
        let carried = link.carries.len() + added;
        assert!(carried <= options.max_topics_per_connection, "{carried} on a connection");
        for change in changes {
            self.promise_a_change_makes_sense(id, change, link.carries.get(&change.instrument).copied());
        }
    }

    fn promise_a_change_makes_sense(&self, id: ConnectionId, change: &Change, carried: Option<Level>) {
        assert_eq!(change.from, carried, "{change:?}");
        assert_ne!(change.from, change.to, "{change:?}");
        let highest = self.subscribers.highest(&change.instrument);
        match change.to {
            // Made before it is broken: what somebody relies on is dropped only where it is carried twice, and ticks already.
            None if self.subscribers.assured.contains_key(&change.instrument) => {
                let carried = self.upstream.carried(&change.instrument).len();
                assert!(carried > 1, "{} is relied on, and carried {carried} times", change.instrument);
                let source = self.subscribers.assured[&change.instrument] == Some(id);
                let ticking = self.upstream.ticking(&change.instrument, self.clock);
                assert!(!source || ticking != [id], "{} ticks nowhere else yet", change.instrument);
            }
            None => {}
            Some(to) => {
                let takes_away = highest.is_some() && change.from >= highest && Some(to) < highest;
                assert!(!takes_away, "{change:?}, wanted {highest:?}");
                let settles_for_less = self.subscribers.troubled.contains(&change.instrument);
                assert!(Some(to) >= highest || settles_for_less, "{change:?}, wanted {highest:?}");
            }
        }
    }

    pub(super) fn promise_placed(&self, topic: &Topic, placement: Placement) {
        let options = &self.setting.options;
        assert!((1..=options.max_connections).contains(&placement.connection));
        assert!(placement.total_connections <= options.max_connections);
        assert!((1..=options.max_topics_per_connection).contains(&placement.on_connection), "{placement:?}");
        assert_eq!(placement.pending, placement.why.is_some(), "{placement:?}");
        if !placement.pending {
            let carried = self.upstream.carried(&topic.instrument).into_iter().max();
            assert!(carried >= Some(topic.level.plain()), "{topic} was said to be carried: {carried:?}");
        }
    }

    /// Nobody is made to wait while attempts fail. With more connections than one, another may be tried for the first time.
    pub(super) fn promise_nobody_waits_in_vain(&self) {
        let Setting { options, limits, .. } = &self.setting;
        let failing = self.upstream.failed.is_some_and(|at| self.clock < at + limits.max_delay);
        assert!(options.max_connections > 1 || !failing, "somebody waits, though attempts fail");
    }

    /// No topic is forgotten, interest is counted exactly, and what is said of a topic is so.
    pub(super) fn promise_books_agree(&self) {
        self.machine.check().unwrap_or_else(|problem| panic!("{problem}"));
        let glances = self.machine.glances();
        let mut counted = 0;
        for glance in &glances {
            let levels = self.subscribers.wanted.get(&glance.instrument);
            let interest: usize = levels.map_or(0, |levels| levels.values().sum());
            assert_eq!(glance.interest, interest, "{}", glance.instrument);
            assert_eq!(glance.standing == Standing::Lingering, interest == 0, "{glance:?}");
            assert!(Some(glance.wanted) >= self.subscribers.highest(&glance.instrument), "{glance:?}");
            counted += usize::from(interest > 0);
            if let Some(level) = glance.carried {
                // A write may have changed it already, without anybody having heard.
                let carried = self.upstream.carried(&glance.instrument);
                assert!(carried.iter().any(|carried| *carried >= level), "{glance:?}, really {carried:?}");
            }
            if glance.standing == Standing::Live {
                assert!(glance.carried >= self.subscribers.highest(&glance.instrument), "{glance:?}");
            }
        }
        assert_eq!(counted, self.subscribers.wanted.len(), "a topic was forgotten");
        let waiting = self.subscribers.waiting.len();
        let snapshot = self.machine.snapshot();
        assert_eq!(snapshot.waiting, waiting);
        assert_eq!(snapshot.topics, glances.len());
        // How long is long enough is for the machine to say; an upstream knows who was opened.
        let settled = snapshot.counters.settled;
        assert!(settled <= snapshot.counters.opened, "{:?}", snapshot.counters);
        assert_eq!(snapshot.counters, Counters { settled, ..self.upstream.counted });
        for connection in &snapshot.connections {
            let is_retried = connection.state == ConnectionState::Waiting && snapshot.state == State::Running;
            assert_eq!(connection.next_attempt.is_some(), is_retried, "{connection:?}");
        }
        assert!(snapshot.peak.topics >= snapshot.topics && snapshot.peak.topics <= self.setting.options.capacity());
        assert_eq!(matches!(self.machine.state(), State::Stopping | State::Stopped), self.closing);
        let most = 8 * (glances.len() + self.setting.options.capacity() + waiting) + 16;
        assert!(self.machine.footprint() <= most, "{} things are remembered", self.machine.footprint());
        self.promise_waiters_are_told_by_their_deadline();
    }

    fn promise_waiters_are_told_by_their_deadline(&self) {
        if let Some(earliest) = self.subscribers.waiting.values().map(|(_, deadline)| *deadline).min() {
            let next = self.machine.next_timeout().expect("somebody waits") - self.start;
            assert!(next <= earliest, "woken at {next:?}, for a waiter at {earliest:?}");
        }
    }

    /// What is carried twice while it moves is heard once.
    pub(super) fn promise_ticks_come_once(&self, admitted: &BTreeMap<Instrument, usize>) {
        for (instrument, count) in admitted {
            assert!(*count <= 1, "a tick of {instrument} came {count} times");
        }
    }

    /// Not everything happens at once, for ever.
    pub(super) fn promise_time_goes_on(&mut self) {
        let (at, steps) = self.steps;
        self.steps = if at == self.clock { (at, steps + 1) } else { (self.clock, 0) };
        assert!(steps < 10_000, "time stands still");
    }

    /// After the machine was woken nothing that was due is left.
    pub(super) fn promise_everything_due_is_done(&self) {
        let late = self.subscribers.waiting.values().find(|(_, deadline)| *deadline <= self.clock);
        assert!(late.is_none(), "a waiter was not told: {late:?}");
        let next = self.machine.next_timeout().map(|next| next.saturating_duration_since(self.start));
        // What a look found is released with the next step.
        assert!(next.is_none_or(|next| next >= self.clock), "woken at {:?} for {next:?}", self.clock);
    }

    /// Everything that is wanted is carried once, at the highest level that anybody wants; and nothing else is.
    pub(crate) fn promise_upstream_carries_what_is_wanted(&self) {
        let mut carried: BTreeMap<Instrument, Level> = BTreeMap::new();
        for link in self.upstream.links.values() {
            for (instrument, level) in &link.carries {
                assert!(carried.insert(instrument.clone(), *level).is_none(), "{instrument} is carried twice");
            }
        }
        let highest = |instrument: &Instrument| self.subscribers.highest(instrument);
        let wanted: BTreeMap<Instrument, Level> =
            self.subscribers.wanted.keys().filter_map(|found| Some((found.clone(), highest(found)?))).collect();
        assert_eq!(carried, wanted);
        let snapshot = self.machine.snapshot();
        assert_eq!((snapshot.live, snapshot.waiting), (wanted.len(), 0));
        assert!(snapshot.connections.iter().all(|connection| connection.state == ConnectionState::Up));
    }

    /// No more connections than it takes, if those that are not needed may be freed and released.
    pub(crate) fn promise_connections_are_few(&self) {
        let (options, topics) = (&self.setting.options, self.subscribers.wanted.len());
        let fewest = topics.div_ceil(options.max_topics_per_connection);
        let connections = self.machine.snapshot().connections;
        let used = connections.iter().filter(|connection| connection.topics > 0).count();
        if options.compact_after.is_some() {
            assert_eq!(used, fewest, "{connections:?}");
        }
        if options.max_idle.is_some() {
            assert_eq!(connections.len(), used, "{connections:?}");
        }
    }

    /// How long until everything that is wanted is carried when faults stop now.
    pub(crate) fn recovery_bound(&self) -> Duration {
        self.setting.recovery_bound() + self.setting.retrying(self.clock)
    }

    /// How long until what could be freed is freed and released.
    pub(crate) fn tidying(&self) -> Duration {
        let options = &self.setting.options;
        let compact = options.compact_after.unwrap_or_default() + options.overlap + self.setting.recovery_bound();
        let idle = options.max_idle.unwrap_or_default() + 2 * options.looks().unwrap_or_default();
        compact * (options.max_connections as u32 + 1) + idle + ms(100)
    }

    pub(super) fn machine_is_barred(&self) -> bool {
        self.machine.state() == State::Refused
    }

    pub(super) fn promise_nothing_is_left(&self) {
        assert_eq!(self.machine.state(), State::Stopped);
        assert!(self.upstream.links.is_empty(), "left: {:?}", self.upstream.links);
        assert_eq!(self.upstream.opened, self.upstream.ended, "every connection ends once");
        assert!(self.subscribers.waiting.is_empty());
        assert_eq!(self.subscribers.asked, self.subscribers.told, "everybody who waits is told once");
        assert!(self.machine.glances().is_empty());
    }
}
