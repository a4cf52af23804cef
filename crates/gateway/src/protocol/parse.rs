//! Reading requests: from a message's bytes to what is asked for.

use super::entries::{Entries, Named};
use super::fields::{Fields, cut, empty, string};
use super::from_label;
use super::refusal::{Code, Refusal};
use super::request::{ApiKey, BadEntry, Echo, Leave, MAX_DEPTH, MAX_ECHO, Request};
use carom_core::feed::{DEFAULT_DEPTH, Mode};
use serde_json::value::RawValue;

/// What a client asks for with this message, text or binary.
///
/// A field that the verb does not have can hold anything; of a field that is given twice the last one counts.
///
/// # Errors
/// What to answer instead, if it is not a request or not one that can be served.
pub fn parse(message: &[u8]) -> Result<Request, Refusal> {
    let fields = Fields::read(message)?;
    request(&fields).map_err(|refusal| refusal.echoing(fitting_request_id(&fields)))
}

fn request(fields: &Fields<'_>) -> Result<Request, Refusal> {
    let verb = fields.action.filter(|verb| !empty(verb)).or(fields.kind).filter(|verb| verb.get() != "null");
    // Clients know this refusal as Python words it.
    let verb = verb.ok_or_else(|| invalid_action("None"))?;
    let verb = string(verb).ok_or_else(|| invalid_action(verb.get()))?;
    match verb.as_ref() {
        "authenticate" | "auth" => Ok(Request::Authenticate { key: key(fields), echo: fitting_request_id(fields) }),
        "ping" => {
            let (timestamp, id) = (echo("timestamp", fields.timestamp)?, echo("_pingId", fields.ping_id)?);
            Ok(Request::Ping { timestamp, id, echo: request_id(fields)? })
        }
        "get_supported_brokers" => Ok(Request::SupportedBrokers { echo: request_id(fields)? }),
        verb => of_a_user(verb, fields).map_err(Refusal::behind_authentication)?.ok_or_else(|| invalid_action(verb)),
    }
}

/// What only those who have said who they are may ask for; none if there is no such verb.
fn of_a_user(verb: &str, fields: &Fields<'_>) -> Result<Option<Request>, Refusal> {
    let echo = || request_id(fields);
    Ok(Some(match verb {
        "subscribe" => subscribe(fields, echo()?)?,
        "unsubscribe" => unsubscribe(fields, echo()?)?,
        "unsubscribe_all" => Request::UnsubscribeAll { echo: echo()? },
        "subscribe_orders" => Request::SubscribeOrders { echo: echo()? },
        "unsubscribe_orders" => Request::UnsubscribeOrders { echo: echo()? },
        "get_broker_info" => Request::BrokerInfo { echo: echo()? },
        "get_subscriptions" => Request::Subscriptions { echo: echo()? },
        _ => return Ok(None),
    }))
}

fn subscribe(fields: &Fields<'_>, echo: Option<Echo>) -> Result<Request, Refusal> {
    let mode = fields.mode.map(mode).transpose()?.unwrap_or(Mode::Quote);
    let mut entries = Vec::new();
    match Entries::of(fields)? {
        Entries::One(named) => entries.push(named),
        Entries::Many(list) => list.each(|named, _| entries.push(named))?,
    }
    Ok(Request::Subscribe { entries, mode, depth: depth(fields.depth), echo })
}

/// A mode is an entry's own, or the request's. OpenAlgo takes Quote where an entry of a list has none, so that whatever else the
/// client has of it stays.
fn unsubscribe(fields: &Fields<'_>, echo: Option<Echo>) -> Result<Request, Refusal> {
    let shared = fields.mode.map(mode).transpose()?;
    let mut entries = Vec::new();
    match Entries::of(fields)? {
        Entries::One(named) => entries.push(leave(named, Ok(shared.or(Some(Mode::Quote))))),
        Entries::Many(list) => list.each(|named, own| {
            let own = own.map(mode).transpose();
            entries.push(leave(named, own.map(|own| own.or(shared))));
        })?,
    }
    Ok(Request::Unsubscribe { entries, echo })
}

fn leave(named: Named, mode: Result<Option<Mode>, Refusal>) -> Result<Leave, BadEntry> {
    let instrument = named?;
    match mode {
        Ok(mode) => Ok(Leave { instrument, mode }),
        Err(refusal) => Err(BadEntry {
            symbol: instrument.symbol().into(),
            exchange: instrument.exchange().into(),
            message: refusal.message,
        }),
    }
}

fn key(fields: &Fields<'_>) -> Option<ApiKey> {
    let given = [fields.api_key, fields.apikey].into_iter().flatten().filter_map(string);
    given.map(|text| ApiKey::new(text.into_owned())).find(|key| !key.reveal().is_empty())
}

/// 1, 2 or 3 written as just that, or a label with blanks around it.
fn mode(given: &RawValue) -> Result<Mode, Refusal> {
    let mode = match given.get() {
        "1" => Some(Mode::Ltp),
        "2" => Some(Mode::Quote),
        "3" => Some(Mode::Depth),
        _ => string(given).and_then(|text| from_label(text.trim())),
    };
    mode.ok_or_else(|| {
        let message = format!("Invalid mode: {}. Use 1 or LTP, 2 or Quote, 3 or Depth", cut(given.get(), 64));
        Refusal::new(Code::InvalidMode, message)
    })
}

/// What is no positive integer counts as not said: the reply tells how many levels it is.
fn depth(given: Option<&RawValue>) -> u16 {
    let digits = given.map(RawValue::get).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    match digits {
        None | Some("0") => DEFAULT_DEPTH,
        Some(digits) => digits.parse().unwrap_or(MAX_DEPTH).min(MAX_DEPTH),
    }
}

fn request_id(fields: &Fields<'_>) -> Result<Option<Echo>, Refusal> {
    echo("request_id", fields.request_id)
}

/// As far as there is one that can be sent back: what is answered is about something else.
fn fitting_request_id(fields: &Fields<'_>) -> Option<Echo> {
    request_id(fields).ok().flatten()
}

fn echo(field: &str, given: Option<&RawValue>) -> Result<Option<Echo>, Refusal> {
    match given.map(RawValue::get) {
        None | Some("null") => Ok(None),
        Some(json) if json.len() > MAX_ECHO => {
            Err(Refusal::new(Code::InvalidParameters, format!("{field} is longer than {MAX_ECHO} bytes")))
        }
        Some(json) => Ok(Some(Echo::new(json))),
    }
}

fn invalid_action(verb: &str) -> Refusal {
    Refusal::new(Code::InvalidAction, format!("Invalid action: {}", cut(verb, 64)))
}
