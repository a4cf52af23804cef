//! A feed whose credential was refused goes on when another one is found, and not before.

use carom::feed::{Adapter, Change, Feed, Mode, Refused, State, Tick, Topic};
use carom_gateway::credential::{Credential, Presented};
use std::ffi::OsString;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use testkit::temp_dir::TempDir;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

/// An upstream of memory that accepts one token.
#[derive(Clone)]
struct Gate {
    credential: Credential,
    accepts: Arc<Mutex<&'static str>>,
    opened: Arc<AtomicUsize>,
    expired: Arc<Notify>,
}

#[derive(Debug, thiserror::Error)]
#[error("not that one")]
struct NotThat;

impl Gate {
    fn new(credential: &Credential, accepts: &'static str) -> Gate {
        let accepts = Arc::new(Mutex::new(accepts));
        Gate { credential: credential.clone(), accepts, opened: Arc::default(), expired: Arc::default() }
    }

    fn change(&self, accepts: &'static str) {
        self.accept(accepts);
        self.expired.notify_one();
    }

    /// From now on it accepts another; nobody is told.
    fn accept(&self, accepts: &'static str) {
        *self.accepts.lock().unwrap() = accepts;
    }

    fn opened(&self) -> usize {
        self.opened.load(Ordering::SeqCst)
    }

    async fn feed(&self) -> Feed<Gate> {
        let feed = Feed::builder(self.clone()).stall_after(None).build().unwrap();
        feed.subscribe(Topic::new("NSE", "SBIN", Mode::Ltp)).await.unwrap();
        feed
    }
}

impl Adapter for Gate {
    type Writer = ();
    type Reader = Presented;
    type Error = NotThat;

    async fn open(&self) -> Result<((), Presented), NotThat> {
        let presented = self.credential.present().await.map_err(|_| NotThat)?;
        self.opened.fetch_add(1, Ordering::SeqCst);
        if presented.secret() == *self.accepts.lock().unwrap() {
            return Ok(((), presented));
        }
        presented.refused();
        Err(NotThat)
    }

    async fn write(&self, (): &mut (), _: &[Change]) -> Result<Vec<Refused>, NotThat> {
        Ok(Vec::new())
    }

    async fn read(&self, presented: &mut Presented, _: &mut Vec<Tick>) -> Result<(), NotThat> {
        self.expired.notified().await;
        presented.refused();
        Err(NotThat)
    }

    fn refuses_credential(&self, _: &NotThat) -> bool {
        true
    }
}

async fn is(feed: &Feed<Gate>, state: State) {
    let mut states = feed.states();
    let reached = timeout(Duration::from_secs(30), states.wait_for(|at| *at == state)).await;
    assert!(reached.is_ok(), "never {state:?}");
}

