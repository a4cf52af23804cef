//! Finding: how many partitions a topic has, which broker owns it, and a connection to that broker.

use super::Shared;
use super::patience::Patience;
use crate::address::{Authority, behind_proxy, scheme};
use crate::connection::{Assigned, Lines, refused};
use crate::connector::Connector;
use crate::error::Error;
use crate::topic::MOST_PARTITIONS;
use crate::wire::{Command, Lookup, LookupType, PartitionedMetadata, PartitionedType};
use carom::set::LeaseOptions;
use carom::{Backend, Lease};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// How often a question may be sent on.
const MOST_REDIRECTS: usize = 20;

/// How long a broker that another one has named may take, at most; a lookup may know better.
const HINT_TIMEOUT: Duration = Duration::from_secs(5);

/// Who serves a topic: a broker, or a broker behind the proxy that was asked.
#[derive(Clone, Debug)]
pub(crate) enum Owner {
    Broker(Authority),
    Proxied(Backend),
}

/// What somebody wants a connection for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat {
    pub(crate) role: &'static str,
    /// The place that it had before.
    pub(crate) place: Option<usize>,
}

impl Seat {
    const LOOKUP: Seat = Seat { role: "lookup", place: None };

    fn options(self) -> LeaseOptions {
        let options = LeaseOptions::default().role(self.role);
        match self.place {
            Some(place) => options.place(place),
            None => options,
        }
    }
}

impl Shared {
    /// How many partitions a topic has; 0 when it is not made of partitions.
    pub(crate) async fn partitions(&self, topic: &str) -> Result<u32, Error> {
        let mut patience = self.patience("the lookup of partitions", false);
        loop {
            if let Some(partitions) = patience.attempt(self.ask_partitions(topic)).await? {
                return Ok(partitions);
            }
        }
    }

    pub(crate) fn patience(&self, what: &'static str, again: bool) -> Patience {
        self.patience_until(self.deadline(), what, again)
    }

    /// For what is a part of an operation that began earlier.
    pub(crate) fn patience_until(&self, deadline: Instant, what: &'static str, again: bool) -> Patience {
        let policy = if again { &self.options.reconnect } else { &self.options.recovery };
        let new_addresses = self.new_addresses.subscribe();
        Patience::new(what, again, self.options.operation_timeout, deadline, policy, new_addresses)
    }

