//! A broker hears a command, does it, and answers, unless the script says otherwise.

use super::answer::{Answer, Play};
use super::frames::{self, Broken};
use super::rare::{self, Rare};
use super::topic;
use super::world::{World, places};
use carom_pulsar::wire::{
    self, BaseCommand, Command, Connect, Connected, Failure, Lookup, LookupResponse, LookupType, PROTOCOL_VERSION,
    PartitionedMetadata, PartitionedMetadataResponse, PartitionedType, ServerError, TopicsOfNamespace,
    TopicsOfNamespaceResponse,
};
use prost::Message as _;

/// Frames to answer with. As an error: the connection is closed when they are written.
pub(super) type Replies = Result<Vec<Vec<u8>>, Vec<Vec<u8>>>;

/// What a broker says that has no request to name.
pub(super) const NO_REQUEST: u64 = u64::MAX;

impl World {
    /// `false` when the connection is over.
    pub(super) fn hear(&mut self, connection: u64, frame: &[u8]) -> bool {
        if self.answer(connection, frame).is_err() {
            self.close(connection);
        }
        self.connections.contains_key(&connection)
    }

    fn answer(&mut self, connection: u64, frame: &[u8]) -> Result<(), Broken> {
        let (bytes, behind) = frames::split(frame)?;
        let command = BaseCommand::decode(bytes).map_err(|_| Broken)?;
        let link = self.connections.get_mut(&connection).ok_or(Broken)?;
        link.unanswered = false;
        let broker = link.broker;
        let greeting = matches!(command.body, Some(Command::Connect(_)));
        let expected = link.client.is_none() == greeting;
        let kind = command.command_type();
        if let Some(kind) = kind {
            *self.brokers[broker].heard.entry(kind).or_default() += 1;
        }
        let Play { delay, answer } = if self.script.is_empty() {
            Play::NORMAL
        } else {
            let topic = self.topic_of(connection, &command);
            self.script.play(&places(connection, topic.as_deref(), broker), kind)
        };
        let (replies, over) = match answer {
            Answer::Ignored => return Ok(()),
            Answer::Close => return Err(Broken),
            _ if !expected => return Err(Broken),
            Answer::Error(error) => (refusal(&command, error).into_iter().collect(), greeting),
            Answer::Normal
            | Answer::Silent
            | Answer::DoneAndClose
            | Answer::Bytes(_)
            | Answer::BadChecksum
            | Answer::Delay(..)
            | Answer::Times(..) => {
                let (replies, over) = match self.perform(connection, &command, bytes, behind) {
                    Ok(replies) => (replies, false),
                    Err(replies) => (replies, true),
                };
                match answer {
                    Answer::Silent => (Vec::new(), over),
                    Answer::DoneAndClose => (Vec::new(), true),
                    Answer::Bytes(bytes) => (vec![bytes], over),
                    Answer::BadChecksum => (replies.into_iter().map(frames::spoil).collect(), over),
                    _ => (replies, over),
                }
            }
        };
        for bytes in replies {
            self.send_after(connection, delay, bytes);
        }
        if over { Err(Broken) } else { Ok(()) }
    }

    fn perform(&mut self, connection: u64, command: &BaseCommand, bytes: &[u8], behind: &[u8]) -> Replies {
        let Some(body) = &command.body else { return self.perform_rare(connection, command.kind, bytes) };
        match body {
            Command::Connect(connect) => self.connect(connection, connect),
            Command::Ping(_) => Ok(vec![frames::command(wire::Pong {})]),
            Command::Lookup(lookup) => self.lookup(connection, lookup),
            Command::PartitionedMetadata(asked) => Ok(self.partitions_of(asked)),
            Command::TopicsOfNamespace(asked) => Ok(self.topics_of(asked)),
            Command::Producer(producer) => self.produce(connection, producer),
            Command::Send(send) => self.store(connection, send, behind),
            Command::CloseProducer(close) => self.close_producer(connection, close),
            Command::Subscribe(subscribe) => self.subscribe(connection, subscribe),
            Command::Flow(flow) => self.flow(connection, flow),
            Command::Ack(ack) => self.acknowledge(connection, ack),
            Command::RedeliverUnacknowledged(again) => self.redeliver(connection, again),
            Command::Unsubscribe(end) => self.unsubscribe(connection, end),
            Command::GetLastMessageId(asked) => self.last_message(connection, asked),
            Command::CloseConsumer(close) => self.close_consumer(connection, close),
            // A PONG has done its work by being heard, and the rest is what brokers say.
            _ => Ok(Vec::new()),
        }
    }

    fn perform_rare(&mut self, connection: u64, kind: i32, bytes: &[u8]) -> Replies {
        // PING and PONG may come without a body.
        if kind == wire::CommandType::Ping as i32 {
            return Ok(vec![frames::command(wire::Pong {})]);
        }
        let Ok(rare) = Rare::decode(bytes) else { return Err(Vec::new()) };
        let mut reply = Rare::default();
        if let Some(seek) = &rare.seek {
            return self.seek(connection, seek);
        } else if let Some(rare::Request { request_id }) = rare.get_schema {
            reply.kind = rare::GET_SCHEMA_RESPONSE;
            reply.get_schema_response = Some(rare::SchemaResponse {
                request_id,
                error_code: Some(ServerError::TopicNotFound as i32),
                error_message: Some("no schema is kept here".into()),
            });
        } else if let Some(rare::Request { request_id }) = rare.get_or_create_schema {
            reply.kind = rare::GET_OR_CREATE_SCHEMA_RESPONSE;
            let schema_version = Some(vec![0; 8]);
            reply.get_or_create_schema_response = Some(rare::CreatedSchema { request_id, schema_version });
        } else {
            return Ok(Vec::new());
        }
        Ok(vec![frames::encoded(&reply.encode_to_vec(), &[])])
    }

