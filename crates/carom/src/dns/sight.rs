//! The sight of a resolver that asks DNS: its machine behind a lock, for the driver that runs it and for whoever looks.

use super::error::LookupError;
use crate::clock;
use crate::monitor::{self, DnsCounters, DnsKind, DnsQuestion, DnsState};
use crate::resolver::record::AsksDns;
use carom_core::resolver::{Counters, Glance, Kind, Machine, Question, Standing};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What the driver works with. Nobody but it changes anything.
pub(super) struct Sight {
    state: Mutex<State>,
}

pub(super) struct State {
    pub(super) machine: Machine,
    /// Why each question ended badly, if it did.
    pub(super) causes: BTreeMap<Question, Arc<LookupError>>,
    /// Who is asked, as far as that is known.
    pub(super) nameservers: Arc<[SocketAddr]>,
}

impl Sight {
    pub(super) fn new(machine: Machine) -> Arc<Sight> {
        let state = State { machine, causes: BTreeMap::new(), nameservers: Arc::new([]) };
        Arc::new(Sight { state: Mutex::new(state) })
    }

    /// For a short step, never across an await.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsksDns for Sight {
    fn look(&self) -> monitor::Dns {
        let (glances, counters, nameservers, options, causes) = {
            let state = self.lock();
            let options = state.machine.options();
            let options = (Arc::clone(&options.domain), options.service.clone(), options.default_port);
            let nameservers = Arc::clone(&state.nameservers);
            (state.machine.glances(), state.machine.counters(), nameservers, options, state.causes.clone())
        };
        let (domain, service, default_port) = options;
        let now = clock::now();
        let shown = |glance: Glance| {
            let trouble = causes.get(&glance.question).map(|cause| cause.to_string());
            show(glance, trouble, now)
        };
        monitor::Dns {
            domain: domain.to_string(),
            service: service.map(|service| service.to_string()),
            default_port,
            nameservers: nameservers.iter().map(SocketAddr::to_string).collect(),
            questions: glances.into_iter().map(shown).collect(),
            counters: count(counters),
        }
    }
}

fn show(glance: Glance, trouble: Option<String>, now: Instant) -> DnsQuestion {
    let Glance { question: Question { name, kind }, standing, records, next } = glance;
    DnsQuestion {
        name: name.to_string(),
        kind: match kind {
            Kind::Srv => DnsKind::Srv,
            Kind::Aaaa => DnsKind::Aaaa,
            Kind::A => DnsKind::A,
        },
        state: match standing {
            Standing::Asking => DnsState::Asking,
            Standing::Answered => DnsState::Answered,
            Standing::Nothing => DnsState::Nothing,
            Standing::Failed => DnsState::Failed,
        },
        records,
        next_ms: next.map(|next| monitor::ms_until(next, now)),
        trouble,
    }
}

fn count(Counters { asked, answered, failed, published }: Counters) -> DnsCounters {
    DnsCounters { asked, answered, failed, published }
}
