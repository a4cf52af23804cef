//! How far the pool ledger goes, who the nodes are, and what each says of it.

use super::trouble::of_request;
use crate::failure::Failure;
use crate::output::printable;
use carom_indy::Pool;
use carom_indy::ledger::merkle::Head;
use serde_json::{Value, json};
use std::fmt::{self, Display};

/// What is known of a pool.
#[derive(Debug)]
pub(super) struct Status {
    head: Head,
    /// How many nodes have just that ledger, and how many must for it to be the pool's.
    agreeing: usize,
    needed: usize,
    nodes: Vec<NodeStatus>,
}

#[derive(Debug)]
struct NodeStatus {
    alias: String,
    address: String,
    /// How far its ledger goes, or why it does not say.
    told: Result<Head, String>,
}

impl Status {
    /// Asks every node.
    pub(super) async fn of(pool: &Pool) -> Result<Status, Failure> {
        let mut told = pool.survey().await.map_err(of_request)?;
        let (head, nodes) = (pool.head(), pool.nodes());
        let nodes: Vec<_> = nodes
            .iter()
            .map(|node| NodeStatus {
                alias: node.alias.clone(),
                address: node.address.to_string(),
                told: told.remove(&node.alias).unwrap_or_else(|| Err("not asked".to_owned())),
            })
            .collect();
        let agreeing = nodes.iter().filter(|node| node.told == Ok(head)).count();
        Ok(Status { head, agreeing, needed: pool.quorum(), nodes })
    }

    /// For programs.
    pub(super) fn to_json(&self) -> Value {
        let nodes: Vec<_> = self.nodes.iter().map(NodeStatus::to_json).collect();
        json!({
            "size": self.head.size, "root": self.head.root_base58(), "caught_up": self.caught_up(),
            "agreeing": self.agreeing, "needed": self.needed, "nodes": nodes,
        })
    }

    fn caught_up(&self) -> bool {
        self.agreeing >= self.needed
    }
}

impl NodeStatus {
    fn to_json(&self) -> Value {
        let head = self.told.as_ref().ok();
        json!({
            "alias": self.alias, "address": self.address, "answers": head.is_some(),
            "size": head.map(|head| head.size), "root": head.map(Head::root_base58), "error": self.told.as_ref().err(),
        })
    }
}

/// For people.
impl Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (yes, of) = (if self.caught_up() { "yes" } else { "no" }, self.nodes.len());
        writeln!(f, "pool ledger: {} transactions, root {}", self.head.size, self.head.root_base58())?;
        writeln!(f, "caught up: {yes} ({} of {of} nodes have it, {} must)", self.agreeing, self.needed)?;
        let widest = self.nodes.iter().map(|node| printable(&node.alias).chars().count()).max().unwrap_or(0);
        for node in &self.nodes {
            write!(f, "{:<widest$} {:<21} ", printable(&node.alias), node.address)?;
            match &node.told {
                Ok(head) if *head == self.head => writeln!(f, "answers: the same")?,
                Ok(head) => writeln!(f, "answers: {head}")?,
                Err(reason) => writeln!(f, "no answer: {}", printable(reason))?,
            }
        }
        Ok(())
    }
}
