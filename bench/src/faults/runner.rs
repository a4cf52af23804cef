//! Runs one peer under faults, with servers and a runtime of its own. The caller gives it a thread, as starting and stopping servers
//! blocks.

use super::fault::Fault;
use super::figures::{Course, Figures, back_after};
use super::load::Load;
use super::nodes::{Kind, Nodes, Template};
use super::peers::{Peer, Request};
use super::{LIMIT, WARM, WATCHED};
use carom_live::AnyError;
use std::io;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{sleep, sleep_until};

/// Dropped, its servers are killed.
pub struct Runner {
    pub peer: &'static Peer,
    nodes: Nodes,
    signals: Signals,
    runtime: Runtime,
}

impl Runner {
    pub fn start(kind: Kind, peer: &'static Peer, template: &Template) -> Result<Runner, AnyError> {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let (signals, nodes) = runtime.block_on(async {
            let mut signals = Signals::new()?;
            let nodes = signals.or(Nodes::start(kind, template)).await?;
            Ok::<_, AnyError>((signals, nodes))
        })?;
        Ok(Runner { peer, nodes, signals, runtime })
    }

    /// Opens the peer for the nodes that a fault needs.
    pub fn open(&mut self, fault: Fault) -> Result<Request, AnyError> {
        let Runner { peer, nodes, signals, runtime, .. } = self;
        runtime.block_on(signals.or(async {
            if fault == Fault::Close {
                nodes.fail(fault).await;
            }
            (peer.open)(nodes.addresses(fault)).await
        }))
    }

    /// The load starts at this moment, and the fault [`WARM`] later, so that both are the same for all runners.
    pub fn measure(&mut self, fault: Fault, request: Request, start: Instant) -> Result<Figures, AnyError> {
        let Runner { nodes, signals, runtime, .. } = self;
        runtime.block_on(signals.or(async { Ok(measure(nodes, fault, request, start).await) }))
    }
}

async fn measure(nodes: &mut Nodes, fault: Fault, request: Request, start: Instant) -> Figures {
    let load = Load::start(request);
    let (warm, mut failed) = (start + WARM / 2, start + WARM);
    sleep_until(failed.into()).await;
    match fault {
        // It has failed all along.
        Fault::Close => {}
        Fault::RestartIdle => {
            load.pause(true);
            sleep(Duration::from_secs(1)).await;
            nodes.fail(fault).await;
            sleep(Duration::from_millis(500)).await;
            load.pause(false);
            failed = Instant::now();
        }
        _ => {
            nodes.fail(fault).await;
            sleep_until((failed + fault.lasts()).into()).await;
            nodes.repair(fault).await;
        }
    }
    let repaired = Instant::now();
    let course = |ended| Course { warm, failed, repaired, ended, nodes: fault.nodes(), port: nodes.faulty_port(fault) };
    loop {
        sleep(Duration::from_millis(100)).await;
        let (watched, now) = (repaired.elapsed(), Instant::now());
        let back = watched >= WATCHED && back_after(&load.so_far(), &course(now)).is_some();
        if back || watched >= LIMIT + Duration::from_secs(1) {
            break;
        }
    }
    let ended = Instant::now();
    let records = load.stop().await;
    let figures = Figures::new(&records, &course(ended));
    if fault == Fault::Close {
        nodes.repair(fault).await;
    }
    figures
}

/// SIGINT and SIGTERM. A signal between two calls of [`or`](Self::or) ends the second.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> io::Result<Signals> {
        Ok(Signals { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Runs until this returns or a signal arrives.
    async fn or<T>(&mut self, run: impl Future<Output = Result<T, AnyError>>) -> Result<T, AnyError> {
        tokio::select! {
            returned = run => returned,
            _ = self.interrupt.recv() => Err("interrupted".into()),
            _ = self.terminate.recv() => Err("terminated".into()),
        }
    }
}
