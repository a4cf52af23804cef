//! A register in NATS: a bucket of its key-value store, where every write has a revision and can name the one it expects.

use super::ShareError;
use super::{Entry, Holder, Mark, Register};
use async_nats::connection::State;
use async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE;
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream;
use async_nats::jetstream::{Error as Refusal, ErrorCode};
use async_nats::{Client, HeaderMap, Message, Request, RequestError, RequestErrorKind, StatusCode, SubscribeError};
use futures_util::StreamExt;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::Notify;

/// The bucket in which leases are unless somebody says otherwise.
const BUCKET: &str = "carom_leases";

/// What a delete or purge of a key leaves behind has this header.
const OPERATION: &str = "KV-Operation";

/// In answers to direct reads: the revision.
const SEQUENCE: &str = "Nats-Sequence";

/// How long the answer to a read is waited for before it is asked for again; twice as long each time.
const FIRST_READ: Duration = Duration::from_millis(250);

/// How long the last of these is waited for.
const LAST_READ: Duration = Duration::from_secs(8);

/// A revision that no entry comes to have: what is written over it is never done.
const NEVER: u64 = 1 << 62;

/// Leases in a bucket of NATS's key-value store, which is made when it is not there: on disk, without history, and without an end
/// of what is in it.
///
/// What is read may come from a replica that is behind; writes are compared with what is true. Nothing is asked while there is
/// no connection, as the client would keep it and send it when nobody expects it any more. Nothing is left of a request that is
/// not waited for any more.
#[derive(Debug)]
pub struct NatsRegister {
    client: Client,
    bucket: Arc<str>,
    replicas: usize,
    /// Whether the last read was answered. Nobody answers for a bucket that is not there.
    is_served: AtomicBool,
}

/// Each clone finds out for itself whether the bucket is there.
impl Clone for NatsRegister {
    fn clone(&self) -> NatsRegister {
        let NatsRegister { client, bucket, replicas, is_served: _ } = self;
        let (client, bucket, replicas) = (client.clone(), Arc::clone(bucket), *replicas);
        NatsRegister { client, bucket, replicas, is_served: AtomicBool::new(false) }
    }
}

