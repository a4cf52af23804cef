//! `carom resolve`: who serves a name, once or for as long as one likes to know.

mod follow;
mod request;
mod trouble;

use crate::admin::Server;
use crate::args;
use crate::failure::{Failure, say};
use crate::output::known;
use carom::resolver::{Resolution, Resolver, ResolverState};
use request::Request;

pub(crate) fn run(args: args::Resolve) -> Result<(), Failure> {
    let request = Request::new(args)?;
    for line in &request.preamble {
        say(line);
    }
    let runtime = crate::runtime()?;
    let resolver = Resolver::start_on(runtime.handle(), request.resolver.clone());
    crate::block_on(runtime, async {
        let kang = request.kang_port.map(|port| Server::kang("carom resolve", port)).transpose()?;
        if let Some(kang) = &kang {
            say(format_args!("kang: http://{}/kang/snapshot", kang.local_addr()));
        }
        if request.follow { follow::follow(&resolver, &request).await } else { once(&resolver, &request).await }
    })
}

/// Waits until everything has been asked, and prints what came of it.
async fn once(resolver: &Resolver, request: &Request) -> Result<(), Failure> {
    let settled = |resolution: &Resolution| match resolution.state {
        ResolverState::Failed => true,
        ResolverState::Running => resolution.complete,
        _ => false,
    };
    let resolution = resolver.wait_until(settled).await.map_err(|error| Failure::Unavailable(error.to_string()))?;
    let causes = resolution.last_error.as_deref().map(trouble::describe);
    if resolution.state == ResolverState::Failed {
        return Err(Failure::Unavailable(trouble::cannot_resolve(&request.input, causes.as_deref())));
    }
    request.format.print_all(&known(&resolution))?;
    if let Some(causes) = causes {
        say(format_args!("warning: some questions failed: {causes}"));
    }
    Ok(())
}
