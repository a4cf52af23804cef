//! Stalled backends: a backend stops responding while others respond.
//!
//! The caller reports the requests that wait for a response head, and the bytes that arrive from each backend. A backend is stalled when
//! it has such requests and has been silent for 20 times the median response time, at least 500 ms and at most 5 s, while another
//! backend responded or passed an active health check. Silence begins with the last byte from the backend on any connection, or with its oldest waiting request if that
//! is later.
//!
//! ```text
//!              silent for the threshold, while another backend responded
//!  responding -----------------------------------------------------------> stalled
//!      ^                                                                      |
//!      +-- a byte arrives, or an active health check passes ------------------+
//! ```
//!
//! Requests that wait at a stalled backend and may be sent twice are sent once more to another backend, within a retry budget. So are
//! those that wait at a backend when it becomes unhealthy by its active health checks. A stalled backend is probed once a second with
//! copies of requests that may be sent twice. Without such requests it gets one request as a trial, after 5 s, then after 10 s, 20 s,
//! and every 30 s.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// The shortest silence that makes a backend stalled.
pub const LEAST_THRESHOLD: Duration = Duration::from_millis(500);

/// The longest silence that it takes.
pub const MOST_THRESHOLD: Duration = Duration::from_secs(5);

/// How many times the median response time it takes between the two.
const MEDIANS: u32 = 20;

/// How often a stalled backend is probed.
pub const PROBE_EVERY: Duration = Duration::from_secs(1);

/// After this long without a probe a stalled backend gets a request as a trial. Doubles with every trial.
pub const FIRST_TRIAL: Duration = Duration::from_secs(5);

/// The longest time from one trial to the next.
pub const MOST_BETWEEN_TRIALS: Duration = Duration::from_secs(30);

/// How often requests are looked at that the retry budget had no room for.
const RETRY_EVERY: Duration = Duration::from_millis(100);

/// Finds stalled backends. See the [module](self).
///
/// Backends have the small numbers that the caller gives them.
#[derive(Debug)]
pub struct StallDetector {
    backends: BTreeMap<u32, Node>,
    requests: BTreeMap<RequestId, Sent>,
    next_request: u64,
    /// Whether requests are sent once more.
    retries: bool,
    budget: RetryBudget,
    /// A backend has been silent for the threshold, but no other has responded since.
    overdue: bool,
    /// When that was last looked at.
    judged_at: Instant,
    /// When requests are looked at again that the budget had no room for.
    retry_at: Option<Instant>,
    actions: VecDeque<StallAction>,
}

/// Names a request that waits for its response head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(u64);

/// What the caller is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StallAction {
    /// This backend gets no new requests, unless all are stalled.
    Stalled(u32),
    /// This backend gets requests again.
    Recovered(u32),
    /// This request is to be sent once more, to another backend; the first response wins.
    Retry(RequestId),
}

/// A backend.
#[derive(Debug, Default)]
struct Node {
    /// Requests without a response head, oldest first.
    waiting: BTreeSet<(Instant, RequestId)>,
    /// Those of them that may be sent once more, and have not been.
    repeatable: BTreeSet<(Instant, RequestId)>,
    last_byte: Option<Instant>,
    last_response: Option<Instant>,
    /// A moving mean.
    response_time: Option<Duration>,
    /// Since when.
    stalled: Option<Instant>,
    /// Since when its active health checks fail.
    unhealthy: Option<Instant>,
    /// The last probe or trial.
    probed_at: Option<Instant>,
    /// Trials since it is stalled.
    trials: u32,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    backend: u32,
    at: Instant,
}

impl StallDetector {
    /// A detector that knows no backends. Without `retries` no request is sent once more.
    pub fn new(retries: bool, now: Instant) -> StallDetector {
        StallDetector {
            backends: BTreeMap::new(),
            requests: BTreeMap::new(),
            next_request: 0,
            retries,
            budget: RetryBudget::new(now),
            overdue: false,
            judged_at: now,
            retry_at: None,
            actions: VecDeque::new(),
        }
    }

    /// A backend may get requests from now on.
    pub fn add(&mut self, backend: u32) {
        self.backends.entry(backend).or_default();
    }

