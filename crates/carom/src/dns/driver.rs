//! The driver: one task per resolver that asks what the machine wants to know and publishes what it concludes.

use super::bootstrap::{Bootstrap, finder};
use super::error::{BootstrapError, DnsError, LookupError, Reason};
use super::lookup::{Ended, Way, lookup};
use super::nameservers::Preference;
use super::options::Nameservers;
use super::sight::Sight;
use super::system::{Configuration, Files, has_ipv6};
use super::{Dns, Ipv6};
use crate::clock;
use crate::resolver::{Publisher, Resolution, ResolverState};
use crate::seed::seed;
use carom_core::resolver::{Action, Answer, AskId, Kind, Machine, Question, State};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tracing::Instrument;

/// How long what the system says of nameservers and of IPv6 is believed.
const SYSTEM_TTL: Duration = Duration::from_secs(60);

pub(super) struct Driver {
    sight: Arc<Sight>,
    publisher: Publisher,
    service: Arc<str>,
    servers: Servers,
    files: Arc<Files>,
    port: u16,
    absolute: bool,
    ipv6: Ipv6,
    way: Option<(Arc<Way>, Instant)>,
    preference: Arc<Preference>,
    asking: JoinSet<(AskId, Question, Ended)>,
    by_ask: HashMap<AskId, (AbortHandle, Question)>,
}

/// Whom to ask.
enum Servers {
    System,
    Given(Vec<SocketAddr>),
    /// Those that a resolver of their own has found.
    Named(Box<Bootstrap>),
    /// Those found by this very resolver, and the system's.
    Own,
}

impl Driver {
    /// Everything, from finding the nameservers on. Ends only by being dropped.
    pub(super) async fn run(dns: Dns, publisher: Publisher) {
        publisher.name(&dns.service);
        let Dns { mut options, nameservers, own, files, port, absolute, ipv6, service } = dns;
        let servers = match nameservers {
            Nameservers::System if own => Servers::Own,
            Nameservers::System => Servers::System,
            Nameservers::Given(servers) => Servers::Given(servers),
            Nameservers::Named(named) => {
                let finder = finder(&named, &options, &files, port, ipv6);
                let mut bootstrap = Bootstrap::share(&named, finder, publisher.notes().monitor());
                wait_for(&mut bootstrap, &publisher).await;
                Servers::Named(Box::new(bootstrap))
            }
        };
        options.ipv6 = match ipv6 {
            Ipv6::Auto => tokio::task::spawn_blocking(has_ipv6).await.unwrap_or(true),
            Ipv6::Always => true,
            Ipv6::Never => false,
        };
        let machine = match Machine::new(options, seed(), clock::now()) {
            Ok(machine) => machine,
            Err(error) => return publisher.fail(error),
        };
        let sight = Sight::new(machine);
        publisher.notes().asks(Arc::clone(&sight) as _);
        let driver = Driver {
            sight,
            publisher,
            service,
            servers,
            files,
            port,
            absolute,
            ipv6,
            way: None,
            preference: Arc::default(),
            asking: JoinSet::new(),
            by_ask: HashMap::new(),
        };
        driver.drive().await;
    }

    async fn drive(mut self) {
        loop {
            self.sight.lock().machine.handle_timeout(clock::now());
            while let Some(action) = self.next_action() {
                self.perform(action).await;
            }
            let next = self.sight.lock().machine.next_timeout();
            let wake_at = next.unwrap_or_else(|| clock::now() + Duration::from_secs(86_400));
            tokio::select! {
                Some(ended) = self.asking.join_next() => {
                    self.ended(ended);
                    while let Some(ended) = self.asking.try_join_next() {
                        self.ended(ended);
                    }
                }
                () = changed(&mut self.servers) => {
                    self.way = None;
                    self.sight.lock().machine.handle_restored(clock::now());
                }
                () = tokio::time::sleep_until(wake_at.into()) => {}
            }
        }
    }

    fn next_action(&self) -> Option<Action> {
        self.sight.lock().machine.poll_action()
    }

    async fn perform(&mut self, action: Action) {
        match action {
            Action::Ask { id, question, timeout } => {
                let way = self.way().await;
                // The targets of SRV records are whole names: only what a person wrote is searched for.
                let written = question.kind == Kind::Srv || question.name == self.sight.lock().machine.options().domain;
                let (asked, searched) = (question.clone(), written && !self.absolute);
                let span = tracing::debug_span!("question", %question);
                let task = async move {
                    let ended = lookup(way, question.clone(), searched, timeout).await;
                    (id, question, ended)
                }
                .instrument(span);
                self.by_ask.insert(id, (self.asking.spawn(task), asked));
            }
            Action::Cancel(id) => {
                if let Some((task, _)) = self.by_ask.remove(&id) {
                    task.abort();
                }
            }
            Action::Publish => self.publish(),
        }
    }

