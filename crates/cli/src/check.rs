//! `carom check`: whether a config makes sense, and what would run, without running it.

use crate::args;
use crate::config::Bus;
use crate::failure::Failure;
use crate::up::Request;
use std::fmt::Write as _;

pub(crate) fn run(args: args::Check) -> Result<(), Failure> {
    let request = Request::read(&args.config)?;
    if let Some(gateway) = &request.gateway {
        gateway.warn();
    }
    Ok(crate::output::print(&summary(&request, &args.config.display().to_string()))?)
}

fn summary(request: &Request, file: &str) -> String {
    let mut text = format!("{file} makes sense: {}\n", request.amount());
    if let Some(admin) = &request.admin {
        let _ = writeln!(text, "admin: {}", admin.listen);
        if let Some(file) = admin.token_file() {
            let _ = writeln!(text, "  for those who show the token in {}", file.display());
        }
    }
    for service in &request.services {
        text += &service.value.summary(service.value.listen, &service.origin);
    }
    if let Some(gateway) = &request.gateway {
        let _ = writeln!(text, "gateway: {}", gateway.gateway.listen);
        text += &Bus::summary(&gateway.gateway.bus, None);
        for feed in &gateway.feeds {
            let _ = writeln!(text, "feed: {} at {} from {}", feed.user, feed.broker, feed.upstream);
        }
        match &gateway.gateway.keys {
            Some(keys) => drop(writeln!(text, "keys: {} ({})", gateway.known_keys(), keys.origin)),
            None => text += "keys: none; they would be made for each run\n",
        }
    }
    text
}