    /// A backend is not known any more. Its requests may still end.
    pub fn remove(&mut self, backend: u32) {
        if self.backends.remove(&backend).is_some_and(|node| node.stalled.is_some()) {
            self.actions.push_back(StallAction::Recovered(backend));
        }
    }

    /// A request was sent to a backend, at `sent`, and waits for its response head. The report may come later than that, as long as
    /// [`LEAST_THRESHOLD`] has not passed: most requests are answered before they need to be reported.
    pub fn request_sent(&mut self, now: Instant, sent: Instant, backend: u32, repeatable: bool) -> RequestId {
        let id = RequestId(self.next_request);
        self.next_request += 1;
        if let Some(node) = self.backends.get_mut(&backend) {
            self.requests.insert(id, Sent { backend, at: sent });
            node.waiting.insert((sent, id));
            if repeatable && self.retries {
                node.repeatable.insert((sent, id));
            }
            if node.withholds(sent) {
                self.retry(now);
            }
        }
        id
    }

    /// A response head arrived, `took` after its request was sent. `None` if that says nothing about the backend, since the request was
    /// sent in pieces.
    pub fn response_started(&mut self, now: Instant, backend: u32, took: Option<Duration>) {
        self.budget.count_request(now);
        let Some(node) = self.backends.get_mut(&backend) else { return };
        node.last_response = node.last_response.max(Some(now));
        if let Some(took) = took {
            node.response_time = Some(node.response_time.map_or(took, |mean| mean - mean / 8 + took / 8));
        }
        self.bytes_received(now, backend);
        if self.overdue {
            self.judge(now);
        }
    }

    /// An active health check of a backend has passed or failed; `unhealthy` is the backend's state since then. A passed check counts as
    /// a response, for this backend and against silent ones. When a backend becomes unhealthy, requests that wait there are retried.
    pub fn health_checked(&mut self, now: Instant, backend: u32, passed: bool, unhealthy: bool) {
        let Some(node) = self.backends.get_mut(&backend) else { return };
        let became_unhealthy = unhealthy && node.unhealthy.is_none();
        node.unhealthy = unhealthy.then(|| node.unhealthy.unwrap_or(now));
        if passed {
            node.last_response = node.last_response.max(Some(now));
            self.bytes_received(now, backend);
            if self.overdue {
                self.judge(now);
            }
        }
        if became_unhealthy {
            self.retry(now);
        }
    }

    /// Whether the next response can make a backend stalled: its last byte has to be reported before.
    pub fn is_overdue(&self) -> bool {
        self.overdue
    }

    /// Bytes arrived from a backend, on whatever connection.
    pub fn bytes_received(&mut self, now: Instant, backend: u32) {
        let Some(node) = self.backends.get_mut(&backend) else { return };
        node.last_byte = node.last_byte.max(Some(now));
        if node.stalled.is_some_and(|since| now >= since) {
            node.stalled = None;
            self.actions.push_back(StallAction::Recovered(backend));
        }
    }

    /// A request waits no more: it has its response head, failed, or was cancelled.
    pub fn request_ended(&mut self, request: RequestId) {
        let Some(Sent { backend, at }) = self.requests.remove(&request) else { return };
        if let Some(node) = self.backends.get_mut(&backend) {
            node.waiting.remove(&(at, request));
            node.repeatable.remove(&(at, request));
        }
    }

    /// Whether a backend is stalled.
    pub fn is_stalled(&self, backend: u32) -> bool {
        self.backends.get(&backend).is_some_and(|node| node.stalled.is_some())
    }

    /// The stalled backends.
    pub fn stalled(&self) -> impl Iterator<Item = u32> {
        self.backends.iter().filter(|(_, node)| node.stalled.is_some()).map(|(&backend, _)| backend)
    }

