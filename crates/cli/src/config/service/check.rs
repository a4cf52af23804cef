//! The active health check of a service: `check` and the keys that go with it.

use super::not_for;
use crate::config::values::{TIME, name, time};
use carom::health_check::Schedule;
use carom_gateway::tables::{Table, TableError, Value};
use std::time::Duration;

const INTERVAL: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(2);

const OF_HTTP: &str = "a path, such as \"/healthz\", or \"grpc\", or \"grpc:SERVICE\"";

/// The active health check of every backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Check<C> {
    pub(crate) call: C,
    interval: Duration,
    timeout: Duration,
}

/// What a health check of an http service does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HttpCall {
    /// GET this path.
    Get(String),
    /// `grpc.health.v1` for this service.
    Grpc(String),
}

/// What a health check of a tcp service does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TcpCall {
    Connect,
    SendExpect { send: String, expect: String },
}

impl Check<HttpCall> {
    pub(super) fn take(table: &mut Table) -> Result<Option<Self>, TableError> {
        for key in ["check_send", "check_expect"] {
            not_for(table, key, "tcp")?;
        }
        let call = table.read("check", OF_HTTP, http_call)?;
        Check::scheduled(table, call)
    }
}

impl Check<TcpCall> {
    pub(super) fn take(table: &mut Table, tls: bool) -> Result<Option<Self>, TableError> {
        let connect = table.read("check", "\"connect\"", connect)?;
        let send = table.read("check_send", "a text", |value| value.text())?;
        let expect = table.read("check_expect", "a text, not empty", name)?;
        if send.is_some() && expect.is_none() {
            return Err(table.wrong("check_send", "nothing is expected; accepted: with check_expect"));
        }
        if expect.is_some() && tls {
            return Err(table.wrong("check_expect", "is not sent over TLS; accepted: without tls"));
        }
        let send_expect = expect.map(|expect| TcpCall::SendExpect { send: send.unwrap_or_default(), expect });
        Check::scheduled(table, send_expect.or(connect))
    }
}

impl<C> Check<C> {
    fn scheduled(table: &mut Table, call: Option<C>) -> Result<Option<Check<C>>, TableError> {
        let interval = table.read("check_interval", TIME, time)?;
        let timeout = table.read("check_timeout", TIME, time)?;
        for (key, given) in [("check_interval", interval), ("check_timeout", timeout)] {
            if given.is_some() && call.is_none() {
                return Err(table.wrong(key, "nothing is checked; accepted: with check"));
            }
        }
        let (interval, timeout) = (interval.unwrap_or(INTERVAL), timeout.unwrap_or(TIMEOUT));
        Ok(call.map(|call| Check { call, interval, timeout }))
    }

    pub(crate) fn schedule(&self) -> Schedule {
        Schedule::default().interval(self.interval).timeout(self.timeout)
    }
}

fn http_call(value: Value) -> Result<HttpCall, String> {
    let text = name(value)?;
    if text == "grpc" {
        return Ok(HttpCall::Grpc(String::new()));
    }
    if let Some(service) = text.strip_prefix("grpc:") {
        return Ok(HttpCall::Grpc(service.to_owned()));
    }
    if text.starts_with('/') && text.parse::<http::uri::PathAndQuery>().is_ok() {
        return Ok(HttpCall::Get(text));
    }
    Err(format!("`{}` is no path", text.escape_debug()))
}

fn connect(value: Value) -> Result<TcpCall, String> {
    let text = name(value)?;
    if text == "connect" { Ok(TcpCall::Connect) } else { Err(format!("`{}` is no check", text.escape_debug())) }
}
