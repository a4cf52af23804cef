//! Catching up: from the ledger that one has to the one that the pool agrees on, believing nothing that is not shown.
//!
//! ```text
//! own ledger --status_request--> all nodes --agreement of f + 1 on agreement_key--> judge
//!   judge: Same                      done
//!          Ahead(theirs)             done: who answered has not all of it yet
//!          Behind(target)            CatchUp: next -> request -> accept, until done
//!          error                     the pool has another ledger: the cache is not its own, or the genesis is not
//! ```

use crate::ledger::merkle::{Head, ProofError, verify};
use crate::ledger::msgpack::MsgpackError;
use crate::ledger::{Ledger, Transaction};
use crate::message::{Message, Proof, Transactions};

/// How many transactions are asked for at once. Some 50 KiB; what is too much for one message a node splits.
const AT_ONCE: u64 = 50;

/// How many nodes may lie or fail, of so many: fewer than a third.
pub fn tolerated(nodes: usize) -> usize {
    nodes.saturating_sub(1) / 3
}

/// What nodes must agree on in their answers to a question about the ledger. `None` for what is no answer to it.
pub fn agreement_key(answer: &Message) -> Option<Proof> {
    match answer {
        Message::Status(head) => Some(Proof { old: *head, new: *head, hashes: Vec::new() }),
        Message::Proof(proof) => Some(proof.clone()),
        Message::Ack { .. }
        | Message::Refusal { .. }
        | Message::Reply { .. }
        | Message::Transactions(_)
        | Message::Other => None,
    }
}

/// How our ledger compares to the pool's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is the same.
    Same,
    /// It begins with this one: those who agreed lag behind what we were shown before.
    Ahead(Head),
    /// It is the beginning of this one.
    Behind(Head),
}

/// Why a ledger cannot be brought to where the pool's is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatchUpError {
    /// The pool has another ledger.
    #[error("the pool has another ledger: {theirs}, and here are {ours}")]
    Conflict {
        /// What we have.
        ours: Head,
        /// What the pool has.
        theirs: Head,
    },
    /// The answer is about a ledger that is not ours.
    #[error("the answer is about {asked}, and here are {ours}")]
    NotAsked {
        /// What we have.
        ours: Head,
        /// What the answer is about.
        asked: Head,
    },
    /// It is not shown that what we have, or would have then, is the beginning of what the pool has.
    #[error(transparent)]
    Proof(#[from] ProofError),
    /// Transactions that do not follow on what there is.
    #[error("transaction {found} came when {wanted} was due")]
    Gap {
        /// The next one.
        wanted: u64,
        /// The one that came.
        found: u64,
    },
    /// More than there is to be had.
    #[error("{found} transactions came, and {wanted} were asked for")]
    Count {
        /// How many there should be at most, and one at least.
        wanted: u64,
        /// How many came.
        found: u64,
    },
    /// A transaction that cannot be hashed.
    #[error("transaction {number} cannot be hashed")]
    Unpackable {
        /// Its number.
        number: u64,
        /// Why not.
        #[source]
        source: MsgpackError,
    },
}

/// Compares our ledger with what the nodes agree on.
///
/// # Errors
/// When one is not the beginning of the other.
pub fn judge(ledger: &Ledger, agreed: &Proof) -> Result<Standing, CatchUpError> {
    let (ours, theirs) = (ledger.head(), agreed.new);
    if theirs == ours {
        return Ok(Standing::Same);
    }
    if theirs.size <= ours.size {
        let then = ledger.head_at(theirs.size as usize);
        // Of an empty ledger nodes have their own ideas of the root.
        let begins = theirs.size == 0 || then == Some(theirs);
        return if begins { Ok(Standing::Ahead(theirs)) } else { Err(CatchUpError::Conflict { ours, theirs }) };
    }
    if agreed.old != ours && ours.size != 0 {
        return Err(CatchUpError::NotAsked { ours, asked: agreed.old });
    }
    verify(&ours, &theirs, &agreed.hashes)?;
    Ok(Standing::Behind(theirs))
}

/// A ledger on its way to a target. Whatever it accepts is shown to lead there.
#[derive(Clone, Debug)]
pub struct CatchUp {
    ledger: Ledger,
    target: Head,
}

/// The transactions to ask for next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The first.
    pub start: u64,
    /// The last.
    pub end: u64,
    /// The last of the ledger aimed at.
    pub till: u64,
}

impl CatchUp {
    /// From a ledger to a target, which it has been [judged](judge) to be the beginning of.
    pub fn new(ledger: Ledger, target: Head) -> CatchUp {
        CatchUp { ledger, target }
    }

    /// What to ask for next; `None` when there is nothing more to ask for.
    pub fn next(&self) -> Option<Wanted> {
        let (size, till) = (self.ledger.head().size, self.target.size);
        (size < till).then(|| Wanted { start: size + 1, end: till.min(size + AT_ONCE), till })
    }

    /// Takes an answer to [`next`](Self::next), or the first part of one that was split; says how many transactions came.
    ///
    /// # Errors
    /// When it is not shown to lead to the target. Nothing has changed then, and another node can be asked.
    pub fn accept(&mut self, answer: &Transactions) -> Result<u64, CatchUpError> {
        let checked = self.check(answer)?;
        let count = checked.len() as u64;
        checked.into_iter().for_each(|transaction| self.ledger.append(transaction));
        Ok(count)
    }

    /// Whether [`accept`](Self::accept) would take it.
    pub fn accepts(&self, answer: &Transactions) -> bool {
        self.check(answer).is_ok()
    }

    /// The ledger as far as it is.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The ledger as far as it is: at its target when there is nothing [more](Self::next) to ask for.
    pub fn into_ledger(self) -> Ledger {
        self.ledger
    }