    /// A new request that may be sent twice goes to a backend that is not stalled: which stalled backend gets a copy of it, as a probe.
    /// `None` if none is due.
    pub fn next_probe(&mut self, now: Instant) -> Option<u32> {
        let due = |node: &Node| node.stalled.max(node.probed_at.map(|at| at + PROBE_EVERY));
        let stalled = self.backends.iter_mut().filter(|(_, node)| node.stalled.is_some());
        let (&backend, node) = stalled.min_by_key(|(_, node)| due(node)).filter(|(_, node)| due(node) <= Some(now))?;
        node.probed_at = Some(now);
        Some(backend)
    }

    /// A new request must not be sent twice: which stalled backend gets it, as a trial. `None` if none is due. A backend at which
    /// requests wait needs no trial: their responses show when it is back.
    pub fn next_trial(&mut self, now: Instant) -> Option<u32> {
        let is_due = |node: &Node| node.waiting.is_empty() && node.next_trial().is_some_and(|at| at <= now);
        let (&backend, node) = self.backends.iter_mut().find(|(_, node)| is_due(node))?;
        (node.probed_at, node.trials) = (Some(now), node.trials + 1);
        Some(backend)
    }

    /// How long a backend is silent before it is stalled.
    pub fn threshold(&self) -> Duration {
        let mut times: Vec<Duration> = self.backends.values().filter_map(|node| node.response_time).collect();
        let Some(last) = times.len().checked_sub(1) else { return LEAST_THRESHOLD };
        // Of two backends the lower value.
        let (_, median, _) = times.select_nth_unstable(last / 2);
        median.saturating_mul(MEDIANS).clamp(LEAST_THRESHOLD, MOST_THRESHOLD)
    }

    /// When [`StallDetector::handle_timeout`] is to be called at the latest.
    pub fn next_timeout(&self) -> Option<Instant> {
        let threshold = self.threshold();
        let silences = self.backends.values().filter(|node| node.stalled.is_none());
        let due = silences.filter_map(|node| Some(node.silent_since()? + threshold));
        // One that is overdue waits for a response of another backend.
        let next = due.filter(|&at| at > self.judged_at).min();
        [next, self.retry_at].into_iter().flatten().min()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.judge(now);
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry(now);
        }
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<StallAction> {
        self.actions.pop_front()
    }

    /// Finds backends that are stalled by now.
    fn judge(&mut self, now: Instant) {
        self.judged_at = now;
        let threshold = self.threshold();
        let silent_since = |node: &Node| node.silent_since().filter(|&since| since + threshold <= now);
        let responded = |backend: u32, since: Instant| {
            let others = self.backends.iter().filter(|&(&other, node)| other != backend && node.stalled.is_none());
            others.filter_map(|(_, node)| node.last_response).any(|at| at > since)
        };
        let silent = self.backends.iter().filter(|(_, node)| node.stalled.is_none());
        let silent: Vec<(u32, Instant)> =
            silent.filter_map(|(&backend, node)| Some((backend, silent_since(node)?))).collect();
        let found: Vec<u32> =
            silent.iter().filter(|&&(backend, since)| responded(backend, since)).map(|&(backend, _)| backend).collect();
        self.overdue = found.len() < silent.len();
        for &backend in &found {
            if let Some(node) = self.backends.get_mut(&backend) {
                (node.stalled, node.trials) = (Some(now), 0);
                self.actions.push_back(StallAction::Stalled(backend));
            }
        }
        if !found.is_empty() {
            self.retry(now);
        }
    }

    /// Has requests that wait at stalled and unhealthy backends sent once more, as far as the budget allows, the oldest first.
    fn retry(&mut self, now: Instant) {
        self.retry_at = None;
        if self.backends.values().all(|node| node.stalled.is_some() || node.unhealthy.is_some()) {
            return;
        }
        let waiting = |node: &'_ Node| -> Vec<(Instant, RequestId)> {
            node.repeatable.iter().filter(|(sent, _)| node.withholds(*sent)).copied().collect()
        };
        let mut waiting: Vec<(Instant, RequestId)> = self.backends.values().flat_map(waiting).collect();
        waiting.sort_unstable();
        for (sent, request) in waiting {
            if !self.budget.take(now) {
                self.retry_at = Some(now + RETRY_EVERY);
                return;
            }
            let backend = self.requests[&request].backend;
            if let Some(node) = self.backends.get_mut(&backend) {
                node.repeatable.remove(&(sent, request));
            }
            self.actions.push_back(StallAction::Retry(request));
        }
    }
}

