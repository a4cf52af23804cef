//! What goes to stdout: backends as lines, for people or for programs, and what others say made harmless.

use crate::failure::say;
use crate::timestamp::Timestamp;
use carom::Backend;
use carom::resolver::{BackendKey, Detail, Resolution, Via};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A backend, and where it is known from if that was looked up.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) backend: Backend,
    detail: Option<Detail>,
}

/// What has happened to a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Event {
    Added,
    Removed,
    /// Nothing but its priority or weight is another.
    Changed,
}

/// How lines are written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Format {
    Text,
    Json,
}

/// What a resolver knows, in its order, each backend once.
pub(crate) fn known(resolution: &Resolution) -> Vec<Known> {
    let details = resolution.details.iter().map(|detail| Some(*detail)).chain(std::iter::repeat(None));
    let mut seen = HashSet::new();
    let backends = resolution.backends.iter().cloned().zip(details);
    let first = backends.filter(|(backend, _)| seen.insert(backend.clone()));
    first.map(|(backend, detail)| Known { backend, detail }).collect()
}

impl Format {
    /// Prints what is there, a line each.
    pub(crate) fn print_all(self, known: &[Known]) -> io::Result<()> {
        let mut text = String::new();
        for known in known {
            match self {
                Format::Text => {
                    let (address, port) = (known.backend.address(), known.backend.port());
                    let _ = writeln!(text, "{address:<16} {port:>5} {}", BackendKey::of(&known.backend));
                }
                Format::Json => add_json(&mut text, &Object::of(known))?,
            }
        }
        print(&text)
    }

    /// Prints what has happened, a line each.
    pub(crate) fn print_events(self, time: Timestamp, events: &[(Event, Known)]) -> io::Result<()> {
        let mut text = String::new();
        for (event, known) in events {
            let (key, place) = (BackendKey::of(&known.backend), known.backend.socket_addr());
            match (self, event) {
                (Format::Text, Event::Added) => drop(writeln!(text, "{time} added   {place} ({key})")),
                (Format::Text, Event::Removed) => drop(writeln!(text, "{time} removed {place} ({key})")),
                // Nothing that a line shows is another.
                (Format::Text, Event::Changed) => {}
                (Format::Json, event) => {
                    let happened = Happened { time: time.to_string(), event: *event, object: Object::of(known) };
                    add_json(&mut text, &happened)?;
                }
            }
        }
        print(&text)
    }
}

/// What programs are told of a backend.
#[derive(Debug, Serialize)]
struct Object<'a> {
    name: &'a str,
    address: String,
    port: u16,
    key: String,
    priority: u16,
    weight: u16,
    /// In seconds.
    ttl: Option<u64>,
    source: &'static str,
}

#[derive(Debug, Serialize)]
struct Happened<'a> {
    time: String,
    event: Event,
    #[serde(flatten)]
    object: Object<'a>,
}

impl Object<'_> {
    fn of(known: &Known) -> Object<'_> {
        let Known { backend, detail } = known;
        Object {
            name: backend.name(),
            address: backend.address().to_string(),
            port: backend.port(),
            key: BackendKey::of(backend).to_string(),
            priority: backend.priority(),
            weight: backend.weight(),
            ttl: detail.map(|detail| detail.ttl.as_secs()),
            source: match detail.map(|detail| detail.via) {
                Some(Via::Srv) => "srv",
                Some(Via::Additional) => "additional",
                Some(Via::Domain) => "domain",
                None => "static",
            },
        }
    }
}

fn add_json(text: &mut String, object: &impl Serialize) -> io::Result<()> {
    *text += &printable_json(&serde_json::to_string(object)?);
    text.push('\n');
    Ok(())
}

/// A JSON value in a line. JSON itself escapes C0 controls alone; here all are escaped that [`printable`] escapes.
pub(crate) fn json_line(value: &serde_json::Value) -> String {
    printable_json(&value.to_string()) + "\n"
}

/// Writes lines to stdout and flushes, so that lines stay whole. Control characters are escaped; see [`printable_lines`].
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(printable_lines(text).as_bytes())?;
    stdout.flush()
}

