//! What a command line for `carom resolve` means: whom to look for, where, how patiently, and how to say it.

use crate::args::{self, When};
use crate::failure::Failure;
use crate::nameservers::{self, Nameservers};
use crate::output::Format;
use carom::Policy;
use carom::dns::{AnyResolver, Dns, DnsOptions, Ipv6};
use carom::resolver::{Fixed, Input, ServiceName};
use std::time::Duration;

const SERVICE: &str = "_http._tcp";
const PORT: u16 = 80;
const HTTPS: (&str, u16) = ("_https._tcp", 443);
const TIMEOUT: Duration = Duration::from_secs(5);

/// What is to be done.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) resolver: AnyResolver,
    /// What was asked for, as it was typed.
    pub(super) input: String,
    /// What is said before it begins.
    pub(super) preamble: Vec<String>,
    pub(super) follow: bool,
    /// Where kang is served meanwhile.
    pub(super) kang_port: Option<u16>,
    pub(super) format: Format,
}

impl Request {
    pub(super) fn new(args: args::Resolve) -> Result<Request, Failure> {
        let (resolver, preamble) = match &args.inputs[..] {
            addresses if args.fixed => fixed(addresses, &args)?,
            [input] => match input.parse()? {
                Input::Address(..) => fixed(&args.inputs, &args)?,
                Input::Name(name) => named(input, name, &args)?,
            },
            [_, second, ..] => {
                let problem = "is one name too many: one at a time is looked up (--static takes several addresses)";
                return usage(format!("`{}` {problem}", second.escape_debug()));
            }
            [] => return usage("a name is missing"),
        };
        let format = if args.json { Format::Json } else { Format::Text };
        Ok(Request {
            resolver,
            input: args.inputs.join(" "),
            preamble,
            follow: args.follow,
            kang_port: args.kang_port,
            format,
        })
    }
}

type Meaning = (AnyResolver, Vec<String>);

fn fixed(addresses: &[String], args: &args::Resolve) -> Result<Meaning, Failure> {
    let https = args.service.as_deref().is_some_and(|service| service.eq_ignore_ascii_case(HTTPS.0));
    let resolver = Fixed::parse(addresses, args.port.unwrap_or(if https { HTTPS.1 } else { PORT }))?;
    if args.follow {
        return usage("--follow is for names: addresses do not change");
    }
    let mut preamble = vec!["using static IP resolver".to_owned()];
    let unused = [
        // It may have said which port.
        ("--service", args.service.is_some() && !https),
        ("--resolvers", !args.resolvers.is_empty()),
        ("--timeout", args.timeout.is_some()),
    ];
    let unused: Vec<_> = unused.iter().filter(|(_, given)| *given).map(|(option, _)| *option).collect();
    if !unused.is_empty() {
        preamble.push(format!("note: nothing is looked up, and {} left unused", unused.join(", ")));
    }
    Ok((AnyResolver::Fixed(resolver), preamble))
}

fn named(input: &str, name: ServiceName, args: &args::Resolve) -> Result<Meaning, Failure> {
    let given = args.service.as_deref().map(ServiceName::parse_service).transpose()?;
    if let (Some(own), Some(given)) = (&name.service, &given)
        && own != given
    {
        return usage(format!("`{input}`: begins with the service {own}, and --service says {given}"));
    }
    let service = name.service.clone().or(given);
    let timeout = args.timeout.unwrap_or(TIMEOUT);

    let mut options = DnsOptions::default()
        .srv(service.as_deref().unwrap_or(SERVICE))
        .recovery(policy(timeout, args.follow))
        .ipv6(match args.ipv6 {
            When::Auto => Ipv6::Auto,
            When::Always => Ipv6::Always,
            When::Never => Ipv6::Never,
        })
        .resolv_conf(&args.resolv_conf)
        .nameserver_port(args.nameserver_port)
        .hosts(&args.hosts);
    if let Some(port) = args.port {
        options = options.default_port(port);
    }
    options = match Nameservers::parse(&args.resolvers)? {
        None => options,
        Some(Nameservers::At(addresses)) => options.nameservers(addresses),
        Some(Nameservers::Named(name)) => options.nameservers_at(&name),
    };
    let resolver = Dns::new(input, options)?;

    let milliseconds = timeout.as_millis();
    let plural = if milliseconds == 1 { "" } else { "s" };
    let mut preamble = vec![format!("domain: {}", name.domain), format!("timeout: {milliseconds} millisecond{plural}")];
    preamble.extend(service.map(|service| format!("service: {service}")));
    preamble.extend(name.port.or(args.port).map(|port| format!("port: {port}")));
    let resolvers: Vec<_> = nameservers::listed(&args.resolvers).collect();
    if !resolvers.is_empty() {
        preamble.push(format!("resolvers: {}", resolvers.join(", ")));
    }
    Ok((AnyResolver::Dns(Box::new(resolver)), preamble))
}

/// Once, a question gets one attempt: whoever looks wants to see what happens. One who follows is not to hear of every lost
/// datagram, and waits for the next attempt anyway.
fn policy(timeout: Duration, follow: bool) -> Policy {
    let policy = Policy::default().timeout(timeout).max_timeout(timeout);
    if follow { policy } else { policy.attempts(1).delay(Duration::ZERO) }
}

fn usage<T>(problem: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Usage(problem.into()))
}
