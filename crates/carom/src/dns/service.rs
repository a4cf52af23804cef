//! A pool or a set for a service, by its name.

use super::{DnsOptions, resolver_for};
use crate::building::BuildError;
use crate::connect::Connect;
use crate::pool;
use crate::resolver::source::Source;
use crate::set::{self, Share};

impl<C: Connect> pool::Builder<C> {
    /// Whoever DNS says serves this: `[_service._proto.]name[:port]`, or a literal address. The port is 80 when nobody names one,
    /// and 443 for `_https._tcp`.
    /// Attempts and timeouts of questions are those of [`recovery`](pool::Builder::recovery), as `dns` and `dns_srv`. For other
    /// options give a [`Dns`](super::Dns) to [`resolver`](pool::Builder::resolver).
    ///
    /// A name that makes no sense is an error of [`build`](pool::Builder::build).
    pub fn service(self, service: impl AsRef<str>) -> pool::Builder<C> {
        self.source(named(service.as_ref()))
    }
}

impl<S: Share> set::Builder<S> {
    /// Whoever DNS says serves this: `[_service._proto.]name[:port]`, or a literal address. The port is 80 when nobody names one,
    /// and 443 for `_https._tcp`.
    /// Attempts and timeouts of questions are those of [`recovery`](set::Builder::recovery), as `dns` and `dns_srv`. For other
    /// options give a [`Dns`](super::Dns) to [`resolver`](set::Builder::resolver).
    ///
    /// A name that makes no sense is an error of [`build`](set::Builder::build).
    pub fn service(self, service: impl AsRef<str>) -> set::Builder<S> {
        self.source(named(service.as_ref()))
    }
}

fn named(service: &str) -> Source {
    let input = service.to_owned();
    Source::made(service.to_owned(), move |recovery| {
        let options = DnsOptions::default().recovery(recovery.clone());
        resolver_for(&input, options).map_err(BuildError::Service)
    })
}
