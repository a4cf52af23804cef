//! Following: every change of the backends on stdout, and every turn for the worse or the better on stderr.

use super::request::Request;
use super::trouble;
use crate::ending::Ending;
use crate::failure::{Failure, say};
use crate::output::{Event, Known, known};
use crate::timestamp::Timestamp;
use carom::resolver::{Resolution, Resolver, ResolverState};
use std::collections::HashMap;

/// Prints what changes until told to stop, or until nobody reads it.
pub(super) async fn follow(resolver: &Resolver, request: &Request) -> Result<(), Failure> {
    let mut ending =
        Ending::watch().map_err(|error| Failure::Unavailable(format!("cannot listen for signals: {error}")))?;
    let mut news = resolver.subscribe();
    let (mut before, mut condition) = (Vec::new(), Condition::Unknown);
    loop {
        let resolution = news.borrow_and_update().clone();
        let (now, time) = (known(&resolution), Timestamp::now());
        request.format.print_events(time, &events(&before, &now))?;
        before = now;
        let turned = Condition::of(&resolution);
        if let Some(line) = turned.after(condition, &resolution, &request.input) {
            say(format_args!("{time} {line}"));
        }
        condition = turned;
        if resolution.state == ResolverState::Stopped {
            return Err(Failure::Unavailable("the resolver has stopped".to_owned()));
        }
        tokio::select! {
            () = ending.comes() => return Ok(()),
            // It stops before its sender goes, which is seen above.
            _ = news.changed() => {}
        }
    }
}

/// What has happened between two lists: first who went, then the others in their order.
fn events(before: &[Known], now: &[Known]) -> Vec<(Event, Known)> {
    let figures = |known: &Known| (known.backend.priority(), known.backend.weight());
    let old: HashMap<_, _> = before.iter().map(|known| (&known.backend, known)).collect();
    let new: HashMap<_, _> = now.iter().map(|known| (&known.backend, known)).collect();
    let removed = before.iter().filter(|known| !new.contains_key(&known.backend));
    let others = now.iter().filter_map(|known| match old.get(&known.backend) {
        None => Some((Event::Added, known)),
        Some(old) if figures(old) != figures(known) => Some((Event::Changed, known)),
        Some(_) => None,
    });
    removed.map(|known| (Event::Removed, known)).chain(others).map(|(event, known)| (event, known.clone())).collect()
}

/// How resolving goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    /// Nothing is known, not even trouble.
    Unknown,
    /// Something went wrong, and not everything has been tried.
    Trying,
    /// Nothing is known, and everything has been tried.
    Failed,
    /// What is known is true.
    Good,
    /// So it is, but there may be more.
    Partial,
    /// What is known was true once.
    Stale,
}

impl Condition {
    fn of(resolution: &Resolution) -> Condition {
        let trouble = resolution.last_error.is_some();
        match resolution.state {
            ResolverState::Failed => Condition::Failed,
            ResolverState::Running if resolution.stale_since.is_some() => Condition::Stale,
            ResolverState::Running if trouble => Condition::Partial,
            ResolverState::Running => Condition::Good,
            _ if trouble => Condition::Trying,
            _ => Condition::Unknown,
        }
    }

    /// What to say of this turn, if it is one.
    fn after(self, before: Condition, resolution: &Resolution, input: &str) -> Option<String> {
        if self == before {
            return None;
        }
        let causes = resolution.last_error.as_deref().map(trouble::describe);
        let because = causes.as_deref().unwrap_or("nobody says why");
        match self {
            Condition::Unknown => None,
            Condition::Trying => Some(format!("trying: {because}")),
            Condition::Failed => Some(format!("failed: {}", trouble::cannot_resolve(input, causes.as_deref()))),
            Condition::Good if before == Condition::Unknown => None,
            Condition::Good => Some("recovered".to_owned()),
            Condition::Partial => Some(format!("partial: some questions failed: {because}")),
            Condition::Stale => Some(format!("stale: what was known is kept: {because}")),
        }
    }
}