#[tokio::test(start_paused = true)]
async fn a_file_is_looked_at_until_there_is_another_credential_in_it() {
    let folder = TempDir::new();
    let credential = Credential::file(folder.write("token", "monday"));
    let gate = Gate::new(&credential, "monday");
    let feed = gate.feed().await;
    let _watcher = credential.watch(&feed);
    gate.change("tuesday");
    is(&feed, State::Refused).await;
    sleep(Duration::from_secs(100)).await;
    assert_eq!((feed.state(), gate.opened()), (State::Refused, 1), "there is no other yet");

    folder.write("token", "wrong");
    sleep(Duration::from_secs(100)).await;
    assert_eq!((feed.state(), gate.opened()), (State::Refused, 2), "it was tried, once");

    folder.write("token", "tuesday");
    is(&feed, State::Running).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!((feed.snapshot().live, gate.opened()), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_written_anew_is_another_credential_though_the_text_is_the_same() {
    let folder = TempDir::new();
    let path = folder.write("token", "monday");
    let credential = Credential::file(&path);
    let gate = Gate::new(&credential, "monday");
    let feed = gate.feed().await;
    let _watcher = credential.watch(&feed);
    folder.write("token", "tuesday");
    gate.change("none of them");
    sleep(Duration::from_secs(10)).await;
    assert_eq!((feed.state(), gate.opened()), (State::Refused, 2), "the upstream did not know it yet");
    gate.accept("tuesday");
    sleep(Duration::from_secs(100)).await;
    assert_eq!((feed.state(), gate.opened()), (State::Refused, 2), "there is no reason to try it again");
    let later = SystemTime::now() + Duration::from_secs(60);
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
    is(&feed, State::Running).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!((feed.snapshot().live, gate.opened()), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn a_credential_that_was_refused_is_presented_once_more_now_and_then() {
    let folder = TempDir::new();
    let credential = Credential::file(folder.write("token", "monday")).retry_interval(Duration::from_secs(600));
    let gate = Gate::new(&credential, "monday");
    let feed = gate.feed().await;
    let _watcher = credential.watch(&feed);
    gate.change("none");
    sleep(Duration::from_secs(590)).await;
    assert_eq!((feed.state(), gate.opened()), (State::Refused, 1), "not yet");
    sleep(Duration::from_secs(600 * 3)).await;
    assert_eq!((feed.state(), gate.opened()), (State::Refused, 4), "so often, and not more");
    gate.accept("monday");
    sleep(Duration::from_secs(620)).await;
    assert_eq!((feed.state(), feed.snapshot().live, gate.opened()), (State::Running, 1, 5));
}

#[tokio::test(start_paused = true)]
async fn somebody_may_say_that_the_upstream_is_to_be_tried_again() {
    let folder = TempDir::new();
    let path = folder.write("token", "monday");
    for credential in [Credential::fixed("monday"), Credential::file(path)] {
        let gate = Gate::new(&credential, "monday");
        let feed = gate.feed().await;
        let watcher = credential.watch(&feed);
        sleep(Duration::from_secs(1)).await;
        watcher.resume();
        sleep(Duration::from_secs(1)).await;
        gate.change("monday");
        sleep(Duration::from_secs(100)).await;
        assert_eq!((feed.state(), gate.opened()), (State::Refused, 1), "what was said before is not remembered");
        watcher.resume();
        is(&feed, State::Running).await;
        sleep(Duration::from_secs(1)).await;
        assert_eq!((feed.snapshot().live, gate.opened()), (1, 2));
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_gone_for_a_while_is_waited_for() {
    let folder = TempDir::new();
    let path = folder.write("token", "monday");
    let credential = Credential::file(&path);
    let gate = Gate::new(&credential, "monday");
    let feed = gate.feed().await;
    let _watcher = credential.watch(&feed);
    std::fs::remove_file(&path).unwrap();
    gate.change("tuesday");
    sleep(Duration::from_secs(10)).await;
    assert_eq!(feed.state(), State::Refused);
    folder.write("token", "tuesday");
    is(&feed, State::Running).await;
}

#[tokio::test(start_paused = true)]
async fn nobody_looks_when_the_watcher_is_dropped_and_a_fixed_one_is_not_looked_at() {
    let folder = TempDir::new();
    let credential = Credential::file(folder.write("token", "monday"));
    let gate = Gate::new(&credential, "monday");
    let feed = gate.feed().await;
    drop(credential.watch(&feed));
    gate.change("tuesday");
    folder.write("token", "tuesday");
    sleep(Duration::from_secs(10)).await;
    assert_eq!(feed.state(), State::Refused);

    let fixed = Credential::fixed("monday");
    let gate = Gate::new(&fixed, "monday");
    let feed = gate.feed().await;
    let _watcher = fixed.watch(&feed);
    gate.change("tuesday");
    sleep(Duration::from_secs(10)).await;
    assert_eq!((feed.state(), gate.opened()), (State::Refused, 1));
}

// Programs take real time.
#[tokio::test]
async fn a_command_is_run_again_at_once() {
    let folder = TempDir::new();
    let path = folder.write("token", "monday");
    let credential = Credential::command(["cat".into(), path.into_os_string()]);
    let gate = Gate::new(&credential, "monday");
    let feed = gate.feed().await;
    let _watcher = credential.watch(&feed);
    folder.write("token", "tuesday");
    gate.change("tuesday");
    // The next look would come after a minute.
    opened_again(&gate, &feed).await;
}

async fn opened_again(gate: &Gate, feed: &Feed<Gate>) {
    let opened = async {
        while gate.opened() < 2 || feed.state() != State::Running {
            let mut states = feed.states();
            let _ = timeout(Duration::from_millis(20), states.changed()).await;
        }
    };
    timeout(Duration::from_secs(30), opened).await.expect("the feed goes on");
}

#[tokio::test]
async fn a_command_that_prints_the_same_again_is_not_run_by_the_connection_too() {
    let folder = TempDir::new();
    let runs = folder.write("runs", "");
    let script = "echo run >> \"$0\"; echo monday";
    let argv: [OsString; 4] = ["sh".into(), "-c".into(), script.into(), runs.clone().into_os_string()];
    let credential = Credential::command(argv).retry_interval(Duration::from_millis(100));
    let gate = Gate::new(&credential, "monday");
    let feed = gate.feed().await;
    let _watcher = credential.watch(&feed);
    gate.change("monday");
    opened_again(&gate, &feed).await;
    // At first, at once after the refusal, and when it is time to present it once more; the latter two may be one.
    let runs = std::fs::read_to_string(runs).unwrap().lines().count();
    assert!((2..=3).contains(&runs), "{runs}");
}

/// A feed that goes on although its credential was refused, as it does where another gateway has a good one.
async fn going_on_without(credential: &Credential) -> Feed<Gate> {
    let gate = Gate::new(credential, "tuesday");
    let feed = gate.feed().await;
    is(&feed, State::Refused).await;
    gate.accept("monday");
    feed.resume();
    is(&feed, State::Running).await;
    // It says so before it has read the file, which is then to be as it was.
    let connected = timeout(Duration::from_secs(30), async {
        while feed.snapshot().live == 0 {
            sleep(Duration::from_millis(1)).await;
        }
    });
    connected.await.expect("it is connected");
    feed
}

#[tokio::test(start_paused = true)]
async fn a_feed_that_goes_on_without_a_credential_is_told_when_there_is_another() {
    let folder = TempDir::new();
    let credential = Credential::file(folder.write("token", "monday"));
    let feed = going_on_without(&credential).await;
    let watcher = credential.watch(&feed);
    let mut renewals = feed.renewals();
    sleep(Duration::from_secs(100)).await;
    assert!(!renewals.has_changed().unwrap() && watcher.awaits_another());
    watcher.resume();
    timeout(Duration::from_secs(30), renewals.changed()).await.unwrap().unwrap();
    assert!(!watcher.awaits_another(), "it counts as another one");
}

#[tokio::test(start_paused = true)]
async fn a_file_is_looked_at_while_the_feed_goes_on_without_a_credential() {
    let folder = TempDir::new();
    let credential = Credential::file(folder.write("token", "monday"));
    let feed = going_on_without(&credential).await;
    let _watcher = credential.watch(&feed);
    let mut renewals = feed.renewals();
    folder.write("token", "tuesday");
    timeout(Duration::from_secs(30), renewals.changed()).await.unwrap().unwrap();
}
