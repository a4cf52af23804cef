//! A feed whose credential was refused goes on when another one is found, and not before.

mod folder;

use carom::feed::{Adapter, Change, Feed, Mode, Refused, State, Tick, Topic};
use carom_gateway::credential::{Credential, Presented};
use folder::Folder;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
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
        *self.accepts.lock().unwrap() = accepts;
        self.expired.notify_one();
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
    let folder = Folder::new("watched-file");
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
async fn a_file_that_is_gone_for_a_while_is_waited_for() {
    let folder = Folder::new("watched-gone");
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
    let folder = Folder::new("watched-not");
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
    let folder = Folder::new("watched-command");
    let path = folder.write("token", "monday");
    let credential = Credential::command(["cat".into(), path.into_os_string()]);
    let gate = Gate::new(&credential, "monday");
    let feed = gate.feed().await;
    let _watcher = credential.watch(&feed);
    folder.write("token", "tuesday");
    gate.change("tuesday");
    // The next look would come after a minute.
    let opened_again = async {
        while gate.opened() < 2 || feed.state() != State::Running {
            let mut states = feed.states();
            let _ = timeout(Duration::from_millis(20), states.changed()).await;
        }
    };
    timeout(Duration::from_secs(30), opened_again).await.expect("the feed goes on");
}
