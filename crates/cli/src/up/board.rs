//! The board: everything that runs, where whoever asks how it is doing can look.

use super::request::overlap;
use crate::config::Service;
use crate::gateway;
use crate::proxy;
use carom::monitor::Id;
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// Everything that runs.
pub(crate) struct Board {
    /// What was started, as it was typed.
    program: &'static str,
    started_at: SystemTime,
    state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    /// By name.
    pub(super) services: BTreeMap<String, Served>,
    /// Those that let nobody in any more and have clients still.
    pub(super) leaving: Vec<proxy::View>,
    /// Where it is answered how everything is doing.
    pub(super) admin: Option<SocketAddr>,
    pub(super) gateway: Gateway,
    /// It has been told to end.
    pub(super) stopping: bool,
}

/// How far the gateway is.
#[derive(Default)]
pub(super) enum Gateway {
    /// There is none, and none is to be.
    #[default]
    Off,
    /// It starts as soon as it can; what it waits for.
    Waiting(String),
    Serving(Arc<gateway::Serving>),
}

impl Gateway {
    /// One that runs.
    pub(super) fn serving(&self) -> Option<&Arc<gateway::Serving>> {
        match self {
            Gateway::Serving(serving) => Some(serving),
            Gateway::Off | Gateway::Waiting(_) => None,
        }
    }

    fn awaited(&self) -> Option<&String> {
        match self {
            Gateway::Waiting(why) => Some(why),
            Gateway::Off | Gateway::Serving(_) => None,
        }
    }
}

impl State {
    /// Who listens where nobody else can listen along with this address, for people.
    pub(super) fn holder(&self, of: SocketAddr) -> Option<String> {
        let services =
            self.services.iter().map(|(name, served)| (served.listener.local_addr().ok(), format!("service {name}")));
        let others = [
            (self.admin, "admin".to_owned()),
            (self.gateway.serving().map(|gateway| gateway.local_addr()), "the gateway".to_owned()),
        ];
        let mut all = services.chain(others).filter_map(|(at, who)| Some((at?, who)));
        all.find(|(at, _)| overlap(*at, of)).map(|(at, who)| format!("{who} has {at}"))
    }
}

/// A service that is served.
pub(super) struct Served {
    pub(super) service: Service,
    /// The socket that clients come to, kept for whoever serves them after a change.
    pub(super) listener: TcpListener,
    pub(super) running: proxy::Running,
}

/// What is seen of it at one moment.
pub(crate) struct Seen {
    /// It has been told to end.
    pub(crate) stopping: bool,
    pub(crate) services: Vec<proxy::Snapshot>,
    /// Those that let nobody in any more.
    pub(crate) leaving: Vec<proxy::Snapshot>,
    pub(crate) gateway: Option<carom_gateway::Snapshot>,
    /// Why there is no gateway yet, if there is to be one.
    pub(crate) awaited: Option<String>,
}

impl Seen {
    /// The pools and sets of all services, those of the leaving ones too.
    pub(crate) fn objects(&self) -> impl Iterator<Item = Id> {
        self.services.iter().chain(&self.leaving).flat_map(|service| service.objects.iter().copied())
    }
}

impl Board {
    /// An empty one, of a program that begins now.
    pub(crate) fn new(program: &'static str) -> Board {
        Board { program, started_at: SystemTime::now(), state: Mutex::default() }
    }

    pub(crate) fn program(&self) -> &'static str {
        self.program
    }

    pub(crate) fn started_at(&self) -> SystemTime {
        self.started_at
    }

    /// Where it is answered how everything is doing, from now on.
    pub(crate) fn admin_is(&self, admin: Option<SocketAddr>) {
        self.lock().admin = admin;
    }

    /// There is a gateway from now on.
    pub(crate) fn gateway_is(&self, gateway: gateway::Serving) {
        self.lock().gateway = Gateway::Serving(Arc::new(gateway));
    }

    /// There is to be a gateway, and this is why there is none yet.
    pub(crate) fn gateway_waits(&self, why: &str) {
        self.lock().gateway = Gateway::Waiting(why.to_owned());
    }

    /// There is to be no gateway.
    pub(crate) fn gateway_is_off(&self) {
        self.lock().gateway = Gateway::Off;
    }

    /// The gateway, if it runs.
    pub(crate) fn gateway(&self) -> Option<Arc<gateway::Serving>> {
        self.lock().gateway.serving().cloned()
    }

    /// Why there is no gateway yet, if there is to be one.
    pub(crate) fn awaits_gateway(&self) -> Option<String> {
        self.lock().gateway.awaited().cloned()
    }

    /// It has been told to end; whoever asks is told.
    pub(crate) fn stop(&self) {
        self.lock().stopping = true;
    }

    /// The gateway, which is to end.
    pub(crate) fn take_gateway(&self) -> Option<gateway::Serving> {
        // Nobody else has it: it is lent for reloads alone, and none is under way.
        match std::mem::take(&mut self.lock().gateway) {
            Gateway::Serving(serving) => Arc::into_inner(serving),
            Gateway::Off | Gateway::Waiting(_) => None,
        }
    }

    /// Never held across an await.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // Whoever panicked with it had done what it does in one step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pools and sets that are seen, without looking at them.
    pub(crate) fn objects(&self) -> Vec<Id> {
        let state = self.lock();
        let serving = state.services.values().map(|served| served.running.view());
        serving.chain(&state.leaving).flat_map(proxy::View::objects).collect()
    }

    /// How everything is doing.
    pub(crate) fn look(&self) -> Seen {
        let state = self.lock();
        let services = state.services.values().map(|served| served.running.view().snapshot()).collect();
        let leaving = state.leaving.iter().map(proxy::View::snapshot).collect();
        let gateway = state.gateway.serving().map(|gateway| gateway.snapshot());
        Seen { stopping: state.stopping, services, leaving, gateway, awaited: state.gateway.awaited().cloned() }
    }
}