    fn ended(&mut self, ended: Result<(AskId, Question, Ended), JoinError>) {
        let (id, question, (answer, error)) = match ended {
            Ok(ended) => ended,
            Err(failed) => match self.panicked(&failed) {
                Some(ended) => ended,
                // One that was cancelled is of no interest; the machine has forgotten it.
                None => return,
            },
        };
        self.by_ask.remove(&id);
        match &error {
            Some(error) => tracing::debug!(service = &*self.service, %error, "a question ended badly"),
            None => tracing::debug!(service = &*self.service, %question, "a question was answered"),
        }
        let mut state = self.sight.lock();
        match error {
            Some(error) => state.causes.insert(question, Arc::new(error)),
            None => state.causes.remove(&question),
        };
        state.machine.handle_answer(clock::now(), id, answer);
    }

    /// Which question that was, and that it ended badly: the machine waits for it.
    fn panicked(&self, failed: &JoinError) -> Option<(AskId, Question, Ended)> {
        let (&id, (_, question)) = self.by_ask.iter().find(|(_, (task, _))| task.id() == failed.id())?;
        let error = LookupError::new(question.clone(), vec![Reason::Panicked]);
        Some((id, question.clone(), (Answer::Trouble, Some(error))))
    }

    fn publish(&mut self) {
        let (known, causes) = {
            let state = &mut *self.sight.lock();
            // What nobody asks any more is nothing to remember.
            state.causes.retain(|question, _| state.machine.wants(question));
            let known = state.machine.resolution().clone();
            let causes = known.troubles.iter().filter_map(|question| state.causes.get(question)).map(Arc::clone);
            let causes: Vec<_> = causes.collect();
            (known, causes)
        };
        let last_error = (!causes.is_empty()).then(|| Arc::new(DnsError::new(Arc::clone(&self.service), causes)) as _);
        let state = match known.state {
            State::Starting => ResolverState::Starting,
            State::Running => ResolverState::Running,
            State::Failed => ResolverState::Failed,
        };
        self.publisher.relay(Resolution {
            state,
            backends: known.backends,
            details: known.details,
            last_error,
            stale_since: known.stale_since,
            complete: known.complete,
        });
        if let Servers::Own = self.servers {
            self.way = None;
        }
    }

    /// Whom to ask and how, as of at most a minute ago.
    async fn way(&mut self) -> Arc<Way> {
        let now = clock::now();
        if let Some((way, until)) = &self.way
            && now < *until
        {
            return Arc::clone(way);
        }
        let configuration = match &mut self.servers {
            Servers::Given(servers) => Configuration::given(servers.clone()),
            Servers::Named(bootstrap) => Configuration::given(bootstrap.nameservers()),
            Servers::System => self.system().await,
            Servers::Own => {
                let mut configuration = self.system().await;
                let found = Arc::clone(&self.sight.lock().machine.resolution().backends);
                configuration.nameservers.splice(..0, found.iter().map(|backend| backend.socket_addr()));
                configuration
            }
        };
        if self.ipv6 == Ipv6::Auto && self.way.is_some() {
            let ipv6 = tokio::task::spawn_blocking(has_ipv6).await.unwrap_or(true);
            self.sight.lock().machine.set_ipv6(now, ipv6);
        }
        self.sight.lock().nameservers = configuration.nameservers.as_slice().into();
        let hosts = self.files.hosts.as_path().into();
        let way = Arc::new(Way { configuration, preference: Arc::clone(&self.preference), hosts });
        self.way = Some((Arc::clone(&way), now + SYSTEM_TTL));
        way
    }

    async fn system(&self) -> Configuration {
        let (files, port) = (Arc::clone(&self.files), self.port);
        let read = tokio::task::spawn_blocking(move || Configuration::read(&files.resolv_conf, port)).await;
        read.unwrap_or_else(|_| Configuration::given(Vec::new()))
    }
}

/// Waits until nameservers are known; a failure to find them is this resolver's failure.
async fn wait_for(bootstrap: &mut Bootstrap, publisher: &Publisher) {
    loop {
        let known = bootstrap.resolution.borrow_and_update().clone();
        match known.state {
            ResolverState::Running => return,
            ResolverState::Starting | ResolverState::Stopping => {}
            ResolverState::Failed => {
                publisher.fail(BootstrapError { name: Arc::clone(&bootstrap.name), cause: known.last_error });
            }
            ResolverState::Stopped => {
                bootstrap.renew().await;
                continue;
            }
        }
        if bootstrap.resolution.changed().await.is_err() {
            bootstrap.renew().await;
        }
    }
}

/// Resolves when other nameservers have been found.
async fn changed(servers: &mut Servers) {
    match servers {
        Servers::Named(bootstrap) => bootstrap.changed().await,
        Servers::System | Servers::Given(_) | Servers::Own => std::future::pending().await,
    }
}
