//! A requester, as a monitor sees it: windows that open, take requests, take no more, and are gone.

use carom::health_check::{HealthCheck, Schedule};
use carom::monitor::{Monitor, Object, OpenWindow, State, Window};
use carom::{RequestError, Requester};
use std::time::Duration;
use testkit::nodes::{Nodes, Question, Treats};
use tokio::time::{sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

fn seen(monitor: &Monitor, requester: &Requester<Nodes>) -> Window {
    let seen = monitor.object(requester.id()).expect("it is there");
    assert_eq!(seen.name, "ledger");
    match seen.object {
        Object::Window(window) => window,
        other => panic!("{other:?}"),
    }
}

fn requester(nodes: &Nodes, monitor: &Monitor) -> Requester<Nodes> {
    let builder = Requester::builder(nodes.clone()).nodes(Nodes::backends(4)).name("ledger").monitor(monitor);
    builder.request_limit(2).max_windows(1).ack_timeout(3 * SECOND).reply_timeout(20 * SECOND).build().unwrap()
}

fn figures(window: &OpenWindow) -> (u64, usize, usize, usize) {
    (window.id, window.started, window.asking, window.sockets.len())
}

#[tokio::test(start_paused = true)]
async fn a_window_opens_takes_requests_takes_no_more_and_is_gone() {
    let (nodes, monitor) = (Nodes::new(), Monitor::new());
    let requester = requester(&nodes, &monitor);
    let now = seen(&monitor, &requester);
    assert_eq!((now.state, now.nodes.len(), now.asking, now.in_line), (State::Starting, 4, 0, 0));
    assert_eq!((now.windows.len(), now.counters.requests), (0, 0), "nobody asks: nothing is open");
    let options = now.options;
    assert_eq!((options.active_for_ms, options.request_limit, options.max_windows), (5_000, 2, Some(1)));

    requester.any(Question(1), |_| true).await.unwrap();
    sleep(SECOND).await;
    let now = seen(&monitor, &requester);
    assert_eq!(now.state, State::Running);
    let window = &now.windows[0];
    assert!((1_000..1_100).contains(&window.age_ms), "{window:?}");
    assert_eq!(window.active_ms, Some(5_000 - window.age_ms), "the rest of its five seconds");
    assert_eq!(figures(window), (0, 1, 0, 1));
    assert_eq!((window.sockets[0].waiting, now.counters.sockets), (0, 1));

    // A second request is all that it takes, and it waits for an answer that does not come.
    (1..=4).for_each(|node| nodes.treat(node, Treats::Mute));
    let waits = requester.clone();
    let waiting = tokio::spawn(async move { waits.all(Question(2)).await });
    // A third one waits for a window.
    let waits = requester.clone();
    let in_line = tokio::spawn(async move { waits.any(Question(3), |_| true).await });
    sleep(SECOND).await;
    let now = seen(&monitor, &requester);
    assert_eq!((now.asking, now.in_line, now.windows.len()), (1, 1, 1));
    let window = &now.windows[0];
    assert_eq!((window.active_ms, figures(window)), (None, (0, 2, 1, 4)));
    assert!(window.sockets.iter().all(|socket| socket.waiting == 1 && now.nodes.contains(&socket.node)), "{window:?}");

    waiting.await.unwrap().unwrap();
    assert!(matches!(in_line.await.unwrap(), Err(RequestError::NoAnswer { .. })));
    sleep(6 * SECOND).await;
    let now = seen(&monitor, &requester);
    assert_eq!((now.asking, now.in_line, now.windows.len()), (0, 0, 0), "all of it is gone");
    let counters = now.counters;
    assert_eq!((counters.requests, counters.answered, counters.failed), (3, 2, 1));
    assert_eq!((counters.windows, counters.sockets), (2, 8));
}

#[tokio::test(start_paused = true)]
async fn one_that_nobody_answers_has_failed_until_somebody_does_and_again_when_nobody_does_any_more() {
    let (nodes, monitor) = (Nodes::new(), Monitor::new());
    let requester = requester(&nodes, &monitor);
    (1..=4).for_each(|node| nodes.treat(node, Treats::Mute));
    requester.any(Question(1), |_| true).await.unwrap_err();
    let now = seen(&monitor, &requester);
    let cause = now.cause.expect("a reason");
    assert!(now.state == State::Failed && cause.contains("`ledger`: no valid answer; node-"), "{cause}");
    assert!((1..=4).all(|node| cause.contains(&format!("node-{node}: silent for 3s"))), "{cause}");
    (1..=4).for_each(|node| nodes.treat(node, Treats::Answers("yes", Duration::ZERO)));
    requester.any(Question(2), |_| true).await.unwrap();
    let now = seen(&monitor, &requester);
    assert_eq!((now.state, now.cause), (State::Running, None));
    (1..=4).for_each(|node| nodes.treat(node, Treats::Mute));
    requester.any(Question(3), |_| true).await.unwrap_err();
    let now = seen(&monitor, &requester);
    assert_eq!((now.state, now.cause.is_some()), (State::Failed, true), "whatever was answered before");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_respond_is_listed_until_it_does_or_a_minute_has_passed() {
    let (nodes, monitor) = (Nodes::new(), Monitor::new());
    let requester = requester(&nodes, &monitor);
    for (number, forgotten) in [(0, true), (10, false)] {
        (1..=3).for_each(|node| nodes.treat(node, Treats::Mute));
        requester.all(Question(number)).await.unwrap();
        assert_eq!(seen(&monitor, &requester).unresponsive, ["node-1", "node-2", "node-3"]);
        let answered = requester.any(Question(number + 1), |_| true).await.unwrap();
        assert_eq!(&*answered.node, "node-4");
        if forgotten {
            sleep(61 * SECOND).await;
        } else {
            (1..=3).for_each(|node| nodes.treat(node, Treats::Answers("yes", Duration::ZERO)));
            requester.all(Question(number + 2)).await.unwrap();
        }
        assert_eq!(seen(&monitor, &requester).unresponsive, [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_gave_up_is_counted_as_neither() {
    let (nodes, monitor) = (Nodes::new(), Monitor::new());
    let requester = requester(&nodes, &monitor);
    (1..=4).for_each(|node| nodes.treat(node, Treats::Mute));
    timeout(SECOND, requester.any(Question(1), |_| true)).await.unwrap_err();
    let now = seen(&monitor, &requester);
    assert_eq!((now.counters.requests, now.counters.answered, now.counters.failed, now.asking), (1, 0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn one_that_was_closed_is_gone() {
    let (nodes, monitor) = (Nodes::new(), Monitor::new());
    let (closed, dropped) = (requester(&nodes, &monitor), requester(&nodes, &monitor));
    assert_eq!(monitor.snapshot().objects.len(), 2);
    closed.close();
    assert_eq!((monitor.object(closed.id()), monitor.snapshot().objects.len()), (None, 1));
    drop(dropped);
    assert_eq!(monitor.snapshot().objects, []);
}

#[tokio::test(start_paused = true)]
async fn node_that_opens_no_socket_for_its_health_checks_is_asked_last_and_shown_as_unhealthy() {
    let (nodes, monitor) = (Nodes::new(), Monitor::new());
    let check = HealthCheck::connector().schedule(Schedule::default().interval(SECOND));
    let builder = Requester::builder(nodes.clone()).nodes(Nodes::backends(4)).name("ledger").monitor(&monitor);
    let requester = builder.health_check(check).build().unwrap();
    sleep(5 * SECOND).await;
    assert_eq!(seen(&monitor, &requester).unhealthy, [""; 0]);
    nodes.treat(2, Treats::RefusesSockets);
    sleep(5 * SECOND).await;
    assert_eq!(seen(&monitor, &requester).unhealthy, ["node-2"], "without a request");
    nodes.treat(2, Treats::Answers("yes", Duration::ZERO));
    for number in 0..12 {
        let answered = requester.any(Question(number), |_| true).await.unwrap();
        assert_ne!(&*answered.node, "node-2");
    }
    sleep(5 * SECOND).await;
    assert_eq!(seen(&monitor, &requester).unhealthy, [""; 0]);
}