impl Node {
    /// Since when requests wait and no byte has arrived.
    fn silent_since(&self) -> Option<Instant> {
        let (oldest, _) = self.waiting.first()?;
        Some(self.last_byte.map_or(*oldest, |byte| byte.max(*oldest)))
    }

    /// Whether the response to a request that was sent then is waited for elsewhere as well. Requests that are sent to an unhealthy
    /// backend are sent for want of a healthy one.
    fn withholds(&self, sent: Instant) -> bool {
        self.stalled.is_some() || self.unhealthy.is_some_and(|since| sent <= since)
    }

    /// When it may get a request although it is stalled.
    fn next_trial(&self) -> Option<Instant> {
        let last = self.probed_at.max(self.stalled).filter(|_| self.stalled.is_some())?;
        Some(last + FIRST_TRIAL.saturating_mul(1 << self.trials.min(8)).min(MOST_BETWEEN_TRIALS))
    }
}

/// How many requests may be sent once more: 20 % of the requests, at least 3 per second, over the last 10 seconds.
#[derive(Debug)]
struct RetryBudget {
    start: Instant,
    /// The present second, and when the next one begins.
    number: u64,
    next: Instant,
    seconds: [Second; RetryBudget::SECONDS as usize],
}

#[derive(Clone, Copy, Debug, Default)]
struct Second {
    number: u64,
    requests: u32,
    retries: u32,
}

impl RetryBudget {
    const SECONDS: u64 = 10;
    const LEAST_PER_SECOND: u32 = 3;

    fn new(start: Instant) -> RetryBudget {
        let next = start + Duration::from_secs(1);
        RetryBudget { start, number: 0, next, seconds: [Second::default(); RetryBudget::SECONDS as usize] }
    }

    fn count_request(&mut self, now: Instant) {
        let second = self.second(now);
        second.requests = second.requests.saturating_add(1);
    }

    fn take(&mut self, now: Instant) -> bool {
        let number = self.second(now).number;
        let recent = self.seconds.iter().filter(|second| second.number + RetryBudget::SECONDS > number);
        let sum = |(requests, retries): (u32, u32), second: &Second| {
            (requests.saturating_add(second.requests), retries + second.retries)
        };
        let (requests, retries) = recent.fold((0, 0), sum);
        let least = RetryBudget::LEAST_PER_SECOND * RetryBudget::SECONDS as u32;
        let may = retries < least.max(requests / 5);
        self.second(now).retries += u32::from(may);
        may
    }

    fn second(&mut self, now: Instant) -> &mut Second {
        if now >= self.next {
            self.turn(now);
        }
        &mut self.seconds[(self.number % RetryBudget::SECONDS) as usize]
    }

