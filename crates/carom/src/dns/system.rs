//! What the system says of names: its nameservers and search list, its hosts file, and whether it has IPv6.

use super::message::parse_name;
use resolv_conf::ScopedIp;
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};
use std::path::{Path, PathBuf};

/// The characters of a name, at most.
pub(super) const LONGEST_NAME: usize = 253;
/// No file of the system's that we read is longer.
const LONGEST: u64 = 16 << 20;

/// Where the system keeps what it says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Files {
    pub(super) resolv_conf: PathBuf,
    pub(super) hosts: PathBuf,
}

impl Default for Files {
    fn default() -> Files {
        Files { resolv_conf: "/etc/resolv.conf".into(), hosts: "/etc/hosts".into() }
    }
}

/// Whom to ask, and under which names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Configuration {
    pub(super) nameservers: Vec<SocketAddr>,
    search: Vec<String>,
    ndots: u32,
}

impl Configuration {
    /// Asks these, for names as they are.
    pub(super) fn given(nameservers: Vec<SocketAddr>) -> Configuration {
        Configuration { nameservers, search: Vec::new(), ndots: 1 }
    }

    /// What the file says; without one, and without nameservers in it, the one on this host, as the system does it.
    pub(super) fn read(path: &Path, port: u16) -> Configuration {
        let parsed = match read(path) {
            Ok(text) => {
                // What is not understood is passed over, as the system does it: it may be newer than this.
                let (parsed, errors) = resolv_conf::Config::parse_with_errors(&text);
                for error in errors {
                    tracing::debug!(path = %path.display(), %error, "passed over");
                }
                parsed
            }
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "cannot be read, the nameserver on this host is asked");
                resolv_conf::Config::new()
            }
        };
        let mut nameservers: Vec<_> = parsed.nameservers.iter().map(|scoped| socket_addr(scoped, port)).collect();
        if nameservers.is_empty() {
            nameservers.push((Ipv4Addr::LOCALHOST, port).into());
        }
        let search = parsed.get_last_search_or_domain().map(|domain| domain.trim_end_matches('.').to_owned());
        let search = search.filter(|domain| !domain.is_empty() && parse_name(domain).is_ok()).collect();
        Configuration { nameservers, search, ndots: parsed.ndots }
    }

    /// The names to ask for, in turn: the name itself first when it has dots enough, last otherwise.
    pub(super) fn candidates(&self, name: &str, searched: bool) -> Vec<String> {
        let mut candidates = vec![name.to_owned()];
        if !searched {
            return candidates;
        }
        let dots = name.matches('.').count();
        let searched =
            self.search.iter().map(|domain| format!("{name}.{domain}")).filter(|name| name.len() <= LONGEST_NAME);
        let at = if dots >= self.ndots as usize { 1 } else { 0 };
        candidates.splice(at..at, searched);
        candidates
    }
}

/// A nameserver as the system names it: on a link, with the interface, by its name or its number.
fn socket_addr(scoped: &ScopedIp, port: u16) -> SocketAddr {
    match scoped {
        ScopedIp::V4(address) => SocketAddr::new((*address).into(), port),
        ScopedIp::V6(address, scope) => {
            let index = scope.as_ref().and_then(|scope| scope.parse().ok().or_else(|| interface(scope)));
            SocketAddrV6::new(*address, port, 0, index.unwrap_or(0)).into()
        }
    }
}

fn interface(name: &str) -> Option<u32> {
    let interfaces = if_addrs::get_if_addrs().ok()?;
    interfaces.iter().find(|interface| interface.name == name)?.index
}

/// The addresses that a hosts file gives a name, of both families; `None` when it does not know the name.
pub(super) fn in_hosts(path: &Path, name: &str) -> Option<Vec<IpAddr>> {
    let text = String::from_utf8_lossy(&read(path).ok()?).into_owned();
    let mut found: BTreeSet<IpAddr> = BTreeSet::new();
    for line in text.lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(address) = words.next().and_then(|word| word.parse().ok()) else { continue };
        if words.any(|word| word.trim_end_matches('.').eq_ignore_ascii_case(name)) {
            found.insert(address);
        }
    }
    (!found.is_empty()).then(|| found.into_iter().collect())
}

