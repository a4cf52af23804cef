//! A long ledger: 100,000 transactions from the texts of nodes, verified, appended, kept on disk and read back.

use crate::measure::median;
use crate::memory;
use carom_indy::catch_up::CatchUp;
use carom_indy::ledger::merkle::{Hash, Head, leaf_hash, node_hash};
use carom_indy::ledger::{Cache, Ledger, Transaction};
use carom_indy::message::Message;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::io;
use std::time::Instant;
use std::{env, fs, process};

const TRANSACTIONS: usize = 100_000;
/// As many as are asked for at once.
const AT_ONCE: usize = 50;
const REPETITIONS: usize = 3;

/// Prints the figures, and returns them.
pub fn report() -> io::Result<Vec<Value>> {
    let history = History::of(TRANSACTIONS);
    let (ledger, bytes) = memory::kept(|| history.caught_up());
    let bytes_each = bytes as f64 / TRANSACTIONS as f64;
    println!(
        "\n{TRANSACTIONS} transactions of {} bytes as JSON; {bytes_each:.0} bytes of memory each",
        history.mean_size()
    );
    println!("{:<34} {:>9} {:>16}", "", "ms", "transactions/s");

    let folder = env::temp_dir().join(format!("carom-bench-{}", process::id()));
    let cache = Cache::new(&folder, history.beginning());
    let works: [(&str, &dyn Fn()); 3] = [
        ("read, verified, appended", &|| drop(history.caught_up())),
        ("kept on disk", &|| cache.write(&ledger).expect("the disk takes it")),
        ("read from disk, verified", &|| drop(cache.read().expect("it is there").expect("it is whole"))),
    ];
    let mut rows = Vec::new();
    for (what, work) in works {
        let seconds = median((0..REPETITIONS).map(|_| timed(work)).collect());
        let transactions_s = TRANSACTIONS as f64 / seconds;
        println!("{what:<34} {:>9.0} {transactions_s:>16.0}", seconds * 1000.0);
        rows.push(json!({
            "what": what, "transactions": TRANSACTIONS, "seconds": seconds, "transactions_s": transactions_s,
            "bytes_each": bytes_each,
        }));
    }
    fs::remove_dir_all(&folder)?;
    Ok(rows)
}

fn timed(work: &dyn Fn()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// What nodes would send to one who has the first transaction alone.
struct History {
    first: Transaction,
    answers: Vec<String>,
    target: Head,
}

impl History {
    fn of(count: usize) -> History {
        let transactions: Vec<_> =
            (1..=count).map(|number| Transaction::new(transaction(number)).expect("it is not nested deep")).collect();
        let leaves: Vec<_> = transactions.iter().map(|transaction| leaf_hash(transaction.packed())).collect();
        let mut roots = Roots { leaves: &leaves, known: HashMap::new() };
        let target = Head { size: count as u64, root: roots.of(0, count) };
        let answers = (1..count).step_by(AT_ONCE).map(|start| {
            let end = count.min(start + AT_ONCE);
            let numbered = (start..end).map(|at| ((at + 1).to_string(), transactions[at].value().clone()));
            let proof =
                roots.prove(end).iter().map(|root| Head { size: 0, root: *root }.root_base58()).collect::<Vec<_>>();
            let transactions: Map<_, _> = numbered.collect();
            json!({"op": "CATCHUP_REP", "ledgerId": 0, "txns": transactions, "consProof": proof}).to_string()
        });
        let answers = answers.collect();
        History { first: transactions[0].clone(), answers, target }
    }

    fn beginning(&self) -> Head {
        [self.first.clone()].into_iter().collect::<Ledger>().head()
    }

    fn mean_size(&self) -> usize {
        self.answers.iter().map(String::len).sum::<usize>() / self.target.size as usize
    }

    /// As a pool does it: an answer is read, judged, and taken.
    fn caught_up(&self) -> Ledger {
        let beginning = [self.first.clone()].into_iter().collect();
        let mut catch_up = CatchUp::new(beginning, self.target);
        for answer in &self.answers {
            let Ok(Message::Transactions(answer)) = Message::parse(answer.as_bytes()) else {
                panic!("it is an answer")
            };
            assert!(catch_up.accepts(&answer));
            catch_up.accept(&answer).expect("it leads to the target");
        }
        let ledger = catch_up.into_ledger();
        assert_eq!(ledger.head(), self.target);
        ledger
    }
}

/// What somebody writes who is new.
fn transaction(number: usize) -> Value {
    json!({
        "reqSignature": {"type": "ED25519", "values": [{"from": "Th7MpTaRZVRYnPiabds81Y", "value": "4".repeat(87)}]},
        "txn": {
            "type": "1", "protocolVersion": 2,
            "data": {"dest": format!("{number:022}"), "verkey": format!("~{number:022}"), "role": "101"},
            "metadata": {"digest": "7".repeat(64), "from": "Th7MpTaRZVRYnPiabds81Y", "reqId": 1_600_000_000 + number},
        },
        "txnMetadata": {"seqNo": number, "txnId": "9".repeat(64), "txnTime": 1_600_000_000 + number},
        "ver": "1",
    })
}

/// Roots of parts, each worked out once: of 2,000 proofs over one ledger most are the same.
struct Roots<'l> {
    leaves: &'l [Hash],
    known: HashMap<(usize, usize), Hash>,
}

impl Roots<'_> {
    fn of(&mut self, from: usize, to: usize) -> Hash {
        if to - from == 1 {
            return self.leaves[from];
        }
        if let Some(root) = self.known.get(&(from, to)) {
            return *root;
        }
        let middle = from + (to - from).next_power_of_two() / 2;
        let root = node_hash(&self.of(from, middle), &self.of(middle, to));
        self.known.insert((from, to), root);
        root
    }

    /// That the first so many are the beginning of all.
    fn prove(&mut self, old: usize) -> Vec<Hash> {
        let (mut from, mut to, mut proof) = (0, self.leaves.len(), Vec::new());
        while old < to {
            let middle = from + (to - from).next_power_of_two() / 2;
            if old <= middle {
                proof.push(self.of(middle, to));
                to = middle;
            } else {
                proof.push(self.of(from, middle));
                from = middle;
            }
        }
        // One full part from the first on is what whoever asks has already.
        if from > 0 {
            proof.push(self.of(from, to));
        }
        proof.reverse();
        proof
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carom_indy::ledger::merkle::prove;

    #[test]
    fn what_is_sent_leads_to_the_target() {
        let ledger = History::of(333).caught_up();
        let leaves: Vec<_> = ledger.transactions().iter().map(|transaction| leaf_hash(transaction.packed())).collect();
        let mut roots = Roots { leaves: &leaves, known: HashMap::new() };
        for old in 1..=leaves.len() {
            let whole = if old == leaves.len() { Vec::new() } else { prove(&leaves, old) };
            assert_eq!(roots.prove(old), whole, "{old}");
        }
    }
}
