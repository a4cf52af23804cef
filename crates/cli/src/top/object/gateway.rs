//! A gateway: its clients, what it could not give them in time, and those who lag most.

use super::{Fact, Show, counters, heading, if_any, named, pair, plural};
use crate::top::line::{Line, Tone};
use crate::top::sight::{Sight, count, number};
use carom::monitor::{Gateway, GatewayBus, GatewayClient, GatewayFeed, GatewayShare, Id, State};

impl Show for Gateway {
    fn state(&self) -> State {
        self.state
    }

    fn facts(&self, _: Sight<'_>) -> Vec<Fact> {
        let mut facts = Vec::new();
        plural(&mut facts, Tone::Plain, self.clients, "client");
        let unknown = self.clients.saturating_sub(self.authenticated);
        if_any(&mut facts, Tone::Warn, unknown, "without a key");
        plural(&mut facts, Tone::Plain, self.subscriptions, "subscription");
        plural(&mut facts, Tone::Plain, self.feeds.len(), "feed");
        let mut buses = self.feeds.iter().filter_map(|feed| feed.bus.as_ref());
        if buses.any(|bus| bus.kind == "nats" && bus.peers == 0) {
            facts.push((Tone::Bad, "NATS cannot be reached".to_owned()));
        }
        facts
    }

    fn below(&self, _: Id, sight: Sight<'_>) -> Vec<Line> {
        let line = Line::new().add(Tone::Dim, "at ").plain(&self.listen);
        let line = line.plain(format_args!("  {} ticks, {} delivered", number(self.ticks), number(self.delivered)));
        let losses = [
            (self.conflated, "conflated"),
            (self.lost, "lost"),
            (self.malformed, "malformed"),
            (self.slow_closed, "closed as slow"),
        ];
        let line = losses
            .iter()
            .filter(|(count, _)| *count > 0)
            .fold(line, |line, (count, what)| line.add(Tone::Warn, format_args!("  {} {what}", number(*count))));
        // Those for whom nothing waits are no news.
        let worst = self.worst.iter().filter(|client| client.waiting > 0 || client.conflated > 0);
        let mut lines = vec![line];
        // What a feed has for itself is shown there.
        let elsewhere = self.feeds.iter().filter(|feed| feed.share.is_some() || feed.bus.is_some());
        lines.extend(sight.listed(elsewhere.map(|feed| whose(feed).then(where_from(feed, sight))).collect(), 0));
        lines.extend(sight.listed(worst.map(line_of).collect(), 0));
        lines
    }

    fn page(&self, _: Id, sight: Sight<'_>) -> Vec<Line> {
        let mut lines = vec![
            pair("at", &self.listen),
            pair("clients", format_args!("{}, {} of them with a key", self.clients, self.authenticated)),
            Line::new(),
            heading(count(self.feeds.len(), "feed")),
        ];
        lines.extend(self.feeds.iter().map(|feed| {
            let line = Line::indented(2).then(whose(feed));
            line.add(Tone::Dim, "  feed ").plain(named(feed.feed, sight)).then(where_from(feed, sight))
        }));
        lines.extend([Line::new(), heading("Clients for whom most waits")]);
        lines.extend(self.worst.iter().map(|client| Line::indented(2).then(line_of(client))));
        lines.push(Line::new());
        lines.extend(counters(
            &[("ticks", self.ticks), ("delivered", self.delivered), ("conflated", self.conflated)],
            &[
                ("lost", self.lost),
                ("malformed", self.malformed),
                ("turned away", self.refused),
                ("closed as slow", self.slow_closed),
                ("wrong keys", self.wrong_keys),
            ],
        ));
        lines
    }

    fn words(&self) -> Vec<&str> {
        let feeds = self.feeds.iter().flat_map(|feed| [&*feed.broker, &*feed.user]);
        std::iter::once(&*self.listen).chain(feeds).collect()
    }
}

/// `asha at zerodha`.
fn whose(GatewayFeed { broker, user, .. }: &GatewayFeed) -> Line {
    Line::new().plain(user).plain(" at ").plain(broker)
}

/// Where the ticks of a feed come from, and when one last did.
fn where_from(feed: &GatewayFeed, sight: Sight<'_>) -> Line {
    let line = feed.share.iter().fold(Line::new(), |line, share| line.then(shared(share)));
    let line = feed.bus.iter().fold(line, |line, bus| line.then(on(bus)));
    match feed.last_tick_ms {
        Some(ms) => line.add(Tone::Dim, format_args!(", last tick {} ago", sight.lasting(ms))),
        None => line.add(Tone::Dim, ", no tick yet"),
    }
}

/// `  owned here, epoch 7, 2 relayed`, where several gateways have a feed together.
fn shared(GatewayShare { owns, owner, epoch, sessions, .. }: &GatewayShare) -> Line {
    let line = Line::new().add(Tone::Dim, "  owned ");
    let line = match (owns, owner) {
        (true, _) => line.add(Tone::Good, "here"),
        (false, Some(owner)) => line.plain("by ").plain(owner),
        (false, None) => line.add(Tone::Warn, "by nobody that is known"),
    };
    let line = epoch.iter().fold(line, |line, epoch| line.add(Tone::Dim, format_args!(", epoch {epoch}")));
    if *sessions > 0 { line.add(Tone::Dim, format_args!(", {sessions} relayed")) } else { line }
}

/// `  on zeromq, 2 peers, 17 dropped`, where ticks go through a bus that other programs are on.
fn on(GatewayBus { kind, peers, dropped, refused }: &GatewayBus) -> Line {
    let line = Line::new().add(Tone::Dim, format_args!("  on {kind}, "));
    let tone = if *peers > 0 { Tone::Dim } else { Tone::Warn };
    let line = line.add(tone, count(*peers, "peer"));
    let troubles = [(dropped, "dropped"), (refused, "turned away")].into_iter().filter(|(count, _)| **count > 0);
    troubles.fold(line, |line, (count, what)| line.add(Tone::Warn, format_args!(", {} {what}", number(*count))))
}

/// `#7 10.0.0.9:4711 asha at zerodha  12 waiting, 340 conflated, 50 subscriptions`.
fn line_of(client: &GatewayClient) -> Line {
    let line = Line::new().plain(format_args!("#{} ", client.id)).plain(&client.address).plain(' ');
    let line = line.plain(client.user.as_deref().unwrap_or("(no key yet)")).plain("  ");
    let tone = if client.waiting > 0 { Tone::Warn } else { Tone::Dim };
    let line = line.add(tone, format_args!("{} waiting", client.waiting));
    let line = line.plain(format_args!(", {} conflated", number(client.conflated)));
    line.add(Tone::Dim, format_args!(", {}", count(client.subscriptions, "subscription")))
}