/// Whether this host has an IPv6 address that reaches further than the link.
pub(super) fn has_ipv6() -> bool {
    let further = |address: IpAddr| match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(address) => !address.is_loopback() && !address.is_unicast_link_local(),
    };
    // A host that does not tell is taken to have it: a question too many does no harm.
    if_addrs::get_if_addrs().map_or(true, |interfaces| interfaces.iter().any(|interface| further(interface.ip())))
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Of anything else one cannot tell how long reading takes.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(LONGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(text: &str) -> Configuration {
        let path = std::env::temp_dir().join(format!("carom-resolv-{}-{}", std::process::id(), text.len()));
        std::fs::write(&path, text).unwrap();
        let configuration = Configuration::read(&path, 53);
        std::fs::remove_file(path).unwrap();
        configuration
    }

    #[test]
    fn nameservers_search_and_ndots_are_read() {
        let read =
            configuration("nameserver 10.0.0.53\nnameserver ::1\nsearch a.example b.example.\noptions ndots:2\n");
        assert_eq!(read.nameservers, ["10.0.0.53:53".parse().unwrap(), "[::1]:53".parse().unwrap()]);
        assert_eq!(read.candidates("db.c", true), ["db.c.a.example", "db.c.b.example", "db.c"]);
        assert_eq!(read.candidates("x.db.c", true), ["x.db.c", "x.db.c.a.example", "x.db.c.b.example"]);
        assert_eq!(read.candidates("db", false), ["db"]);
    }

    #[test]
    fn lines_that_are_not_understood_cost_nothing_but_themselves() {
        let read = configuration(
            "options ndots:2 from-the-future:1 edns0\nnameserver nowhere\nnameserver 10.0.0.53 # ours\nrubbish\n",
        );
        assert_eq!(read.nameservers, ["10.0.0.53:53".parse().unwrap()]);
        assert_eq!(read.ndots, 2);
        let read = configuration("nameserver 10.0.0.53\nsearch a..b fine.example\nsearch-\u{e9}\n");
        assert_eq!(read.candidates("db", true), ["db.fine.example", "db"]);
    }

    #[test]
    fn a_nameserver_on_a_link_keeps_its_interface() {
        let read = configuration("nameserver fe80::1%7\nnameserver fe80::1%lo\nnameserver fe80::1\n");
        let scopes: Vec<_> = read
            .nameservers
            .iter()
            .map(|address| match address {
                SocketAddr::V6(address) => address.scope_id(),
                SocketAddr::V4(_) => panic!("{address}"),
            })
            .collect();
        assert_eq!((scopes[0], scopes[2]), (7, 0));
        match interface("lo") {
            Some(index) => assert_eq!(scopes[1], index),
            None => testkit::skip("no network interface `lo`"),
        }
    }

    #[test]
    fn names_that_would_be_too_long_are_not_searched_for() {
        let read = configuration(&format!("search {0}.{0}.{0}.example fine.example\n", "a".repeat(60)));
        let name = "b".repeat(63);
        assert_eq!(read.candidates(&name, true), [format!("{name}.fine.example"), name.clone()]);
    }

    #[test]
    fn without_nameservers_this_host_is_asked() {
        let here = ["127.0.0.1:53".parse().unwrap()];
        assert_eq!(configuration("options ndots:1\n").nameservers, here);
        assert_eq!(configuration("nameserver not-an-address\n").nameservers, here);
        assert_eq!(Configuration::read(Path::new("/nonexistent/resolv.conf"), 53).nameservers, here);
    }

    #[test]
    fn hosts_are_found_by_every_name_and_comments_are_not() {
        let path = std::env::temp_dir().join(format!("carom-hosts-{}", std::process::id()));
        std::fs::write(&path, b"127.0.0.1 localhost\n10.0.0.1\tDB db.example # not-this\n::2 db\nrubbish \xff db\n")
            .unwrap();
        let find = |name| in_hosts(&path, name);
        assert_eq!(find("db"), Some(vec!["10.0.0.1".parse().unwrap(), "::2".parse().unwrap()]));
        assert_eq!(find("db.example"), Some(vec!["10.0.0.1".parse().unwrap()]));
        assert_eq!((find("not-this"), find("other")), (None, None));
        std::fs::remove_file(path).unwrap();
    }
}
