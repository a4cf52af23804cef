//! Names of services as people write them: `[_service._proto.]name[:port]`, or an address.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// Longer inputs are not quoted in full.
const LONGEST_QUOTE: usize = 400;

/// Input that names neither a service nor an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{input}`: {problem}")]
pub struct InputError {
    input: String,
    problem: String,
}

impl InputError {
    pub(crate) fn new(input: &str, problem: impl Into<String>) -> InputError {
        InputError { input: printable(input), problem: printable(&problem.into()) }
    }
}

/// What comes from elsewhere may hold anything, and be long; it is shown in a form that is safe to print.
fn printable(text: &str) -> String {
    let mut shown = String::new();
    for (i, character) in text.chars().enumerate() {
        if i == LONGEST_QUOTE {
            let _ = write!(shown, "... ({} characters)", text.chars().count());
            break;
        }
        match character {
            '`' | '\'' | '"' | '\\' => shown.push(character),
            other => shown.extend(other.escape_debug()),
        }
    }
    shown
}

/// What an input names.
///
/// ```
/// use carom::resolver::Input;
///
/// let Ok(Input::Name(name)) = "_http._tcp.api.example.com:8080".parse() else { panic!() };
/// assert_eq!((name.service.as_deref(), &*name.domain, name.port), (Some("_http._tcp"), "api.example.com", Some(8080)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// An address, with or without a port: `10.0.0.1`, `10.0.0.1:80`, `::1`, `[::1]:80`.
    Address(IpAddr, Option<u16>),
    /// The name of a service.
    Name(ServiceName),
}

/// The name of a service: `[_service._proto.]name[:port]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceName {
    /// The leading labels with an underscore, as `_http._tcp`.
    pub service: Option<String>,
    /// The rest, in lower case and without a dot at its end.
    pub domain: String,
    /// It had a dot at its end: it is not to be looked for in other domains.
    pub absolute: bool,
    /// The port, if there is one.
    pub port: Option<u16>,
}

impl ServiceName {
    /// The labels of an SRV service, as `_http._tcp`, in lower case.
    ///
    /// # Errors
    /// When they are no such labels.
    pub fn parse_service(service: &str) -> Result<String, InputError> {
        let refuse = |problem: String| InputError::new(service, problem);
        check_labels(service).map_err(refuse)?;
        if !service.split('.').all(|label| label.starts_with('_') && label.len() > 1) {
            return Err(InputError::new(
                service,
                "every label of a service begins with an underscore, as in `_http._tcp`",
            ));
        }
        Ok(service.to_ascii_lowercase())
    }
}

impl FromStr for Input {
    type Err = InputError;

    fn from_str(input: &str) -> Result<Input, InputError> {
        parse(input)
    }
}

fn parse(input: &str) -> Result<Input, InputError> {
    let refuse = |problem: String| InputError::new(input, problem);
    if let Ok(address) = input.parse::<IpAddr>() {
        return Ok(Input::Address(address, None));
    }
    if let Ok(address) = input.parse::<SocketAddr>()
        && address.port() != 0
    {
        if matches!(address, SocketAddr::V6(address) if address.scope_id() != 0) {
            return Err(refuse(
                "an address with a scope cannot be used: it means something on this host alone".to_owned(),
            ));
        }
        return Ok(Input::Address(address.ip(), Some(address.port())));
    }
    let (host, port) = split_port(input).map_err(refuse)?;
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(Input::Address(address, port));
    }
    if input.starts_with('[') {
        return Err(refuse(format!("`{host}` in brackets is not an IPv6 address")));
    }
    let mut name = parse_name(host).map_err(refuse)?;
    name.port = port;
    Ok(Input::Name(name))
}

/// The host and the port of `host`, `host:port`, `[host]` or `[host]:port`.
fn split_port(text: &str) -> Result<(&str, Option<u16>), String> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or("the bracket is not closed")?;
            match after.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if after.is_empty() => (host, None),
                None => return Err(format!("`{after}` after the bracket is not a port")),
            }
        }
        None => match text.rsplit_once(':') {
            Some((host, _)) if host.contains(':') => {
                return Err("an IPv6 address with a port is written in brackets, as [::1]:80".to_owned());
            }
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    Ok((host, port.map(parse_port).transpose()?))
}

fn parse_port(text: &str) -> Result<u16, String> {
    if text.is_empty() {
        return Err("the port is missing after the colon".to_owned());
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("the port `{text}` is not a number"));
    }
    let digits = text.trim_start_matches('0');
    match digits.parse() {
        Ok(port) => Ok(port),
        Err(_) if digits.is_empty() => Err("the port 0 cannot be connected to".to_owned()),
        Err(_) => Err(format!("the port {text} is above 65535")),
    }
}

fn parse_name(host: &str) -> Result<ServiceName, String> {
    if host.is_empty() {
        return Err("the name is missing".to_owned());
    }
    let (host, absolute) = match host.strip_suffix('.') {
        Some("") => return Err("the root is not a service".to_owned()),
        Some(host) => (host, true),
        None => (host, false),
    };
    check_labels(host)?;
    let host = host.to_ascii_lowercase();
    let labels: Vec<_> = host.split('.').collect();
    let services = labels.iter().take_while(|label| label.starts_with('_')).count();
    let (service, domain) = labels.split_at(services);
    if service.contains(&"_") {
        return Err("the label `_` has nothing after the underscore".to_owned());
    }
    let Some(last) = domain.last() else {
        return Err("there is a service, but no domain that offers it".to_owned());
    };
    if last.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("this looks like an IPv4 address, but is none".to_owned());
    }
    let service = (services > 0).then(|| service.join("."));
    Ok(ServiceName { service, domain: domain.join("."), absolute, port: None })
}

