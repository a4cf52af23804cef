//! A pool: nodes that keep ledgers together, and the client that asks them.

mod error;
mod kind;
mod opening;
mod request;
mod submitting;

pub use error::{PoolError, SubmitError};
pub use opening::Opening;
pub use request::Request;
pub use submitting::Reply;

use crate::catch_up::{CatchUp, Standing, Wanted, agreement_key, judge, tolerated};
use crate::ledger::merkle::Head;
use crate::ledger::{Cache, Ledger, Transaction};
use crate::message::Message;
use crate::node::{Node, Place, Validators, validators};
use crate::transport::{Outgoing, Wire};
use carom::window::{Answered, Requester, Snapshot};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// What comes is kept this often, so that a process that is killed has not waited for it in vain.
const KEEP_EVERY: Duration = Duration::from_secs(1);

/// Is told how many transactions of how many there are.
type Progress = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// A pool of nodes. It holds no socket that no request needs.
///
/// ```no_run
/// use carom_indy::{Pool, Reply};
/// use serde_json::json;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let genesis = std::fs::read_to_string("pool_transactions_genesis")?;
/// let pool = Pool::open(genesis).cache("/var/lib/orders/ledgers").await?;
/// println!("{}, {} nodes", pool.head(), pool.nodes().len());
///
/// let request = json!({
///     "identifier": "LibindyDid111111111111", "operation": {"type": "3", "ledgerId": 1, "data": 9},
///     "protocolVersion": 2, "reqId": 1,
/// });
/// if let Reply::Agreed(result) = pool.submit(&request).await? {
///     println!("{}", result["data"]);
/// }
/// # Ok(()) }
/// ```
///
/// Cheap to clone; all clones are the same pool. Dropping the last one closes it.
#[derive(Clone)]
pub struct Pool {
    requester: Requester<Wire>,
    shared: Arc<Shared>,
}

struct Shared {
    known: Mutex<Known>,
    /// One at a time brings it up to date: who comes second then has less to do, or nothing.
    refreshing: tokio::sync::Mutex<()>,
    cache: Option<Cache>,
    single_reads: bool,
    progress: Option<Progress>,
}

/// What is known of the pool.
struct Known {
    ledger: Arc<Ledger>,
    /// How many validators there are, usable or not.
    validators: usize,
}

impl Pool {
    /// Opens the pool with this genesis: finds out how far its ledger goes, and fetches what is missing.
    ///
    /// Nothing happens before the [`Opening`] is awaited, inside a tokio runtime.
    ///
    /// Cancel safety: there is no pool then, its sockets close, and what was written to the cache by then is whole.
    pub fn open(genesis: impl Into<String>) -> Opening {
        Opening::new(genesis.into())
    }

    fn new(
        requester: Requester<Wire>,
        known: Known,
        cache: Option<Cache>,
        single_reads: bool,
        progress: Option<Progress>,
    ) -> Pool {
        let (known, refreshing) = (Mutex::new(known), tokio::sync::Mutex::new(()));
        Pool { requester, shared: Arc::new(Shared { known, refreshing, cache, single_reads, progress }) }
    }

    /// How far the ledger goes that is known here.
    pub fn head(&self) -> Head {
        self.ledger().head()
    }

    /// The ledger that is known here.
    pub fn ledger(&self) -> Arc<Ledger> {
        Arc::clone(&self.shared.lock().ledger)
    }

    /// How many nodes must give the same answer for it to be the pool's: f + 1, where f is less than a third of all validators
    /// that the ledger names. A validator that cannot be reached or used counts.
    pub fn quorum(&self) -> usize {
        tolerated(self.shared.lock().validators) + 1
    }

    /// The validators that can be used.
    pub fn nodes(&self) -> Vec<Arc<Node>> {
        self.requester.snapshot().nodes
    }

    /// What goes on with windows, for people.
    pub fn snapshot(&self) -> Snapshot<Node> {
        self.requester.snapshot()
    }

    /// Asks all nodes how far the ledger goes, fetches what is missing, keeps it, and goes on with the nodes that it names. Says
    /// how many transactions are new.
    ///
    /// Nodes that lag behind the ledger that is known here change nothing.
    ///
    /// Cancel safety: nothing has changed then, but the cache may have, which then holds what had come a second before.
    ///
    /// # Errors
    /// When the nodes do not answer, do not agree, or do so on something that does not go on from the ledger that is known here;
    /// when some of what is missing was not to be had (what came before that is known here then, and kept); and when the pool is
    /// closed.
    pub async fn refresh(&self) -> Result<u64, PoolError> {
        let _alone = self.shared.refreshing.lock().await;
        let ledger = self.ledger();
        let ours = ledger.head();
        let wanted = self.quorum();
        let agreed = self
            .requester
            .quorum(Outgoing::status(&ours), wanted, agreement_key)
            .await
            .map_err(PoolError::of_question)?;
        // Those that agree are as many as wanted, and all have what was compared.
        let Some(Answered { node, answer }) = agreed.into_iter().next() else { return Ok(0) };
        let Some(agreed) = agreement_key(&answer) else { return Ok(0) };
        let target = match judge(&ledger, &agreed)? {
            Standing::Same => return Ok(0),
            Standing::Ahead(theirs) => {
                tracing::info!(%ours, %theirs, "the nodes that agree lag behind the ledger that is known here, which stays");
                return Ok(0);
            }
            Standing::Behind(target) => target,
        };
        let mut catch_up = Arc::new(CatchUp::new((*ledger).clone(), target));
        let fetched = self.fetch(&mut catch_up, target, node).await;
        let ledger = Arc::unwrap_or_clone(catch_up).into_ledger();
        match fetched {
            Ok(()) => self.adopt(ledger).await?,
            // What came was shown to be right, and need not come again. Who the nodes are is for the whole ledger to say.
            Err(error) => {
                let part = Arc::new(ledger);
                self.keep(&part).await;
                self.shared.lock().ledger = part;
                return Err(error);
            }
        }
        Ok(target.size - ours.size)
    }