/// What is served and where. Whoever serves goes on when nobody wants to know.
pub(crate) fn announce(text: &str) {
    if let Err(error) = print(text) {
        say(format_args!("warning: what is served cannot be shown: {error}"));
    }
}

/// Where somebody on this machine gets to a server that listens there.
pub(crate) fn reachable(at: SocketAddr) -> SocketAddr {
    let ip = match at.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, at.port())
}

/// A backend in a line for people: its address, and its name if it has one of its own.
pub(crate) fn who(backend: &Backend) -> String {
    let address = backend.socket_addr();
    backend.own_name().map_or_else(|| address.to_string(), |name| format!("{address} ({})", printable(name)))
}

/// The same for programs.
pub(crate) fn object(backend: &Backend) -> serde_json::Value {
    serde_json::json!({
        "name": backend.name(),
        "address": backend.address().to_string(),
        "port": backend.port(),
        "key": BackendKey::of(backend).to_string(),
    })
}

/// What others say, which could be anything, without what a terminal would obey.
pub(crate) fn printable(text: &str) -> String {
    let shown = |c: char| if is_obeyed(c) { c.escape_debug().collect() } else { c.to_string() };
    text.chars().map(shown).collect()
}

/// The same for a text of several lines: `\n` and `\t` are kept.
///
/// This is the last step of everything that goes to stdout or stderr as text. Network data in a line is escaped by [`printable`]
/// before it gets here, so that it cannot begin a line of its own.
pub(crate) fn printable_lines(text: &str) -> Cow<'_, str> {
    let is_kept = |c: char| matches!(c, '\n' | '\t');
    if text.chars().all(|c| is_kept(c) || !is_obeyed(c)) {
        return Cow::Borrowed(text);
    }
    let shown = |c: char| if is_kept(c) { c.to_string() } else { printable(c.encode_utf8(&mut [0; 4])) };
    text.chars().map(shown).collect()
}

/// The same for a JSON text that others have written: it means what it did, and is one line.
pub(crate) fn printable_json(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let (mut quoted, mut escaped) = (false, false);
    for c in text.chars() {
        if is_obeyed(c) {
            if quoted {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    let _ = write!(shown, "\\u{unit:04x}");
                }
            } else {
                // Between two tokens it is a blank like others.
                shown.push(' ');
            }
        } else {
            shown.push(c);
        }
        (quoted, escaped) = match c {
            '"' if !escaped => (!quoted, false),
            '\\' if quoted => (quoted, !escaped),
            _ => (quoted, false),
        };
    }
    shown
}

/// Whether it is none that is seen, but one that moves the cursor, ends a line, or changes how its neighbours are shown.
fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown_instead() {
        assert_eq!(printable("no\u{1b}[2J \"way\"\n"), "no\\u{1b}[2J \"way\"\\n");
        assert_eq!(printable("\u{202e}NIBS \u{9b}\u{7f}é"), "\\u{202e}NIBS \\u{9b}\\u{7f}é");
    }

    #[test]
    fn control_characters_in_lines_are_escaped_and_line_ends_are_kept() {
        assert!(matches!(printable_lines("one\n\ttwo é\n"), Cow::Borrowed("one\n\ttwo é\n")));
        assert_eq!(printable_lines("one\r\n\u{1b}[2J\u{9b}\u{200f}\n"), "one\\r\n\\u{1b}[2J\\u{9b}\\u{200f}\n");
    }

    #[test]
    fn json_in_a_line_has_no_control_characters() {
        let value = serde_json::json!({"name": "a\u{1b}\u{7f}\u{9b}\u{202e}\n"});
        let line = json_line(&value);
        assert_eq!(line, "{\"name\":\"a\\u001b\\u007f\\u009b\\u202e\\n\"}\n");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&line).unwrap(), value);
    }

    #[test]
    fn json_means_the_same_without_it() {
        let sent = "{\n\"a\\\\\":\r\"\u{9b}2J\u{7f}\u{e0041}\\\"\u{202e}\",\t\"\\n\":\"é\"}";
        let shown = printable_json(sent);
        let expected = r#"{ "a\\": "\u009b2J\u007f\udb40\udc41\"\u202e", "\n":"é"}"#;
        assert_eq!(shown, expected);
        let value = |text| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&shown), value(sent));
    }
}
