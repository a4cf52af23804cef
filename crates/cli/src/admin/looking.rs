//! Looking: what is seen of the whole program, now and once a second.
//!
//! Of a program that holds much, each look and all that is told of it take a while: that is done on threads for such work.

use super::health;
use super::history::Histories;
use super::view::{Program, Service, Status, View};
use crate::proxy;
use crate::up::{Board, Seen};
use bytes::Bytes;
use carom::monitor::{Id, Monitor, Snapshot};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, MissedTickBehavior, interval};

/// How often everything is looked at.
const EVERY: Duration = Duration::from_secs(1);
/// What was told so lately is told to others as well.
const SHARED: Duration = Duration::from_millis(100);
/// What is before and after the JSON of an event.
const EVENT: (&str, &str) = ("retry: 1000\nevent: snapshot\ndata: ", "\n\n");

/// Looks at the program until it is dropped.
pub(super) struct Looking {
    sight: Arc<Sight>,
    _task: JoinSet<()>,
}

/// What somebody who listens hears.
#[derive(Clone, Default)]
pub(super) struct News {
    /// As server-sent events have it.
    pub(super) event: Bytes,
    /// Nothing comes after that.
    pub(super) is_last: bool,
}

/// What can be seen, and what was.
struct Sight {
    program: Program,
    board: Arc<Board>,
    /// Held by whoever looks, until it has told what it saw: nobody is to hear what is older than what it has heard.
    memory: Mutex<Memory>,
    news: watch::Sender<News>,
}

#[derive(Default)]
struct Memory {
    histories: Histories,
    /// What was told last, and when it was seen.
    latest: Option<(Instant, Bytes)>,
}

impl Looking {
    /// Starts to look at a program of this name, which has begun at that time.
    pub(super) fn start(board: Arc<Board>) -> Looking {
        let sight = Arc::new(Sight {
            program: Program::this(&board),
            board,
            memory: Mutex::default(),
            news: watch::Sender::default(),
        });
        let mut task = JoinSet::new();
        task.spawn(look(Arc::clone(&sight)));
        Looking { sight, _task: task }
    }

    pub(super) fn board(&self) -> &Board {
        &self.sight.board
    }

    /// Everything that is seen now, as JSON.
    pub(super) fn json(&self) -> Bytes {
        let event = self.sight.recent(&mut lock(&self.sight.memory));
        event.slice(EVENT.0.len()..event.len() - EVENT.1.len())
    }

    /// Has somebody hear everything from now on, about once a second, and for the first time at once.
    pub(super) fn listen(&self) -> watch::Receiver<News> {
        let mut memory = lock(&self.sight.memory);
        // If anybody else listens, what there is to hear is not old.
        if self.sight.news.receiver_count() == 0 && !self.sight.news.borrow().is_last {
            let event = self.sight.recent(&mut memory);
            self.sight.news.send_replace(News { event, is_last: false });
        }
        let mut news = self.sight.news.subscribe();
        news.mark_changed();
        news
    }

    /// Says the last word to everybody who listens, and to whoever begins to.
    pub(super) fn end(&self) {
        let mut memory = lock(&self.sight.memory);
        let event = self.sight.tell(&mut memory, self.sight.see());
        self.sight.news.send_replace(News { event, is_last: true });
    }
}

async fn look(sight: Arc<Sight>) {
    let mut ticks = interval(EVERY);
    // After a pause of the whole program there is nothing to make up for.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let sight = Arc::clone(&sight);
        // Whoever fails to look once may look again.
        if spawn_blocking(move || sight.look()).await.unwrap_or(false) {
            return;
        }
    }
}

impl Sight {
    /// Once more, for the histories and for those who listen. Whether the last word has been said.
    fn look(&self) -> bool {
        let mut memory = lock(&self.memory);
        let (seen, monitor) = self.see();
        // Not when it was due: what happens in a pause of the whole program took as long as the pause.
        memory.histories.note(&monitor, Instant::now());
        let is_over = self.news.borrow().is_last;
        if !is_over && self.news.receiver_count() > 0 {
            let event = self.tell(&mut memory, (seen, monitor));
            self.news.send_replace(News { event, is_last: false });
        }
        is_over
    }

    /// What there is to tell, which may have been told to others a moment ago.
    fn recent(&self, memory: &mut Memory) -> Bytes {
        match &memory.latest {
            Some((seen, event)) if seen.elapsed() < SHARED => event.clone(),
            _ => self.tell(memory, self.see()),
        }
    }

    /// Built once, and shared by all who listen or ask.
    fn tell(&self, memory: &mut Memory, (seen, monitor): (Seen, Snapshot)) -> Bytes {
        let view = View {
            program: self.program.clone(),
            status: health::overall(&seen),
            services: seen.services.into_iter().map(Service::from).collect(),
            leaving: seen.leaving.into_iter().map(Service::leaving).collect(),
            history: memory.histories.read(),
            monitor,
        };
        // Nothing in it can fail to be written.
        let json = serde_json::to_string(&view).unwrap_or_default();
        let event = Bytes::from([EVENT.0, &json, EVENT.1].concat());
        memory.latest = Some((Instant::now(), event.clone()));
        event
    }

    /// Everything, and what runs. A service that begins or ends meanwhile would have its pool seen as nobody's: then it is looked
    /// again, and that settles it, as no config changes so often.
    fn see(&self) -> (Seen, Snapshot) {
        let mut before = self.board.objects();
        let mut left = 3;
        loop {
            let monitor = Monitor::global().snapshot();
            let seen = self.board.look();
            let after: Vec<Id> = seen.objects().collect();
            left -= 1;
            if after == before || left == 0 {
                return (seen, monitor);
            }
            before = after;
        }
    }
}

impl Program {
    /// The one that looks at itself.
    fn this(board: &Board) -> Program {
        let since = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        Program {
            name: board.program().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: crate::hostname::read(),
            pid: std::process::id(),
            started_at_ms: u64::try_from(since(board.started_at())).unwrap_or(u64::MAX),
        }
    }
}

impl From<proxy::Snapshot> for Service {
    fn from(seen: proxy::Snapshot) -> Service {
        Service {
            status: health::status_of(&seen),
            protocol: seen.protocol.to_owned(),
            listen: seen.listen.to_string(),
            clients: seen.clients,
            served: seen.served,
            failed: seen.failed,
            trouble: seen.upstream.trouble,
            objects: seen.objects,
            name: seen.name,
        }
    }
}

impl Service {
    /// One that lets nobody in any more. What it knew of its backends matters to nobody.
    fn leaving(seen: proxy::Snapshot) -> Service {
        Service { status: Status::Draining, trouble: None, ..Service::from(seen) }
    }
}

/// Never held across an await.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whoever panicked with it had done what it does in one step.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