    /// When an operation that begins now has taken too long.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.options.operation_timeout
    }

    /// A lease of a connection to the broker that owns a topic: the one that was named, if it can be had soon, or else the one
    /// that is looked up.
    pub(crate) async fn lease_for(
        &self,
        topic: &str,
        seat: Seat,
        assigned: Option<Assigned>,
    ) -> Result<Lease<Connector>, Error> {
        if let Some(assigned) = assigned {
            let within = (self.options.operation_timeout / 4).min(HINT_TIMEOUT);
            match timeout(within, self.lease_assigned(&assigned, seat)).await {
                Ok(Ok(Some(lease))) => return Ok(lease),
                Ok(Ok(None)) => {}
                Ok(Err(error)) => tracing::debug!(topic, %error, "where the topic is said to be, it cannot be had"),
                Err(_) => tracing::debug!(topic, ?within, "where the topic is said to be, nobody answers"),
            }
        }
        self.lease_owner(topic, seat).await
    }

    async fn lease_owner(&self, topic: &str, seat: Seat) -> Result<Lease<Connector>, Error> {
        match self.owner(topic).await? {
            Owner::Broker(broker) => self.lease_broker(&broker, seat).await,
            Owner::Proxied(backend) => Ok(self.set.lease_with(seat.options().backend(backend)).await?),
        }
    }

    async fn lease_assigned(&self, assigned: &Assigned, seat: Seat) -> Result<Option<Lease<Connector>>, Error> {
        let url = if self.options.tls { &assigned.tls } else { &assigned.plain };
        match url {
            Some(url) => Ok(Some(self.lease_broker(&Authority::of_url(url, self.options.tls)?, seat).await?)),
            None => Ok(None),
        }
    }

    async fn ask_partitions(&self, topic: &str) -> Result<u32, Error> {
        const WHAT: &str = "the lookup of partitions";
        let lease = self.set.lease_with(Seat::LOOKUP.options()).await?;
        let asked = |request_id| {
            let topic = topic.to_owned();
            PartitionedMetadata { topic, request_id, ..PartitionedMetadata::default() }.into()
        };
        match lease.lines().request(WHAT, asked).await? {
            Command::PartitionedMetadataResponse(response) => match response.response.map(PartitionedType::try_from) {
                Some(Ok(PartitionedType::Success)) => match response.partitions.unwrap_or(0) {
                    partitions @ 0..=MOST_PARTITIONS => Ok(partitions),
                    partitions => {
                        let topic = topic.to_owned();
                        Err(Error::Partitions { topic, partitions, limit: MOST_PARTITIONS })
                    }
                },
                _ => Err(refused(WHAT, response.error, response.message)),
            },
            other => Err(Error::Unexpected { what: WHAT, kind: other.command_type() as i32 }),
        }
    }

    async fn owner(&self, topic: &str) -> Result<Owner, Error> {
        let mut lease = self.set.lease_with(Seat::LOOKUP.options()).await?;
        let mut authoritative = false;
        for _ in 0..=MOST_REDIRECTS {
            let found = ask_owner(lease.lines(), topic, authoritative).await?;
            let tls = self.options.tls;
            // Neither of them stands in for the other: what is to be secret stays secret.
            let url = if tls { found.tls } else { found.plain }.filter(|url| !url.is_empty());
            let url = url.ok_or_else(|| Error::NoAddress { topic: topic.to_owned(), scheme: scheme(tls) })?;
            let broker = Authority::of_url(&url, tls)?;
            match found.how {
                Found::There if found.proxied => {
                    let backend = lease.backend();
                    let name = behind_proxy(&broker.name, backend.name());
                    return Ok(Owner::Proxied(Backend::new(name, backend.socket_addr())));
                }
                Found::There => return Ok(Owner::Broker(broker)),
                Found::AskThere => {
                    authoritative = found.authoritative;
                    lease = self.lease_broker(&broker, Seat::LOOKUP).await?;
                }
            }
        }
        Err(Error::Redirects { topic: topic.to_owned(), redirects: MOST_REDIRECTS })
    }

    /// A lease of a connection to a broker: one there is, or else to the first of its addresses that works.
    async fn lease_broker(&self, broker: &Authority, seat: Seat) -> Result<Lease<Connector>, Error> {
        if broker.address.is_none() {
            let connections = self.set.connections();
            let there = connections.iter().find(|there| there.backend.name() == broker.name && !there.draining);
            if let Some(there) = there
                && let Ok(lease) = self.set.lease_with(seat.options().backend((*there.backend).clone())).await
            {
                return Ok(lease);
            }
        }
        let found = self.addresses.of(broker, &self.options.dns, &self.options.monitor).await?;
        let share = self.options.lease_timeout / u32::try_from(found.len()).unwrap_or(u32::MAX);
        let mut last = None;
        for backend in found {
            match self.set.lease_with(seat.options().backend(backend).timeout(share)).await {
                Ok(lease) => return Ok(lease),
                Err(error) => last = Some(Error::from(error)),
            }
        }
        Err(last.unwrap_or_else(|| Error::Unresolved { host: broker.name.clone(), source: None }))
    }
}

struct Answer {
    how: Found,
    plain: Option<String>,
    tls: Option<String>,
    authoritative: bool,
    proxied: bool,
}

enum Found {
    There,
    AskThere,
}

async fn ask_owner(lines: &Arc<Lines>, topic: &str, authoritative: bool) -> Result<Answer, Error> {
    const WHAT: &str = "the lookup";
    let asked = |request_id| {
        let (topic, authoritative) = (topic.to_owned(), Some(authoritative));
        Lookup { topic, request_id, authoritative, advertised_listener_name: None }.into()
    };
    let response = match lines.request(WHAT, asked).await? {
        Command::LookupResponse(response) => response,
        other => return Err(Error::Unexpected { what: WHAT, kind: other.command_type() as i32 }),
    };
    let how = match response.response.map(LookupType::try_from) {
        Some(Ok(LookupType::Connect)) => Found::There,
        Some(Ok(LookupType::Redirect)) => Found::AskThere,
        Some(Ok(LookupType::Failed) | Err(_)) | None => return Err(refused(WHAT, response.error, response.message)),
    };
    Ok(Answer {
        how,
        plain: response.broker_service_url,
        tls: response.broker_service_url_tls,
        authoritative: response.authoritative.unwrap_or(false),
        proxied: response.proxy_through_service_url.unwrap_or(false),
    })
}