    #[cold]
    fn turn(&mut self, now: Instant) {
        self.number = now.saturating_duration_since(self.start).as_secs();
        self.next = self.start + Duration::from_secs(self.number + 1);
        let number = self.number;
        *self.second(now) = Second { number, ..Second::default() };
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    const QUICK: Option<Duration> = Some(Duration::from_millis(10));

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Backends that have all responded before the start.
    fn detector(backends: u32) -> (StallDetector, Instant) {
        let before = Instant::now();
        let mut detector = StallDetector::new(true, before);
        for backend in 0..backends {
            detector.add(backend);
            detector.response_started(before, backend, QUICK);
        }
        (detector, before + ms(10_000))
    }

    fn actions(detector: &mut StallDetector) -> Vec<StallAction> {
        std::iter::from_fn(|| detector.poll_action()).collect()
    }

    #[test]
    fn backend_is_stalled_after_the_threshold_if_another_responded() {
        let (mut detector, start) = detector(2);
        let request = detector.request_sent(start, start, 0, true);
        assert_eq!(detector.next_timeout(), Some(start + ms(500)));
        detector.handle_timeout(start + ms(500));
        assert_eq!((actions(&mut detector), detector.next_timeout()), (vec![], None), "no other has responded since");
        detector.response_started(start + ms(700), 1, QUICK);
        let expected = [StallAction::Stalled(0), StallAction::Retry(request)];
        assert_eq!(actions(&mut detector), expected);
        assert_eq!(detector.next_timeout(), None);
        detector.bytes_received(start + ms(900), 0);
        assert_eq!(actions(&mut detector), [StallAction::Recovered(0)]);
    }

    #[test]
    fn bytes_on_any_connection_put_the_stall_off() {
        let (mut detector, start) = detector(2);
        let request = detector.request_sent(start, start, 0, true);
        detector.bytes_received(start + ms(400), 0);
        detector.response_started(start + ms(450), 1, QUICK);
        assert_eq!(detector.next_timeout(), Some(start + ms(900)));
        detector.handle_timeout(start + ms(899));
        assert!(!detector.is_stalled(0));
        detector.request_ended(request);
        detector.handle_timeout(start + ms(2_000));
        assert_eq!((detector.is_stalled(0), detector.next_timeout()), (false, None), "nothing waits");
    }

    #[test]
    fn threshold_is_20_medians_between_500_ms_and_5_s() {
        let now = Instant::now();
        let mut detector = StallDetector::new(true, now);
        assert_eq!(detector.threshold(), ms(500));
        for (backend, took, expected) in [(0, 1, 500), (1, 100, 500), (2, 60, 1_200), (3, 80, 1_200), (4, 900, 1_600)] {
            detector.add(backend);
            detector.response_started(now, backend, Some(ms(took)));
            assert_eq!(detector.threshold(), ms(expected));
        }
        (0..5).for_each(|backend| (0..100).for_each(|_| detector.response_started(now, backend, Some(ms(60_000)))));
        assert_eq!(detector.threshold(), ms(5_000));
    }

    #[test]
    fn request_that_is_reported_late_is_retried_at_once_and_others_are_not() {
        let (mut detector, start) = detector(3);
        let unsafe_request = detector.request_sent(start, start, 0, false);
        detector.response_started(start + ms(1), 1, QUICK);
        detector.handle_timeout(start + ms(500));
        assert_eq!(actions(&mut detector), [StallAction::Stalled(0)]);
        let late = detector.request_sent(start + ms(600), start + ms(400), 0, true);
        assert_eq!(actions(&mut detector), [StallAction::Retry(late)]);
        assert_ne!(late, unsafe_request);
        detector.handle_timeout(start + ms(9_000));
        assert_eq!(actions(&mut detector), [], "once");
    }

    #[test]
    fn retries_off_still_stalls() {
        let (_, start) = detector(1);
        let mut detector = StallDetector::new(false, start);
        (0..2).for_each(|backend| detector.add(backend));
        detector.request_sent(start, start, 0, true);
        detector.response_started(start + ms(1), 1, QUICK);
        detector.handle_timeout(start + ms(500));
        assert_eq!(actions(&mut detector), [StallAction::Stalled(0)]);
    }

    #[test]
    fn probe_goes_to_each_stalled_backend_once_a_second() {
        let (mut detector, start) = detector(3);
        for backend in 0..2 {
            detector.request_sent(start, start, backend, true);
        }
        detector.response_started(start + ms(1), 2, QUICK);
        let at = |millis| start + ms(millis);
        detector.handle_timeout(at(500));
        let mut probes = vec![];
        for millis in (500..2_600).step_by(100) {
            probes.extend(detector.next_probe(at(millis)).map(|backend| (backend, millis)));
        }
        assert_eq!(probes, [(0, 500), (1, 600), (0, 1_500), (1, 1_600), (0, 2_500)]);
    }

    #[test]
    fn backend_without_probes_gets_trials_ever_more_rarely_and_stays_stalled_until_a_byte_arrives() {
        let (mut detector, start) = detector(2);
        let request = detector.request_sent(start, start, 0, false);
        detector.response_started(start + ms(1), 1, QUICK);
        detector.handle_timeout(start + ms(500));
        assert_eq!(actions(&mut detector), [StallAction::Stalled(0)]);
        assert_eq!(detector.next_trial(start + ms(60_000)), None, "a request waits there");
        detector.request_ended(request);
        let seconds = (0..120).filter(|second| detector.next_trial(start + ms(500 + 1_000 * second)) == Some(0));
        assert_eq!(seconds.collect::<Vec<_>>(), [5, 15, 35, 65, 95]);
        assert!(detector.is_stalled(0));
        assert_eq!(actions(&mut detector), []);
        detector.bytes_received(start + ms(120_000), 0);
        assert_eq!(actions(&mut detector), [StallAction::Recovered(0)]);
        assert_eq!(detector.next_trial(start + ms(200_000)), None);
    }

    #[test]
    fn probe_puts_the_trial_off() {
        let (mut detector, start) = detector(2);
        let request = detector.request_sent(start, start, 0, true);
        detector.response_started(start + ms(1), 1, QUICK);
        detector.handle_timeout(start + ms(500));
        detector.request_ended(request);
        assert_eq!(detector.next_probe(start + ms(4_000)), Some(0));
        assert_eq!(detector.next_trial(start + ms(8_900)), None);
        assert_eq!(detector.next_trial(start + ms(9_000)), Some(0));
    }

    #[test]
    fn passed_check_of_another_backend_counts_as_a_response() {
        let (mut detector, start) = detector(2);
        let request = detector.request_sent(start, start, 0, true);
        detector.handle_timeout(start + ms(500));
        detector.health_checked(start + ms(600), 1, false, false);
        assert_eq!(actions(&mut detector), [], "no other has responded");
        detector.health_checked(start + ms(700), 1, true, false);
        assert_eq!(actions(&mut detector), [StallAction::Stalled(0), StallAction::Retry(request)]);
        detector.health_checked(start + ms(800), 0, true, false);
        assert_eq!(actions(&mut detector), [StallAction::Recovered(0)]);
    }

    #[test]
    fn requests_that_wait_when_their_backend_becomes_unhealthy_are_retried_and_later_ones_are_not() {
        let (mut detector, start) = detector(2);
        let request = detector.request_sent(start, start, 0, true);
        detector.request_sent(start, start, 0, false);
        detector.health_checked(start + ms(100), 0, false, false);
        assert_eq!(actions(&mut detector), []);
        detector.health_checked(start + ms(200), 0, false, true);
        assert_eq!(actions(&mut detector), [StallAction::Retry(request)]);
        let late = detector.request_sent(start + ms(400), start + ms(150), 0, true);
        assert_eq!(actions(&mut detector), [StallAction::Retry(late)], "it was sent before");
        detector.request_sent(start + ms(550), start + ms(300), 0, true);
        detector.health_checked(start + ms(600), 0, false, true);
        assert_eq!((actions(&mut detector), detector.is_stalled(0)), (vec![], false));
    }

    #[test]
    fn budget_is_a_fifth_of_the_requests_and_at_least_3_per_second() {
        let start = Instant::now();
        let takes = |budget: &mut RetryBudget, at| (0..10_000).filter(|_| budget.take(at)).count();
        let mut budget = RetryBudget::new(start);
        assert_eq!(takes(&mut budget, start), 30);
        assert_eq!(takes(&mut budget, start + ms(9_999)), 0);
        assert_eq!(takes(&mut budget, start + ms(10_000)), 30);
        (0..1_000).for_each(|_| budget.count_request(start + ms(15_000)));
        assert_eq!(takes(&mut budget, start + ms(15_000)), 200 - 30);
        assert_eq!(takes(&mut budget, start + ms(60_000)), 30);
    }

    #[test]
    fn nothing_is_retried_while_all_are_stalled() {
        let (mut detector, start) = detector(2);
        detector.request_sent(start, start, 0, true);
        detector.response_started(start + ms(1), 1, QUICK);
        detector.handle_timeout(start + ms(500));
        detector.remove(1);
        assert_eq!(actions(&mut detector).len(), 2);
        detector.request_sent(start + ms(600), start + ms(600), 0, true);
        assert_eq!(actions(&mut detector), []);
        detector.remove(0);
        assert_eq!(actions(&mut detector), [StallAction::Recovered(0)]);
    }
}