/// Says what is wrong with the labels of a name, if something is.
fn check_labels(name: &str) -> Result<(), String> {
    if !name.is_ascii() {
        return Err("only ASCII is a name for DNS: write the `xn--` form of it".to_owned());
    }
    if name.len() > 253 {
        return Err(format!("a name has at most 253 characters, this one has {}", name.len()));
    }
    for label in name.split('.') {
        if label.is_empty() {
            return Err("a label is empty: there is nothing between two dots, or before the first".to_owned());
        }
        if label.len() > 63 {
            return Err(format!("a label has at most 63 characters, `{label}` has {}", label.len()));
        }
        if let Some(bad) = label.chars().find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_')) {
            return Err(format!("{bad:?} cannot be part of a name"));
        }
        if label.starts_with('-') || label.ends_with('-') {
            return Err(format!("the label `{label}` begins or ends with a hyphen"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(input: &str) -> ServiceName {
        match parse(input) {
            Ok(Input::Name(name)) => name,
            other => panic!("{input}: {other:?}"),
        }
    }

    #[test]
    fn names_with_and_without_a_service_and_a_port() {
        let plain = ServiceName { service: None, domain: "db.example.com".into(), absolute: false, port: None };
        assert_eq!(name("db.example.com"), plain);
        assert_eq!(name("DB.Example.COM:5432"), ServiceName { port: Some(5432), ..plain.clone() });
        assert_eq!(name("db.example.com."), ServiceName { absolute: true, ..plain.clone() });
        let service = Some("_http._tcp".to_owned());
        assert_eq!(name("_http._tcp.db.example.com:81"), ServiceName { service, port: Some(81), ..plain });
        assert_eq!(name("localhost").domain, "localhost");
    }

    #[test]
    fn addresses_in_every_form() {
        let address = |text: &str, port| Input::Address(text.parse().unwrap(), port);
        for (input, expected) in [
            ("10.0.0.1", address("10.0.0.1", None)),
            ("10.0.0.1:80", address("10.0.0.1", Some(80))),
            ("::1", address("::1", None)),
            ("fe80::1:2020", address("fe80::1:2020", None)),
            ("[::1]", address("::1", None)),
            ("[2001:DB8::1]:65535", address("2001:db8::1", Some(65535))),
        ] {
            assert_eq!(parse(input), Ok(expected), "{input}");
        }
    }

    #[test]
    fn nonsense_is_quoted_and_explained() {
        let long = "a".repeat(300);
        for (input, problem) in [
            ("db.example.com:70000", "the port 70000 is above 65535"),
            ("db.example.com:", "the port is missing after the colon"),
            ("db.example.com:0", "the port 0 cannot be connected to"),
            ("db.example.com:80abc", "the port `80abc` is not a number"),
            ("10.0.0.1:0", "the port 0 cannot be connected to"),
            ("[::1", "the bracket is not closed"),
            ("[::1]80", "`80` after the bracket is not a port"),
            ("[db]:80", "`db` in brackets is not an IPv6 address"),
            ("::1:80:zz", "an IPv6 address with a port is written in brackets, as [::1]:80"),
            ("a..b", "a label is empty: there is nothing between two dots, or before the first"),
            (".a", "a label is empty: there is nothing between two dots, or before the first"),
            ("", "the name is missing"),
            (":80", "the name is missing"),
            (".", "the root is not a service"),
            ("a b", "' ' cannot be part of a name"),
            ("256.1.1.1", "this looks like an IPv4 address, but is none"),
            ("_http._tcp", "there is a service, but no domain that offers it"),
            ("_._tcp.a.b", "the label `_` has nothing after the underscore"),
            ("[fe80::1%3]:80", "an address with a scope cannot be used: it means something on this host alone"),
            ("-a.b", "the label `-a` begins or ends with a hyphen"),
            ("b\u{fc}cher.example", "only ASCII is a name for DNS: write the `xn--` form of it"),
            (&long, "a name has at most 253 characters, this one has 300"),
        ] {
            let error = parse(input).expect_err(input);
            assert_eq!(error.to_string(), format!("`{input}`: {problem}"));
        }
        let label = format!("{}.example", "a".repeat(64));
        assert!(parse(&label).unwrap_err().to_string().ends_with("has 64"));
    }

    #[test]
    fn what_is_quoted_is_safe_to_print_and_short() {
        let error = parse("a\u{1b}[2Jb\n").unwrap_err().to_string();
        assert!(error.starts_with("`a\\u{1b}[2Jb\\n`"), "{error}");
        assert_eq!(parse("a:8\n0").unwrap_err().to_string(), "`a:8\\n0`: the port `8\\n0` is not a number");
        for long in
            ["x".repeat(1_000_000), format!("a:{}", "x".repeat(1_000_000)), format!("[{}]", "x".repeat(1_000_000))]
        {
            assert!(parse(&long).unwrap_err().to_string().len() < 1000);
        }
    }

    #[test]
    fn services_are_labels_with_underscores() {
        assert_eq!(ServiceName::parse_service("_HTTP._tcp").as_deref(), Ok("_http._tcp"));
        for bad in ["http._tcp", "", "_", "_http.", "_a b"] {
            assert!(ServiceName::parse_service(bad).is_err(), "{bad}");
        }
    }
}