    fn connect(&mut self, connection: u64, connect: &Connect) -> Replies {
        let named = connect.auth_method_name.as_deref() == Some("token");
        let proof = connect.auth_data.as_deref().unwrap_or_default();
        if self.settings.token.as_ref().is_some_and(|token| !named || proof != token.as_bytes()) {
            return Err(failure(NO_REQUEST, ServerError::Authentication, "the token is not right"));
        }
        let asked = connect.proxy_to_broker_url.as_deref().unwrap_or_default();
        let target = match asked.split_once("://").map_or(asked, |(_, address)| address) {
            "" => None,
            asked => match self.brokers.iter().position(|broker| broker.up && broker.address.to_string() == asked) {
                Some(target) => Some(target),
                None => return Err(failure(NO_REQUEST, ServerError::ServiceNotReady, "there is no such broker")),
            },
        };
        let max_message_size = i32::try_from(self.settings.max_message_size).ok();
        if let Some(link) = self.connections.get_mut(&connection) {
            link.client = Some(connect.client_version.clone());
            link.target = target.unwrap_or(link.broker);
        }
        let protocol_version = Some(connect.protocol_version.unwrap_or(0).min(PROTOCOL_VERSION));
        let server_version = "carom testkit".to_owned();
        Ok(vec![frames::command(Connected { server_version, protocol_version, max_message_size, feature_flags: None })])
    }

    fn lookup(&mut self, connection: u64, lookup: &Lookup) -> Replies {
        let Some(owner) = self.owner(&lookup.topic) else {
            return Ok(refusal(&lookup.clone().into(), ServerError::ServiceNotReady).into_iter().collect());
        };
        let here = self.connections.get(&connection).is_some_and(|link| link.target == owner);
        let response = if self.settings.redirect && !here { LookupType::Redirect } else { LookupType::Connect };
        let (broker_service_url, broker_service_url_tls) = self.urls(owner);
        Ok(vec![frames::command(LookupResponse {
            broker_service_url,
            broker_service_url_tls,
            response: Some(response as i32),
            request_id: lookup.request_id,
            authoritative: Some(true),
            proxy_through_service_url: Some(self.settings.proxied),
            ..LookupResponse::default()
        })])
    }

    fn partitions_of(&self, asked: &PartitionedMetadata) -> Vec<Vec<u8>> {
        vec![frames::command(PartitionedMetadataResponse {
            partitions: Some(self.partitions.get(&asked.topic).copied().unwrap_or(0)),
            request_id: asked.request_id,
            response: Some(PartitionedType::Success as i32),
            ..PartitionedMetadataResponse::default()
        })]
    }

    fn topics_of(&self, asked: &TopicsOfNamespace) -> Vec<Vec<u8>> {
        let partitions = self.partitions.iter();
        let partitions = partitions.flat_map(|(name, count)| (0..*count).map(move |n| format!("{name}-partition-{n}")));
        let mut topics: Vec<String> = self.topics.keys().cloned().chain(partitions).collect();
        topics.retain(|name| topic::namespace(name) == asked.namespace);
        topics.sort();
        topics.dedup();
        let request_id = asked.request_id;
        let (filtered, changed) = (Some(false), Some(true));
        vec![frames::command(TopicsOfNamespaceResponse { request_id, topics, filtered, changed, topics_hash: None })]
    }
}

pub(super) fn failure(request_id: u64, error: ServerError, message: &str) -> Vec<Vec<u8>> {
    vec![frames::command(Failure { request_id, error: error as i32, message: message.into() })]
}

pub(super) fn success(request_id: u64) -> Vec<Vec<u8>> {
    vec![frames::command(wire::Success { request_id })]
}

/// The error in the form that the command has for it.
fn refusal(command: &BaseCommand, error: ServerError) -> Option<Vec<u8>> {
    let message = format!("{error}, as the script says");
    let failed = |request_id| frames::command(Failure { request_id, error: error as i32, message: message.clone() });
    Some(match command.body.as_ref()? {
        Command::Connect(_) => failed(NO_REQUEST),
        Command::Lookup(lookup) => frames::command(LookupResponse {
            response: Some(LookupType::Failed as i32),
            request_id: lookup.request_id,
            error: Some(error as i32),
            message: Some(message),
            ..LookupResponse::default()
        }),
        Command::PartitionedMetadata(asked) => frames::command(PartitionedMetadataResponse {
            request_id: asked.request_id,
            response: Some(PartitionedType::Failed as i32),
            error: Some(error as i32),
            message: Some(message),
            ..PartitionedMetadataResponse::default()
        }),
        Command::Send(wire::Send { producer_id, sequence_id, .. }) => frames::command(wire::SendError {
            producer_id: *producer_id,
            sequence_id: *sequence_id,
            error: error as i32,
            message,
        }),
        Command::Ack(ack) => frames::command(wire::AckResponse {
            consumer_id: ack.consumer_id,
            error: Some(error as i32),
            message: Some(message),
            request_id: Some(ack.request_id?),
        }),
        Command::Producer(producer) => failed(producer.request_id),
        Command::CloseProducer(close) => failed(close.request_id),
        Command::Subscribe(subscribe) => failed(subscribe.request_id),
        Command::CloseConsumer(close) => failed(close.request_id),
        Command::Unsubscribe(end) => failed(end.request_id),
        Command::GetLastMessageId(asked) => failed(asked.request_id),
        Command::TopicsOfNamespace(asked) => failed(asked.request_id),
        _ => return None,
    })
}
