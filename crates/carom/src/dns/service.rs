//! A pool for a service, by its name.

use super::{DnsOptions, resolver_for};
use crate::connect::Connect;
use crate::pool::{BuildError, Builder};

impl<C: Connect> Builder<C> {
    /// Whoever DNS says serves this: `[_service._proto.]name[:port]`, or a literal address. The port is 80 when nobody names one,
    /// and 443 for `_https._tcp`.
    /// Attempts and timeouts of questions are those of [`recovery`](Builder::recovery), as `dns` and `dns_srv`. For other
    /// options give a [`Dns`](super::Dns) to [`resolver`](Builder::resolver).
    ///
    /// A name that makes no sense is an error of [`build`](Builder::build).
    pub fn service(self, service: impl AsRef<str>) -> Builder<C> {
        let service = service.as_ref().to_owned();
        let name = service.clone();
        self.resolver_from(name, move |recovery| {
            let options = DnsOptions::default().recovery(recovery.clone());
            resolver_for(&service, options).map_err(BuildError::Service)
        })
    }
}
