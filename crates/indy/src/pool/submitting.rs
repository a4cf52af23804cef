//! Requests to a pool: who is asked, what is made of the answers, and what each node says of the ledger.

use super::kind::Kind;
use super::{Pool, Request, SubmitError};
use crate::catch_up::agreement_key;
use crate::ledger::merkle::Head;
use crate::message::Message;
use crate::transport::{Outgoing, Wire};
use carom::window::{Account, Answered, Asking, Told};
use serde_json::Value;
use std::collections::BTreeMap;

/// What a pool says to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The result on which more nodes agree than may lie; that of one node with [`single_reads`](crate::Opening::single_reads).
    ///
    /// A `state_proof` and a `stateProofFrom` of the data are left out: proofs are not verified, and one node could have made it up.
    Agreed(Value),
    /// What each node says, by its alias: its result, or why there is none.
    Each(BTreeMap<String, Result<Value, String>>),
}

impl Pool {
    /// Sends a request, signed if it has to be, and waits for the answer.
    ///
    /// Of reads, two nodes more than may lie are asked, and one more has to give the same answer; of writes, all are asked;
    /// GET_VALIDATOR_INFO and POOL_RESTART are for each node to answer. Which it is, the type of its operation says.
    ///
    /// A read asks one more node for each that has not acknowledged it within [`hedge_after`](crate::Opening::hedge_after). A node
    /// that does not respond is asked last by the reads of a minute, or until it responds.
    ///
    /// A node that acknowledges a request has the `reply_timeout` to answer, of all kinds of requests: who asks each node may wait
    /// that long for one that only acknowledges.
    ///
    /// A write whose connections are cut is sent again on new ones, with the identity of its window, until the deadlines of the
    /// nodes: they recognise it, and carry it out once.
    ///
    /// Cancel safety: the request is forgotten, but nodes that have it may carry it out.
    ///
    /// # Errors
    /// When there is no such answer.
    pub async fn submit(&self, request: &Value) -> Result<Reply, SubmitError> {
        self.send(&request.try_into()?).await
    }

    /// The same for a request that is known to be one, whose text goes as it is, and that may name nodes and timeouts.
    ///
    /// Cancel safety: as for [`submit`](Self::submit).
    ///
    /// # Errors
    /// When there is no such answer.
    pub async fn send(&self, request: &Request) -> Result<Reply, SubmitError> {
        let wanted = self.quorum();
        let outgoing = Outgoing::request(request.req_id(), request.text().to_owned());
        match request.kind() {
            Kind::Read if self.shared.single_reads => {
                let asking = self.requester.any(outgoing, |answer| matches!(answer, Message::Reply { .. }));
                let answered = as_wanted(asking, request).await?;
                Ok(Reply::Agreed(result(answered.answer)))
            }
            Kind::Read => {
                let asking = self.requester.quorum(outgoing, wanted, compared).at_once(wanted + 1);
                Ok(agreed(as_wanted(asking, request).await?))
            }
            Kind::Write => {
                // Nodes know a request that comes twice by its digest: it is carried out once, and answered again.
                let asking = self.requester.quorum(outgoing, wanted, compared).reconnect(true);
                Ok(agreed(as_wanted(asking, request).await.map_err(SubmitError::of_write)?))
            }
            Kind::Each => {
                let told = as_wanted(self.requester.all(outgoing), request).await?;
                Ok(Reply::Each(told.into_iter().map(each).collect()))
            }
        }
    }

    /// Asks every node how far the ledger goes there: what it says, by its alias, or why it says nothing. One that goes further
    /// than the ledger here is not shown to go on from it; that is for [`refresh`](Self::refresh).
    ///
    /// Cancel safety: nothing changes.
    ///
    /// # Errors
    /// When the pool is closed.
    pub async fn survey(&self) -> Result<BTreeMap<String, Result<Head, String>>, SubmitError> {
        let accounts = self.requester.all(Outgoing::status(&self.head())).await?;
        let head = |account: Account<Message>| {
            let told = match &account.told {
                Told::Reply(answer) => agreement_key(answer).map(|proof| proof.new).ok_or("invalid answer".to_owned()),
                told => Err(told.to_string()),
            };
            (account.node.to_string(), told)
        };
        Ok(accounts.into_iter().map(head).collect())
    }
}

/// With the nodes and timeouts that the request names.
fn as_wanted<'pool, O>(mut asking: Asking<'pool, Wire, O>, request: &Request) -> Asking<'pool, Wire, O> {
    if let Some(nodes) = &request.nodes {
        asking = asking.nodes(nodes.iter().cloned());
    }
    if let Some(timeout) = request.ack_timeout {
        asking = asking.ack_timeout(timeout);
    }
    if let Some(timeout) = request.reply_timeout {
        asking = asking.reply_timeout(timeout);
    }
    asking
}

/// What answers are compared by: all but the proofs.
fn compared(answer: &Message) -> Option<Value> {
    match answer {
        Message::Reply { result, .. } => Some(without_proofs(result.clone())),
        Message::Refusal { reason, .. } => Some(Value::String(reason.clone())),
        Message::Ack { .. } | Message::Status(_) | Message::Proof(_) | Message::Transactions(_) | Message::Other => {
            None
        }
    }
}

/// A result without the proofs, which differ from node to node and are not verified.
fn without_proofs(mut result: Value) -> Value {
    if let Some(fields) = result.as_object_mut() {
        fields.remove("state_proof");
    }
    // GET_REVOC_REG_DELTA has the proof of the registry's earlier state inside its data.
    if let Some(data) = result.get_mut("data").and_then(Value::as_object_mut) {
        data.remove("stateProofFrom");
    }
    result
}

fn agreed(answers: Vec<Answered<Message>>) -> Reply {
    Reply::Agreed(answers.into_iter().next().map_or(Value::Null, |answered| result(answered.answer)))
}

fn result(answer: Message) -> Value {
    match answer {
        Message::Reply { result, .. } => without_proofs(result),
        Message::Ack { .. }
        | Message::Refusal { .. }
        | Message::Status(_)
        | Message::Proof(_)
        | Message::Transactions(_)
        | Message::Other => Value::Null,
    }
}

fn each(account: Account<Message>) -> (String, Result<Value, String>) {
    let told = match account.told {
        Told::Reply(Message::Reply { result, .. }) => Ok(result),
        Told::Nack(Message::Refusal { reason, .. }) => Err(format!("refused: {reason}")),
        told => Err(told.to_string()),
    };
    (account.node.to_string(), told)
}