    /// From one node as long as it gives what it is asked for, at first from one that is known to have it: whoever is silent
    /// costs its timeout once, and not at every step.
    async fn fetch(&self, catch_up: &mut Arc<CatchUp>, target: Head, mut giver: Arc<str>) -> Result<(), PoolError> {
        let mut kept = Instant::now();
        while let Some(wanted) = catch_up.next() {
            if let Some(progress) = &self.shared.progress {
                progress(wanted.start - 1, wanted.till);
            }
            let given = self.given(catch_up, wanted, giver).await?;
            giver = given.node;
            if let Message::Transactions(transactions) = given.answer {
                Arc::make_mut(catch_up).accept(&transactions)?;
            }
            if self.shared.cache.is_some() && kept.elapsed() >= KEEP_EVERY {
                self.keep(&Arc::new(catch_up.ledger().clone())).await;
                kept = Instant::now();
            }
        }
        if let Some(progress) = &self.shared.progress {
            progress(target.size, target.size);
        }
        Ok(())
    }

    /// Transactions from this node, or else from any other.
    async fn given(
        &self,
        catch_up: &Arc<CatchUp>,
        wanted: Wanted,
        giver: Arc<str>,
    ) -> Result<Answered<Message>, PoolError> {
        let ask = |names: Vec<Arc<str>>| {
            let judging = Arc::clone(catch_up);
            let accepts =
                move |answer: &Message| matches!(answer, Message::Transactions(some) if judging.accepts(some));
            self.requester.any(Outgoing::catch_up(wanted), accepts).nodes(names)
        };
        let others = self.nodes().into_iter().filter(|node| *node.alias != *giver);
        let others: Vec<Arc<str>> = others.map(|node| node.alias.as_str().into()).collect();
        match ask(vec![giver]).await {
            Ok(given) => Ok(given),
            Err(error) if others.is_empty() => Err(PoolError::of_transactions(wanted, Vec::new(), error)),
            Err(error) => {
                let accounts = error.accounts().to_vec();
                ask(others).await.map_err(|source| PoolError::of_transactions(wanted, accounts, source))
            }
        }
    }

    /// On disk first: what is used is kept.
    async fn adopt(&self, ledger: Ledger) -> Result<(), PoolError> {
        let validators = validators_of(&ledger, self.head().size);
        let ledger = Arc::new(ledger);
        self.keep(&ledger).await;
        self.turn_to(ledger, validators.nodes, validators.count)
    }

    /// In the cache, if there is one. A ledger that cannot be kept is used all the same.
    async fn keep(&self, ledger: &Arc<Ledger>) {
        let Some(cache) = self.shared.cache.clone() else { return };
        let kept = Arc::clone(ledger);
        let written = tokio::task::spawn_blocking(move || cache.write(&kept)).await;
        match written {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                let source = std::error::Error::source(&error).map(ToString::to_string);
                tracing::warn!(%error, source, "the ledger could not be kept");
            }
            Err(error) => tracing::warn!(%error, "the ledger could not be kept: who was to write it ended early"),
        }
    }

    fn turn_to(&self, ledger: Arc<Ledger>, nodes: Vec<Node>, validators: usize) -> Result<(), PoolError> {
        let size = ledger.head().size;
        self.requester.set_nodes(nodes).map_err(|source| PoolError::NoNodes { size, source })?;
        *self.shared.lock() = Known { ledger, validators };
        Ok(())
    }

    /// Closes the pool: requests under way fail, so does every later one, and all sockets close. Does not wait.
    pub fn close(&self) {
        self.requester.close();
    }
}

/// The validators that a ledger names. Warns of what is of no use in it, but not again within what was known before.
fn validators_of(ledger: &Ledger, known: u64) -> Validators {
    let values = ledger.transactions().iter().map(Transaction::value);
    let validators = validators((1..).map(Place::Transaction).zip(values));
    for skipped in &validators.skipped {
        if !matches!(skipped.place, Place::Transaction(number) if number <= known) {
            tracing::warn!("the ledger has an entry that is of no use, {skipped}");
        }
    }
    validators
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Pool").field("head", &self.head()).field("requester", &self.requester).finish()
    }
}