    fn check(&self, answer: &Transactions) -> Result<Vec<Transaction>, CatchUpError> {
        let (found, wanted) = (answer.transactions.len() as u64, self.next());
        let count = wanted.map_or(0, |wanted| wanted.end - wanted.start + 1);
        if found == 0 || found > count {
            return Err(CatchUpError::Count { wanted: count, found });
        }
        let mut tree = self.ledger.tree().clone();
        let mut checked = Vec::new();
        for (wanted, (number, value)) in (self.ledger.head().size + 1..).zip(&answer.transactions) {
            if *number != wanted {
                return Err(CatchUpError::Gap { wanted, found: *number });
            }
            let transaction =
                Transaction::new(value).map_err(|source| CatchUpError::Unpackable { number: wanted, source })?;
            tree.append(crate::ledger::merkle::leaf_hash(transaction.packed()));
            checked.push(transaction);
        }
        verify(&tree.head(), &self.target, &answer.proof)?;
        Ok(checked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::merkle::{Hash, leaf_hash, prove};
    use serde_json::{Value, json};

    fn transaction(number: u64) -> Value {
        json!({"txn": {"type": "0", "number": number}})
    }

    fn ledger(size: u64) -> Ledger {
        (1..=size).map(|number| Transaction::new(transaction(number)).unwrap()).collect()
    }

    fn leaves(size: u64) -> Vec<Hash> {
        ledger(size).transactions().iter().map(|transaction| leaf_hash(transaction.packed())).collect()
    }

    fn answer(start: u64, end: u64, till: u64) -> Transactions {
        let transactions = (start..=end).map(|number| (number, transaction(number))).collect();
        Transactions { transactions, proof: prove(&leaves(till), end as usize) }
    }

    fn agreed(old: u64, new: u64) -> Proof {
        let (from, to) = (ledger(old).head(), ledger(new).head());
        Proof { old: from, new: to, hashes: prove(&leaves(new), old as usize) }
    }

    #[test]
    fn a_ledger_is_judged_by_what_is_shown() {
        let head = |size| ledger(size).head();
        assert_eq!(judge(&ledger(4), &agreed(4, 4)), Ok(Standing::Same));
        assert_eq!(judge(&ledger(4), &agreed(4, 9)), Ok(Standing::Behind(head(9))));
        assert_eq!(judge(&ledger(0), &agreed(0, 9)), Ok(Standing::Behind(head(9))));
        assert_eq!(judge(&ledger(9), &agreed(4, 4)), Ok(Standing::Ahead(head(4))), "what was shown once stays");
        assert!(matches!(judge(&ledger(5), &agreed(4, 9)), Err(CatchUpError::NotAsked { .. })));
        let mut other = ledger(3);
        other.append(Transaction::new(json!({"txn": "another"})).unwrap());
        assert!(matches!(judge(&other, &agreed(4, 4)), Err(CatchUpError::Conflict { .. })));
        other.append(Transaction::new(json!({"txn": "another"})).unwrap());
        assert!(matches!(judge(&other, &agreed(4, 4)), Err(CatchUpError::Conflict { .. })), "a shorter one, too");
        assert_eq!(judge(&other, &agreed(3, 3)), Ok(Standing::Ahead(head(3))));
        let forged = Proof { old: other.head(), ..agreed(4, 9) };
        assert!(matches!(judge(&other, &forged), Err(CatchUpError::Proof(_))));
    }

    #[test]
    fn it_goes_in_steps_and_takes_split_answers() {
        let mut catch_up = CatchUp::new(ledger(4), ledger(70).head());
        assert_eq!(catch_up.next(), Some(Wanted { start: 5, end: 54, till: 70 }));
        assert_eq!(catch_up.accept(&answer(5, 29, 70)), Ok(25), "the first half");
        assert_eq!(catch_up.next(), Some(Wanted { start: 30, end: 70, till: 70 }));
        assert_eq!(catch_up.accept(&answer(30, 70, 70)), Ok(41));
        assert_eq!(catch_up.next(), None);
        assert_eq!(catch_up.into_ledger(), ledger(70));
    }

    #[test]
    fn whatever_does_not_lead_to_the_target_changes_nothing() {
        let mut catch_up = CatchUp::new(ledger(4), ledger(9).head());
        let mut refused = |answer: &Transactions| {
            let before = catch_up.ledger().clone();
            assert!(!catch_up.accepts(answer));
            let error = catch_up.accept(answer).unwrap_err();
            assert_eq!(*catch_up.ledger(), before);
            error
        };
        assert_eq!(refused(&answer(6, 9, 9)), CatchUpError::Gap { wanted: 5, found: 6 });
        assert_eq!(
            refused(&Transactions { transactions: vec![], proof: vec![] }),
            CatchUpError::Count { wanted: 5, found: 0 }
        );
        assert_eq!(refused(&answer(5, 10, 10)), CatchUpError::Count { wanted: 5, found: 6 });
        let lacking = Transactions { proof: Vec::new(), ..answer(5, 8, 9) };
        assert!(matches!(refused(&lacking), CatchUpError::Proof(_)), "the last is missing and nothing shows the rest");
        let mut changed = answer(5, 9, 9);
        changed.transactions[2].1 = json!({"txn": "another"});
        assert!(matches!(refused(&changed), CatchUpError::Proof(_)));
        assert!(matches!(refused(&answer(5, 7, 10)), CatchUpError::Proof(_)), "of a longer ledger");
    }

    #[test]
    fn fewer_than_a_third_may_lie() {
        let tolerated: Vec<_> = [0, 1, 3, 4, 6, 7, 25].map(tolerated).to_vec();
        assert_eq!(tolerated, [0, 0, 0, 1, 1, 2, 8]);
    }
}