/// Why NATS could not be asked, or did not answer.
#[derive(Debug, Error)]
pub enum NatsRegisterError {
    /// The client is connecting.
    #[error("there is no connection to NATS")]
    NotConnected,
    /// The key cannot be part of a subject.
    #[error("the key of a lease may have letters, digits and _ - . ~ = / alone, not {key:?}")]
    Key {
        /// What it is.
        key: Arc<str>,
    },
    /// It was asked, and nobody answered.
    #[error("NATS does not answer what is asked of {subject}")]
    Unanswered {
        /// By which subject.
        subject: String,
        /// Why not.
        source: RequestError,
    },
    /// What was answered makes no sense.
    #[error("NATS's answer about leases makes no sense")]
    Garbled(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The entry could not be read.
    #[error("the lease cannot be read from NATS: {status}")]
    Read {
        /// What NATS says.
        status: StatusCode,
    },
    /// The entry could not be written.
    #[error("the lease cannot be written to NATS")]
    Write(#[source] Refusal),
    /// The bucket is not there, and could not be made.
    #[error("the bucket of leases cannot be made in NATS")]
    Make(#[source] Refusal),
    /// Changes could not be subscribed to.
    #[error("the lease cannot be watched in NATS")]
    Watch(#[source] SubscribeError),
    /// The subscription has ended.
    #[error("NATS does not tell of the lease any more")]
    Unwatched,
}

impl From<NatsRegisterError> for ShareError {
    fn from(error: NatsRegisterError) -> ShareError {
        match error {
            NatsRegisterError::NotConnected => ShareError::NotConnected,
            error => ShareError::Register(error.into()),
        }
    }
}

impl NatsRegisterError {
    fn is_timeout(&self) -> bool {
        matches!(self, NatsRegisterError::Unanswered { source, .. } if source.kind() == RequestErrorKind::TimedOut)
    }
}

impl NatsRegister {
    /// In a bucket of the usual name, `carom_leases`, with one replica.
    pub fn new(client: Client) -> NatsRegister {
        NatsRegister { client, bucket: BUCKET.into(), replicas: 1, is_served: AtomicBool::new(false) }
    }

    /// How many servers of a cluster keep the bucket, if it is made here: 3 outlive the loss of one. One unless said otherwise.
    #[must_use]
    pub fn replicas(mut self, replicas: usize) -> NatsRegister {
        self.replicas = replicas;
        self
    }

    /// A bucket of another name.
    #[must_use]
    pub fn bucket(mut self, bucket: impl Into<Arc<str>>) -> NatsRegister {
        self.bucket = bucket.into();
        self
    }

    /// Sees to it that the bucket is there; it is left as it is if somebody else has made it otherwise.
    async fn make_bucket(&self) -> Result<(), NatsRegisterError> {
        // What the client's own way to make a bucket would ask for. It asks for the account first, and does not understand what
        // servers of version 2.9 answer.
        let config = stream::Config {
            name: self.stream(),
            description: Some("who owns the connections to an upstream".to_owned()),
            subjects: vec![format!("$KV.{}.>", self.bucket)],
            max_messages_per_subject: 1,
            discard: stream::DiscardPolicy::New,
            storage: stream::StorageType::File,
            num_replicas: self.replicas,
            allow_rollup: true,
            deny_delete: true,
            allow_direct: true,
            ..stream::Config::default()
        };
        let subject = format!("$JS.API.STREAM.CREATE.{}", self.stream());
        match self.request::<IgnoredAny>(subject, Request::new().payload(json(&config).into())).await? {
            Response::Ok(_) => Ok(()),
            Response::Err { error } if is_made_elsewhere(&error) => Ok(()),
            Response::Err { error } => Err(NatsRegisterError::Make(error)),
        }
    }

    /// Whether this member may write the entry at all. Nothing is written.
    ///
    /// Where that is not allowed NATS does not answer, so this is to be given some time only.
    pub(crate) async fn may_write(&self, key: &str) -> Result<(), NatsRegisterError> {
        self.write(key, NEVER, Mark { holder: Holder::Unknown, epoch: 0 }).await.map(drop)
    }

    async fn request<T: DeserializeOwned>(
        &self,
        subject: String,
        request: Request,
    ) -> Result<Response<T>, NatsRegisterError> {
        let said = self.ask(subject, request).await?;
        serde_json::from_slice(&said.payload).map_err(|error| NatsRegisterError::Garbled(error.into()))
    }

    /// Asks again for what is not answered, which changes nothing: servers of version 2.9 lose the answers to reads that come
    /// while the bucket is being made.
    async fn ask_to_read(&self, subject: &str) -> Result<Message, NatsRegisterError> {
        let reading = format!("{}.{subject}", self.reads());
        let mut wait = FIRST_READ;
        loop {
            match self.ask(reading.clone(), Request::new().timeout(Some(wait))).await {
                Err(error) if error.is_timeout() && wait < LAST_READ => wait *= 2,
                said => return said,
            }
        }
    }

    /// Asks with an inbox of its own: those of the client's requests are kept until somebody answers, which may be never.
    async fn ask(&self, subject: String, request: Request) -> Result<Message, NatsRegisterError> {
        let request = request.inbox(self.client.new_inbox());
        let said = self.client.send_request(subject.clone(), request).await;
        said.map_err(|source| NatsRegisterError::Unanswered { subject, source })
    }

    fn stream(&self) -> String {
        format!("KV_{}", self.bucket)
    }

    /// By which subject entries are read.
    pub(crate) fn reads(&self) -> String {
        format!("$JS.API.DIRECT.GET.{}", self.stream())
    }

    /// By which subject an entry is written.
    pub(crate) fn subject(&self, key: &str) -> Result<String, NatsRegisterError> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.~=/".contains(&byte);
        if key.split('.').any(str::is_empty) || !key.bytes().all(is_plain) {
            return Err(NatsRegisterError::Key { key: key.into() });
        }
        Ok(format!("$KV.{}.{key}", self.bucket))
    }

    fn connected(&self) -> Result<(), NatsRegisterError> {
        match self.client.connection_state() {
            State::Connected => Ok(()),
            State::Pending | State::Disconnected => Err(NatsRegisterError::NotConnected),
        }
    }
}

impl Register for NatsRegister {
    type Error = NatsRegisterError;

    async fn read(&self, key: &str) -> Result<Entry, NatsRegisterError> {
        let subject = self.subject(key)?;
        self.connected()?;
        // A read that is given up leaves it at that.
        if !self.is_served.swap(false, Relaxed) {
            self.make_bucket().await?;
        }
        // Asked for in the other way, by `STREAM.MSG.GET`, servers of version 2.9 crash while a bucket is being made.
        let said = self.ask_to_read(&subject).await?;
        let entry = found(&said)?;
        self.is_served.store(true, Relaxed);
        Ok(entry)
    }

    async fn write(&self, key: &str, over: u64, mark: Mark) -> Result<Option<u64>, NatsRegisterError> {
        let subject = self.subject(key)?;
        self.connected()?;
        let mut headers = HeaderMap::new();
        headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, over.to_string());
        let request = Request::new().headers(headers).payload(encode(mark).into());
        match self.request::<PublishAck>(subject, request).await? {
            Response::Ok(written) => Ok(Some(written.sequence)),
            Response::Err { error } if is_conflict(&error) => Ok(None),
            Response::Err { error } => Err(NatsRegisterError::Write(error)),
        }
    }

    /// By what others write, as it passes by: that needs nothing on the server that could be lost with it.
    async fn watch(&self, key: &str, changed: &Notify) -> NatsRegisterError {
        let subject = match self.subject(key) {
            Ok(subject) => subject,
            Err(error) => return error,
        };
        let mut writes = match self.client.subscribe(subject).await {
            Ok(writes) => writes,
            Err(error) => return NatsRegisterError::Watch(error),
        };
        while let Some(write) = writes.next().await {
            let over = write.headers.as_ref().and_then(|headers| headers.get(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE));
            // Of somebody who only wants to know whether it may.
            if over.is_none_or(|over| over.as_str() != NEVER.to_string()) {
                changed.notify_one();
            }
        }
        NatsRegisterError::Unwatched
    }
}

/// Somebody has made the bucket otherwise, or is making it just now.
fn is_made_elsewhere(error: &Refusal) -> bool {
    [ErrorCode::STREAM_NAME_EXIST, ErrorCode::STREAM_SUBJECT_OVERLAP].contains(&error.error_code())
}

/// Servers say it in two ways.
fn is_conflict(error: &Refusal) -> bool {
    [ErrorCode::STREAM_WRONG_LAST_SEQUENCE, ErrorCode::STREAM_WRONG_LAST_SEQUENCE_CONSTANT]
        .contains(&error.error_code())
}

/// The entry in an answer to a direct read.
fn found(said: &Message) -> Result<Entry, NatsRegisterError> {
    match said.status {
        None => {}
        Some(StatusCode::NOT_FOUND) => return Ok(Entry::absent()),
        Some(status) => return Err(NatsRegisterError::Read { status }),
    }
    let headers = said.headers.as_ref();
    let sequence = headers.and_then(|headers| headers.get(SEQUENCE)).and_then(|value| value.as_str().parse().ok());
    let sequence: u64 = sequence.ok_or_else(|| NatsRegisterError::Garbled("there is no revision in it".into()))?;
    let is_gone = headers.is_some_and(|headers| headers.get(OPERATION).is_some());
    Ok(if is_gone { Entry::unreadable(sequence) } else { decode(sequence, &said.payload) })
}

/// A mark as it is stored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Stored {
    Held { by: String, epoch: u64 },
    Free { epoch: u64 },
    Unknown { epoch: u64 },
}

fn encode(Mark { holder, epoch }: Mark) -> Vec<u8> {
    let stored = match holder {
        Holder::Member(by) => Stored::Held { by: by.to_string(), epoch },
        Holder::Free => Stored::Free { epoch },
        Holder::Unknown => Stored::Unknown { epoch },
    };
    json(&stored)
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("names and numbers can be written as JSON")
}

/// What cannot be read says nothing of a holder, so there may be one.
fn decode(revision: u64, bytes: &[u8]) -> Entry {
    let mark = match serde_json::from_slice(bytes) {
        Ok(Stored::Held { by, epoch }) => Mark { holder: Holder::Member(by.into()), epoch },
        Ok(Stored::Free { epoch }) => Mark { holder: Holder::Free, epoch },
        Ok(Stored::Unknown { epoch }) => Mark { holder: Holder::Unknown, epoch },
        Err(_) => return Entry::unreadable(revision),
    };
    Entry { revision, mark }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for holder in [Holder::Member("gateway \"1\"".into()), Holder::Free, Holder::Unknown] {
            let mark = Mark { holder, epoch: u64::MAX };
            assert_eq!(decode(7, &encode(mark.clone())), Entry { revision: 7, mark });
        }
    }

    #[test]
    fn what_somebody_else_wrote_is_never_taken_for_free() {
        for bytes in ["", "{}", "null", r#"{"epoch":1}"#, r#"{"free":{}}"#, r#"{"free":{"epoch":1,"by":"x"}}"#, "\u{0}"]
        {
            assert_eq!(decode(7, bytes.as_bytes()), Entry::unreadable(7), "{bytes}");
        }
    }
}
