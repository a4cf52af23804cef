//! A ledger: transactions in their order, with the tree over them.

mod cache;
pub mod merkle;
pub mod msgpack;

pub use cache::{Cache, CacheError};

use merkle::{Head, Tree, leaf_hash};
use msgpack::MsgpackError;
use serde_json::Value;
use std::borrow::Borrow;

/// No transaction has more bytes: it was a request of 128 KiB at most, and a number can take three times what it does there.
const LONGEST_TRANSACTION: usize = 512 * 1024;

/// A transaction. It is kept as the bytes that are hashed, which take a tenth of the memory that its JSON does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    packed: Vec<u8>,
}

impl Transaction {
    /// From JSON.
    ///
    /// # Errors
    /// When it is nested too deep, or of too many small parts.
    pub fn new(value: impl Borrow<Value>) -> Result<Transaction, MsgpackError> {
        Ok(Transaction { packed: msgpack::pack(value.borrow())? })
    }

    /// From the bytes.
    ///
    /// # Errors
    /// When they are not what JSON could be packed as.
    pub fn unpacked(packed: &[u8]) -> Result<Transaction, MsgpackError> {
        msgpack::unpack(packed)?;
        Ok(Transaction { packed: packed.to_vec() })
    }

    /// As JSON, made of the bytes each time.
    pub fn value(&self) -> Value {
        msgpack::unpack(&self.packed).expect("it was packed from a value, or unpacked before")
    }

    /// The bytes that are hashed.
    pub fn packed(&self) -> &[u8] {
        &self.packed
    }
}

/// Transactions in their order. The first has the number 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ledger {
    transactions: Vec<Transaction>,
    tree: Tree,
}

impl Ledger {
    /// Appends a transaction.
    pub fn append(&mut self, transaction: Transaction) {
        self.tree.append(leaf_hash(transaction.packed()));
        self.transactions.push(transaction);
    }

    /// Its size and root.
    pub fn head(&self) -> Head {
        self.tree.head()
    }

    /// All, in order.
    pub fn transactions(&self) -> &[Transaction] {
        &self.transactions
    }

    /// The tree over it.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The size and root that it had when it was so long; `None` if it never was.
    pub fn head_at(&self, size: usize) -> Option<Head> {
        let first = self.transactions.get(..size)?;
        Some(first.iter().map(|transaction| leaf_hash(transaction.packed())).collect::<Tree>().head())
    }
}

impl FromIterator<Transaction> for Ledger {
    fn from_iter<I: IntoIterator<Item = Transaction>>(transactions: I) -> Ledger {
        let mut ledger = Ledger::default();
        transactions.into_iter().for_each(|transaction| ledger.append(transaction));
        ledger
    }
}
